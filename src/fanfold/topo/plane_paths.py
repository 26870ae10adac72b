"""What paths between hosts carry over each plane, accumulated as FARE does it.

At each node the sum, over neighbours on shortest paths, of the least of all links to that
neighbour and of what it carries (draft-xu-idr-fare); bits per second.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.topo.net import Net
from fanfold.topo.routes import FAR, Routes

I64 = NDArray[np.int64]
Start = tuple[tuple[int, int, int], ...]
"""Links of a host that are up: plane, router, bits per second."""
End = tuple[int, tuple[tuple[int, int], ...]]
"""Group of a host, and what each router beside it carries to it."""
Carried = tuple[tuple[int, int], ...]
"""Planes that have a path, and what it carries."""
FIELD = "settings.planes"
AUTO = "auto"


def planes_asked(text: str, net: Net) -> tuple[int, ...] | None:
    """Planes by their numbers, rising; None where nothing is asked.

    Args:
        text: empty, auto, or numbers with commas between.

    Raises:
        ConfigError: a plane in which no host has a link.
    """
    if not text:
        return None
    own: list[int] = np.unique(net.plane[: net.first_out[net.n_hosts]]).tolist()
    if text == AUTO:
        return tuple(own)
    asked = sorted({int(word) for word in text.split(",")})
    for plane in asked:
        if plane not in own:
            allowed = f"{AUTO}, or of the planes of the topology: {', '.join(map(str, own))}"
            raise ConfigError(FIELD, text, allowed)
    return tuple(asked)


class SetLegs(NamedTuple):
    """Sets of routers' links by neighbour: those of set k from first[k] to first[k + 1].

    first: (K + 1,). to: neighbours, rising in each set. bps: what all links of the set to one
    carry together.
    """

    first: I64
    to: I64
    bps: I64


class PlanePaths:
    """Paths of one net as it stands; what they carry is worked out once for all alike."""

    def __init__(self, net: Net, routes: Routes) -> None:
        self.net, self.routes = net, routes
        self._legs = set_legs(net, routes)
        self._known: dict[End, I64] = {}
        self._ends: dict[int, End] = {}
        self._starts: dict[int, Start] = {}
        self._found: dict[tuple[Start, End, tuple[int, ...]], Carried] = {}

    def carried(self, source: int, goal: int, planes: Sequence[int]) -> dict[int, Fraction]:
        """Bandwidth from one host to another by each of these planes that has a path."""
        found = self.bps_of(source, goal, planes)
        return {plane: Fraction(bps) for plane, bps in found}

    def bps_of(self, source: int, goal: int, planes: Sequence[int]) -> Carried:
        """The same as pairs of plane and bits per second."""
        key = self._start(source), self._end(goal), tuple(planes)
        if key not in self._found:
            self._found[key] = self._carried(source, goal, planes)
        return self._found[key]

    def _carried(self, source: int, goal: int, planes: Sequence[int]) -> Carried:
        to = self.to_host(goal)
        ups = links_up(self.net, source)
        by_plane = (
            (plane, [link for link in ups if self.net.plane[link] == plane]) for plane in planes
        )
        found = ((plane, accumulated(self.net, mine, to)) for plane, mine in by_plane)
        return tuple((plane, bps) for plane, bps in found if bps)

    def to_host(self, goal: int) -> I64:
        """(N,) what each router carries to a host; the same for all that hang alike."""
        key = self._end(goal)
        if key not in self._known:
            last = np.zeros(self.net.n_nodes, np.int64)
            for router, bps in key[1]:
                last[router] = bps
            self._known[key] = carried_to(self._legs, self.net, self.routes, key[0], last)
        return self._known[key]

    def _start(self, host: int) -> Start:
        if host not in self._starts:
            net, ups = self.net, links_up(self.net, host)
            rows = zip(net.plane[ups], net.dst[ups], net.bps[ups], strict=True)
            self._starts[host] = tuple((int(p), int(to), int(bps)) for p, to, bps in rows)
        return self._starts[host]

    def _end(self, host: int) -> End:
        if host not in self._ends:
            carried: dict[int, int] = {}
            for link in links_up(self.net, host):
                router, bps = int(self.net.dst[link]), self.net.bps[self.net.reverse[link]]
                carried[router] = carried.get(router, 0) + int(bps)
            self._ends[host] = int(self.routes.group[host]), tuple(sorted(carried.items()))
        return self._ends[host]


def set_legs(net: Net, routes: Routes) -> SetLegs:
    """Links of each set, together where they lead to one neighbour."""
    n_sets = routes.first.size - 1
    of = np.repeat(np.arange(n_sets), np.diff(routes.first))
    pairs, leg = np.unique(of * net.n_nodes + net.dst[routes.link], return_inverse=True)
    bps = np.zeros(pairs.size, np.int64)
    np.add.at(bps, leg, net.bps[routes.link])
    first = np.searchsorted(pairs, np.arange(n_sets + 1) * net.n_nodes)
    return SetLegs(first.astype(np.int64), pairs % net.n_nodes, bps)


def carried_to(legs: SetLegs, net: Net, routes: Routes, group: int, last: I64) -> I64:
    """(N,) bits per second that paths of each node carry to a group of hosts.

    Args:
        legs: of all sets. last: (N,) what routers beside its hosts carry to them.
    """
    hops = routes.hops[:, group]
    carried = last.copy()
    for level in np.unique(hops[(hops > 1) & (hops < FAR)]):
        (routers,) = np.nonzero(hops == level)
        at, starts = in_rows(legs.first, routes.ecmp[routers, group])
        least = np.minimum(legs.bps[at], carried[legs.to[at]])
        carried[net.n_hosts + routers] += np.add.reduceat(least, starts)
    return carried


def in_rows(first: I64, rows: NDArray[np.int32]) -> tuple[I64, I64]:
    """Places of what some rows have, one row behind the other, and where each begins there.

    Args:
        first: (K + 1,) what row k has stands from first[k] to first[k + 1], one or more.
    """
    sizes = first[rows + 1] - first[rows]
    starts = np.cumsum(sizes) - sizes
    return np.arange(int(sizes.sum())) + np.repeat(first[rows] - starts, sizes), starts


def accumulated(net: Net, links: Sequence[int], carried: I64) -> int:
    """The least of what leads to a neighbour and of what it carries, over all neighbours."""
    to: dict[int, int] = {}
    for link in links:
        node = int(net.dst[link])
        to[node] = to.get(node, 0) + int(net.bps[link])
    return sum(min(bps, int(carried[node])) for node, bps in to.items())


def links_up(net: Net, node: int) -> list[int]:
    """Links that leave a node and that are up."""
    first, end = int(net.first_out[node]), int(net.first_out[node + 1])
    return [x for x in range(first, end) if net.is_up[x]]
