"""Which sums get how many slots: what ARM is granted at each BFR (docs/wire/fold.md, ADR 0023).

A BFR grants a sum its slots side by side or none. Without them at the root rank 0 asks for half
as many, at last for a root one BFR further up; a BFR below the root that has none passes arrays
on as they come. In an installed tree a block takes a slot while it is under way, as nothing is
kept for repairs. Sums that nothing holds back compete in the order in which they start; one
that waits for other items finds all slots free, as those gave theirs back.
"""

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import NO_TREE, Program
from fanfold.sim.fluid_sums import SumTree, build_sum_tree
from fanfold.sim.loop.ranks import LEAST_WINDOW, MAX_ROOT_LEVEL
from fanfold.sim.loop.ways import Ways
from fanfold.sim.sum_sizes import sum_sizes
from fanfold.topo.net import Net
from fanfold.topo.routes import Routes

I64 = NDArray[np.int64]


def grant(
    net: Net, routes: Routes, ways: Ways, program: Program, settings: Settings
) -> list[SumTree]:
    """Trees of all sums with the window that each has in the end.

    Raises:
        ConfigError: no path between members, or no BFR that has slots for a sum.
    """
    free = np.full(net.n_nodes, settings.array_slots, np.int64)
    trees: dict[int, SumTree] = {}
    sums, needs = program.sums, program.n_needs[program.first_sum :]
    for a in sorted(range(len(sums)), key=lambda a: (sums[a].start_ps, a)):
        tree = build_sum_tree(net, routes, ways, program, settings, a)
        mine = free if needs[a] == 0 else np.full(net.n_nodes, settings.array_slots)
        if sums[a].tree == NO_TREE:
            tree = _granted(net, routes, ways, program, settings, a, tree, mine)
        else:
            tree = _installed(net, settings, a, tree, mine)
        trees[a] = tree
    return [trees[a] for a in range(len(sums))]


def _granted(
    net: Net,
    routes: Routes,
    ways: Ways,
    program: Program,
    settings: Settings,
    a: int,
    tree: SumTree,
    free: I64,
) -> SumTree:
    """A tree with its slots, which are taken from ``free``."""
    most = settings.group_slots or settings.array_slots
    first, n_arms = tree.arm.size - 1, 0
    for root_level in range(first, max(first, MAX_ROOT_LEVEL) + 1):
        if root_level > first:
            tree = build_sum_tree(net, routes, ways, program, settings, a, root_level)
            if tree.arm.size - 1 < root_level:
                break
        window = tree.window
        room = min(int(free[tree.root(net)]), most)
        n_arms += 1
        while 2 * window > room and window > LEAST_WINDOW:
            window = max(window // 2, LEAST_WINDOW)
            n_arms += 1
        if 2 * window <= room:
            nodes = np.unique(net.src[tree.down])
            has_room = free[nodes] >= 2 * window
            free[nodes[has_room]] -= 2 * window
            sizes = sum_sizes(program.sums[a], settings, window)
            passing = nodes[~has_room]
            return tree._replace(window=window, sizes=sizes, passing=passing, n_arms=n_arms)
    raise _refused(a, 2 * LEAST_WINDOW, settings)


def _installed(net: Net, settings: Settings, a: int, tree: SumTree, free: I64) -> SumTree:
    """An installed tree with a slot in each of its switches for each block under way."""
    nodes = np.unique(net.src[tree.down])
    most = settings.group_slots or settings.array_slots
    window = min(tree.window, int(free[nodes].min()), most)
    if window < 1:
        raise _refused(a, 1, settings)
    free[nodes] -= window
    return tree._replace(window=window)


def _refused(a: int, least: int, settings: Settings) -> ConfigError:
    got = f"sum {a}, which no switch has slots left for"
    knob = "settings.array_slots (of a study: slots)"
    if 0 < settings.group_slots < least:
        knob = "settings.group_slots"
    return ConfigError(
        "workload.kind", got, f"{least} or more slots for each sum: raise {knob}"
    )
