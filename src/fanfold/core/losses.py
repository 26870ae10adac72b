"""What share of the packets offered each receiver lacked lately: who is lossy, what passes."""

from math import isqrt

from fanfold.core.flight import Flight, Lane, members_of
from fanfold.core.gap_book import GapBook
from fanfold.core.pace import Pace
from fanfold.units import PS_PER_SECOND
from fanfold.wire.feedback import Feedback

MIN_SAMPLE = 16
"""Packets sent in one go from which the share that was lost means something."""
LOSSY_PER_MILLE = 380
"""A receiver that lacks this share of what is offered to all is lossy."""
PERIOD_PS = 250_000_000_000
RUN = 8
"""So many packets of a block, one behind the other and no others, are lost where a way breaks:
a queue that overflows lets some pass between them."""
LEFT = 3
"""A way that broke lets a third through at least; what lets less through is too slow."""
FEW = 8
"""One receiver, or an eighth of them, is slow; more than that lose packets together."""


class Losses:
    """Packets offered, and those that each receiver lacked of them, both decaying.

    A block counts when all it was sent to have told of its first sending.

    least: packets offered from which the shares mean something.
    """

    def __init__(self, least: int) -> None:
        self.least = least
        self.book = GapBook()
        self.offered = 0
        self.suspects = 0
        """Few, and they lack so much that they are lossy when the time comes to look."""
        self.immune = 0
        """A lower rate did not help them: they are lossy no more."""
        self._went_bps = 0
        self._lacked: dict[int, int] = {}
        self._void: dict[int, int] = {}  # of them, lost in one run
        self._looked_ps = 0
        self._start_ps = self._told_ps = 0
        """When the first of the packets offered was sent; when the last word of them came."""
        self._cut_ps = self._since_ps = 0  # the last cut; blocks sent before count no more

    def hear(self, now_ps: int, flight: Flight, feedback: Feedback) -> None:
        """Take in what is told of a first sending; no repairs are in that word."""
        if flight.is_repaired and feedback.round != flight.first_round:
            return
        new = feedback.heard & flight.sent_to & ~flight.spoke
        if not new or flight.first_ps > now_ps:
            return
        flight.spoke |= new
        for row in feedback.rows:
            flight.gaps[row.psn] = flight.gaps.get(row.psn, 0) | row.lacking & new
            for k in members_of(row.lacking & new):
                flight.lost[k] = flight.lost.get(k, 0) + 1

    def judge(self, now_ps: int, lane: Lane, flight: Flight, n_psn: int) -> bool:
        """Most have told of a block, or it came through: what they lost sets the lane's rate.

        Who loses much more than most of them, or tells of it late, sets no rate for the others.

        Returns:
            Whether it was judged now.
        """
        wanted = flight.sent_to & lane.members
        told = flight.spoke & wanted
        is_over = flight.need == 0 or told.bit_count() * 2 > wanted.bit_count()
        if flight.is_judged or not is_over or n_psn < MIN_SAMPLE:
            return False
        flight.is_judged = True
        rest = told & ~few(too_lossy(flight.lost, n_psn, told), told)
        lost = sum(n for k, n in flight.lost.items() if rest >> k & 1)
        share = lost * 1000 // (n_psn * max(rest.bit_count(), 1))
        is_cut = lane.pace.on_share(now_ps, share, flight.went_bps, flight.start_ps, n_psn)
        flight.is_calm = not is_cut
        self._cut_ps = now_ps if is_cut else self._cut_ps
        return True

    def count(self, now_ps: int, lane: Lane, flight: Flight, n_psn: int) -> None:
        """All have told of a block, or it came through: who lost how much of it."""
        is_over = flight.need == 0 or not flight.sent_to & lane.members & ~flight.spoke
        if flight.is_counted or not is_over or flight.start_ps < self._since_ps:
            return
        flight.is_counted = True
        self.book.add(flight.sent_to, flight.spoke, n_psn, flight.gaps)
        self._count(now_ps, lane, flight, flight.lost, n_psn, flight.gaps)

    def count_again(self, now_ps: int, lane: Lane, flight: Flight, feedback: Feedback) -> None:
        """A block was sent again, not too fast for most, and few still lack some of it."""
        late = few(flight.need & lane.members, lane.members)
        is_new = flight.is_repaired and flight.queued_ps >= self._since_ps
        if not late or not is_new or flight.need & ~feedback.heard:
            return
        n_psn = 0 if flight.lacked else feedback.n_psn  # offered once
        more: dict[int, int] = {}
        for k in members_of(late):
            lacks = sum(row.lacking >> k & 1 for row in feedback.rows)
            more[k] = max(lacks - flight.lacked.get(k, 0), 0)
            flight.lacked[k] = flight.lacked.get(k, 0) + more[k]
        if n_psn or any(more.values()):
            gaps = {row.psn: row.lacking for row in feedback.rows}
            self._count(now_ps, lane, flight, more, n_psn, gaps)

    def _count(
        self,
        now_ps: int,
        lane: Lane,
        flight: Flight,
        lost: dict[int, int],
        n_psn: int,
        gaps: dict[int, int],
    ) -> None:
        self._went_bps, self._told_ps = flight.went_bps, now_ps
        self._start_ps = (
            min(self._start_ps, flight.start_ps) if self.offered else flight.start_ps
        )
        self.offered += n_psn
        for k, n in lost.items():
            self._lacked[k] = self._lacked.get(k, 0) + n
            if n >= RUN and _is_run(gaps, k):
                self._void[k] = self._void.get(k, 0) + n
        is_told = self.offered >= self.least  # else nobody looks: they would wait for ever
        self.suspects = few(self.lossy(lane.members), lane.members) if is_told else 0

    def note(
        self,
        now_ps: int,
        pace: Pace,
        flight: Flight,
        gaps: dict[int, int],
        answers: bool,
        is_full: bool,
    ) -> None:
        """A sending of a block was lost in part, and the lane is slower.

        answers: the word is of the latest sending. is_full: a queue on the way says that it
            dropped. A full queue is longer than the round trips known, so words of it are of
            earlier sendings: they halve the rate at most, and not soon again.
        """
        if flight.n_sent >= MIN_SAMPLE:
            share = min(worst_of(gaps) * 1000 // flight.n_sent, 1000 if answers else 500)
            if answers or pace.is_rested(now_ps):
                pace.on_loss(now_ps, share, flight.queued_ps, is_full=is_full)

    def judge_repair(
        self, now_ps: int, lane: Lane, flight: Flight, gaps: dict[int, int], heard: int
    ) -> None:
        """What was sent again is lost in part, and nothing of it is on its way any more."""
        is_all = flight.is_repaired and not few(heard & lane.members, lane.members)
        if is_all and flight.n_sent >= 2 * MIN_SAMPLE and flight.share_of != flight.round:
            flight.share_of = flight.round
            share = flight.share(gaps, heard)
            n_pkts = flight.n_sent
            lane.pace.on_share(now_ps, share, flight.went_bps, flight.queued_ps, n_pkts)

    def is_due(self, now_ps: int) -> bool:
        """It is time to look who is lossy."""
        return now_ps - self._looked_ps >= PERIOD_PS and self.offered >= self.least

    def lossy(self, members: int) -> int:
        """Who of them lacked too much of what was offered, and twice as much as most.

        What all lose is no reason to send it to some of them a second time. Who lost whole runs
        of packets and little between them had a way that was broken: that is no rate.
        """
        lossy = too_lossy(self._lacked, self.offered, members) & ~self.immune
        broken = sum(1 << k for k in members_of(lossy) if self._was_broken(k))
        return lossy & ~broken

    def _was_broken(self, k: int) -> bool:
        void = self._void.get(k, 0)
        offered, lacked = self.offered - void, self._lacked[k] - void
        is_much = offered * LEFT >= self.offered
        return void > 0 and is_much and lacked * 1000 < offered * LOSSY_PER_MILLE

    def is_doubtful(self, lossy: int, members: int) -> bool:
        """Many lost so much, some of it at a rate that was cut since: that says little of them.

        Then only what is sent since that cut counts.
        """
        is_of_before = self._start_ps < self._cut_ps
        if not is_of_before or lossy.bit_count() * FEW <= max(members.bit_count(), FEW):
            return False
        self.offered, self._lacked, self._void, self._since_ps = 0, {}, {}, self._cut_ps
        return True

    def fade(self, now_ps: int) -> None:
        """Looked: half of it counts next time."""
        self._looked_ps = now_ps
        self._start_ps += (self._told_ps - self._start_ps) // 2
        self.offered //= 2
        self._lacked = {k: n // 2 for k, n in self._lacked.items() if n > 1}
        self._void = {k: n // 2 for k, n in self._void.items() if n > 1}
        self.suspects = 0

    def passed(self, mask: int, stride: int) -> tuple[int, int]:
        """What gets through to those of a lossy group, and per mille lost; 0: not lossy.

        stride: payload bytes of a packet. A queue takes what comes fast and lets it through
        later: no more gets through than came until it was told, and a quarter for the way.
        """
        worst = max(self._lacked.get(k, 0) for k in members_of(mask))
        lost = min(worst * 1000 // max(self.offered, 1), 950)
        if lost < LOSSY_PER_MILLE:
            return 0, 0
        came_bits = max(self.offered - worst, 1) * stride * 8
        came_bps = came_bits * PS_PER_SECOND // max(self._told_ps - self._start_ps, 1)
        return min(self._went_bps * (1000 - lost) // 1000, came_bps + came_bps // 4), lost


def _is_run(gaps: dict[int, int], k: int) -> bool:
    """The packets of a block that a receiver lacks stand one behind the other."""
    lacked = [psn for psn, bits in gaps.items() if bits >> k & 1]
    return bool(lacked) and max(lacked) - min(lacked) + 1 == len(lacked)


def few(mask: int, members: int) -> int:
    """The same where it is no more than half of the members, else nobody."""
    return mask if mask.bit_count() * 2 <= members.bit_count() else 0


def worst_of(gaps: dict[int, int]) -> int:
    """Packets that the worst receiver lacks: psn -> who lacks it."""
    lacked: dict[int, int] = {}
    for bits in gaps.values():
        for k in members_of(bits):
            lacked[k] = lacked.get(k, 0) + 1
    return max(lacked.values())


def too_lossy(lacked: dict[int, int], offered: int, members: int) -> int:
    """Who of ``members`` lacked LOSSY_PER_MILLE of ``offered``, and twice as much as most.

    And as much more as chance may add: two standard deviations of a half.
    """
    chance = 1000 * isqrt(offered)
    if not lacked or offered * LOSSY_PER_MILLE + chance > 1000 * max(lacked.values()):
        return 0
    each = sorted(lacked.get(k, 0) for k in members_of(members)) or [0]
    least = max(offered * LOSSY_PER_MILLE, 2000 * each[len(each) // 2]) + chance
    return sum(1 << k for k in members_of(members) if lacked.get(k, 0) * 1000 >= least)
