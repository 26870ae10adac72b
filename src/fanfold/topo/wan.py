"""Data centers far apart: leaves below a border router at each site, lines between borders.

Sites are drawn on a square map. A site is joined to the next one in a circle of all sites, and
to its two nearest; a line has a rate drawn from ``RATES_BPS`` and light's delay in fibre.
"""

from math import isqrt

import numpy as np

from fanfold.streams import stream
from fanfold.topo.net import Net
from fanfold.topo.sketch import LINE, PS_PER_KM, Line, Sketch, check_divides

RATES_BPS = (100_000_000_000, 200_000_000_000, 400_000_000_000)
N_NEAR = 2


def wan(
    sites: int,
    hosts: int,
    leaves: int,
    border_rate: int,
    km: int,
    seed: int,
    *,
    line: Line = LINE,
) -> Net:
    """WAN of sites on a map of ``km`` by ``km``.

    Args:
        hosts: of one site.
        leaves: of one site.
        border_rate: bits per second from a leaf to the border router.

    Raises:
        ConfigError: hosts do not divide by leaves.
    """
    per_leaf = check_divides("hosts", hosts, "leaves", leaves)
    draw = stream(seed, f"topo/wan/{sites}")
    places = draw.integers(0, km, (sites, 2), endpoint=True)
    sketch = Sketch(sites * hosts)
    leaf = sketch.add("leaf", sites * leaves, 1)
    border = sketch.add("border", sites, 2)
    rack = sketch.hosts // per_leaf
    sketch.cable(sketch.hosts, leaf[rack], line)
    home = border[np.arange(sites * leaves) // leaves]
    sketch.cable(leaf, home, Line(border_rate, line.prop_ps))
    squares = ((places[:, None] - places[None]) ** 2).sum(axis=2)
    for a, b in _pairs(squares):
        length = max(isqrt(int(squares[a, b])), 1)
        sketch.cable(
            border[a], border[b], Line(int(draw.choice(RATES_BPS)), length * PS_PER_KM)
        )
    return sketch.build("wan", rack, sketch.hosts // hosts)


def _pairs(squares: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> list[tuple[int, int]]:
    """Sites to join, each pair once."""
    sites = len(squares)
    pairs = {tuple(sorted((a, (a + 1) % sites))) for a in range(sites)}
    for a, row in enumerate(squares):
        near = [int(b) for b in np.argsort(row, kind="stable") if b != a]
        pairs |= {tuple(sorted((a, b))) for b in near[:N_NEAR]}
    return sorted((a, b) for a, b in pairs if a != b)
