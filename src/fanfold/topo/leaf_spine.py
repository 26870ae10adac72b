"""Two tiers: hosts in equal shares below the leaves, every leaf linked to every spine.

Leaf-spine as arrays; ``clos.leaf_spine`` is the same shape as a fabric file with addresses.
"""

import numpy as np

from fanfold.topo.net import Net
from fanfold.topo.sketch import LINE, Line, Sketch, check_divides


def leaf_spine(
    leaves: int, spines: int, hosts: int, spine_rate: int = 0, *, line: Line = LINE
) -> Net:
    """Leaf-spine of ``hosts`` hosts; cables to the spines at ``spine_rate``, 0 = as the rest.

    Raises:
        ConfigError: hosts do not divide by leaves.
    """
    per_leaf = check_divides("hosts", hosts, "leaves", leaves)
    sketch = Sketch(hosts)
    leaf = sketch.add("leaf", leaves, 1)
    spine = sketch.add("spine", spines, 2)
    rack = sketch.hosts // per_leaf
    sketch.cable(sketch.hosts, leaf[rack], line)
    sketch.cable(leaf[:, None], spine[np.newaxis], Line(spine_rate or line.bps, line.prop_ps))
    return sketch.build("leaf-spine", rack)
