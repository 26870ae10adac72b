"""Who leaves the common fan, and for what: rate, silence or death, never for random loss.

A minority that takes less than is sent gets a lane of its own rate, shared by all of about that
rate. Who says nothing, in spite of being asked, is set aside with all others who are silent,
and taken back in when it speaks; after a longer while it is given up. Who loses packets at any
rate stays: it is repaired where all are.

BitStrings are Python integers, bit k = bit index k.
"""

from collections.abc import Sequence

from fanfold.core.books import Books
from fanfold.core.effects import Effect, ReceiverLost, ReceiverSplit
from fanfold.core.flight import MAIN, Shape, members_of, owing
from fanfold.core.held import Held
from fanfold.core.signs import Resting, Returns, Signs

TICK_PS = 10_000_000_000
MANY_ASKS = 8
"""Questions about one block without an answer before anybody is silent: lost answers are no
silence. Half of them where it has been twice as long."""
SILENT_PS, SILENT_ROUNDS = 450_000_000_000, 4
"""Silence, in spite of being asked, after which a minority no longer holds the others back; so
many usual round trips where that is more: a machine that is busy is slow to answer."""
ASKS, FEW_ASKS = 4, 2
"""The same before a receiver is given up, and where it has been twice as long."""
LOST_PS, LOST_ROUNDS = 1_800_000_000_000, 16
"""Silence, in spite of being asked, after which a receiver is sent nothing more: it may join
again when it speaks again."""
STALL_PS = 20_000_000_000_000
"""Answers without one more finished block for this long: given up as well."""


class Leaving(Books):
    """The books of a fan, and who goes in which lane; arguments as Books has them."""

    def __init__(self, flow: int, shape: Shape, need: Sequence[int], cap_bps: int) -> None:
        super().__init__(flow, shape, need, cap_bps)
        self._signs = Signs()
        self._held = Held()
        self._returns = Returns()
        self._resting = Resting()
        self._tick_ps = 0

    def remove(self, mask: int) -> None:
        """Forget receivers: nothing is sent to them or waited for from them any more."""
        for block, need in enumerate(self.need):
            if need & mask:
                self._clear(block, need & mask)
        self._resting.forget(self._tick_ps, mask & self._leave_lanes(mask))

    def _give_up_silent(self, now_ps: int, out: list[Effect]) -> None:
        # Nobody is heard: a BFR, or a starved machine.
        is_deaf = self._signs.deaf_ps(now_ps) >= LOST_PS // 2
        lost_ps = max(LOST_PS, LOST_ROUNDS * self._usual_ps()) * (2 if is_deaf else 1)
        for n_asked, least_ps in ((ASKS, lost_ps), (FEW_ASKS, 2 * lost_ps)):
            owed = owing(now_ps, self.lanes, n_asked, STALL_PS)
            for k, since_ps in sorted(owed.items()):
                silent = self._signs.silent_ps(now_ps, k, since_ps)
                stalled = self._signs.stalled_ps(now_ps, k, since_ps)
                if silent >= least_ps:
                    self.remove(1 << k)
                    out.append(ReceiverLost(k, "silent", silent))
                elif stalled >= STALL_PS:
                    self.remove(1 << k)
                    out.append(ReceiverLost(k, "stalled", stalled))

    def _usual_ps(self) -> int:
        return self.lanes[MAIN].pace.usual_ps

    def _split_silent(self, now_ps: int, out: list[Effect]) -> bool:
        """The dead fill a window long before they are given up: the others go on at once."""
        main = self.lanes[MAIN]
        silent, silent_ps = 0, max(SILENT_PS, SILENT_ROUNDS * self._usual_ps())
        for n_asked, least_ps in ((MANY_ASKS, silent_ps), (MANY_ASKS // 2, 2 * silent_ps)):
            for k, since_ps in owing(now_ps, (main,), n_asked, STALL_PS).items():
                if self._signs.silent_ps(now_ps, k, since_ps) >= least_ps:
                    silent |= 1 << k
        if main.is_far_ahead():
            silent |= main.mute
        silent &= main.members
        if not silent or silent.bit_count() * 2 > main.members.bit_count():
            return False
        self._split(now_ps, silent, "silent", out)
        return True

    def _split_slow(self, now_ps: int, passed_ps: int, out: list[Effect]) -> None:
        """Charge the time a full window waits to those it waits for; split who pays most."""
        lane = self.lanes[MAIN]
        n_members = lane.members.bit_count()
        if n_members < 2:
            return
        self._held.charge(now_ps, passed_ps, lane, 2 * TICK_PS)
        late = self._held.late(now_ps, lane.members)
        until_ps = now_ps - lane.pace.worst_ps
        late = sum(1 << k for k in members_of(late) if lane.is_behind(k, self.shape, until_ps))
        if late and late.bit_count() * 2 <= n_members:
            self._split(now_ps, late, "late", out)

    def _judge_silent(self, now_ps: int, index: int) -> None:
        """Who was only silent for a while gets what it missed with all; who is slow, alone."""
        lane = self.lanes[index]
        back, slow = self._returns.judge(now_ps, lane, self._signs, self._held.full)
        for k in members_of(slow):
            parts = lane.parts(1 << k, index)
            self._leave_lanes(1 << k)
            limit_bps = lane.pace.limit.bps
            self._to_own_lane(now_ps, 1 << k, limit_bps).adopt(parts, self.shape)
        if back:
            self._go_on_with_all(index, back)

    def _split_lossy(self, now_ps: int, out: list[Effect]) -> None:
        if not self._losses.is_due(now_ps):
            return
        lossy = self._losses.lossy(members := self.lanes[MAIN].members)
        is_few = 0 < lossy.bit_count() * 2 <= members.bit_count()
        if is_few and not self._losses.is_doubtful(lossy, members):
            self._split(now_ps, lossy, "lossy", out)
        self._losses.fade(now_ps)

    def _split(self, now_ps: int, mask: int, reason: str, out: list[Effect]) -> None:
        main = self.lanes[MAIN]
        parts = main.parts(mask, MAIN)
        self._leave_lanes(mask)
        is_silent = reason == "silent"
        for k in members_of(0 if is_silent else mask):
            self._n_splits[k] = self._n_splits.get(k, 0) + 1
        limit_bps, lost = self._losses.passed(mask, self.shape.stride)
        limit_bps = limit_bps or main.pace.limit.bps
        lane = self._to_own_lane(now_ps, mask, limit_bps, lost, is_silent=is_silent)
        lane.adopt(parts, self.shape)
        out.extend(ReceiverSplit(k, reason) for k in members_of(mask))
