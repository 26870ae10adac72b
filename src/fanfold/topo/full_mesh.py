"""A full mesh: every two routers are joined."""

import numpy as np

from fanfold.topo.net import Net
from fanfold.topo.sketch import LINE, Line, direct_sketch


def full_mesh(hosts: int, *, line: Line = LINE) -> Net:
    """Full mesh of routers with a host on each."""
    sketch, router = direct_sketch(hosts, line)
    low, high = np.triu_indices(hosts, 1)
    sketch.cable(router[low], router[high], line)
    return sketch.build("full-mesh", sketch.hosts)
