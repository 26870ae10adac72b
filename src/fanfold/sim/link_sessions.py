"""Sessions between neighbours in the simulator: the machine of live nodes, core/neighbours.py.

HELLOs and NOTICEs cross links in their serialisation and propagation, before all data. A
NOTICE then waits for the router's processor, one after the other. Waits of the machine suit 50
ms between HELLOs; its clock goes as many times faster as HELLOs here are more frequent, but
that neighbours who differ tell each other all they know as rarely as live. All nodes watch as
under traffic. Hosts with one link have no session: nothing could follow.
"""

import heapq
from collections.abc import Callable, Collection
from typing import NamedTuple

import msgspec

from fanfold.core.link_states import LinkSet
from fanfold.core.neighbours import (
    SYNC_PS,
    Ground,
    LinkEffect,
    LinksChanged,
    NeighbourBack,
    NeighbourLost,
    Neighbours,
    SendLink,
)
from fanfold.core.session import Pace
from fanfold.scenario.settings import Settings
from fanfold.sim.clock import clock_for
from fanfold.streams import stream_key
from fanfold.topo.net import Net
from fanfold.units import NEVER, PS_PER_MS, PS_PER_SECOND
from fanfold.wire.hello import Hello
from fanfold.wire.link import LinkMessage
from fanfold.wire.notice import Notice

WARM_PS = 400 * PS_PER_MS
"""Of the machines' clock before a run: sessions are up, and know the way to an answer."""
BUSY_PS = 100 * PS_PER_MS
FABRIC = 1
FRAME_BYTES = 18 + 20 + 8 + 4
"""Around a message: Ethernet and FCS, IPv4, UDP, and the four octets of docs/wire/link.md."""
MAX_SPEED = PS_PER_SECOND
_LIVES = 1 << 16
_TIMER, _COMES, _IS_DUE = 0, 1, 2


class Heard(NamedTuple):
    """Something that a node noticed: a neighbour lost or back, or links that are down."""

    at_ps: int
    node: int
    effect: NeighbourLost | NeighbourBack | LinksChanged


class LinkSessions:
    """All nodes of a net that watch neighbours, in a time of their own; times in ps.

    n_hellos, n_notices, n_bytes: sent on links since time 0. heard: what became of it, until
    somebody takes it.
    """

    def __init__(self, net: Net, settings: Settings, seed: int) -> None:
        self.net, self.settings, self.seed = net, settings, seed
        self.clock = clock_for(Pace().fast_ps, settings.hello_ps, MAX_SPEED)
        self.pace = Pace(detect_mult=settings.detect_mult)
        self.n_hellos = self.n_notices = self.n_bytes = 0
        self.heard: list[Heard] = []
        self.now_ps = self.start_ps = -self.clock.passed(WARM_PS)
        self._first: list[int] = net.first_out.tolist()
        self._dst: list[int] = net.dst.tolist()
        self._near = [
            self._dst[a:b] for a, b in zip(self._first, self._first[1:], strict=False)
        ]
        self._reverse: list[int] = net.reverse.tolist()
        self._spans = [
            (int(bps), int(prop))
            for bps, prop in zip(net.bps.tolist(), net.prop_ps.tolist(), strict=True)
        ]
        self._is_down: set[int] = set()
        self._is_over = False
        self._still: dict[int, int] = {}
        self._free_ps = [self.start_ps] * net.n_nodes
        self._heap: list[tuple[int, int, int, int, int, LinkMessage | None]] = []
        self._n_asked = self._n_lives = 0
        self._due: dict[int, int] = {}
        self._last: dict[tuple[int, int], Hello] = {}
        self.machines: dict[int, Neighbours] = {}
        for node in range(net.n_nodes):
            if node >= net.n_hosts or len(self._near[node]) > 1:
                self.begin(node)
        self.run(self.start_ps + self.clock.passed(BUSY_PS))
        for node in self.machines:
            self._turn(node, _busy)
        self.run(0)
        self.n_hellos = self.n_notices = self.n_bytes = 0
        self.heard.clear()

    def run(self, until_ps: int) -> None:
        """Work off all that happens until a time, that included."""
        heap = self._heap
        while heap and heap[0][0] <= until_ps:
            self.now_ps, _, what, node, port, message = heapq.heappop(heap)
            if what == _TIMER:
                if self._due.get(node) == self.now_ps and node in self.machines:
                    self._turn(node, Neighbours.on_timer)
            elif node in self.machines and node not in self._still:
                self._take(what, node, port, message)
        self.now_ps = until_ps

    def flood(self) -> None:
        """Let NOTICEs that are under way, and those that they make, come to their end.

        No HELLO is sent any more: nothing goes on after that.
        """
        self._is_over = True
        self._heap = [row for row in self._heap if isinstance(row[-1], Notice)]
        heapq.heapify(self._heap)
        while self._heap:
            self.run(self._heap[0][0])

    def next_ps(self) -> int:
        """When something happens next, NEVER where nothing does."""
        return self._heap[0][0] if self._heap else NEVER

    def cut(self, links: Collection[int]) -> None:
        """Nothing crosses these from now on; what is on them is lost."""
        self._is_down.update(links)

    def mend(self, links: Collection[int]) -> None:
        """They carry again."""
        self._is_down.difference_update(links)

    def begin(self, node: int) -> None:
        """A node begins a life, with nothing in its memory."""
        self._n_lives += 1
        key = stream_key(self.seed, f"sim/sessions/{self._n_lives}")
        first_disc = key % (1 << 15) * _LIVES + 1
        ground = Ground(FABRIC, node, self._near, self._ways(node))
        self.machines[node] = Neighbours(self._shown(), ground, first_disc, self.pace)
        self.machines[node].sync_ps = self.clock.shown(SYNC_PS)
        self._still.pop(node, None)
        self._turn(node, Neighbours.on_timer)

    def end(self, node: int) -> None:
        """A node's process ends."""
        self.machines.pop(node, None)

    def stand(self, node: int) -> None:
        """A node's process stands still: its timers too."""
        self._still[node] = self.now_ps

    def go_on(self, node: int) -> None:
        """It goes on, and knows that it heard nothing meanwhile."""
        if self._still.pop(node, None) is not None and node in self.machines:
            self._turn(node, Neighbours.on_timer, is_late=True)

    def note_life(self, link: int, heard_ps: int) -> None:
        """Data had come over a link at a time, a sign of life as any HELLO."""
        machine = self.machines.get(self._dst[link])
        if machine is not None:
            session = machine.sessions[self._port(self._reverse[link]) - 1]
            session.on_life(self.clock.shown(heard_ps - self.start_ps))
            self._turn(self._dst[link], Neighbours.on_timer)

    def _shown(self) -> int:
        return self.clock.shown(self.now_ps - self.start_ps)

    def _port(self, link: int) -> int:
        return link - self._first[int(self.net.src[link])] + 1

    def _ways(self, node: int) -> list[bool]:
        """Of each port: both ends of its link have another one, to a router."""
        return [
            self._has_other(node, to) and self._has_other(to, node) for to in self._near[node]
        ]

    def _has_other(self, node: int, but: int) -> bool:
        return any(to != but and to >= self.net.n_hosts for to in self._near[node])

    def _turn(
        self,
        node: int,
        call: Callable[[Neighbours, int, list[LinkEffect]], object],
        *,
        is_late: bool = False,
    ) -> None:
        if node in self._still:
            return
        machine, shown = self.machines[node], self._shown()
        out: list[LinkEffect] = []
        machine.listen(shown, 0 if is_late else shown, [-1] * (len(self._near[node]) + 1))
        call(machine, shown, out)
        for effect in out:
            if isinstance(effect, SendLink):
                self._send(node, effect.port, effect.message)
            else:
                self.heard.append(Heard(self.now_ps, node, effect))
        due = machine.deadline_ps(shown)
        if due < NEVER:
            at_ps = self.start_ps + -(-due * self.clock.slow // self.clock.fast)
            at_ps = max(at_ps, self.now_ps)
            if self._due.get(node) != at_ps:
                self._due[node] = at_ps
                self._at(at_ps, _TIMER, node, 0, None)

    def _at(
        self, at_ps: int, what: int, node: int, port: int, message: LinkMessage | None
    ) -> None:
        if self._is_over and not isinstance(message, Notice):
            return
        self._n_asked += 1
        heapq.heappush(self._heap, (at_ps, self._n_asked, what, node, port, message))

    def _send(self, node: int, port: int, message: LinkMessage) -> None:
        link = self._first[node] + port - 1
        to = self._dst[link]
        if to not in self.machines and to < self.net.n_hosts:
            return
        n_bytes = FRAME_BYTES + message.size_bytes
        self.n_bytes += n_bytes
        if isinstance(message, Notice):
            self.n_notices += 1
        else:
            self.n_hellos += 1
            if self.settings.lag_ms:
                message = msgspec.structs.replace(message, lag_ms=self.settings.lag_ms)
        if link in self._is_down:
            return
        bps, prop_ps = self._spans[link]
        at_ps = self.now_ps + -(-n_bytes * 8 * PS_PER_SECOND // bps) + prop_ps
        self._at(at_ps, _COMES, to, self._port(self._reverse[link]), message)

    def _take(self, what: int, node: int, port: int, message: LinkMessage | None) -> None:
        if what == _COMES and self._reverse[self._first[node] + port - 1] in self._is_down:
            return
        if what == _COMES and isinstance(message, Notice) and self.settings.notice_ps:
            done_ps = max(self.now_ps, self._free_ps[node]) + self.settings.notice_ps
            self._free_ps[node] = done_ps
            self._at(done_ps, _IS_DUE, node, port, message)
        elif isinstance(message, Notice):
            if self.machines[node].states.knows(message):
                return  # of many ways by which it comes, all but the first
            notice = message
            self._turn(node, lambda one, now, out: one.on_notice(now, port, notice, out))
        elif isinstance(message, Hello):
            hello, machine = message, self.machines[node]
            if machine.is_settled(port) and self._last.get((node, port)) == hello:
                machine.sessions[port - 1].on_life(self._shown())  # as live/life.py has it
                return
            self._last[node, port] = hello
            self._turn(node, lambda one, now, out: one.on_hello(now, port, hello, out))


def failed_links(net: Net, failed: LinkSet) -> frozenset[int]:
    """Directed links between pairs of nodes, all cables of each."""
    pairs = {*failed, *((b, a) for a, b in failed)}
    ends = zip(net.src.tolist(), net.dst.tolist(), strict=True)
    return frozenset(k for k, pair in enumerate(ends) if pair in pairs)


def _busy(machine: Neighbours, now_ps: int, out: list[LinkEffect]) -> None:
    machine.on_busy(now_ps, out, is_busy=True)
