"""What is on its way: a fan's geometry, one block in flight, one lane of receivers."""

from collections.abc import Sequence

from fanfold.core.pace import Pace
from fanfold.units import NEVER
from fanfold.wire.feedback import Feedback

MAIN = 0
"""The lane of all who keep pace."""


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
        "is_nudged",
        "is_told",
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
        self.is_nudged = False  # since its last question
        self.is_told = False  # by a slot that waited, and not for all
        self.repaired: dict[int, list[tuple[int, int]]] = {}
        """Latest round that each packet went to each receiver: psn -> (round, to whom)."""

    def is_due(self, now_ps: int) -> bool:
        """All of it left, and the wait for word of it is over."""
        return self.n_queued == 0 and now_ps - self.sent_ps >= self.wait_ps

    def hurry(self, now_ps: int, soon_ps: int) -> None:
        """A slot waited for words that did not come: who owes them is asked soon.

        Slots on other branches end about now; their words get so long.
        """
        waited_ps = 0 if self.n_queued else now_ps - self.sent_ps
        if waited_ps + soon_ps < self.wait_ps:
            self.is_told, self.wait_ps = True, waited_ps + soon_ps

    def note_repair(self, psn: int, to: int) -> None:
        """Remember who got a packet in this round; earlier rounds to them no longer count."""
        earlier = [(r, bits & ~to) for r, bits in self.repaired.get(psn, ()) if bits & ~to]
        self.repaired[psn] = [*earlier, (self.round, to)]

    def fresh_gaps(self, now_ps: int, feedback: Feedback, guard_ps: int) -> dict[int, int]:
        """Gaps not already repaired in a later round than the feedback knows.

        When the last repair left longer ago than the guard, a receiver that still knows no
        later round has lost it.
        """
        is_young = self.n_queued > 0 or now_ps - self.sent_ps < guard_ps
        gaps: dict[int, int] = {}
        for row in feedback.rows:
            bits = row.lacking & self.need
            for sent_round, sent_to in self.repaired.get(row.psn, ()):
                if sent_round > feedback.round and is_young:
                    bits &= ~sent_to
            if bits:
                gaps[row.psn] = bits
        return gaps


class Lane:
    """Receivers that go at one pace; blocks from ``cursor`` to ``end`` are still to be sent.

    What some missed of them is sent in one more pass when this one is over, from block
    ``missed`` on.
    """

    def __init__(self, members: int, pace: Pace, end: int) -> None:
        self.members = members
        self.pace = pace
        self.cursor = 0
        self.end = end
        self.flights: dict[int, Flight] = {}
        self.missed: int = NEVER
        self.is_silent = False  # they were split off for their silence

    def begin(self, members: int, limit_bps: int, *, is_silent: bool) -> None:
        """An empty lane takes receivers, from the first block on."""
        self.members, self.cursor, self.missed = members, 0, NEVER
        self.pace.limit_bps, self.is_silent = limit_bps, is_silent

    def miss(self, block: int) -> None:
        """A block that went by is wanted by somebody who got nothing of it."""
        self.missed = min(self.missed, block)

    def pass_again(self) -> bool:
        """Begin another pass when one is wanted."""
        if self.missed >= self.end:
            return False
        self.cursor, self.missed = self.missed, NEVER
        return True

    def left_ps(self) -> int:
        """When the last packet of what is in flight left; NEVER while some are queued."""
        left = (NEVER if f.n_queued else f.sent_ps for f in self.flights.values())
        return max(left, default=0)


def rate_of(lanes: Sequence[Lane], index: int, cap_bps: int) -> int:
    """Pacing rate of a lane: under a cap the main one has what the others leave.

    cap_bps: of all lanes together, 0 = none.
    """
    rate = lanes[index].pace.rate_bps()
    if not cap_bps:
        return rate
    busy = [each for each in lanes if any(f.n_queued for f in each.flights.values())]
    share = cap_bps // max(len(busy), 1)
    if index != MAIN:
        return min(rate, share)
    others = sum(min(each.pace.rate_bps(), share) for each in busy if each is not lanes[MAIN])
    return min(rate, max(cap_bps - others, share))


def members_of(bits: int) -> list[int]:
    """Bit indices set in a BitString, rising."""
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found
