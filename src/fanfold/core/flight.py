"""What is on its way: a fan's geometry, one block in flight, one lane of receivers."""

from fanfold.core.pace import Pace
from fanfold.units import NEVER


class Shape:
    """Geometry of a fan: blocks 0..n_blocks-1 of n_psn packets, the last may be shorter."""

    def __init__(self, n_bytes: int, stride: int, n_psn: int) -> None:
        self.n_bytes, self.stride, self.n_psn = n_bytes, stride, n_psn
        self.block_bytes = stride * n_psn
        self.n_blocks = -(-n_bytes // self.block_bytes)
        last_bytes = n_bytes - (self.n_blocks - 1) * self.block_bytes
        self.last_n_psn = -(-last_bytes // stride)
        self.last_bytes = last_bytes

    def psns(self, block: int) -> int:
        """Packets of a block."""
        return self.last_n_psn if block == self.n_blocks - 1 else self.n_psn

    def bytes(self, block: int) -> int:
        """Payload bytes of a block."""
        return self.last_bytes if block == self.n_blocks - 1 else self.block_bytes


class Flight:
    """One block on its way to those in ``need``."""

    __slots__ = (
        "clean",
        "first_ps",
        "n_queued",
        "n_sent",
        "need",
        "queued_ps",
        "repaired",
        "round",
        "sent_ps",
        "tries",
        "wait_ps",
    )

    def __init__(self, now_ps: int, need: int, wait_ps: int) -> None:
        self.need = need
        self.first_ps: int = NEVER  # when all of it had left once
        self.queued_ps = now_ps  # when its latest job was queued
        self.sent_ps = now_ps  # when its last packet left
        self.wait_ps = wait_ps
        self.n_queued = 0  # jobs that have not left
        self.n_sent = 0  # packets of its latest job
        self.round = 0
        self.tries = 0
        self.clean = True
        self.repaired: dict[int, list[tuple[int, int]]] = {}
        """Latest round that each packet went to each receiver: psn -> (round, to whom)."""

    def is_due(self, now_ps: int) -> bool:
        """All of it left, and the wait for word of it is over."""
        return self.n_queued == 0 and now_ps - self.sent_ps >= self.wait_ps


class Lane:
    """Receivers that go at one pace; blocks from ``cursor`` to ``end`` are still to be sent."""

    def __init__(self, members: int, pace: Pace, end: int) -> None:
        self.members = members
        self.pace = pace
        self.cursor = 0
        self.end = end
        self.flights: dict[int, Flight] = {}


class Lives:
    """Receivers that joined again, whose words from before may still be on the way."""

    def __init__(self) -> None:
        self._again: dict[int, tuple[int, int]] = {}

    def begin(self, bit: int, until_ps: int, cursor: int) -> None:
        """Doubt a receiver's word on blocks before ``cursor`` until then."""
        self._again[bit] = (until_ps, cursor)

    def trusted(self, now_ps: int, block: int, heard: int) -> int:
        """Those of ``heard`` whose word on a block is of this life."""
        for k, (until_ps, cursor) in self._again.items():
            if now_ps < until_ps and block < cursor:
                heard &= ~(1 << k)
        return heard


def members_of(bits: int) -> list[int]:
    """Bit indices set in a BitString, rising."""
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found
