"""The rate that gets through: learnt from the share that a queue drops, tried again upward.

A queue that overflows drops a share of what comes, and lets its own rate through. A lane that
loses more than it always does sends what got through, a little less until the queue is empty,
and then, step by step, goes back toward the rate that was too high. What is lost whatever the
rate is no queue: that share is remembered, and cuts no rate. Integers only.
"""

from math import isqrt

from fanfold.units import PS_PER_SECOND

START_BPS = 160_000_000
"""First rate of a lane that nobody gave one; doubled with each block that comes through."""
SIGN_PER_MILLE = 50
"""A share lost so far above what is always lost is a sign of a queue that overflows."""
DOUBT_PER_MILLE = 500
"""The same where the rate was asked for by hand: it is doubted when half is lost."""
CHANCE = 3
"""Standard deviations of a share that are chance. Of few packets one block in a hundred loses
more: so it takes two in a row, or one that lost as much again."""
EASY = 16
"""What is always lost is unlearnt so slowly while a queue may drop some: a single block that
lost little says little."""
IN_VAIN = 3
"""Cuts, one after the other, that did not help: then it was no queue. A queue that was empty
takes much of the first block, and other lanes may fill it: one or two tell little."""
REST_PS = 20_000_000_000
"""What is queued so long after a cut, and a round trip, still finds the full queue."""
HOLD_PS, LEAST_HOLD_PS, MAX_HOLD_PS = 250_000_000_000, 60_000_000_000, 1_000_000_000_000
"""Between two steps: half as long after one that went well, twice after one too far."""
TRIAL_PS = 500_000_000_000
"""A queue that was full before a lane was split off has drained by then."""
MAX_DOUBLINGS = 4
"""Of a step beyond the rate that was too high once, one for each that went well."""
MIN_BPS = 1_000_000
MANY = 8
"""Blocks that came lately."""


class Limit:
    """Bits per second that a lane may send at most; ``bps`` 0 = no limit known.

    sign: per mille lost, above what is always lost, that tell of a queue.
    """

    def __init__(self, start_bps: int, sign: int = SIGN_PER_MILLE) -> None:
        self.bps, self._sign = start_bps, sign
        self.is_starting = start_bps > 0
        self.is_vain = self._is_trial = False
        """Cuts did not help: what is lost is lost whatever the rate."""
        self._set_ps = self._rested_ps = self._done_ps = 0
        self._passed_bps = self._high_bps = 0  # what got through, of what, at the last cut
        self.always = 0  # share lost whatever the rate, per mille
        self._n_cuts = 0  # since a block came through without a sign
        self._before = 0, 0  # limit and share at the first of these cuts
        self._n_calm = self._n_steps = 0
        self._is_odd = False  # the block before lost more than always
        self._hold_ps = HOLD_PS
        self._came_bytes = self._came_ps = 0  # blocks lately, and the time between them

    def set(self, now_ps: int, bps: int) -> None:
        """What gets through is known from elsewhere; 0 = nothing is known."""
        self.bps = max(bps, MIN_BPS) if bps else 0
        self.is_starting = False
        self._set_ps = self._rested_ps = now_ps
        self._passed_bps, self._high_bps = 0, 4 * self.bps
        self._n_calm = self._n_steps = 0

    def try_out(self, now_ps: int, bps: int, before_bps: int, per_mille: int) -> None:
        """A first cut from a rate that lost so much; the next looks tell whether it helped."""
        self.set(now_ps, bps)
        self._before, self._n_cuts, self._is_trial = (before_bps, per_mille), 1, True
        self._rested_ps = now_ps + TRIAL_PS

    def forget_before(self, when_ps: int) -> None:
        """What is queued until then says nothing of the rate: the way is broken."""
        self._rested_ps = max(self._rested_ps, when_ps)

    def on_share(
        self,
        now_ps: int,
        per_mille: int,
        went_bps: int,
        queued_ps: int,
        way_ps: int,
        n_pkts: int = 0,
    ) -> bool:
        """So much of a block was lost, which left at ``went_bps``; True when that cut the rate.

        queued_ps: when it was queued. What was before the last cut, or soon after, says nothing
        of it. way_ps: longest round trip lately. n_pkts: packets of which it is the share: of
        few it says little; 0: it is exact.
        """
        if queued_ps < self._rested_ps:
            return False
        has_helped = self._has_helped(per_mille, n_pkts)
        self._is_trial &= not has_helped
        sign = self._sign_of(n_pkts, self._sign)
        above = per_mille - self.always
        if above < sign and not self._is_trial:
            self._n_cuts, self._is_odd = 0, False
            self._learn(above)
            return False
        more = self._sign_of(n_pkts, SIGN_PER_MILLE)
        if above < sign + more and n_pkts and not self._is_odd and not self._is_trial:
            self._is_odd = True
            return False
        self._is_odd = False
        if self._n_cuts >= IN_VAIN and not has_helped:
            self.always, self._n_cuts, self.is_vain = per_mille, 0, True
            self._is_trial = False
            self.set(now_ps, self._before[0])
            self._high_bps = self.bps
            return False
        if self._n_cuts == 0 or has_helped:  # what is left is another matter
            self._before, self._n_cuts = (self.bps, per_mille), 0
        self._n_cuts += 1
        is_again = self._n_steps > 0
        passed_bps = went_bps * (1000 - per_mille) // (1000 - self.always)
        passed_bps = max(passed_bps, self._came_bps(now_ps))  # how fast one left is known badly
        self.set(now_ps, passed_bps - passed_bps // 8)
        self._rested_ps = now_ps + way_ps + REST_PS
        self._passed_bps, self._high_bps = passed_bps, went_bps
        self._hold_ps = min(2 * self._hold_ps, MAX_HOLD_PS) if is_again else HOLD_PS
        return True

    def _learn(self, above: int) -> None:
        """What is lost whatever the rate, of a block that lost so much more than was known."""
        if self._passed_bps > 0:  # a cut was, and no step since: no queue drops
            self.always += above // 2
        elif above < 0:
            self.always -= -above // EASY

    def on_done(self, now_ps: int, n_bytes: int, went_bps: int, queued_ps: int) -> None:
        """A block came through without a sign."""
        came_bps = n_bytes * 8 * PS_PER_SECOND // max(now_ps - self._done_ps, 1)
        if self._done_ps:
            self._came_bytes += n_bytes - self._came_bytes // MANY
            self._came_ps += now_ps - self._done_ps - self._came_ps // MANY
        self._done_ps = now_ps
        if self.bps == 0 or queued_ps < self._set_ps:
            return
        self._n_calm += 1
        if self.bps > 2 * went_bps:
            return  # something else is slower
        if self.is_starting:
            self.is_starting = 4 * came_bps >= 3 * went_bps or self._n_calm == 1
            self.bps += self.bps if self.is_starting else 0
        elif now_ps - self._set_ps >= self._hold_ps and self._is_used():
            self._step(now_ps)

    def _is_used(self) -> bool:
        """Four fifths of the rate came through lately: else it is not what limits the lane."""
        return self._came_ps == 0 or 5 * self.came_bps >= 4 * self.bps

    @property
    def came_bps(self) -> int:
        """What the last blocks came through at, until the last of them; 0: few came."""
        return self._came_bps(self._done_ps)

    def _came_bps(self, now_ps: int) -> int:
        """What comes through, of the last blocks and the time since; 0: few came."""
        if self._came_ps == 0:
            return 0
        return self._came_bytes * 8 * PS_PER_SECOND // (self._came_ps + now_ps - self._done_ps)

    def _step(self, now_ps: int) -> None:
        """What got through first; then as the root of the rate, so that shares even out."""
        small = isqrt(self.bps * MIN_BPS) // 4
        if self._passed_bps:
            self.bps = max(self._passed_bps - self._passed_bps // 32, self.bps)
        elif self.bps < self._high_bps:
            self.bps += max((self._high_bps - self.bps) // 4, small)
        else:
            self.bps += small << min(self._n_steps, MAX_DOUBLINGS)
        self._n_steps += 1
        self._n_calm, self._passed_bps, self._set_ps = 0, 0, now_ps
        self._hold_ps = max(self._hold_ps // 2, LEAST_HOLD_PS)

    def _sign_of(self, n_pkts: int, least: int) -> int:
        """What chance adds to what is always lost is no sign."""
        return max(least, CHANCE * spread_of(self.always, n_pkts))

    def _has_helped(self, per_mille: int, n_pkts: int) -> bool:
        """A quarter less is lost than at the first of the cuts, and more than by chance."""
        before = self._before[1]
        return per_mille < before - before // 4 - spread_of(before, n_pkts)


def spread_of(per_mille: int, n_pkts: int) -> int:
    """Standard deviation of a share of so many packets; 0: the share is exact."""
    return isqrt(per_mille * (1000 - per_mille) // n_pkts) if n_pkts else 0
