"""Planes that share nothing but hosts, each a leaf-spine: a two-layer fat tree for each port.

A host has one port in every plane. Fans and sums use one plane of them.
"""

from fanfold.topo.leaf_spine import cable_leaf_spine
from fanfold.topo.net import Net
from fanfold.topo.sketch import LINE, Line, Sketch, check_divides


def multi_plane(planes: int, leaves: int, spines: int, hosts: int, *, line: Line = LINE) -> Net:
    """Planes of ``leaves`` leaves and ``spines`` spines each.

    Raises:
        ConfigError: hosts do not divide by leaves.
    """
    per_leaf = check_divides("hosts", hosts, "leaves", leaves)
    sketch = Sketch(hosts)
    rack = sketch.hosts // per_leaf
    for plane in range(planes):
        leaf = sketch.add(f"p{plane}.leaf", leaves, 1)
        spine = sketch.add(f"p{plane}.spine", spines, 2)
        cable_leaf_spine(sketch, rack, (leaf, spine), (line, line), plane)
    return sketch.build("multi-plane", rack)
