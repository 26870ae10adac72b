"""Planes that share nothing but hosts: leaf and spine, or pods of these below cores.

A host has one port in every plane. Fans and sums use one plane of them, or all by weight. A
plane of one pod is a Clos of three stages; one of several has five: spines have as many cables
to cores as to leaves, so ``cores / leaves`` groups of spines share the cores of their group.
"""

import numpy as np

from fanfold.errors import ConfigError
from fanfold.topo.leaf_spine import cable_leaf_spine
from fanfold.topo.net import Net
from fanfold.topo.sketch import LINE, Line, Sketch, check_divides


def multi_plane(
    planes: int,
    leaves: int,
    spines: int,
    hosts: int,
    pods: int,
    cores: int,
    *,
    line: Line = LINE,
) -> Net:
    """Planes of ``pods`` times ``leaves`` leaves and ``spines`` spines, and ``cores`` cores.

    Raises:
        ConfigError: hosts do not divide by all leaves, cores by leaves, or spines by groups of
            cores; several pods without cores, or cores above one pod.
    """
    if (pods > 1) != (cores > 0):
        raise ConfigError("cores", cores, "0 for one pod, some for several pods")
    per_leaf = check_divides(
        "hosts", hosts, "leaves" if pods == 1 else "pods x leaves", pods * leaves
    )
    n_groups = check_divides("cores", cores, "leaves", leaves)
    per_group = check_divides("spines", spines, "cores / leaves", max(n_groups, 1))
    sketch = Sketch(hosts)
    rack = sketch.hosts // per_leaf
    for plane in range(planes):
        leaf = sketch.add(f"p{plane}.leaf", pods * leaves, 1)
        spine = sketch.add(f"p{plane}.spine", pods * spines, 2)
        if pods == 1:
            cable_leaf_spine(sketch, rack, (leaf, spine), (line, line), plane)
            continue
        core = sketch.add(f"p{plane}.core", cores, 3)
        sketch.cable(sketch.hosts, leaf[rack], line, plane)
        below, above = leaf.reshape(pods, leaves, 1), spine.reshape(pods, 1, spines)
        sketch.cable(below, above, line, plane)
        group = np.arange(spines) // per_group
        tops = core.reshape(n_groups, leaves)[group]
        sketch.cable(spine.reshape(pods, spines, 1), tops[np.newaxis], line, plane)
    return sketch.build("multi-plane", rack, rack // leaves)
