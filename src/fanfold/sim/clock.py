"""The clock that waits of live machines go by: as many times faster as a net is.

Waits of ``core/`` and of ranks suit software BFRs. On another net time is shown so much faster,
or slower where round trips are longer, that waits keep their proportion to a round trip.
"""

from typing import NamedTuple


class Clock(NamedTuple):
    """Shows ``fast / slow`` times the time that passes; one of the two is 1."""

    fast: int
    slow: int

    def shown(self, ps: int) -> int:
        """What it shows after a time."""
        return ps * self.fast // self.slow

    def passed(self, shown_ps: int) -> int:
        """How long it takes to show a time."""
        return shown_ps * self.slow // self.fast

    def shown_bps(self, bps: int) -> int:
        """A rate by this clock, 1 at least."""
        return max(bps * self.slow // self.fast, 1)

    def passed_bps(self, shown_bps: int) -> int:
        """A rate as it is, of one by this clock, 1 at least."""
        return max(shown_bps * self.fast // self.slow, 1)


def clock_for(live_ps: int, here_ps: int, most: int) -> Clock:
    """A clock that shows ``live_ps``, or a little less, when ``here_ps`` have passed.

    most: how much faster than time it may go.
    """
    if here_ps <= live_ps:
        return Clock(min(live_ps // max(here_ps, 1), most), 1)
    return Clock(1, -(-here_ps // live_ps))


def slower(a: Clock, b: Clock) -> Clock:
    """The one that goes slower."""
    return a if a.fast * b.slow <= b.fast * a.slow else b
