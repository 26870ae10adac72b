"""Packets of one message, sent hop by hop and counted."""

from typing import NamedTuple

from fanfold.encodings.encoder import Copy, Encoder
from fanfold.encodings.ground import Ground
from fanfold.errors import MisuseError

MAX_COPIES = 2**23
"""Packets that switches may handle for one message; more is a loop."""


class Walk(NamedTuple):
    """What happened. arrivals: copies at each host that its header called a receiver.

    strays: copies at hosts whose header did not. Counts as in EncodingRow, of one segment.
    heads: (n, bytes) how many copies crossed a link with a header of that length.
    """

    arrivals: dict[int, int]
    strays: dict[int, int]
    heads: dict[int, int]
    n_visits: int
    n_lookups: int
    most_lookups: int

    @property
    def n_copies(self) -> int:
        """Packets over links."""
        return sum(self.heads.values())

    @property
    def header_bytes(self) -> int:
        """Of all headers on all links."""
        return sum(n_bytes * n for n_bytes, n in self.heads.items())


def walk(ground: Ground, encoder: Encoder, copies: list[Copy]) -> Walk:
    """Carry all copies to their ends.

    Raises:
        MisuseError: packets go in a circle; a bug of the encoding.
    """
    arrivals: dict[int, int] = {}
    strays: dict[int, int] = {}
    heads: dict[int, int] = {}
    n_visits = n_lookups = most_lookups = 0
    n_hosts, dst = ground.net.n_hosts, ground.dst
    waiting = list(copies)
    left = MAX_COPIES
    while waiting:
        link, head = waiting.pop()
        n_bytes = len(head) - encoder.free_bytes
        heads[n_bytes] = heads.get(n_bytes, 0) + 1
        node = dst[link]
        if node < n_hosts:
            met = arrivals if encoder.is_for(node, head) else strays
            met[node] = met.get(node, 0) + 1
            continue
        left -= 1
        if left < 0:
            raise MisuseError(f"walk: packets go in a circle at {ground.net.node_name(node)}")
        turn = encoder.forward(node, link, head)
        waiting += turn.copies
        n_visits += 1
        n_lookups += turn.n_lookups
        most_lookups = max(most_lookups, turn.n_lookups)
    return Walk(arrivals, strays, heads, n_visits, n_lookups, most_lookups)
