"""Whether the way to most members of a lane is broken: blocks are out, and nothing comes back.

What was sent meanwhile is lost, or late, whatever its rate: it says nothing of a queue. The
oldest block is asked about again and again, so that the first packet that gets through ends the
silence (RFC 9002 6.2: probes); then all that was out is asked about at once.
"""

from fanfold.core.flight import Flight, Lane

MAX_PROBES = 8
"""In one silence; then blocks are asked about as always."""


class Outage:
    """When most members of a lane were heard last, and what it was asked since."""

    def __init__(self) -> None:
        self._heard_ps = self._probed_ps = 0
        self._fresh = self._n_probes = 0

    def hear(self, now_ps: int, heard: int, lane: Lane, long_ps: int) -> bool:
        """Word of some members; True: most of them have spoken again, after so long."""
        members = lane.members & ~lane.mute
        self._fresh |= heard & members
        if self._fresh.bit_count() * 2 <= members.bit_count():
            return False
        is_long = self.silent_ps(now_ps, lane, long_ps) >= long_ps
        self._heard_ps, self._fresh, self._n_probes = now_ps, 0, 0
        return is_long

    def silent_ps(self, now_ps: int, lane: Lane, long_ps: int) -> int:
        """How long blocks have been out and most said nothing; less than ``long_ps``: at most."""
        silent_ps = now_ps - self._heard_ps
        if silent_ps < long_ps:
            return silent_ps
        return min(silent_ps, now_ps - min((f.first_ps for f in _out(lane)), default=now_ps))

    def probe(self, now_ps: int, lane: Lane, long_ps: int, every_ps: int) -> int | None:
        """The block to ask about now, if any."""
        is_soon = now_ps - self._probed_ps < every_ps or self._n_probes >= MAX_PROBES
        if is_soon or self.silent_ps(now_ps, lane, long_ps) < long_ps:
            return None
        found = (b for b, f in lane.flights.items() if f.n_queued == 0 and not f.is_light)
        block = min(found, default=None)
        if block is not None:
            self._probed_ps, self._n_probes = now_ps, self._n_probes + 1
        return block


def _out(lane: Lane) -> list[Flight]:
    return [f for f in lane.flights.values() if f.n_queued == 0 and not f.is_light]
