"""PIM dense mode (RFC 3973): flood, prune, graft; the state is in every router.

A router that has no state gives the first packet to its processor. Both ends of a link that is
no branch hear each other's data there: they assert, the one farther from the source stops and
prunes the winner (section 4.6.4). Prunes take effect at once, as a link has one neighbour
(4.4.2). Left out: the reflood 210 s later, which state refresh avoids; Graft retries.
"""

from collections.abc import Iterable
from typing import ClassVar

from fanfold.trees.paths import NONE
from fanfold.trees.settings import (
    ASSERT_BYTES,
    JOIN_BYTES,
    PRUNE_LIMIT_PS,
    STATE_REFRESH_PS,
)
from fanfold.trees.tree import NOWHERE, Entry, match, to_links
from fanfold.trees.world import Machine

PRUNE, GRAFT, GRAFT_ACK, ASSERT = "prune (S,G)", "graft", "graft-ack", "assert"
STATE = "S,G"


class _Router:
    """State of one router: members; oifs that are pruned, lost by assert, or asserted on."""

    def __init__(self) -> None:
        self.members: set[int] = set()
        self.pruned: set[int] = set()
        self.lost: set[int] = set()
        self.asserted: set[int] = set()
        self.up = NONE
        self.is_made = self.has_pruned = False


class PimDm(Machine):
    """One group and one source."""

    keys: ClassVar[tuple[str, ...]] = (STATE,)

    def on_start(self) -> None:
        """No router knows the group."""
        self.routers: dict[int, _Router] = {}

    def source_target(self) -> int:
        """Any first-hop router will do."""
        return NONE

    def member_target(self) -> int:
        """Members are near to the source."""
        return self.first_hop

    def at(self, node: int) -> _Router:
        """State of a router."""
        if node not in self.routers:
            self.routers[node] = _Router()
        return self.routers[node]

    def on_member(self, node: int, out: int, *, is_joined: bool) -> None:
        """A local member is an oif; the first one grafts, the last one prunes."""
        r = self.at(node)
        (r.members.add if is_joined else r.members.discard)(out)
        self.update(node)

    def on_message(self, node: int, link: int, kind: str, sender: int, value: int) -> None:
        """Prunes, grafts and asserts of a neighbour."""
        r, out = self.at(node), self.world.back(link)
        match kind:
            case "prune (S,G)":
                r.pruned.add(out)
            case "graft":
                self._make(node)
                for oifs in (r.pruned, r.lost, r.asserted):
                    oifs.discard(out)
                self.world.send(out, GRAFT_ACK, JOIN_BYTES)
            case "assert":
                self._on_assert(node, out, (value, -sender))
            case _:
                return
        self.update(node)

    def on_data(self, node: int, in_link: int) -> bool:
        """Wait where there is no state yet; assert where it came the wrong way."""
        if STATE not in self.world.tables.get(node, {}):
            return True
        r = self.at(node)
        if in_link != self._in(node) and self.world.back(in_link) not in r.asserted:
            self.world.process(node, lambda: self._assert(node, self.world.back(in_link)))
        return False

    def on_punt(self, node: int, in_link: int) -> bool:
        """The first packet makes state."""
        self._make(node)
        if in_link != self._in(node):
            self._assert(node, self.world.back(in_link))
        self.update(node)
        return True

    def on_link_down(self, node: int, out: int) -> None:
        """A dead interface is no oif."""
        if node in self.routers:
            self.at(node).members.discard(out)
            self.world.forget(node)
            self.world.process(node, lambda: self.update(node))

    def on_paths(self, node: int) -> None:
        """Another RPF neighbour is grafted to, the old one pruned (4.4.1)."""
        if node in self.routers and self.at(node).is_made:
            self.world.process(node, lambda: self._moved(node))

    def find(self, table: dict[str, Entry], node: int, in_link: int) -> Entry | None:
        """Without an entry the processor decides, which floods where it has no state."""
        r = self.at(node)
        if STATE in table or STATE in self.world.planned.get(node, {}):
            return match(table or self.world.planned[node], self.keys, in_link)
        iif = self._in(node)
        if in_link != iif:
            return None
        oifs = set(self.world.router_links(node)) - {self._to_source(node)}
        return Entry(iif, to_links(oifs | r.members))

    def refresh(self) -> Iterable[tuple[int, int]]:
        """State refresh on all links away from the source, or prunes after each reflood."""
        if not self.settings.state_refresh:
            n = sum(len(r.pruned) for r in self.routers.values())
            return ((n, PRUNE_LIMIT_PS),)
        made = [node for node, r in self.routers.items() if r.is_made]
        n = sum(len(self._oifs(node)) for node in made)
        return ((n, STATE_REFRESH_PS),)

    def update(self, node: int) -> None:
        """Install the olist; prune upstream when it is empty, graft when it no longer is."""
        r = self.at(node)
        self.world.forget(node)
        if not r.is_made:
            self.world.on_change()
            return
        olist = (self._oifs(node) - r.pruned - r.lost) | r.members
        if node != self.first_hop and r.up != NONE and r.has_pruned == bool(olist):
            r.has_pruned = not olist
            self.world.send(r.up, PRUNE if r.has_pruned else GRAFT, JOIN_BYTES)
        self.world.install(node, STATE, Entry(self._in(node), to_links(olist)))

    def _make(self, node: int) -> None:
        r = self.at(node)
        if not r.is_made:
            r.is_made = True
            r.up = self._to_source(node)

    def _oifs(self, node: int) -> set[int]:
        return set(self.world.router_links(node)) - {self.at(node).up}

    def _assert(self, node: int, out: int) -> None:
        r = self.at(node)
        olist = self._oifs(node) - r.pruned - r.lost
        if out in olist and out not in r.asserted:
            r.asserted.add(out)
            self.world.send(out, ASSERT, ASSERT_BYTES, self._metric(node))

    def _on_assert(self, node: int, out: int, theirs: tuple[int, int]) -> None:
        """Fewer hops win, then the higher address; the loser prunes the winner."""
        r = self.at(node)
        if theirs > (self._metric(node), -node):
            self._assert(node, out)
        elif out != r.up and out not in r.lost:
            r.lost.add(out)
            self.world.send(out, PRUNE, JOIN_BYTES)

    def _moved(self, node: int) -> None:
        r, up = self.at(node), self._to_source(node)
        if up != r.up:
            old, r.up = r.up, up
            if old != NONE and self.world.is_up(old) and not r.has_pruned:
                self.world.send(old, PRUNE, JOIN_BYTES)
            for oifs in (r.pruned, r.lost, r.asserted):
                oifs.discard(old)
            r.has_pruned = True  # as far as the new neighbour knows
        self.update(node)

    def _metric(self, node: int) -> int:
        return self.world.paths.hops(node, self.first_hop)

    def _to_source(self, node: int) -> int:
        return self.world.paths.next_link(node, self.first_hop)

    def _in(self, node: int) -> int:
        """The link that data must come in over."""
        if node == self.first_hop:
            return self.source_link
        up = self.at(node).up if self.at(node).is_made else self._to_source(node)
        return NOWHERE if up == NONE else self.world.back(up)
