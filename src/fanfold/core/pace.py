"""How fast one lane sends: a window set by folded feedback, spread out by token pacing.

Signals, worst branch first: receive-queue fill and lost-by-overflow marks of BFRs and
receivers (``queue``), room left in receivers (``room``), and growth of the round trip. Random
loss without pressure is repaired but does not slow the lane; heavy loss does. A share that a
queue drops limits the rate (core/limit.py). Integers only.
"""

from fanfold.core.limit import DOUBT_PER_MILLE, START_BPS, Limit
from fanfold.units import PS_PER_SECOND

START_BLOCKS = 2
MAX_BLOCKS = 48
CALM = 90
"""Pressure (0..255) below which the window grows."""
HIGH = 150
"""Pressure from which it shrinks."""
FULL = 255
"""Pressure of a queue that overflowed."""
HEAVY_LOSS_PER_MILLE = 300
LOSS_FLOOR = 4
"""Blocks below which loss and silence cut no window: only a full queue asks for less."""
CREEP = 16
MANY = 9
"""Round trips of which the median is known."""
FEW = 4
QUEUEING, QUEUEING_PS = 6, 20_000_000_000
"""A queue grows from so many times the shortest round trip on, and so much."""
OUTLIER = 4
"""Times the round trip that no word takes over a way that is whole."""
REST_PS = 700_000_000_000
MIN_RTT_PS = 200_000_000
MAX_WAIT_PS = 1_200_000_000_000


class Pace:
    """Window and rate of one lane.

    block_bytes: payload of a full block. cap_bps: rate asked for by hand, 0 = none.
    """

    def __init__(self, block_bytes: int, cap_bps: int) -> None:
        self.block_bytes = block_bytes
        self.cap_bps = cap_bps
        self.window_bytes = START_BLOCKS * block_bytes
        self.flying_bytes = 0
        self.srtt_ps = 0
        self.full_bytes = 0
        """Window with which a queue overflowed last: near it the next one grows slowly."""
        self.min_rtt_ps = 0
        self.worst_ps = 0
        """Longest round trip lately: behind a queue that fills it runs ahead of ``srtt_ps``."""
        self.usual_ps = 0
        """Median of the last round trips: lost and repeated words make some of them longer."""
        self._recent: list[int] = []
        self._is_known = False  # by a word that no slot held
        self.is_starting = True
        self.is_blind = False
        """The way is broken and being mended: what is lost or late says nothing of its rate."""
        self.n_cuts = 0
        self._cut_until_ps = 0
        self.limit = Limit(0, DOUBT_PER_MILLE) if cap_bps else Limit(START_BPS)
        self._limited_ps = 0  # when a full queue set it

    def can_send(self) -> bool:
        """Room in the window for one more block; one may always be under way."""
        return self.flying_bytes + self.block_bytes <= max(self.window_bytes, self.block_bytes)

    def on_sent(self, n_bytes: int) -> None:
        """So much more, or less, is under way."""
        self.flying_bytes = max(self.flying_bytes + n_bytes, 0)

    def on_gone(self, n_bytes: int) -> None:
        """A block is no longer waited for."""
        self.flying_bytes = max(self.flying_bytes - n_bytes, 0)

    def on_done(self, now_ps: int, pressure: int, n_bytes: int) -> None:
        """A block came through."""
        if self.on_pressure(now_ps, pressure):
            return
        if pressure >= CALM or self._is_queueing():
            self.is_starting = False
            return
        if self.flying_bytes + 2 * n_bytes < self.window_bytes:
            return  # the window is not what limits this lane
        is_doubling = self.is_starting or self._is_far_below()
        gain = n_bytes if is_doubling else n_bytes * n_bytes // self.window_bytes
        if self.window_bytes + gain > self.full_bytes - self.full_bytes // 8:
            gain = gain if self.window_bytes >= self.full_bytes else gain // CREEP
        self.window_bytes = min(self.window_bytes + gain, MAX_BLOCKS * self.block_bytes)

    def on_pressure(self, now_ps: int, pressure: int) -> bool:
        """Word of how full the fullest queue on the way is; True when that is too full."""
        if pressure < HIGH:
            return False
        before = self.window_bytes
        self._cut(now_ps, 2 if pressure == FULL else 1, 1)
        if pressure == FULL and self.window_bytes < before:
            self.full_bytes = before
        return True

    def is_rested(self, now_ps: int) -> bool:
        """The last limit was set so long ago that what it does is seen, also behind a queue."""
        return now_ps - self._limited_ps >= REST_PS

    def can_slow(self) -> bool:
        """The window is not as small as it gets."""
        return self.window_bytes > self.block_bytes

    def on_rtt(self, rtt_ps: int, *, is_held: bool = False) -> None:
        """Word came this long after the last packet of its round left.

        is_held: a slot waited for others until its deadline. That counts while nothing better
        is known: in a wide network it is all that there is.
        """
        if is_held and self._is_known:
            return
        if self.is_blind and self.srtt_ps and rtt_ps > OUTLIER * self.srtt_ps:
            return
        if not is_held and not self._is_known:
            self._is_known, self.srtt_ps, self._recent = True, 0, []
        self.min_rtt_ps = min(self.min_rtt_ps or rtt_ps, rtt_ps)
        self.worst_ps = max(min(rtt_ps, MAX_WAIT_PS), self.worst_ps - self.worst_ps // 8)
        self.srtt_ps += (rtt_ps - self.srtt_ps) // 8 if self.srtt_ps else rtt_ps
        self._recent = [*self._recent[1 - MANY :], rtt_ps]
        self.usual_ps = sorted(self._recent)[len(self._recent) // 2]

    def known_ps(self) -> int:
        """Round trip, 0 while all that is known of it are words that a slot held."""
        return self.srtt_ps if self._is_known else 0

    def begin(self, now_ps: int, other: "Pace", limit_bps: int, lost: int = 0) -> None:
        """For those who were slow in another lane: one block, and no second one soon.

        lost: per mille that they lost there, 0: that is not why.
        """
        self.limit.set(now_ps, limit_bps)
        self.limit.is_vain = False
        if lost and limit_bps:
            self.limit.try_out(now_ps, limit_bps, other.limit.bps, lost)
        self.window_bytes, self.full_bytes = self.block_bytes, 2 * self.block_bytes
        self.is_starting = False
        if self.srtt_ps == 0:
            self.srtt_ps, self.min_rtt_ps = other.srtt_ps, other.min_rtt_ps
            self.worst_ps, self.usual_ps = other.worst_ps, other.usual_ps

    def on_loss(
        self, now_ps: int, per_mille: int, queued_ps: int, *, is_full: bool = False
    ) -> None:
        """A block needed repair for this share of its packets, worst receiver.

        queued_ps: when they were queued. What was paced before a limit was set says nothing of
        it. is_full: a queue on the way says that it dropped. A window of one block is as small
        as it gets: if that overflows a queue, it is to leave more slowly.
        """
        is_too_fast = is_full and not self.can_slow()
        if self.is_blind:
            return
        heavy = HEAVY_LOSS_PER_MILLE + 2 * self.limit.always  # worst of many, by chance
        if per_mille < heavy and not is_too_fast:
            return
        self._cut(now_ps, 1, LOSS_FLOOR)
        if is_too_fast and queued_ps >= self._limited_ps:
            self._limited_ps = now_ps
            self.limit.set(now_ps, self.rate_bps() * (1000 - min(per_mille, 900)) // 1000)

    def on_share(
        self, now_ps: int, per_mille: int, went_bps: int, queued_ps: int, n_pkts: int = 0
    ) -> bool:
        """Most lost so much of a job of so many packets, see ``Limit``; True: it is cut."""
        if self.is_blind:
            return False
        way_ps = self.worst_ps
        return self.limit.on_share(now_ps, per_mille, went_bps, queued_ps, way_ps, n_pkts)

    def on_silence(self, now_ps: int) -> None:
        """Nothing was heard for a whole timeout: on a long way that is no sign at the start."""
        is_long = self.is_starting and not self.srtt_ps
        self._cut(now_ps, 2, LOSS_FLOOR)
        self.is_starting = is_long

    def rate_bps(self) -> int:
        """Pacing rate: a little above window / round trip, so the window stays the limit."""
        rtt = max(self.srtt_ps, MIN_RTT_PS)
        rate = self.window_bytes * 8 * PS_PER_SECOND // rtt
        rate = rate * 2 if self.is_starting else rate * 5 // 4
        if self.limit.bps:
            rate = min(rate, self.limit.bps)
        return min(rate, self.cap_bps) if self.cap_bps else rate

    def timeout_ps(self, floor_ps: int, rounds: int) -> int:
        """How long to wait for word of a block before asking again: so many round trips."""
        return min(max(floor_ps, rounds * self.srtt_ps), MAX_WAIT_PS)

    def soon_ps(self, floor_ps: int, rounds: int) -> int:
        """How long to wait for word of a block before a question: so many usual round trips."""
        return min(max(floor_ps, rounds * self.usual_ps), MAX_WAIT_PS)

    def _is_far_below(self) -> bool:
        """The window gives less than half of the rate that is known to get through.

        A long way takes a window of many blocks: one more a round trip would take minutes.
        """
        if not self.limit.bps or self.limit.is_starting or not self.srtt_ps:
            return False
        return 2 * self.window_bytes * 8 * PS_PER_SECOND < self.limit.bps * self.srtt_ps

    def _is_queueing(self) -> bool:
        """All round trips lately were long: a queue keeps every word, a lost packet some."""
        least_ps = min(self._recent[-FEW:], default=self.srtt_ps)
        return min(self.srtt_ps, least_ps) > QUEUEING * self.min_rtt_ps + QUEUEING_PS

    def _cut(self, now_ps: int, strength: int, floor_blocks: int) -> None:
        self.is_starting = False
        floor = floor_blocks * self.block_bytes
        if now_ps < self._cut_until_ps or self.window_bytes <= floor:
            return
        self.n_cuts += 1
        self._cut_until_ps = now_ps + max(self.srtt_ps, 1_000_000_000)
        kept = self.window_bytes * (3 if strength == 1 else 2) // (4 if strength == 1 else 3)
        self.window_bytes = max(kept, floor)
