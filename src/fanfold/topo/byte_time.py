"""How long a byte takes on a link: a fraction of picoseconds, exact (docs/simulator.md 1).

``num / den`` ps a byte is ``8 * 10**12 / bps`` in lowest terms: 80/9 at 900 Gb/s, 20/9 at 3600.
``n`` bytes take ``n * num // den``. Both numbers stay below 2**31, so that no product of a
packet's bytes overflows 64 bits; a rate of another grain than 4 kb/s is off by 1e-9 at most.
"""

from math import gcd
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.topo.net import Net
from fanfold.units import PS_PER_SECOND

I64 = NDArray[np.int64]
BYTE_BIT_PS = 8 * PS_PER_SECOND
LARGEST = 2**31 - 1
LEAST_RATE_BPS = 10_000
"""Below it the time of a byte needs more than 31 bits."""


class ByteTimes(NamedTuple):
    """Time of a byte on each link, in ps: (L,) num and (L,) den."""

    num: I64
    den: I64

    def at(self, links: Any, n_bytes: Any) -> I64:
        """Times of bytes on links, rounded down; arrays that broadcast."""
        return np.asarray(n_bytes * self.num[links] // self.den[links], np.int64)

    def all(self, n_bytes: Any) -> I64:
        """Times of bytes on every link."""
        return self.at(slice(None), n_bytes)

    def bytes_a_ps(self) -> NDArray[np.float64]:
        """Bytes a picosecond, for links that are shared as a fluid."""
        return self.den / self.num


def byte_fraction(bps: int) -> tuple[int, int]:
    """Picoseconds a byte as a fraction."""
    common = gcd(BYTE_BIT_PS, bps)
    num, den = BYTE_BIT_PS // common, bps // common
    if num <= LARGEST and den <= LARGEST:
        return num, den
    den = min(LARGEST, bps * LARGEST // BYTE_BIT_PS)
    num = (2 * BYTE_BIT_PS * den + bps) // (2 * bps)
    common = gcd(num, den)
    return num // common, den // common


def byte_times(net: Net) -> ByteTimes:
    """Of all links of a net."""
    if net.n_links and int(net.bps.min()) == int(net.bps.max()):
        num, den = byte_fraction(int(net.bps[0]))
        return ByteTimes(np.full(net.n_links, num), np.full(net.n_links, den))
    rates, of = np.unique(net.bps, return_inverse=True)
    fractions = np.array([byte_fraction(int(rate)) for rate in rates], np.int64).reshape(-1, 2)
    return ByteTimes(fractions[of, 0], fractions[of, 1])
