"""Run one protocol through what happens to a group, and say what it cost.

    run = build_tree("pim-sm", net, 0, [GroupEvent(0, "join", 3), ...], looks=[10**12])
    run.trees[0].links

Latency is that of the tree: from the moment a host asks until a packet of the source would
reach it by what stands in the forwarding tables, whether or not one is sent.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from fanfold.errors import ConfigError
from fanfold.topo.net import Net
from fanfold.trees.catalog import TreeRow, protocol_of
from fanfold.trees.group_events import (
    MAX_PACKETS,
    NOT_DONE,
    SETUP,
    GroupEvent,
    GroupEventRow,
    MessageRow,
    PacketRow,
    SentRow,
    StateRow,
)
from fanfold.trees.settings import IGMP_BYTES, TreeSettings
from fanfold.trees.tree import Tree
from fanfold.trees.world import Machine, Packet, World
from fanfold.units import PPB_ONE, PS_PER_SECOND

LEAST_PS, MOST_PS = 0, 2**60
DEFAULTS = TreeSettings()
REPORT, QUERY = "membership report", "membership query"
SHARED = frozenset({"*,G"})
"""Keys of state that a group has once, however many sources it has."""


class TreeRun(NamedTuple):
    """One run.

    events: in the order given. setup: messages, link crossings and bytes before any of
    them. messages: by kind, all causes. states: routers with state at the end.
    peak_entries: of all routers together. refresh_ppb: messages a second, in billionths, that
    keep the final state. n_no_state: copies dropped for want of state, or that came over a
    link they are not taken from. sent: every message but registers. trees: one for each look,
    and that of the end. changes: from when on which tree stood, where that was asked for.
    """

    protocol: str
    events: tuple[GroupEventRow, ...]
    setup: MessageRow
    messages: tuple[MessageRow, ...]
    states: tuple[StateRow, ...]
    peak_entries: int
    packets: tuple[PacketRow, ...]
    refresh_ppb: int
    n_no_state: int
    end_ps: int
    sent: tuple[SentRow, ...]
    trees: tuple[Tree, ...]
    changes: tuple[tuple[int, Tree], ...] = ()


def build_tree(
    protocol: str,
    net: Net,
    source: int,
    events: Sequence[GroupEvent],
    settings: TreeSettings = DEFAULTS,
    *,
    looks: Sequence[int] = (),
    keeps_changes: bool = False,
) -> TreeRun:
    """Run a protocol until nothing is left to happen.

    Args:
        looks: times, in ps and not before 0, at which the tree is kept. keeps_changes: keep
            every tree that ever stood.

    Raises:
        ConfigError: no such protocol, router or host; a time or number out of range; a member
            that joins twice or leaves without having joined; no path.
    """
    row = protocol_of(protocol)
    check(net, source, events)
    world = World(net, settings)
    world.machine = row.machine(world, source, centre_of(net, row, settings))
    group = _Group(world, events, keeps_changes=keeps_changes)
    world.machine.on_start()
    for number in sorted(range(len(events)), key=lambda i: events[i].at_ps):
        group.schedule(number)
    trees: list[Tree] = []
    for time_ps in sorted(looks):
        world.at(time_ps, lambda: trees.append(world.tree()))
    world.run()
    trees.append(world.tree())
    told = _told(row, world, group)
    return told._replace(trees=tuple(trees), changes=tuple(group.changes))


def centre_of(net: Net, row: TreeRow, settings: TreeSettings) -> int:
    """The router that the protocol turns about: by name, or the first of the highest tier."""
    name = settings.rp if row.centre == "rp" else settings.controller
    if not row.centre or not name:
        routers = net.tier[net.n_hosts :]
        return net.n_hosts + int(np.argmax(routers))
    for node in range(net.n_hosts, net.n_nodes):
        if net.node_name(node) == name:
            return node
    raise ConfigError(f"settings.{row.centre}", name, "the name of a router")


def check(net: Net, source: int, events: Sequence[GroupEvent]) -> None:
    """Raise ConfigError for what cannot happen."""
    if not 0 <= source < net.n_hosts:
        raise ConfigError("source", source, f"hosts 0..{net.n_hosts - 1}")
    n_packets = sum(h.n for h in events if h.what == "send")
    if n_packets > MAX_PACKETS:
        raise ConfigError("packets", n_packets, f"at most {MAX_PACKETS}")
    joined: set[int] = set()
    for number in sorted(range(len(events)), key=lambda i: events[i].at_ps):
        h, field = events[number], f"events[{number}]"
        if not LEAST_PS <= h.at_ps <= MOST_PS:
            raise ConfigError(f"{field}.at_ps", h.at_ps, f"{LEAST_PS}..{MOST_PS}")
        if h.what == "send":
            if h.n < 1 or h.gap_ps < 0:
                raise ConfigError(f"{field}.n", h.n, "packets, at least 1, and a gap of 0 up")
        elif h.what == "fail":
            _check_cable(net, h, field)
        else:
            _check_member(net, source, h, field, joined)


def _check_member(net: Net, source: int, h: GroupEvent, field: str, joined: set[int]) -> None:
    if not 0 <= h.host < net.n_hosts or h.host == source:
        allowed = f"hosts 0..{net.n_hosts - 1}, not the source"
        raise ConfigError(f"{field}.host", h.host, allowed)
    if (h.what == "join") == (h.host in joined):
        allowed = "a host that is no member" if h.what == "join" else "a member"
        raise ConfigError(f"{field}.host", net.node_name(h.host), allowed)
    joined ^= {h.host}


def _check_cable(net: Net, h: GroupEvent, field: str) -> None:
    if not cables_between(net, h.nodes):
        names = [net.node_name(n) if 0 <= n < net.n_nodes else str(n) for n in h.nodes]
        raise ConfigError(f"{field}.nodes", " and ".join(names), "two nodes with a cable")


def cables_between(net: Net, nodes: tuple[int, int]) -> frozenset[int]:
    """Links of all cables between two nodes, both ways; of a node and itself, all it has."""
    a, b = nodes
    if a == b:
        return frozenset(np.nonzero((net.src == a) | (net.dst == a))[0].tolist())
    between = ((net.src == a) & (net.dst == b)) | ((net.src == b) & (net.dst == a))
    return frozenset(np.nonzero(between)[0].tolist())


class _Group:
    """Members, packets, and who is being waited for."""

    def __init__(
        self, world: World, events: Sequence[GroupEvent], *, keeps_changes: bool
    ) -> None:
        self.world, self.events, self.keeps = world, events, keeps_changes
        self.changes: list[tuple[int, Tree]] = []
        self.machine: Machine = world.machine
        self.members: set[int] = set()
        self.links: dict[int, int] = {}
        self.packets: list[Packet] = []
        self.took = [NOT_DONE] * len(events)
        self.lost: dict[int, frozenset[int]] = {}
        self.n_affected = [0] * len(events)
        self.waiting: set[int] = set()
        self.is_asked = False
        world.on_change = self._look_soon

    def schedule(self, number: int) -> None:
        """Let one of the events happen at its time."""
        h, world = self.events[number], self.world
        world.cause = number
        calls = {"join": self._join, "leave": self._leave, "send": self._send}
        call = calls.get(h.what, self._fail)
        world.at(h.at_ps, lambda: call(number))
        world.cause = SETUP

    def _join(self, number: int) -> None:
        host = self.events[number].host
        if host not in self.links:
            self.links[host] = self.world.paths.attach(host, self.machine.member_target())
        self.members.add(host)
        self._wait(number)
        self._report(host, is_joined=True)

    def _leave(self, number: int) -> None:
        host = self.events[number].host
        self.members.discard(host)
        self._wait(number)
        self._report(host, is_joined=False)

    def _report(self, host: int, *, is_joined: bool) -> None:
        """The host tells its router, which asks whether anybody else is left."""
        world, link = self.world, self.links[host]
        node, out = world.end(link), world.back(link)
        world.count(REPORT, 1, IGMP_BYTES)
        sent_ps, cause = world.now_ps, world.cause

        def act() -> None:
            self.machine.on_member(node, out, is_joined=is_joined)

        def ask(n_left: int) -> None:
            if n_left == 0:
                if host not in self.members:
                    act()
                return
            world.send(out, QUERY, IGMP_BYTES)
            world.after(world.settings.last_member_query_ps, lambda: ask(n_left - 1))

        def arrive() -> None:
            n = world.settings.n_last_member_queries
            done = act if is_joined else lambda: ask(n)
            done_ps = world.process(node, done)
            world.sent.append(SentRow(sent_ps, done_ps, host, node, REPORT, cause))

        if link not in world.down:
            world.after(world.crossing_ps(link, IGMP_BYTES), arrive)

    def _send(self, number: int) -> None:
        h = self.events[number]
        for i in range(h.n):
            self.world.after(i * h.gap_ps, self._emit)

    def _emit(self) -> None:
        packet = Packet(self.world.now_ps, frozenset(self.members))
        self.packets.append(packet)
        self.world.emit(packet)

    def _fail(self, number: int) -> None:
        before = self.world.tree().hosts
        self.world.lose(cables_between(self.world.net, self.events[number].nodes))
        after = self.world.tree().hosts
        lost = frozenset(self.members & before.keys() - after.keys())
        self.lost[number], self.n_affected[number] = lost, len(lost)
        self._wait(number)

    def _wait(self, number: int) -> None:
        self.waiting.add(number)
        self._look_soon()

    def _look_soon(self) -> None:
        """Look once, after all else of this instant."""
        if not self.is_asked and (self.waiting or self.keeps):
            self.is_asked = True
            self.world.after(0, self._look)

    def _look(self) -> None:
        self.is_asked = False
        tree = self.world.tree()
        reached = tree.hosts.keys()
        if self.keeps and (not self.changes or self.changes[-1][1] != tree):
            self.changes.append((self.world.now_ps, tree))
        for number in sorted(self.waiting):
            h = self.events[number]
            match h.what:
                case "join":
                    is_done = h.host in reached
                case "leave":
                    is_done = h.host not in reached
                case _:
                    is_done = self.lost[number] & self.members <= reached
            if is_done:
                self.took[number] = self.world.now_ps - h.at_ps
                self.waiting.discard(number)


def _told(row: TreeRow, world: World, group: _Group) -> TreeRun:
    by_cause: dict[int, list[tuple[str, list[int]]]] = {}
    for (cause, kind), counts in world.messages.items():
        by_cause.setdefault(cause, []).append((kind, counts))
    rows = []
    for number, h in enumerate(group.events):
        n, _, n_bytes = _sums(by_cause.get(number, []))
        took, n_writes = group.took[number], world.writes.get(number, 0)
        lost = group.n_affected[number]
        rows.append(GroupEventRow(h.at_ps, h.what, h.host, took, n, n_bytes, n_writes, lost))
    kinds = sorted({kind for _, kind in world.messages})
    messages = [
        MessageRow(kind, *_sums((k, c) for (_, k), c in world.messages.items() if k == kind))
        for kind in kinds
    ]
    states = []
    for node, table in sorted(world.planned.items()):
        if table:
            n_bytes = sum(map(world.machine.state_bytes, table.values()))
            n_entries = sum(entry.n_entries for entry in table.values())
            shared = [entry.n_entries for key, entry in table.items() if key in SHARED]
            states.append(StateRow(node, n_entries, n_bytes, sum(shared)))
    refresh = (*world.machine.refresh(), world.machine.refresh_of_members(len(group.members)))
    return TreeRun(
        row.name,
        tuple(rows),
        MessageRow("setup", *_sums(by_cause.get(SETUP, []))),
        tuple(messages),
        tuple(states),
        world.peak_entries,
        tuple(map(_packet_row, group.packets)),
        sum(n * PPB_ONE * PS_PER_SECOND // period for n, period in refresh),
        world.n_no_state,
        max(world.now_ps, 0),
        tuple(sorted(world.sent)),
        (),
    )


def _sums(rows: Iterable[tuple[str, list[int]]]) -> tuple[int, int, int]:
    """Messages, link crossings, bytes."""
    n = n_hops = n_bytes = 0
    for _, counts in rows:
        n, n_hops, n_bytes = n + counts[0], n_hops + counts[1], n_bytes + counts[2]
    return n, n_hops, n_bytes


def _packet_row(packet: Packet) -> PacketRow:
    n_delivered = len(packet.expected & packet.copies.keys())
    n_copies = sum(packet.copies.values())
    return PacketRow(
        packet.sent_ps,
        len(packet.expected),
        n_delivered,
        n_copies,
        packet.n_hops,
        packet.n_waited,
        packet.late_ps,
    )
