"""A k-ary fat tree: k pods of k / 2 edge and k / 2 aggregation switches, (k / 2)^2 cores.

Al-Fares, Loukissas and Vahdat 2008. Host h hangs on edge switch h // (k / 2). The
aggregation switch at place j of its pod leads to the k / 2 core switches from j * k / 2 on.
"""

import numpy as np

from fanfold.errors import ConfigError
from fanfold.topo.limits import MAX_K
from fanfold.topo.net import Net
from fanfold.topo.sketch import LINE, Line, Sketch


def fat_tree(k: int, *, line: Line = LINE) -> Net:
    """Fat tree of k^3 / 4 hosts; all links alike.

    Raises:
        ConfigError: k is odd or outside 2..64.
    """
    if k % 2 or not 2 <= k <= MAX_K:
        raise ConfigError("k", k, f"an even number in 2..{MAX_K}")
    half = k // 2
    sketch = Sketch(k * half * half)
    edge = sketch.add("edge", k * half, 1)
    agg = sketch.add("agg", k * half, 2)
    core = sketch.add("core", half * half, 3)
    sketch.cable(sketch.hosts, edge[sketch.hosts // half], line)
    place = np.arange(half)
    sketch.cable(edge.reshape(k, half, 1), agg.reshape(k, 1, half), line)
    sketch.cable(agg.reshape(k, half, 1), core[place[:, None] * half + place][None], line)
    rack = sketch.hosts // half
    return sketch.build(f"fat-tree:k={k}", rack, rack // half)
