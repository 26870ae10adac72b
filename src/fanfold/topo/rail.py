"""Rail-optimised: GPU i of every server hangs on a leaf of rail i, leaves meet in the spines.

Inside a server all GPUs hang on one switch of its own, faster than their network cards. GPUs
are the hosts; they pass nothing on, so traffic between rails goes over the spines.
"""

import numpy as np

from fanfold.topo.net import Net
from fanfold.topo.sketch import LINE, Line, Sketch, check_divides


def rail(
    servers: int,
    gpus: int,
    spines: int,
    unit: int,
    inner_rate: int,
    inner_delay: int,
    *,
    line: Line = LINE,
) -> Net:
    """Rail-optimised fabric; GPU j of server s is host ``s * gpus + j``.

    Args:
        unit: servers on one leaf of each rail, 0 = all of them.
        inner_rate: bits per second of the inner switch of a server, for each GPU.
        inner_delay: ps.

    Raises:
        ConfigError: servers do not divide by unit.
    """
    units = check_divides("servers", servers, "unit", unit or servers)
    sketch = Sketch(servers * gpus)
    inner = sketch.add("inner", servers, 1)
    leaf = sketch.add("leaf", units * gpus, 1)
    spine = sketch.add("spine", spines, 2)
    server, which = np.divmod(sketch.hosts, gpus)
    pod = server * units // servers
    sketch.cable(sketch.hosts, inner[server], Line(inner_rate, inner_delay))
    sketch.cable(sketch.hosts, leaf[pod * gpus + which], line)
    sketch.cable(leaf[:, None], spine[np.newaxis], line)
    return sketch.build("rail", server, pod)
