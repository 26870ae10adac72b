"""Which planes a group goes over, and by what number of a group in each.

A group's number says by which plane its arrays leave a host (ways.py). So a group over several
planes is a group of the network in each, with numbers that follow from its own: all ranks work
out the same, and nobody has to be told.
"""

import zlib
from collections.abc import Sequence
from itertools import count, islice
from typing import NamedTuple

from fanfold.errors import ConfigError
from fanfold.group.ways import elements_of, first_hop, link_of, tree_of
from fanfold.topo.fabric import Fabric
from fanfold.topo.planes import planes_of_all

MOST_TRIED = 4096
DATA, WATCH = "data", "watch"
FIELD = "planes"


class Strand(NamedTuple):
    """A plane of a group. group: its number there. watch: of those who watch the plane."""

    plane: int
    weight: int
    group: int
    watch: int


def strands_of(
    fabric: Fabric, members: Sequence[str], group: int, text: str, flag: str = FIELD
) -> list[Strand]:
    """Strands of a group, by the number of their plane.

    Args:
        text: ``auto`` or numbers with commas between. flag: what it was given as.

    Raises:
        ConfigError: a plane that some member does not have.
    """
    ways = planes_of_all(fabric, members, text, flag)
    if len(ways) == 1 and len({link.plane for link in fabric.links}) == 1:
        return [Strand(ways[0].plane, 1, group, group)]
    return [
        Strand(
            way.plane,
            way.weight,
            number_in(fabric, members, group, way.plane, DATA),
            number_in(fabric, members, group, way.plane, WATCH),
        )
        for way in ways
    ]


def number_in(fabric: Fabric, members: Sequence[str], group: int, plane: int, what: str) -> int:
    """A number by which all of a group goes over one plane.

    Raises:
        ConfigError: none was found, as where hosts share a link of another plane.
    """
    planes = {link_of(link.a, link.b): link.plane for link in fabric.links}
    names = (f"{group}/{plane}/{what}/{i}" for i in count())
    for name in islice(names, MOST_TRIED):
        number = zlib.crc32(name.encode())
        hops = [link_of(host, first_hop(fabric, host, number)) for host in members]
        if any(planes.get(hop) != plane for hop in hops):
            continue
        tree = tree_of(fabric, members, number)
        ways = [tree.up, *tree.down] if tree else []
        links = {element for way in ways for element in elements_of(way) if element in planes}
        if links and all(planes[link] == plane for link in links):
            return number
    raise ConfigError(FIELD, plane, "planes in which ways between all members stay")
