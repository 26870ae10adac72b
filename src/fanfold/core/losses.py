"""What share of the packets offered each receiver lacked lately: who is lossy, what passes."""

from fanfold.core.flight import Flight, members_of
from fanfold.core.pace import Pace

MIN_SAMPLE = 16
"""Packets sent in one go from which the share that was lost means something."""
LOSSY_PER_MILLE = 380
"""A receiver that lacks this share of what is offered to all is lossy."""
PERIOD_PS = 250_000_000_000


class Losses:
    """Packets offered, and those that each receiver lacked of them, both decaying.

    least: packets offered from which the shares mean something.
    """

    def __init__(self, least: int) -> None:
        self.least = least
        self.offered = 0
        self._lacked: dict[int, int] = {}
        self._looked_ps = 0

    def note(
        self,
        now_ps: int,
        pace: Pace,
        flight: Flight,
        gaps: dict[int, int],
        answers: bool,
        is_full: bool,
    ) -> None:
        """A sending of a block was lost in part: who lacks it, and the lane is slower.

        answers: the word is of the latest sending. is_full: a queue on the way says that it
            dropped. While its lane can still slow down, that is nobody's loss. A full queue is
            longer than the round trips known, so words of it are of earlier sendings: they
            halve the rate at most, and not soon again.
        """
        is_ours = is_full and pace.can_slow()
        most = self.lack(
            gaps, is_first=answers and flight.round == flight.first_round and not is_ours
        )
        if flight.n_sent >= MIN_SAMPLE:
            share = min(most * 1000 // flight.n_sent, 1000 if answers else 500)
            if answers or pace.is_rested(now_ps):
                pace.on_loss(now_ps, share, flight.queued_ps, is_full=is_full)

    def lack(self, gaps: dict[int, int], *, is_first: bool) -> int:
        """Packets that were lost, each with whom it did not reach.

        is_first: they had been sent for the first time; others count for nobody.

        Returns:
            How many the worst receiver lacked.
        """
        lacked: dict[int, int] = {}
        for bits in gaps.values():
            for k in members_of(bits):
                lacked[k] = lacked.get(k, 0) + 1
        for k, n in lacked.items() if is_first else ():
            self._lacked[k] = self._lacked.get(k, 0) + n
        return max(lacked.values())

    def is_due(self, now_ps: int) -> bool:
        """It is time to look who is lossy."""
        return now_ps - self._looked_ps >= PERIOD_PS and self.offered >= self.least

    def lossy(self, members: int) -> int:
        """Who of them lacked too much of what was offered, and twice as much as most.

        What all lose is no reason to send it to some of them a second time.
        """
        lacked = sorted(self._lacked.get(k, 0) for k in members_of(members)) or [0]
        least = max(self.offered * LOSSY_PER_MILLE, 2000 * lacked[len(lacked) // 2])
        return sum(
            1 << k for k in members_of(members) if self._lacked.get(k, 0) * 1000 >= least
        )

    def fade(self, now_ps: int) -> None:
        """Looked: half of it counts next time."""
        self._looked_ps = now_ps
        self.offered //= 2
        self._lacked = {k: n // 2 for k, n in self._lacked.items() if n > 1}

    def passed(self, mask: int, rate_bps: int) -> int:
        """What gets through of a rate to those of a lossy group; 0: they are not lossy."""
        worst = max(self._lacked.get(k, 0) for k in members_of(mask))
        lost = min(worst * 1000 // max(self.offered, 1), 900)
        return rate_bps * (1000 - lost) // 1000 if lost >= LOSSY_PER_MILLE else 0
