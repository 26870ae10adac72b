"""Bidirectional PIM (RFC 5015): designated forwarders by election, (*,G) state only.

On every link the router nearer to the rendezvous point is elected before there is any group: it
offers its metric three times and then says that it won; the other end falls silent at the first
better offer. Data goes up toward the rendezvous point by state of the fabric, not of a group,
and down wherever there were joins. A link has two ends, so a packet can only come from the
forwarder's side or from below it: no incoming interface is checked. Left out: backoff and pass.
"""

from collections.abc import Iterable
from functools import partial
from typing import ClassVar

from fanfold.trees.paths import FAR, NONE
from fanfold.trees.settings import JOIN_BYTES, JOIN_PERIOD_PS, OFFER_BYTES
from fanfold.trees.tree import ANY, Entry, Out, match, to_links
from fanfold.trees.world import Machine

JOIN, PRUNE, OFFER, WINNER = "join (*,G)", "prune (*,G)", "offer", "winner"
STAR = "*,G"


class _Router:
    """State of one router: oifs, where it joined; links on which another is forwarder."""

    def __init__(self) -> None:
        self.oifs: set[int] = set()
        self.up = NONE
        self.is_below: set[int] = set()
        self.elects: dict[int, int] = {}
        self.metric = FAR


class BidirPim(Machine):
    """One group with one rendezvous point, and any source."""

    keys: ClassVar[tuple[str, ...]] = (STAR,)
    keeps_steps: ClassVar[bool] = False

    def on_start(self) -> None:
        """Elect a forwarder on every link."""
        nodes = range(self.world.net.n_hosts, self.world.net.n_nodes)
        self.routers = {node: _Router() for node in nodes}
        for node in nodes:
            self.routers[node].metric = self.world.paths.hops(node, self.centre)
            for link in self.world.router_links(node):
                self._elect(node, link)

    def on_member(self, node: int, out: int, *, is_joined: bool) -> None:
        """A local member is an oif."""
        oifs = self.routers[node].oifs
        (oifs.add if is_joined else oifs.discard)(out)
        self.update(node)

    def on_message(self, node: int, link: int, kind: str, sender: int, value: int) -> None:
        """Joins and prunes from below, offers from the other end of a link."""
        r, out = self.routers[node], self.world.back(link)
        match kind:
            case "offer":
                if (value, -sender) < (r.metric, -node):
                    r.elects.pop(out, None)
                return
            case "winner":
                r.elects.pop(out, None)
                r.is_below.add(out)
            case _:
                (r.oifs.add if kind == JOIN else r.oifs.discard)(out)
        self.update(node)

    def on_link_down(self, node: int, out: int) -> None:
        """A dead interface is no oif and has no forwarder."""
        r = self.routers[node]
        r.oifs.discard(out)
        r.is_below.discard(out)
        r.elects.pop(out, None)
        self.world.process(node, lambda: self.update(node))

    def on_reroute(self) -> None:
        """Elect anew where the other end is nearer now; else the forwarder says its metric."""
        world, old = self.world, {node: r.metric for node, r in self.routers.items()}
        for node, r in self.routers.items():
            r.metric = world.paths.hops(node, self.centre)
        for node, r in self.routers.items():
            for link in world.router_links(node):
                other = world.end(link)
                was_below = (old[other], -other) < (old[node], -node)
                if was_below != ((self.routers[other].metric, -other) < (r.metric, -node)):
                    self._elect(node, link)
                elif not was_below and old[node] != r.metric < FAR:
                    world.send(link, WINNER, OFFER_BYTES, r.metric)
            if r.oifs:
                world.process(node, partial(self.update, node))

    def find(self, table: dict[str, Entry], node: int, in_link: int) -> Entry | None:
        """The group's entry, or up toward the rendezvous point."""
        up = self._to_rp(node)
        return match(table, self.keys, in_link) or (
            Entry(ANY, (Out((up,)),)) if up != NONE else None
        )

    def refresh(self) -> Iterable[tuple[int, int]]:
        """One Join/Prune of each router that joined."""
        n = sum(r.up != NONE for r in self.routers.values())
        return ((n, JOIN_PERIOD_PS),)

    def update(self, node: int) -> None:
        """Join and leave upstream, once a forwarder is known there; install (*,G)."""
        r = self.routers[node]
        up = self._to_rp(node) if r.oifs else NONE
        if up != r.up:
            if up != NONE:
                self.world.send(up, JOIN, JOIN_BYTES)
            if r.up != NONE and self.world.is_up(r.up):
                self.world.send(r.up, PRUNE, JOIN_BYTES)
            r.up = up
        outs = r.oifs | ({up} - {NONE})
        self.world.install(node, STAR, Entry(ANY, to_links(outs)) if r.oifs else None)

    def _elect(self, node: int, link: int) -> None:
        r = self.routers[node]
        if r.metric < FAR:
            r.elects[link] = 0
            self._offer(node, link)

    def _offer(self, node: int, link: int) -> None:
        """Offer until it was said often enough or a better one was heard."""
        r = self.routers[node]
        if link not in r.elects:
            return
        if r.elects[link] == self.settings.n_offers:
            del r.elects[link]
            r.is_below.discard(link)
            self.world.send(link, WINNER, OFFER_BYTES, r.metric)
            self.update(node)
            return
        r.elects[link] += 1
        self.world.send(link, OFFER, OFFER_BYTES, r.metric)
        self.world.after(self.settings.offer_ps, lambda: self._offer(node, link))

    def _to_rp(self, node: int) -> int:
        """The link toward the rendezvous point, where its other end is known to forward."""
        up = self.world.paths.next_link(node, self.centre)
        return up if up in self.routers[node].is_below else NONE
