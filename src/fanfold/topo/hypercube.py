"""A hypercube of n dimensions: routers are joined where their numbers differ in one bit."""

from fanfold.topo.net import Net
from fanfold.topo.sketch import LINE, Line, direct_sketch


def hypercube(n: int, *, line: Line = LINE) -> Net:
    """Hypercube of 2^n routers with a host on each."""
    sketch, router = direct_sketch(1 << n, line)
    for dimension in range(n):
        low = sketch.hosts[sketch.hosts >> dimension & 1 == 0]
        sketch.cable(router[low], router[low | 1 << dimension], line)
    return sketch.build("hypercube", sketch.hosts)
