"""Clusters of hosts, each gathered around a proxy; the proxies are joined to one another.

Proxies are routers. Between clusters the line may be slower and longer than inside.
"""

import numpy as np

from fanfold.topo.net import Net
from fanfold.topo.sketch import LINE, Line, Sketch, check_divides


def clustered(
    clusters: int, hosts: int, proxy_rate: int, proxy_delay: int, *, line: Line = LINE
) -> Net:
    """Equal clusters; every two proxies are joined at ``proxy_rate`` over ``proxy_delay``.

    Raises:
        ConfigError: hosts do not divide by clusters.
    """
    size = check_divides("hosts", hosts, "clusters", clusters)
    sketch = Sketch(hosts)
    proxy = sketch.add("proxy", clusters, 1)
    cluster = sketch.hosts // size
    sketch.cable(sketch.hosts, proxy[cluster], line)
    low, high = np.triu_indices(clusters, 1)
    sketch.cable(proxy[low], proxy[high], Line(proxy_rate, proxy_delay))
    return sketch.build("clustered", cluster, cluster)
