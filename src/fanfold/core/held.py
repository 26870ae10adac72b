"""Who holds a lane back: the time a full window waits is charged to those it waits for."""

from fanfold.core.flight import Lane, members_of

PERIOD_PS = 1_000_000_000_000
SHARE_PER_MILLE = 400
"""A minority that holds a full window back for this share of a period gets its own lane."""
LIMIT_PS = PERIOD_PS * SHARE_PER_MILLE // 1000
REPAIRED_PS = 200_000_000_000
"""Repairs of one block that take this long hold a window back as well, whatever moves."""


class Held:
    """How long each receiver held the main lane back in this period."""

    def __init__(self) -> None:
        self._held_ps: dict[int, int] = {}
        self._period_ps = 0

    def charge(self, now_ps: int, passed_ps: int, lane: Lane, slack_ps: int) -> None:
        """Time passed: charge it to a minority that a full window waits for.

        slack_ps: waits this much longer than four round trips are no waits.
        """
        oldest = next(iter(lane.flights.values()), None)
        if oldest is None or lane.pace.can_send():
            return
        guard_ps = 4 * lane.pace.min_rtt_ps + slack_ps  # srtt grows with the slow one
        waits = now_ps - oldest.sent_ps > guard_ps
        is_repaired = oldest.round > oldest.tries  # not only asked about
        waits |= is_repaired and now_ps - oldest.first_ps > REPAIRED_PS
        n_late = oldest.need.bit_count()
        if waits and n_late * 2 <= lane.members.bit_count():
            for k in members_of(oldest.need):
                self._held_ps[k] = self._held_ps.get(k, 0) + passed_ps // n_late

    def late(self, now_ps: int, members: int) -> int:
        """Those of ``members`` who held the others back too long; then all is forgotten."""
        late = sum(1 << k for k, held in self._held_ps.items() if held >= LIMIT_PS) & members
        if late or now_ps - self._period_ps >= PERIOD_PS:
            self._held_ps, self._period_ps = {}, now_ps
        return late
