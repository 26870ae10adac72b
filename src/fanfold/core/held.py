"""Who holds a lane back: the time a full window waits is charged to those it waits for."""

from fanfold.core.flight import Lane, members_of

PERIOD_PS = 1_000_000_000_000
SHARE_PER_MILLE = 400
"""A minority that holds a full window back for this share of a period gets its own lane."""
LIMIT_PS = PERIOD_PS * SHARE_PER_MILLE // 1000
REPAIRED_PS = 200_000_000_000
"""Repairs of one block that take this long hold a window back as well, whatever moves."""
ALONE_PS = 3 * LIMIT_PS
"""Who holds it back for so long is slow, with however few blocks."""
IN_A_ROW = 3
"""Blocks, one after the other, that a slow receiver holds back. Where all lose packets, or wait
for a processor, some are last with every block, but each time others."""


class Held:
    """How long each receiver held the main lane back in this period."""

    def __init__(self) -> None:
        self._held_ps: dict[int, int] = {}
        self._period_ps = 0
        self._block = -1
        self._late = 0  # who the window waited for in this block
        self._in_a_row: dict[int, int] = {}
        self.full = 0
        """Whose way told of a queue that dropped, in this period."""

    def charge(self, now_ps: int, passed_ps: int, lane: Lane, slack_ps: int) -> None:
        """Time passed: charge it to a minority that a full window waits for.

        slack_ps: waits this much longer than four round trips are no waits.
        """
        block, oldest = next(iter(lane.flights.items()), (-1, None))
        if oldest is None or lane.pace.can_send():
            return
        guard_ps = 4 * lane.pace.min_rtt_ps + slack_ps  # srtt grows with the slow one
        waits = now_ps - oldest.sent_ps > guard_ps
        is_repaired = oldest.round > oldest.tries  # not only asked about
        waits |= is_repaired and now_ps - oldest.first_ps > REPAIRED_PS
        n_late = oldest.need.bit_count()
        if waits and n_late * 2 <= lane.members.bit_count():
            if block != self._block:
                self._block, kept = block, self._late
                self._in_a_row = {k: n for k, n in self._in_a_row.items() if kept >> k & 1}
                self._late = 0
            for k in members_of(oldest.need):
                self._held_ps[k] = self._held_ps.get(k, 0) + passed_ps // n_late
                if not self._late >> k & 1:
                    self._in_a_row[k] = self._in_a_row.get(k, 0) + 1
            self._late |= oldest.need

    def late(self, now_ps: int, members: int) -> int:
        """Those of ``members`` who held the others back too long; then all is forgotten."""
        is_narrow = self.full.bit_count() * 2 <= members.bit_count()  # not a queue of all
        late = 0
        for k, held_ps in self._held_ps.items():
            is_slow = self._in_a_row.get(k, 0) >= IN_A_ROW or held_ps >= ALONE_PS
            is_slow |= is_narrow and bool(self.full >> k & 1)
            late |= int(is_slow and held_ps >= LIMIT_PS) << k
        late &= members
        if late or now_ps - self._period_ps >= PERIOD_PS:
            kept = {k: ps for k, ps in self._held_ps.items() if self._late >> k & 1}
            self._held_ps, self._period_ps = {} if late else kept, now_ps
            self.full = 0
        return late
