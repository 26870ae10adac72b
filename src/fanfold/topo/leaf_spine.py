"""Two tiers: hosts in shares below the leaves, every leaf linked to every spine."""

import numpy as np
from numpy.typing import NDArray

from fanfold.topo.net import Net
from fanfold.topo.sketch import LINE, Line, Sketch, check_divides

I64 = NDArray[np.int64]


def leaf_spine(
    leaves: int, spines: int, hosts: int, spine_rate: int = 0, *, line: Line = LINE
) -> Net:
    """Leaf-spine of ``hosts`` hosts; cables to the spines at ``spine_rate``, 0 = as the rest.

    Raises:
        ConfigError: hosts do not divide by leaves.
    """
    per_leaf = check_divides("hosts", hosts, "leaves", leaves)
    sketch = Sketch(hosts)
    rack = sketch.hosts // per_leaf
    leaf, spine = sketch.add("leaf", leaves, 1), sketch.add("spine", spines, 2)
    above = Line(spine_rate or line.bps, line.prop_ps)
    cable_leaf_spine(sketch, rack, (leaf, spine), (line, above))
    return sketch.build("leaf-spine", rack)


def cable_leaf_spine(
    sketch: Sketch, rack: I64, tiers: tuple[I64, I64], lines: tuple[Line, Line], plane: int = 0
) -> None:
    """Draw the cables of a leaf-spine.

    Args:
        rack: (H,) leaf of each host. tiers: leaves, spines. lines: below and above the leaves.
    """
    leaf, spine = tiers
    sketch.cable(sketch.hosts, leaf[rack], lines[0], plane)
    sketch.cable(leaf[:, None], spine[np.newaxis], lines[1], plane)


def lab_net(leaves: int, spines: int, hosts: int) -> Net:
    """Leaf-spine of a lab: receivers h1 to hN over the leaves, then their source h0."""
    sketch = Sketch(hosts + 1)
    leaf = sketch.add("leaf", leaves, 1, first=1)
    spine = sketch.add("spine", spines, 2, first=1)
    rack = sketch.hosts * leaves // hosts % leaves
    cable_leaf_spine(sketch, rack, (leaf, spine), (LINE, LINE))
    net = sketch.build("lab", rack)

    def name_of(node: int) -> str:
        return f"h{(node + 1) % (hosts + 1)}" if node <= hosts else net.node_name(node)

    return net._replace(node_name=name_of)
