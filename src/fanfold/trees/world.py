"""The slow plane that tree protocols run in: one heap of events, links, processors, tables.

A message crosses a link in its serialisation and propagation, then waits for the router's
processor, which takes ``process_ps`` for each, one after the other. Messages do not queue at
links. A decision is in the forwarding table ``install_ps`` later. Equal times are worked off in
the order in which they were asked for. All times are integer picoseconds.

A ``Machine`` is what every tree protocol is to the world it runs in: handlers, and one entry a
key. A router is a node of the net. Links are directed: a message came in over ``link``, what is
sent back leaves over ``world.back(link)``. Handlers run on the router's processor, at its turn.
"""

import heapq
from collections.abc import Callable, Iterable
from functools import partial
from typing import ClassVar

import numpy as np

from fanfold.errors import ConfigError
from fanfold.topo.net import Net
from fanfold.trees.group_events import NOT_DONE, SETUP, SentRow
from fanfold.trees.paths import Paths
from fanfold.trees.settings import IGMP_QUERY_PS, REGISTER_BYTES, TreeSettings
from fanfold.trees.tree import TUNNEL, Entry, Out, Steps, Tree, Ways, match, walk
from fanfold.units import PS_PER_SECOND

SETUP_PS = -60 * PS_PER_SECOND
MAX_EVENTS = 20_000_000
HEAD_BYTES = 16
"""Source, group, upstream interface, timer: four octets each."""
OUT_BYTES = 8
"""Interface and timer, or label and neighbour."""
Call = Callable[[], None]


class Packet:
    """One data packet on its way, and what became of its copies."""

    def __init__(self, sent_ps: int, expected: frozenset[int]) -> None:
        self.sent_ps, self.expected = sent_ps, expected
        self.copies: dict[int, int] = {}
        self.late_ps = self.n_hops = self.n_waited = 0


class Machine:
    """A protocol on all routers of a net; one group, one source.

    keys: names of entries in the order in which packets are matched. source: the source's host.
    source_link: its link to its first-hop router. root: what hosts take the shortest way to.
    """

    keys: ClassVar[tuple[str, ...]] = ()
    keeps_steps: ClassVar[bool] = True
    """``find`` depends on tables, paths and dead links alone, or the machine tells the world to
    ``forget`` what it knew of a router."""

    def __init__(self, world: "World", source: int, centre: int) -> None:
        self.world, self.source, self.centre = world, source, centre
        self.settings: TreeSettings = world.settings
        self.source_link = world.paths.attach(source, self.source_target())
        self.first_hop = world.end(self.source_link)

    @property
    def has_bypass(self) -> bool:
        """Copies for a neighbour behind a dead link go round it, once that is noticed."""
        return False

    @property
    def has_node_bypass(self) -> bool:
        """Copies for a neighbour that is lost go to those behind it, once that is noticed."""
        return False

    def source_target(self) -> int:
        """Router that the source takes the shortest way to; NONE where that is nobody."""
        return self.centre

    def member_target(self) -> int:
        """Router that members take the shortest way to."""
        return self.centre

    def on_start(self) -> None:
        """Set the fabric up, long before anything happens to the group."""

    def on_member(self, node: int, out: int, *, is_joined: bool) -> None:
        """A host behind a link wants the group, or no longer does."""
        raise NotImplementedError

    def on_message(self, node: int, link: int, kind: str, sender: int, value: int) -> None:
        """A message has come to a router; link is TUNNEL where it was unicast."""
        raise NotImplementedError

    def on_data(self, node: int, in_link: int) -> bool:
        """Look at a packet in passing; true where it must wait for the processor."""
        del node, in_link
        return False

    def on_punt(self, node: int, in_link: int) -> bool:
        """The processor has the packet; true where it goes on by what is decided by now."""
        del node, in_link
        return True

    def on_link_down(self, node: int, out: int) -> None:
        """A router has noticed that its link is dead."""
        del node, out

    def on_reroute(self) -> None:
        """Unicast paths have changed everywhere."""
        for node in range(self.world.net.n_hosts, self.world.net.n_nodes):
            self.on_paths(node)

    def on_paths(self, node: int) -> None:
        """Unicast paths of a router have changed."""
        del node

    def find(self, table: dict[str, Entry], node: int, in_link: int) -> Entry | None:
        """Entry for a packet."""
        del node
        return match(table, self.keys, in_link)

    def state_bytes(self, entry: Entry) -> int:
        """Octets that an entry takes."""
        return HEAD_BYTES * entry.n_entries + OUT_BYTES * len(entry.outs)

    def refresh(self) -> Iterable[tuple[int, int]]:
        """Messages, and the time between two rounds of them, that keep the present state."""
        return ()

    def refresh_of_members(self, n_members: int) -> tuple[int, int]:
        """Query and report for each member."""
        return 2 * n_members, IGMP_QUERY_PS


class World:
    """One run being worked through."""

    machine: Machine

    def __init__(self, net: Net, settings: TreeSettings) -> None:
        self.net, self.settings = net, settings
        self.now_ps, self.cause = SETUP_PS, SETUP
        self._heap: list[tuple[int, int, int, Call]] = []
        self._n_asked = 0
        self._free: dict[int, int] = {}
        self.down: frozenset[int] = frozenset()
        self.noticed: frozenset[int] = frozenset()
        self.paths = Paths(net, self.down, settings.group)
        self._detour: Paths | None = None
        self._around: dict[int, Paths] = {}
        self.planned: dict[int, dict[str, Entry]] = {}
        self.tables: dict[int, dict[str, Entry]] = {}
        self.sent: list[SentRow] = []
        self.messages: dict[tuple[int, str], list[int]] = {}
        self.writes: dict[int, int] = {}
        self.n_entries = self.peak_entries = self.n_no_state = 0
        self.on_change: Call = lambda: None
        self._back: list[int] = net.reverse.tolist()
        self._end: list[int] = net.dst.tolist()
        self._ways = Ways(net.n_hosts, self._end, self._back)
        self._first = net.first_out.tolist()
        self._kept: Steps = {}

    # Time

    def at(self, time_ps: int, call: Call) -> None:
        """Do something at a time, for the present cause."""
        heapq.heappush(self._heap, (time_ps, self._n_asked, self.cause, call))
        self._n_asked += 1

    def after(self, span_ps: int, call: Call) -> None:
        """Do something a while from now."""
        self.at(self.now_ps + span_ps, call)

    def run(self) -> None:
        """Work until nothing is left to happen.

        Raises:
            ConfigError: more events than MAX_EVENTS.
        """
        while self._heap:
            self.now_ps, _, self.cause, call = heapq.heappop(self._heap)
            call()
            if self._n_asked > MAX_EVENTS:
                raise ConfigError("events", self._n_asked, f"at most {MAX_EVENTS}")

    def process(self, node: int, call: Call) -> int:
        """Do something when a router's processor has had its time; when that is."""
        done_ps = max(self.now_ps, self._free.get(node, SETUP_PS)) + self.settings.process_ps
        self._free[node] = done_ps
        self.at(done_ps, call)
        return done_ps

    # Links

    def back(self, link: int) -> int:
        """The same cable the other way."""
        return self._back[link]

    def end(self, link: int) -> int:
        """Where a link leads."""
        return self._end[link]

    def is_up(self, link: int) -> bool:
        """Nobody has noticed that it is dead."""
        return link not in self.noticed

    def router_links(self, node: int) -> list[int]:
        """Links of a router to routers, dead ones left out once that is noticed."""
        links = range(self._first[node], self._first[node + 1])
        end, n_hosts, noticed = self._end, self.net.n_hosts, self.noticed
        return [k for k in links if end[k] >= n_hosts and k not in noticed]

    def crossing_ps(self, link: int, n_bytes: int) -> int:
        """Serialisation, rounded up, and propagation."""
        bps = int(self.net.bps[link])
        return -(-n_bytes * 8 * PS_PER_SECOND // bps) + int(self.net.prop_ps[link])

    # Messages

    def send(self, link: int, kind: str, n_bytes: int, value: int = 0) -> None:
        """Send a message over one link; lost where it is down."""
        node = int(self.net.src[link])
        self._deliver(node, (link,), kind, n_bytes, value, link)

    def send_to(self, node: int, target: int, kind: str, n_bytes: int, value: int = 0) -> None:
        """Send a message by unicast; routers between pass it on without looking into it."""
        path = self.paths.path(node, target)
        if path or node == target:
            self._deliver(node, path, kind, n_bytes, value, TUNNEL)

    def _deliver(
        self, node: int, path: tuple[int, ...], kind: str, n_bytes: int, value: int, link: int
    ) -> None:
        self.count(kind, len(path), n_bytes)
        if self.down.intersection(path):
            return
        to = self.end(path[-1]) if path else node
        sent_ps, cause = self.now_ps, self.cause

        def arrive() -> None:
            if to >= self.net.n_hosts:
                done_ps = self.process(
                    to, lambda: self.machine.on_message(to, link, kind, node, value)
                )
            else:
                done_ps = self.now_ps
            self.sent.append(SentRow(sent_ps, done_ps, node, to, kind, cause))

        span_ps = sum(self.crossing_ps(k, n_bytes) for k in path)
        self.after(span_ps + max(len(path) - 1, 0) * self.settings.forward_ps, arrive)

    def count(self, kind: str, n_hops: int, n_bytes: int) -> None:
        """Count one message and the links it crosses."""
        row = self.messages.setdefault((self.cause, kind), [0, 0, 0])
        row[0] += 1
        row[1] += n_hops
        row[2] += n_hops * n_bytes

    # Tables

    def install(self, node: int, key: str, entry: Entry | None) -> None:
        """Have an entry in a router's table a little later; None takes it away."""
        mine = self.planned.setdefault(node, {})
        old = mine.get(key)
        if old == entry:
            return
        self.n_entries += (entry.n_entries if entry else 0) - (old.n_entries if old else 0)
        self.peak_entries = max(self.peak_entries, self.n_entries)
        _put(mine, key, entry)
        self.forget(node)
        self.writes[self.cause] = self.writes.get(self.cause, 0) + 1

        def apply() -> None:
            _put(self.tables.setdefault(node, {}), key, entry)
            self.forget(node)
            self.on_change()

        self.after(self.settings.install_ps, apply)

    def tree(self) -> Tree:
        """The tree of this instant."""
        if self.machine.source_link in self.down:
            return Tree((), {}, 0)
        is_plain = not (self.noticed and self.machine.has_node_bypass)
        kept = self._kept if self.machine.keeps_steps and is_plain else {}
        return walk(self._ways, self.machine.source_link, self._find, self._route, kept)

    def forget(self, node: int) -> None:
        """What a router does with packets may be new from now on."""
        self._kept.pop(node, None)

    def _find(self, node: int, in_link: int) -> Entry | None:
        entry = self.machine.find(self.tables.get(node, {}), node, in_link)
        if entry is None or not (self.noticed and self.machine.has_node_bypass):
            return entry
        outs = tuple(out for one in entry.outs for out in self._beyond(node, one))
        return entry._replace(outs=outs)

    def _beyond(self, node: int, out: Out) -> tuple[Out, ...]:
        """What goes to a neighbour that is lost goes to those it would copy it to.

        Its own members stay behind it: for them the link is led round.
        """
        link, lost = out.links[0], self.end(out.links[0])
        if link not in self.noticed or lost < self.net.n_hosts:
            return (out,)
        table = self.tables.get(lost, {})
        entry = self.machine.find(table, lost, link)
        ends = [self.end(one.links[-1]) for one in entry.outs] if entry else []
        if not ends or min(ends) < self.net.n_hosts:
            return (out,)
        around = self._around.get(lost)
        if around is None:
            mine = frozenset(
                np.nonzero((self.net.src == lost) | (self.net.dst == lost))[0].tolist()
            )
            around = self._around[lost] = Paths(
                self.net, self.noticed | mine, self.settings.group
            )
        paths = (around.path(node, end) for end in ends)
        return tuple(Out(path, is_tunnel=True) for path in paths if path)

    def _route(self, out: Out) -> tuple[int, ...]:
        """Links a copy really takes; a noticed failure moves what travels as unicast."""
        dead = self.down and self.down.intersection(out.links)
        if not dead:
            return out.links
        end = self.end(out.links[-1])
        is_repaired = self.settings.local_repair if out.is_tunnel else self.machine.has_bypass
        if not is_repaired or not dead <= self.noticed or end < self.net.n_hosts:
            return ()
        if self._detour is None:
            self._detour = Paths(self.net, self.noticed, self.settings.group)
        node = int(self.net.src[out.links[0]])
        path = self._detour.path(node, end)
        return () if self.down.intersection(path) else path

    # Failures

    def lose(self, links: frozenset[int]) -> None:
        """Cables go down; noticed at both ends later, and everywhere after that."""
        self.down |= links
        self._kept.clear()
        self.on_change()
        self.after(self.settings.detect_ps, lambda: self._notice(links))

    def _notice(self, links: frozenset[int]) -> None:
        self.noticed |= links
        self._detour = None
        self._around.clear()
        self._kept.clear()
        self.on_change()
        if not self.machine.has_bypass:
            self._drop(links)
        self.after(self.settings.reroute_ps, lambda: self._reroute(links))

    def _drop(self, links: frozenset[int]) -> None:
        for link in sorted(links):
            node = int(self.net.src[link])
            if node >= self.net.n_hosts:
                self.machine.on_link_down(node, link)

    def _reroute(self, links: frozenset[int]) -> None:
        if self.machine.has_bypass:
            self._drop(links)
        self.paths = Paths(self.net, self.noticed, self.settings.group)
        self._kept.clear()
        self.machine.on_reroute()

    # Data

    def emit(self, packet: Packet) -> None:
        """The source sends a packet."""
        self._cross(packet, Out((self.machine.source_link,)))

    def _cross(self, packet: Packet, out: Out) -> None:
        path = self._route(out)
        n_bytes = self.settings.packet_bytes + (REGISTER_BYTES if out.message else 0)
        if out.message:
            self.count(out.message, len(path), n_bytes)
        if not path:
            return
        packet.n_hops += len(path)
        end, link = self.end(path[-1]), TUNNEL if out.is_tunnel else out.links[-1]
        span_ps = sum(self.crossing_ps(k, n_bytes) for k in path)
        span_ps += (len(path) - 1) * self.settings.forward_ps
        self.after(span_ps, lambda: self._arrive(packet, end, link))

    def _arrive(self, packet: Packet, node: int, in_link: int) -> None:
        if node < self.net.n_hosts:
            if node not in packet.copies:
                packet.late_ps = max(packet.late_ps, self.now_ps - packet.sent_ps)
            packet.copies[node] = packet.copies.get(node, 0) + 1
        elif self.machine.on_data(node, in_link):
            packet.n_waited += 1
            self.process(node, lambda: self._punted(packet, node, in_link))
        else:
            self._forward(packet, in_link, self._find(node, in_link))

    def _punted(self, packet: Packet, node: int, in_link: int) -> None:
        if self.machine.on_punt(node, in_link):
            entry = self.machine.find(self.planned.get(node, {}), node, in_link)
            self._forward(packet, in_link, entry)

    def _forward(self, packet: Packet, in_link: int, entry: Entry | None) -> None:
        if entry is None:
            self.n_no_state += 1
            return
        from_here = self.back(in_link) if in_link >= 0 else NOT_DONE
        outs = [out for out in entry.outs if out.links[0] != from_here]
        for out in outs:
            self.after(self.settings.forward_ps, partial(self._cross, packet, out))


def _put(table: dict[str, Entry], key: str, entry: Entry | None) -> None:
    if entry is None:
        table.pop(key, None)
    else:
        table[key] = entry
