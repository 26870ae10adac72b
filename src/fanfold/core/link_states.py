"""What all nodes say of their links, and what follows: docs/wire/link.md section 4.

Nodes are numbers, by their place in the fabric file; port p of a node leads to the neighbour at
index p - 1 of its list.
"""

from collections.abc import Iterator, Sequence
from enum import Enum, auto
from hashlib import blake2b

from fanfold.wire.notice import Notice, encode

DIGEST_BYTES = 8
TOP = 1 << 63

LinkSet = frozenset[tuple[int, int]]
"""Links, each as its two nodes, the lesser number first."""


class News(Enum):
    """What a NOTICE is to a node that has some already."""

    NEWER = auto()
    KNOWN = auto()
    OLDER = auto()
    OWN = auto()
    """Of an earlier life of this node, or nobody's."""


class LinkStates:
    """The latest NOTICE of each origin.

    Args:
        fabric: its digest. own: this node. near: neighbours of each node, by port.
    """

    def __init__(self, fabric: int, own: int, near: Sequence[Sequence[int]]) -> None:
        self.fabric, self.own, self.near = fabric, own, near
        self.digest = 0
        self._kept: dict[int, Notice] = {}
        self._found: LinkSet = frozenset()
        self._found_of: tuple[int, int] | None = None

    def is_sound(self, notice: Notice) -> bool:
        """Its origin is a node of this fabric with so many ports."""
        is_node = notice.fabric == self.fabric and notice.origin < len(self.near)
        return is_node and notice.n_ports == len(self.near[notice.origin])

    def tell(self, down: int) -> Notice:
        """What this node says from now on: the neighbours at these ports are lost."""
        seq = self._kept[self.own].seq + 1 if self.own in self._kept else 1
        n_ports = len(self.near[self.own])
        notice = Notice(self.fabric, self.own, n_ports, min(seq, TOP - 1), down)
        self._keep(notice)
        return notice

    def take(self, notice: Notice) -> News:
        """Keep a sound NOTICE where it is newer."""
        known = self._kept.get(notice.origin)
        if known == notice:
            return News.KNOWN
        if known is not None and notice.seq < known.seq:
            return News.OLDER
        if notice.origin == self.own:
            self._keep(notice)  # the next one of this node is above it
            return News.OWN
        if known is not None and notice.seq == known.seq:
            return News.KNOWN
        self._keep(notice)
        return News.NEWER

    def knows(self, notice: Notice) -> bool:
        """It is kept already: taking it would change nothing."""
        return self._kept.get(notice.origin) == notice

    def kept(self) -> Iterator[Notice]:
        """One of each origin that ever said something."""
        return iter(self._kept.values())

    def kept_of(self, origin: int) -> Notice:
        """The latest of one that did."""
        return self._kept[origin]

    def failed(self, own_down: int) -> LinkSet:
        """Links of which one end says that they are down; this node says ``own_down``."""
        if self._found_of != (own_down, self.digest):
            self._found_of = own_down, self.digest
            self._found = self._find(own_down)
        return self._found

    def _find(self, own_down: int) -> LinkSet:
        said = {notice.origin: notice.down for notice in self._kept.values()}
        said[self.own] = own_down
        found = set()
        for origin, down in said.items():
            for k, nbr in enumerate(self.near[origin] if down else ()):
                if down >> k & 1:
                    found.add((min(origin, nbr), max(origin, nbr)))
        return frozenset(found)

    def _keep(self, notice: Notice) -> None:
        known = self._kept.get(notice.origin)
        gone = _hash(known) if known is not None else 0
        self.digest = (self.digest - gone + _hash(notice)) % (1 << 8 * DIGEST_BYTES)
        self._kept[notice.origin] = notice


def _hash(notice: Notice) -> int:
    """Eight octets of BLAKE2b over the message from its origin on."""
    octets = encode(notice)[8:]
    return int.from_bytes(blake2b(octets, digest_size=DIGEST_BYTES).digest(), "big")
