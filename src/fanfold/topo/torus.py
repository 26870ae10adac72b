"""An n-dimensional torus: each router is joined to the next one in every dimension, around.

A dimension of two has one cable, not two, and a dimension of one has none.
"""

import math

import numpy as np

from fanfold.topo.net import Net
from fanfold.topo.sketch import LINE, Line, direct_sketch


def torus(dims: tuple[int, ...], *, line: Line = LINE) -> Net:
    """Torus with a host on each router; the last dimension varies fastest."""
    sketch, router = direct_sketch(math.prod(dims), line)
    grid = router.reshape(dims)
    for axis, size in enumerate(dims):
        if size == 2:
            sketch.cable(np.take(grid, 0, axis), np.take(grid, 1, axis), line)
        elif size > 2:
            sketch.cable(grid, np.roll(grid, -1, axis), line)
    per_slice = math.prod(dims[1:])
    return sketch.build("torus", sketch.hosts, sketch.hosts // per_slice)
