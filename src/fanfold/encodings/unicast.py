"""The baseline: one copy for each receiver, an address in each, no header besides."""

from fanfold.encodings.encoder import I64, Copy, Encoder, Turn
from fanfold.encodings.ground import NO_LINK

ADDRESS_BYTES = 4


class Unicast(Encoder):
    """The address stands in the IP header that every encoding has: it counts no bytes.

    The walk needs to see it all the same, so ``head`` holds it, and no count of headers does.
    """

    free_bytes = ADDRESS_BYTES

    def encode(self, source: int, members: I64) -> list[Copy]:
        """One packet for each member."""
        links = self.ground.next_links(source, members)
        return [
            Copy(link, host.to_bytes(ADDRESS_BYTES))
            for host, link in zip(members.tolist(), links.tolist(), strict=True)
        ]

    def forward(self, node: int, came: int, head: bytes) -> Turn:
        """One look at the route of the address."""
        del came
        link = self.ground.next_link(node, int.from_bytes(head))
        return Turn([Copy(link, head)] if link != NO_LINK else [], 1)

    def is_for(self, host: int, head: bytes) -> bool:
        """The address is the host's own."""
        return int.from_bytes(head) == host

    def entries(self, router: int) -> int:
        """One route for each host; what aggregation of prefixes saves is left out."""
        del router
        return self.ground.net.n_hosts

    def entry_bytes(self, router: int) -> int:
        """Address and port."""
        del router
        return ADDRESS_BYTES + 2
