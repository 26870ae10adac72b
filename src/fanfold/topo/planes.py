"""Planes of a host: what each is to carry of a push, and which BIFTs lead over it.

Links of a fabric have a number, their plane; a host with links of several sends each block over
one of them. A block goes to all receivers, so a plane carries no more than the slowest of them
takes by it. The weight of a plane is the least rate that the source or a receiver has in it:
the sum of its links there, 0 where it has none that is up, or where no BIFT leads to all
receivers over it. A link of which no rate is said counts as the fastest that is told of.
Where that leaves no plane at all, those of the source count alike: BIFTs lead round what is
missing, at the price of a copy more.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fanfold.core.deal import reduced
from fanfold.errors import ConfigError
from fanfold.topo.fabric import Fabric, Link
from fanfold.topo.fabric_routes import FabricRoutes
from fanfold.units import parse_rate

Ends = frozenset[str]
"""Both nodes of a link."""
AUTO = "auto"
FLAG = "--planes"


class PlaneWay(NamedTuple):
    """A plane of the source. weight: its share. tables: BIFTs that lead over it.

    is_down: it has a link that is known to have failed.
    """

    plane: int
    weight: int
    tables: tuple[int, ...]
    is_down: bool = False


def planes_of(fabric: Fabric, name: str) -> list[int]:
    """Planes in which a node has links, rising."""
    return sorted({link.plane for link in fabric.links if name in (link.a, link.b)})


def chosen_planes(fabric: Fabric, source: str, text: str, flag: str = FLAG) -> list[int]:
    """Planes of ``--planes``: auto, or numbers with commas between.

    Args:
        flag: what the words were given as.

    Raises:
        ConfigError: a plane in which the source has no link.
    """
    own = planes_of(fabric, source)
    if text == AUTO:
        return own
    names = [part.strip() for part in text.split(",")]
    known = {str(plane): plane for plane in own}
    for name in names:
        if name not in known:
            allowed = f"{AUTO}, or of the planes of {source}: {', '.join(known)}"
            raise ConfigError(flag, text, allowed)
    return sorted({known[name] for name in names})


def planes_of_all(
    fabric: Fabric, members: Sequence[str], text: str, flag: str
) -> list[PlaneWay]:
    """Chosen planes that lead from the first of some hosts to all others, by number.

    Args:
        text: as of ``--planes``. flag: what the words were given as.

    Raises:
        ConfigError: a plane in which a host has no link, or that does not lead to all.
    """
    first, *others = members
    ways = plane_ways(fabric, first, others, chosen_planes(fabric, first, text, flag))
    found = sorted((way for way in ways if way.weight), key=lambda way: way.plane)
    lost = [way.plane for way in ways if not way.weight]
    if text != AUTO and lost:
        common = planes_of_all(fabric, members, AUTO, flag)
        allowed = ", ".join(str(way.plane) for way in common)
        raise ConfigError(flag, text, f"{AUTO}, or planes that lead to all hosts: {allowed}")
    return found


def plane_ways(
    fabric: Fabric,
    source: str,
    targets: Sequence[str],
    chosen: Sequence[int],
    failed: frozenset[Ends] = frozenset(),
) -> list[PlaneWay]:
    """What each chosen plane of a source is to carry, those that carry most first.

    Args:
        failed: links that are down though the fabric file has them up.
    """
    tables = _tables(fabric, source, targets)
    usual = max((_rate(link) for link in fabric.links), default=0) or 1
    hosts = (source, *targets)
    ways = []
    for plane in chosen:
        near = [link for link in fabric.links if link.plane == plane and link.up]
        rates = _rates(near, hosts, usual)
        weight = min(rates.values()) if tables[plane][1] else 0
        ends = ({link.a, link.b} for link in near if {link.a, link.b} & set(hosts))
        is_down = any(frozenset(pair) in failed for pair in ends)
        ways.append(PlaneWay(plane, weight, tables[plane][0], is_down))
    if not any(way.weight for way in ways):
        ways = [way._replace(weight=1) for way in ways]
    weights = reduced([way.weight for way in ways])
    ways = [way._replace(weight=w) for way, w in zip(ways, weights, strict=True)]
    return sorted(ways, key=lambda way: (way.is_down, -way.weight, way.plane))


def _rates(near: Iterable[Link], hosts: Sequence[str], usual: int) -> dict[str, int]:
    """Bits per second that each host has in a plane; near: its links that are up."""
    rates = dict.fromkeys(hosts, 0)
    for link in near:
        for end in {link.a, link.b} & rates.keys():
            rates[end] += _rate(link) or usual
    return rates


def _rate(link: Link) -> int:
    return parse_rate(link.rate, "rate") if link.rate else 0


def _tables(
    fabric: Fabric, source: str, targets: Sequence[str]
) -> dict[int, tuple[tuple[int, ...], bool]]:
    """BIFTs of each plane by which copies leave a source, and whether all of them do.

    A BIFT is of the plane by which most copies leave.
    """
    routes = FabricRoutes(fabric)
    plane_to = {to: link.plane for link in fabric.links for to in _beyond(link, source)}
    whole: dict[int, list[int]] = {plane: [] for plane in set(plane_to.values())}
    part: dict[int, list[int]] = {plane: [] for plane in whole}
    for table in range(fabric.n_ecmp):
        hops = [routes.next_hop(source, target, table) for target in targets]
        planes = [plane_to[hop] for hop in hops if hop]
        if not planes:
            continue
        most = max(sorted(set(planes)), key=planes.count)
        is_whole = len(planes) == len(hops) and len(set(planes)) == 1
        (whole if is_whole else part)[most].append(table)
    return {plane: (tuple(whole[plane] or part[plane]), bool(whole[plane])) for plane in whole}


def _beyond(link: Link, source: str) -> list[str]:
    """The other end of a link of the source, or nothing."""
    if source not in (link.a, link.b):
        return []
    return [link.b if link.a == source else link.a]
