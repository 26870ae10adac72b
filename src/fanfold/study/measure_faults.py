"""Reliability, the part of faults: a link between routers dies for good.

It is one that the scheme's own copy for the first receiver's router crosses last. Trees and
BIER domains run in the slow plane, where it is noticed after a given time, and they repair and
route round it; fanfold, rings and copies by unicast run in the packet simulator: fanfold gives
up whom it cannot reach, sprayed packets of messages are sent again elsewhere.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import numpy as np

from fanfold.results.outcome import DATA
from fanfold.scenario.settings import Failure, Settings
from fanfold.sim.round_trip import round_trip
from fanfold.sim.simulate import Simulation
from fanfold.sim.waits import message_wait_ps
from fanfold.study.bier_domain import BierDomain
from fanfold.study.gap_ground import (
    PPM,
    SOURCE,
    GapNet,
    Numbers,
    SchemeRow,
)
from fanfold.study.gap_sim import play, program_of, settings_of
from fanfold.study.gap_table import NEVER_HERE
from fanfold.study.measure_dynamics import STEADY
from fanfold.topo.net import Net
from fanfold.trees.group_events import GroupEvent
from fanfold.trees.paths import FAR, Paths
from fanfold.trees.settings import TreeSettings
from fanfold.trees.tree import Tree
from fanfold.trees.tree_run import build_tree
from fanfold.trees.world import World
from fanfold.units import PS_PER_SECOND

FAULT_PS = 20 * PS_PER_SECOND
LOOK_PS = PS_PER_SECOND // 4000
"""Between two looks at a tree that is being mended."""
FAR_LOOK_PS = PS_PER_SECOND // 100
N_LOOKS = 80
TURNS = 256
"""Events between two looks at whom a source has given up."""
Cable = tuple[int, int]


class Fault(NamedTuple):
    """Hosts that a tree reaches before a cable dies, and at times after that."""

    before: frozenset[int]
    after: list[tuple[int, frozenset[int]]]


def measure_faults(ground: GapNet, row: SchemeRow) -> Numbers:
    """Detection, recovery from there, who missed something, who was behind the fault.

    Empty where no cable between routers has a detour: nothing can be led round there.
    """
    if not row.protocol and row.program not in ("bier", "fanfold"):
        return _of_copies(ground, row)
    cable = _cable(ground, _tree_before(ground, row))
    if cable is None:
        return {}
    if row.program == "fanfold":
        return _as_it_runs(ground, row, cable)
    faults = [_fault(ground, row, cable, group) for group in range(1 + row.is_doubled)]
    mended = _mended(ground, row, faults)
    if row.protocol:
        return mended
    named = _as_it_runs(ground, row, cable)["detect_ps"]
    return mended | {"named_ps": named}


def _mended(ground: GapNet, row: SchemeRow, faults: list[Fault]) -> Numbers:
    """A second tree serves from the moment that the fault is noticed."""
    receivers, detect_ps = frozenset(ground.receivers), row.tree.detect_ps
    due = receivers & faults[0].before
    gap: set[int] = set()
    missing, since_ps, recover_ps = frozenset[int](), detect_ps, 0
    for number, (span_ps, reached) in enumerate(faults[0].after):
        if span_ps > detect_ps:
            recover_ps += span_ps - since_ps if missing else 0
            since_ps = span_ps
        missing = due - reached
        if span_ps > detect_ps:
            missing = missing.difference(*(fault.after[number][1] for fault in faults[1:]))
        gap |= missing
    behind = due - faults[0].after[0][1]
    return {
        "detect_ps": detect_ps,
        "recover_ps": NEVER_HERE if missing else recover_ps // LOOK_PS * LOOK_PS,
        "gap_receivers": len(gap),
        "behind_receivers": len(behind),
        "domain_ppm": PPM * len(gap) // max(len(behind), 1),
    }


def _as_it_runs(ground: GapNet, row: SchemeRow, cable: Cable) -> Numbers:
    """In the packet simulator, which leads nothing round a dead link, no more than a live BFR.

    Noticed is when the source's own feedback has told it whom the fault cut off.
    """
    net = ground.net
    program = program_of(ground, row, ground.receivers, ground.message_bytes // 8)
    whole = play(ground, program, settings_of(row))
    carries = (net.dst == cable[1]) & (net.src >= net.n_hosts)
    (links,) = np.nonzero(carries & (whole.link_pkts[:, DATA] > 0))
    behind = {int(host) for host in net.dst[net.src == cable[1]]} & {*ground.receivers}
    names = [(net.node_name(int(net.src[link])), net.node_name(cable[1])) for link in links]
    cut = tuple(Failure(0, a, b) for a, b in names)
    settings = msgspec.structs.replace(settings_of(row), failures=cut)
    sim = Simulation(net, ground.routes, program, settings, seed=ground.seed, whole=True)
    noticed_ps, going = NEVER_HERE, True
    while going:
        going = sim.step(TURNS)
        if noticed_ps == NEVER_HERE and len(sim.fans.lost) >= len(behind):
            noticed_ps = sim.progress().now_ps
    told = sim.outcome()
    missed = [h for h in ground.receivers if told.got_bytes[h] < told.due_bytes[h]]
    return {
        "detect_ps": noticed_ps,
        "recover_ps": NEVER_HERE if missed else max(told.end_ps - whole.end_ps, 0),
        "gap_receivers": len(missed),
        "behind_receivers": len(behind),
        "domain_ppm": PPM * len(missed) // max(len(behind), 1),
    }


def _looks(settings: TreeSettings) -> list[int]:
    """Times since the fault: at once, then from detection and from new paths on."""
    starts = (settings.detect_ps, settings.detect_ps + settings.reroute_ps)
    near = {at + i * LOOK_PS + 1 for at in starts for i in range(N_LOOKS)}
    far = {starts[1] + i * FAR_LOOK_PS + 1 for i in range(N_LOOKS)}
    return [0, *sorted(near | far)]


def _tree_before(ground: GapNet, row: SchemeRow) -> Tree:
    if not row.protocol:
        return domain_of(ground, row.tree).tree()
    joins = [GroupEvent(0, "join", host) for host in ground.receivers]
    run = build_tree(row.protocol, ground.net, SOURCE, [*joins, STEADY], row.tree)
    return run.trees[-1]


def domain_of(ground: GapNet, settings: TreeSettings) -> World:
    """A BIER domain with the large group's packets."""
    world = World(ground.net, settings)
    world.machine = BierDomain(world, SOURCE, ground.receivers)
    return world


def _cable(ground: GapNet, tree: Tree) -> Cable | None:
    """The last cable between routers on the way to a receiver that a detour leads round.

    Of the last receiver that has one.
    """
    net = ground.net
    into = {int(net.dst[link]): int(net.src[link]) for link in tree.links}
    for host in reversed(ground.receivers):
        router = into.get(host, NEVER_HERE)
        while (above := into.get(router, NEVER_HERE)) >= net.n_hosts:
            cable = above, router
            if Paths(net, _links_of(net, cable), 0).hops(above, router) < FAR:
                return cable
            router = above
    return None


def _links_of(net: Net, cable: Cable) -> frozenset[int]:
    """Both directions of all cables between two nodes."""
    ends = np.sort(np.stack([net.src, net.dst]), axis=0)
    (links,) = np.nonzero((ends[0] == min(cable)) & (ends[1] == max(cable)))
    return frozenset(links.tolist())


def _fault(ground: GapNet, row: SchemeRow, cable: Cable, group: int) -> Fault:
    looks = _looks(row.tree)
    settings = msgspec.structs.replace(row.tree, group=group)
    times = [FAULT_PS - 1, *(FAULT_PS + look for look in looks)]
    if row.protocol:
        joins = [GroupEvent(0, "join", host) for host in ground.receivers]
        events = [*joins, STEADY, GroupEvent(FAULT_PS, "fail", nodes=cable)]
        run = build_tree(row.protocol, ground.net, SOURCE, events, settings, looks=times)
        before, *after = run.trees[:-1]
    else:
        before, *after = _domain_trees(ground, settings, cable, times)
    reached = [frozenset(tree.hosts) for tree in after]
    return Fault(frozenset(before.hosts), list(zip(looks, reached, strict=True)))


def _domain_trees(
    ground: GapNet, settings: TreeSettings, cable: Cable, times: list[int]
) -> Iterator[Tree]:
    world, links = domain_of(ground, settings), _links_of(ground.net, cable)
    trees: list[Tree] = []
    world.at(FAULT_PS, lambda: world.lose(links))
    for time_ps in times:
        world.at(time_ps, lambda: trees.append(world.tree()))
    world.run()
    return iter(trees)


def _of_copies(ground: GapNet, row: SchemeRow) -> Numbers:
    """A run with the fault after a quarter of its time beside one without."""
    net = ground.net
    cable = _cable(ground, domain_of(ground, row.tree).tree())
    if cable is None:
        return {}
    program = program_of(ground, row, ground.receivers, ground.message_bytes // 8)
    base = play(ground, program, Settings())
    a, b = (net.node_name(node) for node in cable)
    settings = Settings(failures=(Failure(base.end_ps // 4, a, b),))
    cut = play(ground, program, settings)
    behind = net.dst[net.src == cable[1]]
    is_behind = np.isin(np.array(ground.receivers), behind)
    done, was = cut.host_ps[list(ground.receivers)], base.host_ps[list(ground.receivers)]
    least_ps = message_wait_ps(round_trip(net, ground.routes), settings.rto_ps)
    is_late = (done < 0) | (done - was > least_ps // 2)
    return {
        "recover_ps": NEVER_HERE if cut.stuck else max(cut.end_ps - base.end_ps, 0),
        "gap_receivers": int(is_late.sum()),
        "behind_receivers": int(is_behind.sum()),
        "domain_ppm": PPM * int(is_late.sum()) // max(int(is_behind.sum()), 1),
    }
