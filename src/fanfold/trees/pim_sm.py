"""PIM sparse mode (RFC 7761): joins to a rendezvous point, registers, the source's own tree.

The macros of section 4.1.5 decide; whatever they change is sent and installed. Left out: hello
and assert (links have two ends), designated routers (a host has one), expiry of (S,G) state by
its keepalive timer: a last-hop router drops it with its last member.
"""

from collections.abc import Iterable
from typing import ClassVar

from fanfold.trees.paths import NONE
from fanfold.trees.settings import (
    JOIN_BYTES,
    JOIN_PERIOD_PS,
    REGISTER_PROBE_PS,
    STOP_BYTES,
)
from fanfold.trees.tree import NOWHERE, TUNNEL, Entry, Out, match, to_links
from fanfold.trees.world import Machine

JOIN, PRUNE = "join (*,G)", "prune (*,G)"
JOIN_S, PRUNE_S = "join (S,G)", "prune (S,G)"
JOIN_RPT, PRUNE_RPT = "join (S,G,rpt)", "prune (S,G,rpt)"
REGISTER, STOP = "register", "register-stop"
STAR, SOURCE, RPT = "*,G", "S,G", "S,G,rpt"


class _Router:
    """State of one router: oifs by kind, what was sent upstream and over which link."""

    def __init__(self) -> None:
        self.star: set[int] = set()
        self.pruned: set[int] = set()
        self.joined: set[int] = set()
        self.members: set[int] = set()
        self.star_up = self.source_up = self.rpt_up = NONE
        self.is_alive = self.has_spt_bit = self.is_asked = self.registers = False


class PimSm(Machine):
    """One group with one rendezvous point and one source."""

    keys: ClassVar[tuple[str, ...]] = (SOURCE, RPT, STAR)
    keeps_steps: ClassVar[bool] = False

    def on_start(self) -> None:
        """No router knows the group."""
        self.routers: dict[int, _Router] = {}

    def at(self, node: int) -> _Router:
        """State of a router."""
        return self.routers.setdefault(node, _Router())

    def on_member(self, node: int, out: int, *, is_joined: bool) -> None:
        """A local member is an oif of (*,G)."""
        r = self.at(node)
        for oifs in (r.members, r.star):
            _set(oifs, out, is_joined)
        self.update(node)

    def on_message(self, node: int, link: int, kind: str, sender: int, value: int) -> None:
        """Joins and prunes come from downstream, Register-Stop from the rendezvous point."""
        del sender, value
        r = self.at(node)
        if kind == STOP:
            r.registers = False
        else:
            out = self.world.back(link)
            match kind:
                case "join (*,G)" | "prune (*,G)":
                    _set(r.star, out, kind == JOIN)
                    r.pruned.discard(out)
                case "join (S,G)" | "prune (S,G)":
                    _set(r.joined, out, kind == JOIN_S)
                case _:
                    _set(r.pruned, out, kind == PRUNE_RPT)
        self.update(node)

    def on_data(self, node: int, in_link: int) -> bool:
        """RFC 7761 4.2: the first packet makes state; SPTbit is set by the first native one."""
        r = self.at(node)
        if in_link == TUNNEL:
            return True
        if in_link == self.source_link:
            return SOURCE not in self.world.tables.get(node, {})
        is_native = in_link == self._in(self._to_source(node)) and r.source_up != NONE
        if is_native and not r.has_spt_bit:
            r.has_spt_bit = True
            self.world.process(node, lambda: self.update(node))
        if self.settings.switch_over and r.members and not r.is_asked:
            r.is_asked = True
            self.world.process(node, lambda: self._switch(node))
        return False

    def on_punt(self, node: int, in_link: int) -> bool:
        """The first-hop router registers; the rendezvous point takes registers apart (4.4)."""
        r = self.at(node)
        if in_link == TUNNEL:
            is_native, has_olist = r.has_spt_bit, bool(r.star - r.pruned)
            r.is_alive = True
            if is_native or not has_olist:
                self.world.send_to(node, self.first_hop, STOP, STOP_BYTES)
            self.update(node)
            return not is_native
        if not r.is_alive:
            r.is_alive = r.has_spt_bit = True
            r.registers = node != self.centre
            self.update(node)
        return True

    def on_link_down(self, node: int, out: int) -> None:
        """Downstream state of a dead interface goes."""
        r = self.at(node)
        for oifs in (r.star, r.pruned, r.joined, r.members):
            oifs.discard(out)
        self.world.process(node, lambda: self.update(node))

    def on_paths(self, node: int) -> None:
        """Another RPF neighbour is joined, the old one left (4.5.4, 4.5.5)."""
        if node in self.routers:
            self.world.process(node, lambda: self.update(node))

    def find(self, table: dict[str, Entry], node: int, in_link: int) -> Entry | None:
        """The first packet of all would be registered, without state yet."""
        entry = match(table, self.keys, in_link)
        if entry is None and in_link == self.source_link:
            if node == self.centre:
                return match(table, self.keys, TUNNEL)
            return Entry(in_link, self._register(node))
        return entry

    def refresh(self) -> Iterable[tuple[int, int]]:
        """Join/Prune to each upstream neighbour; Null-Register and its answer."""
        ups = [{r.star_up, r.source_up} - {NONE} for r in self.routers.values()]
        is_registered = self.first_hop != self.centre and self.at(self.first_hop).is_alive
        return (sum(map(len, ups)), JOIN_PERIOD_PS), (2 * is_registered, REGISTER_PROBE_PS)

    def update(self, node: int) -> None:
        """Send and install what the macros of 4.1.5 now say."""
        r = self.at(node)
        is_first, is_rp = node == self.first_hop, node == self.centre
        to_rp, to_source = self._to_rp(node), self._to_source(node)
        shared = r.star - r.pruned
        olist = shared | r.joined
        if not (is_first or is_rp or olist):
            r.is_alive = r.is_asked = False
        wants_star = bool(r.star) and not is_rp
        wants_source = bool(r.joined) or (r.is_alive and bool(olist))
        r.has_spt_bit &= wants_source or is_first
        is_off = not shared or (r.has_spt_bit and to_rp != to_source)
        up = to_source if wants_source and not is_first else NONE
        r.source_up = self._say(r.source_up, up, JOIN_S, PRUNE_S)
        star_up = to_rp if wants_star else NONE
        if star_up != r.star_up:
            r.rpt_up = NONE
        r.star_up = self._say(r.star_up, star_up, JOIN, PRUNE)
        r.rpt_up = self._say(r.rpt_up, to_rp if wants_star and is_off else NONE, *_RPT)
        self._install(node, r, olist)

    def _install(self, node: int, r: _Router, olist: set[int]) -> None:
        to_rp, to_source = self._to_rp(node), self._to_source(node)
        iif = TUNNEL if node == self.centre else self._in(to_rp)
        star = Entry(iif, to_links(r.star)) if r.star else None
        is_off = r.has_spt_bit and node != self.centre
        left = set() if is_off and to_rp != to_source else r.star - r.pruned
        rpt = Entry(iif, to_links(left)) if r.pruned or r.rpt_up != NONE else None
        source = None
        if r.joined or r.is_alive:
            outs = to_links(olist)
            outs += self._register(node) if r.registers else ()
            is_first = node == self.first_hop
            source = Entry(self.source_link if is_first else self._in(to_source), outs)
        for key, entry in ((SOURCE, source), (RPT, rpt), (STAR, star)):
            self.world.install(node, key, entry)

    def _say(self, old: int, new: int, join: str, prune: str) -> int:
        """Join the new upstream neighbour, leave the old one; the new one."""
        if old != new:
            if new != NONE:
                self.world.send(new, join, JOIN_BYTES)
            if old != NONE and self.world.is_up(old):
                self.world.send(old, prune, JOIN_BYTES)
        return new

    def _register(self, node: int) -> tuple[Out, ...]:
        path = self.world.paths.path(node, self.centre)
        return (Out(path, is_tunnel=True, message=REGISTER),) if path else ()

    def _switch(self, node: int) -> None:
        r = self.at(node)
        r.is_alive = True
        self.update(node)

    def _to_rp(self, node: int) -> int:
        return self.world.paths.next_link(node, self.centre)

    def _to_source(self, node: int) -> int:
        return self.world.paths.next_link(node, self.first_hop)

    def _in(self, out: int) -> int:
        return NOWHERE if out == NONE else self.world.back(out)


_RPT = (PRUNE_RPT, JOIN_RPT)
"""To be pruned is said by a prune, and taken back by a join."""


def _set(oifs: set[int], out: int, is_in: bool) -> None:
    if is_in:
        oifs.add(out)
    else:
        oifs.discard(out)
