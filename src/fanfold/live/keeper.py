"""A node's neighbours, driven: HELLOs and NOTICEs as packets, tables that follow what is lost.

The machine is core/neighbours.py. Between neighbours that have nothing to carry HELLOs are
rare; the compiled loop tells of the first packet that comes then, and notes signs of life
itself (live/life.py).
"""

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import msgspec

from fanfold.core.link_states import LinkSet
from fanfold.core.neighbours import (
    Ground,
    LinkEffect,
    LinksChanged,
    NeighbourBack,
    NeighbourLost,
    Neighbours,
    SendLink,
)
from fanfold.core.session import UP, Pace
from fanfold.errors import WireError
from fanfold.kernels.codes import DROP_BAD_LINK
from fanfold.live import life
from fanfold.live import sock as s
from fanfold.live.chance import draw_nonce
from fanfold.live.clock import now_ps
from fanfold.live.event_loop import EventLoop
from fanfold.live.swap import Swap
from fanfold.topo.fabric import Fabric
from fanfold.units import PS_PER_MS, PS_PER_SECOND, PS_PER_US
from fanfold.wire.bitstring import bift_id, bsl_of_bits, place
from fanfold.wire.hello import Hello
from fanfold.wire.link import build_link, parse_link
from fanfold.wire.notice import Notice

QUIET_PS = PS_PER_SECOND
"""So long after the last packet a node still carries traffic."""
AHEAD_PS = PS_PER_SECOND // 4
"""Between two tables that are made ahead."""
DISC_MASK = 0x7FFF0000
"""Of discriminators: the rest counts ports."""


def fabric_digest(fabric: Fabric) -> int:
    """What neighbours must have alike, in 32 bits: nodes, links and the order of ports."""
    nodes = [(node.name, node.address, node.bfr_id) for node in fabric.nodes]
    links = [(link.a, link.b) for link in fabric.links]
    tenants = [(one.sub_domain, one.hosts) for one in fabric.tenants]
    parts = [nodes, links, fabric.ports, fabric.bitstring_bits, *([tenants] if tenants else ())]
    text = msgspec.json.encode(parts)
    return int.from_bytes(blake2b(text, digest_size=4).digest(), "big")


def ground_of(fabric: Fabric, name: str) -> Ground:
    """What a node knows of its fabric when it starts."""
    index = {node.name: i for i, node in enumerate(fabric.nodes)}
    near = [[index[to] for to in fabric.neighbours[node.name]] for node in fabric.nodes]
    ways = [fabric.has_other_way(name, to) for to in fabric.neighbours[name]]
    return Ground(fabric_digest(fabric), index[name], near, ways)


class Keeper:
    """Neighbours of one node.

    Args:
        tables: of the node, changed when links are lost. tell: hears of what happens.
    """

    def __init__(
        self,
        fabric: Fabric,
        name: str,
        event_loop: EventLoop,
        tables: Swap,
        tell: Callable[[str], None],
        pace: Pace,
    ) -> None:
        self.fabric, self.name, self.tables, self.tell = fabric, name, tables, tell
        self.event_loop = event_loop
        ground = ground_of(fabric, name)
        now: int = now_ps()
        first_disc = draw_nonce() & DISC_MASK | 1
        self.machine = Neighbours(now, ground, first_disc, pace)
        self.names = fabric.neighbours[name]
        self.since_ps: list[int] = [now] * len(self.names)
        self.n_falls = [0] * len(self.names)
        self.was_up = [False] * len(self.names)
        self.n_sent = self.n_came = self.n_switches = 0
        self.last: dict[str, int] = {}
        """Of the latest loss: silence before it, and how long tables took."""
        self._is_watching = any(ground.has_other_way)
        self._busy_ps: int = -QUIET_PS
        self._is_busy = False
        self._ahead_ps: int = now + PS_PER_SECOND
        self._next_ps: int = now
        self._is_timed = False  # and nothing was heard or done since
        self._digest = self.machine.states.digest
        self._stir(life.TELL)

    def on_link(self, now: int, octets: bytes, port: int) -> None:
        """A HELLO or a NOTICE; what is malformed, or makes no sense, is counted."""
        self._is_timed = False
        self._listen(now)
        self.n_came += 1
        out: list[LinkEffect] = []
        try:
            message = parse_link(octets)
        except WireError:
            is_taken = False
        else:
            is_taken = False
            if isinstance(message, Hello):
                is_taken = self.machine.on_hello(now, port, message, out)
            elif isinstance(message, Notice):
                is_taken = self.machine.on_notice(now, port, message, out)
            if is_taken and isinstance(message, Hello):
                self._remember(octets, port)
        if not is_taken:
            self.event_loop.node.counters.drops[DROP_BAD_LINK] += 1
        self._perform(now, out)

    def on_timer(self, now: int) -> None:
        """Nothing is done before something is due, or traffic came to a node at rest."""
        ints = self.event_loop.io.ints
        if now < self._next_ps and not ints[s.STIRRED]:
            return
        ints[s.STIRRED] = 0
        self._is_timed = False
        self._listen(now)
        out: list[LinkEffect] = []
        self._look_for_traffic(now, out)
        self.machine.on_timer(now, out)
        self._perform(now, out)
        if not self._is_busy and now >= self._ahead_ps:
            is_more = self.tables.prepare()
            self._ahead_ps = now + (AHEAD_PS if is_more else 2**62)

    def deadline_ps(self, now: int) -> int:
        """When ``on_timer`` has something to do; it is asked before each turn of the node."""
        if self._is_timed and now < self._next_ps:
            return self._next_ps
        self._is_timed = True
        self._next_ps = self.machine.deadline_ps(now)
        if not self._is_busy:
            self._next_ps = min(self._next_ps, max(self._ahead_ps, now + PS_PER_MS))
        return self._next_ps

    def learn_way(self, port: int) -> None:
        """What comes by a port will take longer from now on."""
        self._listen(now_ps())
        self.machine.learn_way(port)
        self._next_ps = 0

    def greet(self, port: int) -> None:
        """Say hello to the neighbour at a port now: it hears from now on."""
        self.machine.sessions[port - 1].due_ps = self._next_ps = 0

    def status(self) -> dict[str, Any]:
        """Neighbours, links that tables do without, and what was counted."""
        now = now_ps()
        return {
            "neighbours": {
                to: {
                    "state": self._state_of(k),
                    "since_s": round((now - self.since_ps[k]) / PS_PER_SECOND, 3),
                    "falls": self.n_falls[k],
                }
                for k, to in enumerate(self.names)
            },
            "links_down": links_of(self.fabric, self.tables.failed),
            "detection": {
                "sent": self.n_sent,
                "received": self.n_came,
                "switches": self.n_switches,
                "lag_ms": self.machine.lag_ms(),
                **self.last,
            },
        }

    def _state_of(self, k: int) -> str:
        if self.machine.sessions[k].state == UP:
            return "up"
        return "down" if self.was_up[k] else "unseen"

    def _listen(self, now: int) -> None:
        io = self.event_loop.io
        self.machine.listen(now, int(io.ints[s.EMPTY_PS]), io.heard.tolist())

    def _look_for_traffic(self, now: int, out: list[LinkEffect]) -> None:
        if not self._is_watching:
            return
        if self.event_loop.io.ints[s.STIR] == life.SILENT:
            self._busy_ps = now
        is_busy = now - self._busy_ps < QUIET_PS
        self._stir(life.NOTE if is_busy else life.TELL)
        if is_busy != self._is_busy:
            self._is_busy = is_busy
            self.machine.on_busy(now, out, is_busy=is_busy)

    def _stir(self, how: int) -> None:
        self.event_loop.io.ints[s.STIR] = how if self._is_watching else life.SILENT

    def _remember(self, octets: bytes, port: int) -> None:
        """Let the compiled loop know a HELLO that is no news when it comes again."""
        row = self.event_loop.io.hellos[port]
        row[0] = 0
        if self.machine.is_settled(port) and len(octets) < len(row):
            row[1 : 1 + len(octets)] = memoryview(octets)
            row[0] = len(octets)

    def _perform(self, now: int, out: list[LinkEffect]) -> None:
        for effect in out:
            match effect:
                case SendLink(port, message):
                    self.n_sent += 1
                    self.event_loop.send_beside(build_link(message), port, self.fabric.port)
                case NeighbourLost():
                    self._on_lost(now, effect)
                case NeighbourBack():
                    self._note(now, effect.port)
                    self.was_up[effect.port - 1] = True
                case LinksChanged():
                    self._switch(effect.failed)
        if self._digest != self.machine.states.digest:
            self._digest = self.machine.states.digest
            self.event_loop.io.hellos[:, 0] = 0  # what neighbours say is news until they agree

    def _note(self, now: int, port: int) -> None:
        self.since_ps[port - 1] = now
        self.event_loop.io.hellos[port, 0] = 0

    def _on_lost(self, now: int, lost: NeighbourLost) -> None:
        self._note(now, lost.port)
        self.n_falls[lost.port - 1] += 1
        silent_ms = lost.silent_ps // PS_PER_MS
        if lost.silent_ps:
            self.last["silent_ms"] = silent_ms
        why = f"after {silent_ms} ms of silence" if lost.silent_ps else "it says so"
        self.tell(f"lost {self.names[lost.port - 1]}: {why}")

    def _switch(self, failed: LinkSet) -> None:
        began = now_ps()
        self.tables.without(failed)
        self._turn_slots()
        self.n_switches += 1
        self.last["switch_us"] = (now_ps() - began) // PS_PER_US
        names = ", ".join(links_of(self.fabric, failed))
        self.tell(f"tables without {names}" if names else "tables as given")

    def _turn_slots(self) -> None:
        """Words on blocks that came by a dead port go up by the way that is in use now."""
        rows, lost = self.event_loop.node.fold.rows, self.machine.lost
        for i in rows["armed"].nonzero()[0].tolist():
            port = int(rows[i]["port"])
            if port > 0 and lost >> port - 1 & 1:
                rows[i]["port"] = self._port_to(int(rows[i]["bfir_id"])) or port

    def _port_to(self, bfr_id: int) -> int:
        """Port of the first BIFT of a BFER's set that leads to it; 0: none does."""
        bifts, bsl = self.event_loop.node.bifts, bsl_of_bits(self.fabric.bitstring_bits)
        si, position = place(bfr_id, bsl)
        known = bifts.ids.tolist()
        bfer = self.fabric.by_bfr_id.get(bfr_id)
        if bfer is None:
            return 0
        wanted = bift_id(bsl, self.fabric.sub_domain_of(bfer.name), si)
        if wanted not in known:
            return 0
        port = int(bifts.nbr_of[int(bifts.first[known.index(wanted)]), position - 1])
        return max(port, 0)


def links_of(fabric: Fabric, failed: LinkSet) -> list[str]:
    """Links by name, as the fabric file has them."""
    index = {node.name: i for i, node in enumerate(fabric.nodes)}
    return [
        f"{link.a}-{link.b}"
        for link in fabric.links
        if tuple(sorted((index[link.a], index[link.b]))) in failed
    ]
