"""mLDP point to multipoint (RFC 6388 section 2): label mappings from the leaves to the root.

The root is the source's first-hop router. Each router tells its next hop to the root one label;
a label that comes in says which tree, so no incoming interface is checked. Sessions and their
TCP acknowledgements are of the fabric and not counted. A changed next hop gets a mapping, the
old one a withdraw, where it can still be reached.
"""

from typing import ClassVar

from fanfold.trees.paths import NONE
from fanfold.trees.settings import LDP_BYTES
from fanfold.trees.tree import ANY, Entry, to_links
from fanfold.trees.world import Machine

MAPPING, WITHDRAW, RELEASE = "label mapping", "label withdraw", "label release"
LSP = "lsp"
FEC_BYTES = 17
LABEL_BYTES = 4


class _Router:
    """State of one router: downstream and member links, the upstream link that was mapped."""

    def __init__(self) -> None:
        self.outs: set[int] = set()
        self.up = NONE


class MldpP2mp(Machine):
    """One tree from the source's first-hop router."""

    keys: ClassVar[tuple[str, ...]] = (LSP,)

    @property
    def has_bypass(self) -> bool:
        """Labels stay what they are on a detour."""
        return self.settings.link_bypass or self.settings.node_bypass

    @property
    def has_node_bypass(self) -> bool:
        """Routers behind the neighbour have told their labels for it (RFC 7715 3)."""
        return self.settings.node_bypass

    def on_start(self) -> None:
        """No router knows the tree."""
        self.routers: dict[int, _Router] = {}

    def source_target(self) -> int:
        """Any first-hop router will do."""
        return NONE

    def member_target(self) -> int:
        """Members are near to the root."""
        return self.first_hop

    def on_member(self, node: int, out: int, *, is_joined: bool) -> None:
        """The first local member makes a leaf."""
        self._set(node, out, is_joined)

    def on_message(self, node: int, link: int, kind: str, sender: int, value: int) -> None:
        """Labels come from downstream; a withdraw is answered by a release."""
        del sender, value
        if kind == RELEASE:
            return
        out = self.world.back(link)
        if kind == WITHDRAW:
            self.world.send(out, RELEASE, LDP_BYTES)
        self._set(node, out, kind == MAPPING)

    def on_link_down(self, node: int, out: int) -> None:
        """The session over a dead link is gone, and its labels with it."""
        if node in self.routers:
            self.world.process(node, lambda: self._set(node, out, False))

    def on_paths(self, node: int) -> None:
        """Another next hop to the root gets a mapping (section 2.4.3)."""
        if node in self.routers:
            self.world.process(node, lambda: self._update(node))

    def state_bytes(self, entry: Entry) -> int:
        """FEC, own label and upstream neighbour; label and neighbour for each copy."""
        return FEC_BYTES + LABEL_BYTES + 4 + len(entry.outs) * (LABEL_BYTES + 4)

    def _set(self, node: int, out: int, is_in: bool) -> None:
        r = self.routers.setdefault(node, _Router())
        (r.outs.add if is_in else r.outs.discard)(out)
        self._update(node)

    def _update(self, node: int) -> None:
        r = self.routers[node]
        up = self.world.paths.next_link(node, self.first_hop) if r.outs else NONE
        if up != r.up:
            if up != NONE:
                self.world.send(up, MAPPING, LDP_BYTES)
            if r.up != NONE and self.world.is_up(r.up):
                self.world.send(r.up, WITHDRAW, LDP_BYTES)
            r.up = up
        self.world.install(node, LSP, Entry(ANY, to_links(r.outs)) if r.outs else None)
