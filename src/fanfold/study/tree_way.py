"""Trees for sets that change with every message: a tree for each set, or one that floods.

A scheme whose trees must stand has two ways with many sets at once. It can set up a tree for
each: that takes at least as long as one of them, and as long as the busiest router works on the
messages of all. Or it has one group of all ranks that stands, and each message goes to all of
them. Both are measured, the better is shown, and the row says which. Flooding goes by shares of
links unless a fidelity is asked for: every receiver answers every sender, packet by packet.
"""

from collections import Counter
from typing import NamedTuple

from fanfold.run import Stage
from fanfold.scenario.scenario import Fidelity
from fanfold.scenario.settings import Settings
from fanfold.schemes.catalog import Scheme
from fanfold.schemes.program import Setup
from fanfold.study.measure import Moved, move, took_ps
from fanfold.study.phases import Cast, Phase
from fanfold.trees.group_events import GroupEvent
from fanfold.trees.tree_run import build_tree
from fanfold.units import format_duration

SAMPLE = 16
"""Sets whose trees are set up message by message; the rest is taken to be like them."""
MOST_JOINS = 4096
"""Members of all sets together, for which every tree is set up."""


class SetUps(NamedTuple):
    """least_ps: until trees of all sets can stand, at least. n_sets: different ones."""

    least_ps: int
    n_sets: int
    n_sampled: int


def best_move(
    scheme: Scheme, phase: Phase, stage: Stage, settings: Settings, seed: int, asked: Fidelity
) -> Moved:
    """A phase by the better of the two ways; where there is but one, that one."""
    if scheme.protocol and phase.ready_ps is not None:
        return _grafted(scheme, phase, stage, settings, seed, asked)
    if not (scheme.protocol and phase.flood):
        return move(scheme, phase, stage, settings, seed, asked)
    flood = phase._replace(casts=phase.flood, flood=(), is_standing=True)
    rung: Fidelity = "flow" if asked == "auto" else asked
    flooded = move(scheme, flood, stage, settings, seed, rung)
    ups = measure_set_ups(scheme, phase.casts, stage)
    n_joins = sum(len(cast.receivers) for cast in set(phase.casts))
    took = took_ps(flooded.outcome)
    if ups.least_ps < took and n_joins <= MOST_JOINS:
        by_set = move(scheme, phase, stage, settings, seed, asked)
        if took_ps(by_set.outcome) < took:
            why = f"{phase.name}: a tree for each of {ups.n_sets:,} sets, sooner than flooding"
            return by_set._replace(note=why)
    roots = len(phase.flood)
    why = (
        f"{phase.name}: flooded to all ranks along trees that stand, from {roots} of them for "
        f"all; a tree for each of {ups.n_sets:,} sets takes {format_duration(ups.least_ps)} "
        f"or more to set up ({ups.n_sampled} sampled)"
    )
    return flooded._replace(note=why)


def measure_set_ups(scheme: Scheme, casts: tuple[Cast, ...], stage: Stage) -> SetUps:
    """A lower bound on the time to set up a tree for each different set."""
    sets = list(dict.fromkeys((cast.source, cast.receivers) for cast in casts))
    step = max(len(sets) // SAMPLE, 1)
    chosen = sets[::step][:SAMPLE]
    heard: Counter[int] = Counter()
    slowest = 0
    trees = stage.site.settings
    for source, receivers in chosen:
        joins = [GroupEvent(0, "join", host) for host in receivers]
        run = build_tree(scheme.protocol, stage.net, source, joins, trees)
        slowest = max(slowest, *(row.took_ps for row in run.events))
        heard.update(row.dst for row in run.sent)
    busiest = max(heard.values(), default=0) * len(sets) // max(len(chosen), 1)
    return SetUps(max(slowest, busiest * trees.process_ps), len(sets), len(chosen))


def _grafted(
    scheme: Scheme, phase: Phase, stage: Stage, settings: Settings, seed: int, asked: Fidelity
) -> Moved:
    """Members that join one group as they come, and have data once they are on its tree.

    All casts leave later by the longest join; the tree of each cast stands then.
    """
    ready = phase.ready_ps
    assert ready is not None
    source = phase.casts[0].source
    hosts = sorted({host for cast in phase.casts for host in cast.receivers})
    joins = [GroupEvent(int(ready[host]), "join", host) for host in hosts]
    run = build_tree(scheme.protocol, stage.net, source, joins, stage.site.settings)
    took = max(row.took_ps for row in run.events)
    casts = tuple(cast._replace(start_ps=cast.start_ps + took) for cast in phase.casts)
    made = move(
        scheme,
        phase._replace(casts=casts, is_standing=True),
        *(stage, settings, seed, asked),
    )
    setup = Setup(
        took,
        sum(row.n for row in run.messages),
        sum(row.n_bytes for row in run.messages),
        sum(row.n_entries for row in run.states),
        max((row.n_entries for row in run.states), default=0),
    )
    why = f"joiners wait for the tree, {format_duration(took)} at most, before they take part"
    return made._replace(program=made.program._replace(setup=setup), note=why)
