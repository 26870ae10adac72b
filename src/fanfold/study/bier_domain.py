"""A BIER domain in the slow plane of tree protocols: tables of unicast paths, no messages.

What it shares with the trees is what its forwarding follows: when a dead link is noticed, the
detour to the neighbour behind it (RFC 8279 section 6.5: as the unicast path to that neighbour),
and new paths later.
"""

from collections.abc import Sequence

from fanfold.trees.paths import NONE, Paths
from fanfold.trees.tree import ANY, Entry, Out
from fanfold.trees.world import Machine, World


class BierDomain(Machine):
    """One source; receivers as the packet names them."""

    def __init__(self, world: World, source: int, receivers: Sequence[int]) -> None:
        super().__init__(world, source, NONE)
        self.receivers = receivers
        near = self.first_hop
        self._links = {host: world.paths.attach(host, near) for host in receivers}
        self._paths: Paths | None = None
        self._entries: dict[int, Entry] = {}

    def source_target(self) -> int:
        """Any router will do."""
        return NONE

    def find(self, table: dict[str, Entry], node: int, in_link: int) -> Entry | None:
        """A copy to each neighbour that receivers of the packet are behind."""
        del table, in_link
        if self._paths is not self.world.paths:
            self._paths, self._entries = self.world.paths, self._by_router()
        return self._entries.get(node)

    def _by_router(self) -> dict[int, Entry]:
        world, net = self.world, self.world.net
        outs: dict[int, set[int]] = {}
        for link in self._links.values():
            router, last = world.end(link), world.back(link)
            path = world.paths.path(self.first_hop, router)
            if path or router == self.first_hop:
                for way in (*path, last):
                    outs.setdefault(int(net.src[way]), set()).add(way)
        return {
            node: Entry(ANY, tuple(self._out(link) for link in sorted(links)))
            for node, links in outs.items()
        }

    def _out(self, link: int) -> Out:
        return Out((link,), is_tunnel=self.world.end(link) >= self.world.net.n_hosts)
