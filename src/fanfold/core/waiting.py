"""How long a sender waits: for words of a block, before it asks, before a fan is quiet."""

from collections.abc import Sequence

from fanfold.core.flight import MAIN, Lane, Shape
from fanfold.core.leaving import Leaving
from fanfold.core.outage import Outage
from fanfold.units import NEVER

WAIT_PS = 300_000_000_000
"""Shortest wait for word of a block: above the fold deadlines of a four-level fabric."""
WAY_PS = 100_000_000_000
"""Longest round trip while none is known."""
SOON_PS = 30_000_000_000
"""Shortest wait before whoever owes a word is asked, or two usual round trips."""
SLOTS_PS = 200_000_000_000
"""The same for a block that went to all, where the driver knows no better: above the deadline
of the first BFR's slot in a leaf-spine fabric, which tells who was heard. Asked sooner, all
would be asked for the one that lost."""
FEW_LEFT = 4
"""Blocks that are left at the end of a fan, of which all is asked as soon as can be."""
QUIET_PS = 60_000_000_000
"""A fan that has sent everything waits this long, and four round trips, before it is quiet."""
STALE_PS = 1_000_000_000_000
"""A word is no longer than this on its way, slots that wait for their deadlines included."""


class Waiting(Leaving):
    """The waits of a fan; arguments as Books has them."""

    def __init__(self, flow: int, shape: Shape, need: Sequence[int], cap_bps: int) -> None:
        super().__init__(flow, shape, need, cap_bps)
        self._outage = Outage()
        self.waits = WAIT_PS, 16  # at least; of the round trips seen, where that is longer
        self.quick = SOON_PS, 2  # the same, before a question is put
        self.slots_ps = SLOTS_PS  # before the first one about a block, and any in a slow lane
        self.rest_ps = STALE_PS
        """A receiver that forgot everything waits so long: until then words of it may be of
        before, and count for nothing."""

    def is_quiet(self, now_ps: int) -> bool:
        """All of it left long ago, and somebody lacks some: a packet or a word was lost."""
        if self._resting.mask:
            return False
        for lane in self.lanes:
            if now_ps - lane.left_ps() < max(QUIET_PS, 4 * lane.pace.srtt_ps):
                return False
            if lane.missed < lane.end and lane.members:
                return False
            if any(self.need[b] & lane.members for b in range(lane.cursor, lane.end)):
                return False
        return self._left > 0

    def _wait_ps(self, lane: Lane) -> int:
        """How long to wait for word before a question."""
        least_ps, rounds = self.quick
        if lane.pace.srtt_ps == 0:
            least_ps = max(least_ps, WAY_PS)
        if lane is not self.lanes[MAIN]:  # who is slow has a full queue before it
            least_ps = max(least_ps, self.slots_ps)
        return lane.pace.soon_ps(least_ps, rounds)

    def _is_last(self, lane: Lane) -> bool:
        """A lane has sent everything once, and all that is left are few blocks."""
        return lane.cursor >= lane.end <= lane.missed and len(lane.flights) <= FEW_LEFT

    def _way_ps(self, lane: Lane, known_ps: int) -> int:
        """Round trip for questions: behind the last block no other keeps them waiting."""
        return min(known_ps, lane.pace.min_rtt_ps) if self._is_last(lane) else known_ps

    def _long_ps(self, lane: Lane) -> int:
        """Silence of most members that is no delay; NEVER while no round trip is known."""
        return 2 * self._wait_ps(lane) if lane.pace.known_ps() else NEVER

    def _mute_ps(self, lane: Lane) -> int:
        """The same after which it is no slot either that waits for a few."""
        return max(self._long_ps(lane), self.slots_ps)

    def _may_send(self, now_ps: int, index: int, lane: Lane) -> bool:
        """The window has room, or most say nothing, and it may be for a few who have died."""
        if lane.may_send():
            return True
        n_bytes = self.shape.block_bytes
        is_known = index == MAIN and lane.pace.known_ps() > 0
        return is_known and self._outage.may_go_on(now_ps, lane, self._wait_ps(lane), n_bytes)
