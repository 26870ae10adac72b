"""Dragonfly: groups of fully joined routers, one cable between every two groups.

Kim, Dally, Scott and Abts 2008. Letters: a = routers of a group, p = hosts of a router,
h = cables of a router to other groups; a * h + 1 groups use them all.
"""

import numpy as np

from fanfold.topo.net import Net
from fanfold.topo.sketch import LINE, Line, Sketch


def dragonfly(a: int, p: int, h: int, *, line: Line = LINE) -> Net:
    """Dragonfly of ``a * h + 1`` groups.

    Global port q of a group, on its router q // h, leads q + 1 groups on, around the circle,
    and ends there on port a * h - 1 - q.
    """
    groups = a * h + 1
    sketch = Sketch(groups * a * p)
    router = sketch.add("r", groups * a, 1)
    sketch.cable(sketch.hosts, router[sketch.hosts // p], line)
    low, high = np.triu_indices(a, 1)
    base = np.arange(groups)[:, None] * a
    sketch.cable(router[base + low], router[base + high], line)
    group, q = np.nonzero(np.ones((groups, a * h)))
    peer = (group + q + 1) % groups
    once = group < peer
    here, there = group * a + q // h, peer * a + (a * h - 1 - q) // h
    sketch.cable(router[here[once]], router[there[once]], line)
    rack = sketch.hosts // p
    return sketch.build("dragonfly", rack, rack // a)
