"""A list of receivers by number: as short as a few receivers need, a look-up for each of them.

Our own layout: ids of whole bytes, as many as the hosts of the net need, rising. A copy keeps
the ids behind its link.
"""

import numpy as np

from fanfold.encodings.encoder import I64, Copy, Encoder, Refusal, Turn
from fanfold.encodings.fixed_part import ID_LIST, body_of, put_fixed, with_body
from fanfold.encodings.ground import NO_LINK, Ground


class IdList(Encoder):
    """Ids are numbers of hosts."""

    def __init__(self, ground: Ground, limit_bits: int) -> None:
        super().__init__(ground, limit_bits)
        self.id_bytes = max(1, -(-(ground.net.n_hosts - 1).bit_length() // 8))

    def encode(self, source: int, members: I64) -> list[Copy]:
        """As many ids in a packet as the limit allows."""
        n = self.limit_bits // (8 * self.id_bytes)
        if n == 0:
            raise Refusal(f"an id of {8 * self.id_bytes} bits; switches read {self.limit_bits}")
        copies: list[Copy] = []
        for at in range(0, members.size, n):
            head = put_fixed(ID_LIST, source, self._bytes(members[at : at + n]))
            copies += self.forward(source, NO_LINK, head).copies
        return copies

    def forward(self, node: int, came: int, head: bytes) -> Turn:
        """Look up every id; one copy for each link, with the ids behind it."""
        del came
        hosts = self._hosts(head)
        links = self.ground.next_links(node, hosts)
        copies = [
            Copy(link, with_body(head, self._bytes(hosts[links == link])))
            for link in np.unique(links).tolist()
            if link != NO_LINK
        ]
        return Turn(copies, int(hosts.size))

    def is_for(self, host: int, head: bytes) -> bool:
        """Only the host's own id is left."""
        ids: list[int] = self._hosts(head).tolist()
        return ids == [host]

    def entries(self, router: int) -> int:
        """A row for each host."""
        del router
        return self.ground.net.n_hosts

    def entry_bytes(self, router: int) -> int:
        """The port."""
        del router
        return 2

    def _bytes(self, hosts: I64) -> bytes:
        octets = hosts.astype(">u4").view(np.uint8).reshape(-1, 4)
        return octets[:, 4 - self.id_bytes :].tobytes()

    def _hosts(self, head: bytes) -> I64:
        body = np.frombuffer(body_of(ID_LIST, head), np.uint8).reshape(-1, self.id_bytes)
        weight = 256 ** np.arange(self.id_bytes - 1, -1, -1, dtype=np.int64)
        found: I64 = body.astype(np.int64) @ weight
        return found
