"""What every encoding does: name receivers in bytes, and read those bytes at a switch.

``encode`` knows the receivers; ``forward`` sees a packet's header and its switch's own tables,
nothing else, and so would any switch.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.encodings.ground import Ground

I64 = NDArray[np.int64]
MAX_BITS = 4096
"""Bits that name receivers, where no limit is given: the longest BitString of RFC 8296."""


class Copy(NamedTuple):
    """A packet on a link; head is the whole header, fixed fields included."""

    link: int
    head: bytes


class Turn(NamedTuple):
    """What a switch does with a packet: its copies, and the table rows it read."""

    copies: list[Copy]
    n_lookups: int


class Refusal(Exception):  # noqa: N818 - it is an answer, not a fault
    """The encoding cannot name these receivers here; the text says why."""


class Encoder(ABC):
    """One encoding on one net.

    limit_bits: the most bits of a header that may name receivers; a receiver set beyond it is
    split over several packets, or refused. group_entries: rows in switches that encode() had
    to leave for the group, by node. free_bytes: of a head, that a unicast packet has as well.
    """

    free_bytes = 0

    def __init__(self, ground: Ground, limit_bits: int = MAX_BITS) -> None:
        self.ground = ground
        self.limit_bits = limit_bits
        self.group_entries: dict[int, int] = {}

    @abstractmethod
    def encode(self, source: int, members: I64) -> list[Copy]:
        """Packets that the source sends.

        Args:
            source: host; it imposes the header.
            members: (M,) hosts, rising, without the source.

        Raises:
            Refusal: it cannot be done here.
        """

    @abstractmethod
    def forward(self, node: int, came: int, head: bytes) -> Turn:
        """Copies that a switch makes of a packet that came over a link."""

    @abstractmethod
    def entries(self, router: int) -> int:
        """Rows that a switch keeps whatever groups there are."""

    @abstractmethod
    def entry_bytes(self, router: int) -> int:
        """Bytes of one such row."""

    def is_for(self, host: int, head: bytes) -> bool:
        """Whether the header tells the host that the packet is meant for it."""
        del host, head
        return True
