"""From path bandwidths to shares of planes, and to the small integers that a kernel takes.

FARE (draft-xu-idr-fare, draft-xu-rtgwg-fare-in-sun): what a path carries is the least of what
the links to the neighbour carry together and of what the neighbour said; a share is a path's
part of the sum. Shares are exact fractions; they are rounded once, by ``to_integers``.
Bandwidths have any unit, one for all paths of a destination; None: nobody said.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from math import gcd, lcm

from fanfold.topo.fabric import Fabric
from fanfold.units import parse_rate

MAX_WEIGHT = 256
"""Of a next hop of the kernel; smaller ones are from 1 on."""
NONE = Fraction(0)


class Missing(StrEnum):
    """What becomes of a destination when some of its paths have no bandwidth.

    ECMP: all paths alike, as RFC 10005 section 4 has it where nothing else is configured.
    SKIP: they carry nothing while others have one. DEFAULT: they have one by configuration.
    """

    ECMP = "ecmp"
    SKIP = "skip"
    DEFAULT = "default"


def aggregate(links: Sequence[Fraction | None]) -> Fraction | None:
    """What links carry together: zero without any, None where one's bandwidth is unknown."""
    known = [bandwidth for bandwidth in links if bandwidth is not None]
    return sum(known, NONE) if len(known) == len(links) else None


def accumulate(links: Sequence[Fraction | None], received: Fraction | None) -> Fraction | None:
    """Bandwidth of a path over a neighbour, the least of what links and neighbour carry.

    Args:
        links: of each link to it that is up. received: what it said of the path.

    Returns:
        None where it said nothing. Links of unknown bandwidth bound nothing.
    """
    total = aggregate(links)
    return received if received is None or total is None else min(total, received)


def shares(
    paths: Sequence[Fraction | None],
    missing: Missing = Missing.ECMP,
    default: Fraction = NONE,
) -> tuple[Fraction, ...]:
    """Shares of paths to one destination, in their order; their sum is one, 0 without paths.

    Paths of zero carry nothing, as long as one of another kind is there: they are in
    maintenance. Where all are zero they are alike: the destination is reached.

    Args:
        paths: bandwidths, none negative. missing: what is done about None. default: the
            bandwidth that ``Missing.DEFAULT`` gives.
    """
    if missing is Missing.DEFAULT:
        paths = [default if path is None else path for path in paths]
    elif None in paths and (missing is Missing.ECMP or not any(paths)):
        paths = [Fraction(path is None or path > 0) for path in paths]
    known = [path or NONE for path in paths]
    total = sum(known, NONE)
    if total == 0:
        return tuple(Fraction(1, len(known)) for _ in known)
    return tuple(path / total for path in known)


def to_integers(parts: Sequence[Fraction], most: int = MAX_WEIGHT) -> tuple[int, ...]:
    """Weights as near to the shares as integers of 1 to ``most`` are; 0 where a share is 0.

    Exact where that is possible. Else each is its quota rounded up or down by the largest
    remainders, of as large a sum as fits: off by less than 1 / sum, so within 1 % where the
    least share is no smaller than 1 / ``most`` of the largest. A smaller one still has 1.
    """
    live = [part for part in parts if part]
    if not live:
        return tuple(0 for _ in parts)
    common = lcm(*(part.denominator for part in live))
    whole = [int(part * common) for part in parts]
    factor = gcd(*whole)
    if max(whole) // factor <= most:
        return tuple(weight // factor for weight in whole)
    total = most * sum(whole) // max(whole)
    return _by_remainders([Fraction(n * total, sum(whole)) for n in whole], total)


def _by_remainders(quotas: Sequence[Fraction], total: int) -> tuple[int, ...]:
    """Whole numbers of a sum, each next to its quota; what is above zero has at least one."""
    weights = [max(int(quota), 1) if quota else 0 for quota in quotas]
    left = total - sum(weights)
    order = sorted(range(len(quotas)), key=lambda at: (int(quotas[at]) - quotas[at], at))
    for at in order[: max(left, 0)]:
        weights[at] += 1
    return tuple(weights)


def plane_weights(fabric: Fabric, host: str) -> dict[int, Fraction]:
    """Shares of the planes of a fabric's host, by what its own links carry.

    Args:
        host: a node. Links that are up count, each with its rate; where one of a plane has
            none, planes are alike.

    Returns:
        Share by plane, of those with a link that is up.
    """
    rates: dict[int, list[Fraction | None]] = {}
    for link in fabric.links:
        if link.up and host in (link.a, link.b):
            rate = Fraction(parse_rate(link.rate, "link.rate")) if link.rate else None
            rates.setdefault(link.plane, []).append(rate)
    planes = sorted(rates)
    parts = shares([aggregate(rates[plane]) for plane in planes])
    return dict(zip(planes, parts, strict=True))


def over_links(
    by_plane: Mapping[int, Fraction], links: Mapping[int, Sequence[int]]
) -> dict[int, Fraction]:
    """Shares of links: each has its part of its plane's, for planes are what weights are of.

    Args:
        by_plane: share by plane. links: numbers of a plane's links that are up.
    """
    return {
        link: share / len(links[plane])
        for plane, share in by_plane.items()
        for link in links[plane]
    }
