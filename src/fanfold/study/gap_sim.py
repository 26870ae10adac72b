"""Runs of the packet simulator that the gap table is made of."""

from collections.abc import Callable, Sequence

import numpy as np

from fanfold.results.outcome import Outcome
from fanfold.scenario.settings import Settings
from fanfold.schemes.catalog import scheme_of
from fanfold.schemes.options import SchemeOptions
from fanfold.schemes.program import Fan, Program, build_program
from fanfold.schemes.tree_fans import Site
from fanfold.sim.simulate import Simulation
from fanfold.study.gap_ground import SOURCE, GapNet, SchemeRow
from fanfold.work.collective import Collective

CONTROL_BYTES = 64
"""Of a message by which hosts tell each other something."""
Prepare = Callable[[Simulation], None]


def program_of(
    ground: GapNet, row: SchemeRow, receivers: Sequence[int], n_bytes: int
) -> Program:
    """One message from the source to receivers; trees stand before it starts."""
    work = Collective("broadcast", n_bytes, (SOURCE, *receivers))
    site = Site(ground.net, row.tree, "standing")
    return scheme_of(row.program).build(work, SchemeOptions(), site)


def settings_of(row: SchemeRow) -> Settings:
    """Defaults of the simulator, but for how receivers of the row speak."""
    return Settings(feedback=row.feedback, tree_repair=row.tree_repair)


def broadcast_program(name: str, receivers: Sequence[int], n_bytes: int) -> Program:
    """One message from the source to receivers, by a scheme that needs no tree of routers."""
    work = Collective("broadcast", n_bytes, (SOURCE, *receivers))
    return scheme_of(name).build(work, SchemeOptions())


def tell_program(hosts: Sequence[int]) -> Program:
    """The source tells each host something, and hears that it came."""
    return copies_program([hosts], CONTROL_BYTES)


def copies_program(groups: Sequence[Sequence[int]], n_bytes: int) -> Program:
    """A message from the source to each host of each group by itself."""
    rows = np.array(
        [[SOURCE, host, n_bytes, 0] for group in groups for host in group], np.int64
    )
    return build_program(rows.reshape(-1, 4), np.zeros((0, 2), np.int64))


def fans_program(groups: Sequence[Sequence[int]], n_bytes: int, *, folds: bool) -> Program:
    """A message to each group, one after the other out of the source's port."""
    fans = tuple(Fan(SOURCE, tuple(group), n_bytes) for group in groups)
    none = np.zeros((0, 4), np.int64)
    return build_program(none, np.zeros((0, 2), np.int64), fans=fans, folds=folds)


def play(
    ground: GapNet,
    program: Program,
    settings: Settings,
    prepare: Prepare | None = None,
    *,
    more_seed: int = 0,
) -> Outcome:
    """One run, packet by packet, with the loop that every other run of the table takes.

    Args:
        prepare: changes the run before its first event. more_seed: beyond that of the ground.
    """
    sim = Simulation(
        ground.net, ground.routes, program, settings, seed=ground.seed + more_seed, whole=True
    )
    if prepare is not None:
        prepare(sim)
    while sim.step():
        pass
    return sim.outcome()
