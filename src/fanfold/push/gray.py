"""Which directions of links lose or damage packets, from numbers alone: no clock, no socket.

Of each direction it is known how many packets went, how many of them came and how many of
those were damaged. A direction is named where so many would be lost by a link that is well in
one of 10,000 pushes (ALPHA, shared by all directions and both kinds): the upper tail of the
binomial distribution at BACKGROUND, and at least LEAST of them. ADR 0049.
"""

from collections.abc import Iterable, Sequence
from math import exp, lgamma, log, log1p
from typing import Literal

import msgspec

BACKGROUND = 1e-5
"""Share of packets that a link which is well may lose, or damage."""
ALPHA = 1e-4
"""Chance that a push over links which are well, by BACKGROUND, names any."""
LEAST = 5
"""Packets without which nothing is named, however few went."""
SPREAD = 0.1
"""What was damaged above a link differs below it by so much: repairs go to some only."""

Way = tuple[str, str]
"""A direction of a link: from, to."""
Kind = Literal["drops", "damage"]


class Sample(msgspec.Struct, frozen=True):
    """One direction of a link while a push lasted.

    sent: packets that went. lost: of these, what came nowhere and no queue, socket or shut
    port accounts for. came: packets that were looked at. damaged: of these, on this link.
    above: damaged before they came to it. alike: directions that the same numbers fit.
    """

    src: str
    dst: str
    sent: int = 0
    lost: int = 0
    came: int = 0
    damaged: int = 0
    above: int = 0
    alike: Sequence[Way] = ()


class GrayLink(msgspec.Struct, frozen=True):
    """A direction of a link that lost or damaged packets, not by chance.

    rate: share of packets. confidence: one minus the chance that any link of so many which are
    well shows as much. packets: how many went. hit: lost or damaged ones. source: "counters" of
    both ends, or "gaps" that receivers told of. alike: others that explain it, from-to.
    """

    src: str = msgspec.field(name="from")
    dst: str = msgspec.field(name="to")
    kind: Kind
    rate: float
    confidence: float
    packets: int
    hit: int
    source: Literal["counters", "gaps"] = "counters"
    alike: Sequence[str] = ()

    def words(self) -> str:
        """One line for people."""
        names = [f"{self.src} > {self.dst}", *self.alike]
        does = "loses" if self.kind == "drops" else "damages"
        sure = min(self.confidence, 0.9999) * 100
        return (
            f"gray link: {' or '.join(names)} {does} {share(self.rate)} of packets"
            f" ({self.hit:,} of {self.packets:,}, {sure:.2f} % sure)"
        )


def share(rate: float) -> str:
    """A share as people read it."""
    return f"{rate * 100:.2g} %" if rate < 0.995 else "100 %"


def judge(samples: Iterable[Sample], n_more: int = 0) -> list[GrayLink]:
    """Directions that are gray, worst first.

    n_more: directions that are judged by other means and share ALPHA.
    """
    rows = list(samples)
    n_tests = 2 * (len(rows) + n_more)
    found = []
    for row in rows:
        noise = SPREAD * row.above / max(row.came, 1)
        for kind, hit, n, p in (
            ("drops", row.lost, row.sent, BACKGROUND),
            ("damage", row.damaged, row.came, BACKGROUND + noise),
        ):
            chance = by_chance(hit, n, p, n_tests)
            if chance < ALPHA:
                alike = [f"{a}-{b}" for a, b in row.alike] if kind == "damage" else []
                found.append(_gray(row.src, row.dst, kind, hit, n, chance, alike))
    return sorted(found, key=lambda link: -link.rate)


def _gray(
    src: str, dst: str, kind: str, hit: int, n: int, chance: float, alike: Sequence[str]
) -> GrayLink:
    named: Kind = "drops" if kind == "drops" else "damage"
    rate, sure = round(hit / n, 6), round(1 - chance, 9)
    return GrayLink(src, dst, named, rate, sure, n, hit, alike=tuple(alike))


def by_chance(hit: int, n: int, p: float, n_tests: int) -> float:
    """Chance that one of ``n_tests`` links that are well hits so many of ``n`` packets."""
    if hit < LEAST or n < hit:
        return 1.0
    return min(n_tests * upper_tail(hit, n, p), 1.0)


def upper_tail(k: int, n: int, p: float) -> float:
    """Chance of ``k`` or more of ``n``, each with chance ``p``."""
    if k <= 0 or p >= 1:
        return float(k <= n)
    if k > n or p <= 0:
        return 0.0
    if k <= n * p:
        return max(1 - _tail(n - k + 1, n, 1 - p), 0.0)  # less than k hit: the others do not
    return _tail(k, n, p)


def _tail(k: int, n: int, p: float) -> float:
    """The same, above the mean: terms fall from the first one on."""
    whole = lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
    term = exp(whole + k * log(p) + (n - k) * log1p(-p))
    total, i = 0.0, k
    while i <= n and term > total * 1e-12:
        total += term
        term *= (n - i) / (i + 1) * p / (1 - p)
        i += 1
    return min(total, 1.0)


def least_hits(n: int, n_tests: int, p: float = BACKGROUND) -> int:
    """How many of ``n`` packets have to be hit for a direction to be named."""
    hit = LEAST
    while by_chance(hit, n, p, n_tests) >= ALPHA:
        hit += 1
    return hit


def packets_needed(rate: float, n_tests: int, power: float = 0.95) -> int:
    """Packets after which a direction of this rate is named with chance ``power``."""
    low, high = LEAST, LEAST
    while upper_tail(least_hits(high, n_tests), high, rate) < power:
        low, high = high, 2 * high
    while high - low > max(low // 100, 1):
        middle = (low + high) // 2
        named = upper_tail(least_hits(middle, n_tests), middle, rate) >= power
        low, high = (low, middle) if named else (middle, high)
    return high
