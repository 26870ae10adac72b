"""What pushes over planes have to reach, from times of runs alone.

Seconds are those in which data goes; what one plane carries is what it did carry by itself.
"""

from typing import NamedTuple

PLANES = 4
ALL_TIMES, SLOW_TIMES, CUT_TIMES = 3.8, 3.3, 1.1


class Bar(NamedTuple):
    """what: in words. found, asked: numbers. holds: it was reached."""

    what: str
    found: float
    asked: float
    holds: bool


def bars(one_s: float, all_s: float, slow_s: float, cut: tuple[float, float]) -> list[Bar]:
    """Each bar with what was found.

    Args:
        one_s: by one plane. all_s: by all. slow_s: with one at half the rate. cut: with one
            cut, whole time, and when it was cut.
    """
    cut_s, at_s = cut
    most, slow, times = one_s / all_s, one_s / slow_s, cut_s / needed_s(one_s, at_s)
    return [
        Bar(f"{PLANES} planes by one", most, ALL_TIMES, most >= ALL_TIMES),
        Bar("one at half the rate, by one plane", slow, SLOW_TIMES, slow >= SLOW_TIMES),
        Bar("one cut, by what is left of the rate", times, CUT_TIMES, times <= CUT_TIMES),
    ]


def needed_s(one_s: float, at_s: float) -> float:
    """Seconds for all planes until one is cut, and for the others from then on."""
    left = 1 - PLANES * min(at_s, one_s / PLANES) / one_s
    return min(at_s, one_s / PLANES) + left * one_s / (PLANES - 1)
