"""A ring: each router is joined to the next one, the last to the first."""

import numpy as np

from fanfold.topo.net import Net
from fanfold.topo.sketch import LINE, Line, direct_sketch


def ring(hosts: int, *, line: Line = LINE) -> Net:
    """Ring of at least three routers with a host on each."""
    sketch, router = direct_sketch(hosts, line)
    sketch.cable(router, np.roll(router, -1), line)
    return sketch.build("ring", sketch.hosts)
