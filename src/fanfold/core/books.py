"""The books of a fan: who lacks which block, who goes in which lane, what leaves a lane.

BitStrings are Python integers, bit k = bit index k.
"""

from collections.abc import Sequence

from fanfold.core.flight import MAIN, Flight, Lane, Shape, members_of, rate_of
from fanfold.core.losses import Losses
from fanfold.core.pace import Pace
from fanfold.units import NEVER

LEAST_BLOCKS = 2
"""Blocks of which everybody told before anybody is lossy."""
MAX_SPLITS = 2
"""A receiver split off this often stays in its own lane even when it catches up."""
MAX_LANES = 5
"""The main one, one of the silent, and three for rates: each of these costs a copy."""


class Books:
    """What a sender knows of its receivers and lanes.

    Args:
        flow: flow id. shape: geometry. need: who lacks each block, one BitString for all when
            it has one entry. cap_bps: rate asked for by hand, 0 = none.
    """

    def __init__(self, flow: int, shape: Shape, need: Sequence[int], cap_bps: int) -> None:
        self.flow = flow
        self.shape = shape
        n = shape.n_blocks
        self.need = list(need) * n if len(need) == 1 else list(need)
        self.cap_bps = cap_bps
        self.everyone = 0
        for bits in self.need:
            self.everyone |= bits
        self.lanes = [Lane(self.everyone, Pace(shape.block_bytes, cap_bps), n)]
        everyone = members_of(self.everyone)
        self.n_lacking = {k: sum(b >> k & 1 for b in self.need) for k in everyone}
        """Blocks each receiver still lacks, by bit."""
        self._n_splits: dict[int, int] = {}
        self._losses = Losses(LEAST_BLOCKS * shape.n_psn)
        self._left = sum(1 for bits in self.need if bits)

    def is_done(self) -> bool:
        """Nobody lacks anything."""
        return self._left == 0

    def lacking(self) -> int:
        """Everyone who still lacks a block."""
        return sum(1 << k for k, n in self.n_lacking.items() if n)

    def lane_rate_bps(self, lane: int) -> int:
        """Pacing rate of a lane."""
        return rate_of(self.lanes, lane, self.cap_bps)

    def _clear(self, block: int, done: int) -> None:
        if not self.need[block] & done:
            return
        for k in members_of(self.need[block] & done):
            self.n_lacking[k] -= 1
        self.need[block] &= ~done
        if self.need[block] == 0:
            self._left -= 1

    def _leave_lanes(self, mask: int) -> int:
        """Take them out of their lanes; returns who was in one."""
        found = 0
        for lane in self.lanes:
            found |= lane.members & mask
            lane.members &= ~mask
            for block in [b for b, f in lane.flights.items() if f.need & mask]:
                self._reduce(lane, block, lane.flights[block], mask)
        return found

    def _reduce(self, lane: Lane, block: int, flight: Flight, mask: int) -> None:
        flight.need &= ~mask
        if flight.need == 0:
            lane.land(block)
        else:
            self._weigh(lane, block)

    def _to_own_lane(
        self,
        now_ps: int,
        mask: int,
        limit_bps: int = 0,
        lost: int = 0,
        *,
        is_silent: bool = False,
    ) -> Lane:
        """Those who are silent share a lane, and those who take about the same rate.

        lost: per mille, at the rate of the main lane.
        """
        others = self.lanes[1:]
        alike = [lane for lane in others if lane.is_alike(limit_bps, is_silent=is_silent)]
        free = [lane for lane in others if lane.members == 0 and not lane.flights]
        if alike or not (free or len(self.lanes) < MAX_LANES):
            lane = (alike or self.lanes)[-1]
            lane.members |= mask
            lane.miss(0)
            return lane
        if not free:
            free = [Lane(0, Pace(self.shape.block_bytes, self.cap_bps), self.shape.n_blocks)]
            self.lanes += free
        free[0].begin(mask, is_silent=is_silent)
        free[0].pace.begin(now_ps, self.lanes[MAIN].pace, limit_bps, lost)
        return free[0]

    def _weigh(self, lane: Lane, block: int) -> None:
        lane.weigh(block, self.shape)

    def _is_often_split(self, bit: int) -> bool:
        return self._n_splits.get(bit, 0) > MAX_SPLITS

    def _go_on_with_all(self, index: int, mask: int) -> None:
        """Members of another lane go on in the main one, with what is on its way to them."""
        main, parts = self.lanes[MAIN], self.lanes[index].parts(mask, index)
        self._leave_lanes(mask)
        main.members |= mask
        main.adopt(parts, self.shape)
        main.miss(next((b for b in range(main.cursor) if self.need[b] & mask), NEVER))

    def _rejoin(self) -> None:
        """A lane that caught up with the main one goes on in it."""
        main = self.lanes[MAIN]
        for index, lane in enumerate(self.lanes):
            if index and lane.members and lane.pace.limit.is_vain and not lane.is_silent:
                self._losses.immune |= lane.members
                self._go_on_with_all(index, lane.members)
        for lane in self.lanes[1:]:
            if lane.members == 0 or lane.flights or lane.missed < lane.end:
                continue
            if lane.cursor < main.cursor:
                continue
            is_often = any(self._is_often_split(k) for k in members_of(lane.members))
            if not is_often and main.cursor < main.end:
                main.members |= lane.members
                lane.members = 0
