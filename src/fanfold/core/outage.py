"""Whether the way to most members of a lane is broken: blocks are out, and nothing comes back.

What was sent meanwhile is lost, or late, whatever its rate: it says nothing of a queue. The
oldest block is asked about again and again, so that the first packet that gets through ends the
silence (RFC 9002 6.2: probes); then all that was out is asked about at once.
"""

from fanfold.core.flight import Flight, Lane
from fanfold.units import PS_PER_SECOND

MAX_PROBES = 8
"""In one silence; then blocks are asked about as always."""

MAX_AHEAD = 6
"""New blocks that leave beyond the window in one silence, no faster than blocks came lately: it
may be that a slot waits for a few who have died, and all others are well."""


class Outage:
    """When most members of a lane were heard last, and what it was asked since."""

    def __init__(self) -> None:
        self._heard_ps = self._probed_ps = 0
        self._fresh = self._n_probes = self._n_ahead = 0
        self._ahead_ps = 0

    def hear(self, now_ps: int, heard: int, lane: Lane, long_ps: int) -> int:
        """Word of some members; after what silence most who owe one have spoken again, or 0.

        long_ps: a silence is that long at least.
        """
        self._fresh |= heard & lane.members
        is_most = self._fresh.bit_count() * 2 > lane.members.bit_count()
        if not is_most and now_ps - self._heard_ps < long_ps:
            return 0
        if not self._has_most(lane):
            return 0
        waited_ps = self._waited_ps(now_ps, lane)
        self._begin(now_ps)
        return waited_ps if waited_ps >= long_ps else 0

    def _has_most(self, lane: Lane) -> bool:
        """Most of those who owe a word, or of all, have spoken."""
        if (self._fresh & lane.members).bit_count() * 2 > lane.members.bit_count():
            return True  # others are told of early, and owe none
        owing = 0
        for flight in _out(lane):
            owing |= flight.need & ~lane.mute
        wanted = owing or lane.members
        return (self._fresh & wanted).bit_count() * 2 > wanted.bit_count()

    def _begin(self, now_ps: int) -> None:
        self._heard_ps = now_ps
        self._fresh = self._n_probes = self._n_ahead = 0

    def _waited_ps(self, now_ps: int, lane: Lane) -> int:
        first_ps = min((f.first_ps for f in _out(lane)), default=now_ps)
        return now_ps - max(self._heard_ps, first_ps)

    def _is_silence(self, now_ps: int, lane: Lane, long_ps: int) -> bool:
        """Blocks have been out so long, and most who owe a word said nothing."""
        if now_ps - self._heard_ps < long_ps or self._waited_ps(now_ps, lane) < long_ps:
            return False
        if self._has_most(lane):
            self._begin(now_ps)
            return False
        return True

    def probe(self, now_ps: int, lane: Lane, long_ps: int, every_ps: int) -> int | None:
        """The block to ask about now, if any."""
        is_soon = now_ps - self._probed_ps < every_ps or self._n_probes >= MAX_PROBES
        if is_soon or not self._is_silence(now_ps, lane, long_ps):
            return None
        block = min((b for b, f in lane.flights.items() if _is_out(f)), default=None)
        if block is not None:
            self._probed_ps, self._n_probes = now_ps, self._n_probes + 1
        return block

    def may_go_on(self, now_ps: int, lane: Lane, soon_ps: int, n_bytes: int) -> bool:
        """Whether a new block of so many bytes may leave though the window is full.

        soon_ps: silence until then is none.
        """
        came_bps = lane.pace.limit.came_bps
        is_over = now_ps - self._heard_ps >= soon_ps and self._n_ahead < MAX_AHEAD
        if not is_over or came_bps == 0 or not lane.is_open() or self._has_most(lane):
            return False
        every_ps = n_bytes * 8 * PS_PER_SECOND // came_bps
        if now_ps < max(lane.left_ps(), self._ahead_ps) + every_ps:
            return False
        self._ahead_ps, self._n_ahead = now_ps, self._n_ahead + 1
        return True


def _out(lane: Lane) -> list[Flight]:
    return [flight for flight in lane.flights.values() if _is_out(flight)]


def _is_out(flight: Flight) -> bool:
    """All of it left, and others than the mute owe a word."""
    return flight.n_queued == 0 and not flight.is_light
