"""A tree set up for data: which one stands from when on, and what it took until it was up.

All members join at once. Where data makes state (PIM), the source's first packets follow as
soon as everybody is reached, and the tree is up when it changes no more: on the source's own
tree, pruned. Failures come later, and the tree that each moment has is kept.
"""

from collections.abc import Sequence
from typing import NamedTuple

from fanfold.errors import ConfigError
from fanfold.topo.net import Net
from fanfold.trees.at_once import Joined, Probes, can_join_at_once, join_at_once
from fanfold.trees.catalog import protocol_of
from fanfold.trees.group_events import NOT_DONE, GroupEvent
from fanfold.trees.loop.rows import UNSEEN
from fanfold.trees.settings import TreeSettings
from fanfold.trees.tree import Tree
from fanfold.trees.tree_run import REPORT, TreeRun, build_tree, centre_of, check
from fanfold.trees.world import Machine, World
from fanfold.units import NEVER

AT_ONCE_FROM = 2048
"""Members from which on the compiled loop is worth loading."""
PROBES = (8, 64, 512)
"""Packets that a source sends ahead; more where the tree still changes."""
SHARED = frozenset({"bidir-pim", "mldp-mp2mp"})
"""Protocols with one tree for all sources of a group."""
SHARED_KINDS = frozenset({REPORT, "join (*,G)"})
"""Messages that a group has once, however many sources it has."""
FABRIC_KINDS = frozenset({"offer", "winner"})
"""Messages of the fabric, before there is any group: as unicast routing has its own."""
Fail = tuple[int, tuple[int, int]]
"""When, and between which nodes."""


class Standing(NamedTuple):
    """One source's tree.

    up_ps: from the joins on until the tree was what it stays. phases: from when on which tree
    stood; the first is that of ``up_ps``, or all where they were asked for. n_messages,
    n_bytes: of control, until then; n_shared, shared_bytes: those that a second source of the
    group would not need. entries, shared_entries: by router. n_mending: messages that
    failures made, and packets of data after them.
    """

    up_ps: int
    phases: tuple[tuple[int, Tree], ...]
    n_messages: int
    n_bytes: int
    n_shared: int
    shared_bytes: int
    entries: dict[int, int]
    shared_entries: dict[int, int]
    n_mending: int = 0


def stand(
    protocol: str,
    net: Net,
    source: int,
    members: Sequence[int],
    settings: TreeSettings,
    *,
    fails: Sequence[Fail] = (),
    is_early: bool = False,
    after_up: bool = False,
) -> Standing:
    """Set one tree up, and let cables fail.

    Args:
        members: hosts, the source left out. fails: times from the joins on, or with
            ``after_up`` from when the tree is up. is_early: the source sends from the joins on,
            and all trees are kept; else those from ``up_ps`` on.

    Raises:
        ConfigError: no such protocol, no path, no cable to fail, or a tree that never settles.
    """
    others = [host for host in members if host != source]
    if not fails and not is_early and len(others) >= AT_ONCE_FROM:
        stood = stand_at_once(protocol, net, source, others, settings)
        if stood is not None:
            return stood
    joins = [GroupEvent(0, "join", host) for host in others]
    run = build_tree(protocol, net, source, joins, settings, keeps_changes=True)
    probes: list[GroupEvent] = []
    machine = protocol_of(protocol).machine
    if machine.on_data is not Machine.on_data:
        reached_ps = max(h.took_ps for h in run.events)
        run, probes = _probed(protocol, net, source, joins, settings, max(reached_ps, 0))
    up_ps = max(0, run.changes[-1][0]) if run.changes else 0
    if any(h.took_ps == NOT_DONE for h in run.events if h.what == "join"):
        raise ConfigError("trees", f"{protocol} does not reach every member", "a path to each")
    phases, n_mending = [(up_ps, run.trees[-1])], 0
    if fails or is_early:
        shift_ps = up_ps if after_up else 0
        late = [GroupEvent(at + shift_ps, "fail", nodes=nodes) for at, nodes in fails]
        early = [_packets(0, settings, probes)] if is_early and probes else []
        again = [_packets(h.at_ps + _mending_ps(settings), settings, probes) for h in late]
        events = [*joins, *early, *probes, *late, *(again if probes else [])]
        told = build_tree(protocol, net, source, events, settings, keeps_changes=True)
        is_first = is_early or any(h.at_ps <= up_ps for h in late)
        kept = [(max(at, 0), tree) for at, tree in told.changes if is_first or at > up_ps]
        phases = kept if is_first else [*phases, *kept]
        first_ps = min((h.at_ps for h in late), default=int(NEVER))
        causes = (h for h in told.events if h.at_ps >= first_ps and h.what in ("fail", "send"))
        n_mending = sum(h.n_messages for h in causes)
    return _summed(run, up_ps, phases)._replace(n_mending=n_mending)


def stand_at_once(
    protocol: str, net: Net, source: int, others: Sequence[int], settings: TreeSettings
) -> Standing | None:
    """The same where nothing fails, in compiled loops; None where these cannot.

    Args:
        others: members, the source left out.

    Raises:
        ConfigError: no path, or a tree that never settles.
    """
    row = protocol_of(protocol)
    if not can_join_at_once(protocol, net, settings):
        return None
    check(net, source, [GroupEvent(0, "join", host) for host in others])
    world = World(net, settings)
    world.machine = row.machine(world, source, centre_of(net, row, settings))
    told = join_at_once(protocol, net, world.machine, others)
    if row.machine.on_data is not Machine.on_data:
        told = _probed_at_once(protocol, net, world.machine, others, max(told.reached_ps, 0))
    if told.n_reached < len(others):
        raise ConfigError("trees", f"{protocol} does not reach every member", "a path to each")
    up_ps = max(0, told.changed_ps)
    counts = told.n_messages, told.n_bytes, told.n_shared, told.shared_bytes
    phases = ((up_ps, told.tree),)
    return Standing(up_ps, phases, *counts, told.entries, told.shared_entries)


def _probed_at_once(
    protocol: str, net: Net, machine: Machine, others: Sequence[int], at_ps: int
) -> Joined:
    """As ``_probed``.

    Whether a run goes on changing is seen by looking late; it does so, in all likelihood, where
    the run with fewer packets did.
    """
    gap_ps = 2 * (machine.settings.install_ps + machine.settings.process_ps)
    look_ps: int = NEVER
    for n in PROBES:
        probes = Probes(n, at_ps, gap_ps)
        probes = probes._replace(look_ps=min(look_ps, probes.late_ps))
        told = join_at_once(protocol, net, machine, others, probes)
        if told.changed_ps < probes.late_ps and (
            told.changed_ps == UNSEEN or told.n_reached < len(others)
        ):
            told = join_at_once(protocol, net, machine, others, Probes(n, at_ps, gap_ps))
        if told.changed_ps < probes.late_ps:
            return told
        look_ps = told.changed_ps
    raise ConfigError("trees", f"{protocol} changes on and on", "delays that let it settle")


def _probed(
    protocol: str,
    net: Net,
    source: int,
    joins: list[GroupEvent],
    settings: TreeSettings,
    at_ps: int,
) -> tuple[TreeRun, list[GroupEvent]]:
    """The run with so many packets ahead that the last one goes by a tree that stays."""
    for n in PROBES:
        gap_ps = 2 * (settings.install_ps + settings.process_ps)
        probes = [GroupEvent(at_ps, "send", n=n, gap_ps=gap_ps)]
        run = build_tree(protocol, net, source, [*joins, *probes], settings, keeps_changes=True)
        if run.changes[-1][0] < at_ps + (n - 1) * gap_ps:
            return run, probes
    raise ConfigError("trees", f"{protocol} changes on and on", "delays that let it settle")


def _packets(at_ps: int, settings: TreeSettings, probes: list[GroupEvent]) -> GroupEvent:
    n = probes[0].n if probes else 1
    gap_ps = 2 * (settings.install_ps + settings.process_ps)
    return GroupEvent(at_ps, "send", n=n, gap_ps=gap_ps)


def _mending_ps(settings: TreeSettings) -> int:
    """From a failure to new paths, and to the tables that they lead to."""
    return settings.detect_ps + settings.reroute_ps + 2 * settings.install_ps


def _summed(run: TreeRun, up_ps: int, phases: Sequence[tuple[int, Tree]]) -> Standing:
    messages = [m for m in run.messages if m.kind not in FABRIC_KINDS]
    shared = [m for m in messages if m.kind in SHARED_KINDS]
    return Standing(
        up_ps,
        tuple(phases),
        sum(m.n for m in messages),
        sum(m.n_bytes for m in messages),
        sum(m.n for m in shared),
        sum(m.n_bytes for m in shared),
        {row.node: row.n_entries for row in run.states},
        {row.node: row.n_shared for row in run.states},
    )
