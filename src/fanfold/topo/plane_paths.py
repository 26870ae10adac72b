"""What paths between hosts carry over each plane, accumulated as FARE does it.

At each node the sum, over neighbours on shortest paths, of the least of all links to that
neighbour and of what it carries (draft-xu-idr-fare); bits per second.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.topo.net import Net
from fanfold.topo.routes import FAR, Routes

I64 = NDArray[np.int64]
End = tuple[int, tuple[tuple[int, int], ...]]
"""Group of a host, and what each router beside it carries to it."""
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


class PlanePaths:
    """Paths of one net as it stands; what they carry is worked out once for each receiver."""

    def __init__(self, net: Net, routes: Routes) -> None:
        self.net, self.routes = net, routes
        self._known: dict[End, I64] = {}
        self._ends: dict[int, End] = {}

    def carried(self, source: int, goal: int, planes: Sequence[int]) -> dict[int, Fraction]:
        """Bandwidth from one host to another by each of these planes that has a path."""
        to = self.to_host(goal)
        ups = links_up(self.net, source)
        found = {}
        for plane in planes:
            mine = [link for link in ups if self.net.plane[link] == plane]
            if bps := accumulated(self.net, mine, to):
                found[plane] = Fraction(bps)
        return found

    def to_host(self, goal: int) -> I64:
        """(N,) what each router carries to a host; the same for all that hang alike."""
        if goal not in self._ends:
            ups = links_up(self.net, goal)
            last = np.zeros(self.net.n_nodes, np.int64)
            np.add.at(last, self.net.dst[ups], self.net.bps[self.net.reverse[ups]])
            ends = np.flatnonzero(last)
            said = zip(ends.tolist(), last[ends].tolist(), strict=True)
            key = int(self.routes.group[goal]), tuple(said)
            if key not in self._known:
                self._known[key] = carried_to(self.net, self.routes, key[0], last)
            self._ends[goal] = key
        return self._known[self._ends[goal]]


def carried_to(net: Net, routes: Routes, group: int, last: I64) -> I64:
    """(N,) bits per second that paths of each node carry to a group of hosts.

    Args:
        last: (N,) what routers beside its hosts carry to them.
    """
    hops = routes.hops[:, group]
    carried = last.copy()
    for level in np.unique(hops[(hops > 1) & (hops < FAR)]):
        (routers,) = np.nonzero(hops == level)
        sets = routes.ecmp[routers, group]
        sizes = routes.first[sets + 1] - routes.first[sets]
        starts = np.cumsum(sizes) - sizes
        at = np.arange(int(sizes.sum())) + np.repeat(routes.first[sets] - starts, sizes)
        links = routes.link[at]
        ends = np.repeat(net.n_hosts + routers, sizes) * net.n_nodes + net.dst[links]
        pairs, of = np.unique(ends, return_inverse=True)
        bps = np.zeros(pairs.size, np.int64)
        np.add.at(bps, of, net.bps[links])
        np.add.at(carried, pairs // net.n_nodes, np.minimum(bps, carried[pairs % net.n_nodes]))
    return carried


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
