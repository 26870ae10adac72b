"""mLDP multipoint to multipoint (RFC 6388 section 3): one tree for all who send and receive.

Everybody is a leaf, the source's first-hop router too. A downstream mapping goes toward the
root; each router answers it with an upstream mapping once it has one itself, or is the root.
Data goes up as far as the root and down every other branch on its way.
"""

from typing import ClassVar

from fanfold.trees.mldp_p2mp import FEC_BYTES, LABEL_BYTES
from fanfold.trees.paths import NONE
from fanfold.trees.settings import LDP_BYTES
from fanfold.trees.tree import ANY, Entry, to_links
from fanfold.trees.world import Machine

DOWN, UP = "downstream mapping", "upstream mapping"
WITHDRAW, RELEASE = "label withdraw", "label release"
LSP = "lsp"


class _Router:
    """State of one router.

    members, downs: links to them. up: where the downstream mapping went. has_up: an upstream
    label came back. told: downstream links that have one from here.
    """

    def __init__(self) -> None:
        self.members: set[int] = set()
        self.downs: set[int] = set()
        self.told: set[int] = set()
        self.up = NONE
        self.has_up = self.is_sender = False


class MldpMp2mp(Machine):
    """One tree with one root."""

    keys: ClassVar[tuple[str, ...]] = (LSP,)

    @property
    def has_bypass(self) -> bool:
        """Labels stay what they are on a detour."""
        return self.settings.link_bypass

    def on_start(self) -> None:
        """The source's router becomes a leaf."""
        self.routers: dict[int, _Router] = {}
        self.at(self.first_hop).is_sender = True
        self._update(self.first_hop)

    def at(self, node: int) -> _Router:
        """State of a router."""
        return self.routers.setdefault(node, _Router())

    def on_member(self, node: int, out: int, *, is_joined: bool) -> None:
        """The first local member makes a leaf."""
        members = self.at(node).members
        (members.add if is_joined else members.discard)(out)
        self._update(node)

    def on_message(self, node: int, link: int, kind: str, sender: int, value: int) -> None:
        """Downstream labels come from below, upstream ones from above."""
        del sender, value
        r, out = self.at(node), self.world.back(link)
        match kind:
            case "downstream mapping":
                r.downs.add(out)
            case "upstream mapping":
                r.has_up = out == r.up
            case "label withdraw":
                r.downs.discard(out)
                r.told.discard(out)
                self.world.send(out, RELEASE, LDP_BYTES)
            case _:
                return
        self._update(node)

    def on_link_down(self, node: int, out: int) -> None:
        """The session over a dead link is gone, and its labels with it."""
        r = self.at(node)
        for links in (r.members, r.downs, r.told):
            links.discard(out)
        r.has_up &= r.up != out
        self.world.process(node, lambda: self._update(node))

    def on_paths(self, node: int) -> None:
        """Another next hop to the root gets a mapping."""
        if node in self.routers:
            self.world.process(node, lambda: self._update(node))

    def state_bytes(self, entry: Entry) -> int:
        """A FEC, a label and a neighbour for each direction; the same two for each copy."""
        head = FEC_BYTES + LABEL_BYTES + 4
        return entry.n_entries * head + len(entry.outs) * (LABEL_BYTES + 4)

    def _update(self, node: int) -> None:
        r = self.at(node)
        is_used = bool(r.members or r.downs or r.is_sender)
        up = self.world.paths.next_link(node, self.centre) if is_used else NONE
        if up != r.up:
            if up != NONE:
                self.world.send(up, DOWN, LDP_BYTES)
            if r.up != NONE and self.world.is_up(r.up):
                self.world.send(r.up, WITHDRAW, LDP_BYTES)
            r.up, r.has_up = up, False
        if r.has_up or node == self.centre:
            for out in sorted(r.downs - r.told):
                self.world.send(out, UP, LDP_BYTES)
                r.told.add(out)
        outs = r.members | r.downs | ({r.up} if r.has_up else set())
        entry = Entry(ANY, to_links(outs), 1 + len(r.told)) if is_used else None
        self.world.install(node, LSP, entry)
