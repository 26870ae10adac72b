"""What paths between hosts carry over each plane, accumulated as FARE does it.

At each node the sum, over neighbours on shortest paths, of the least of all links to that
neighbour and of what it carries (draft-xu-idr-fare); bits per second.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from fanfold.errors import ConfigError
from fanfold.topo.net import Net
from fanfold.topo.routes import FAR, Routes

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
        self._known: dict[int, dict[int, int]] = {}

    def carried(self, source: int, goal: int, planes: Sequence[int]) -> dict[int, Fraction]:
        """Bandwidth from one host to another by each of these planes that has a path."""
        if goal not in self._known:
            self._known[goal] = carried_to(self.net, self.routes, goal)
        to = self._known[goal]
        ups = links_up(self.net, source)
        found = {}
        for plane in planes:
            mine = [link for link in ups if self.net.plane[link] == plane]
            if bps := accumulated(self.net, mine, to):
                found[plane] = Fraction(bps)
        return found


def carried_to(net: Net, routes: Routes, goal: int) -> dict[int, int]:
    """Bits per second that paths of each router carry to a host."""
    group = int(routes.group[goal])
    hops = routes.hops[:, group]
    reach = np.flatnonzero(hops < FAR)
    carried: dict[int, int] = {}
    for router in reach[np.argsort(hops[reach], kind="stable")].tolist():
        node = net.n_hosts + router
        if hops[router] == 1:
            links = links_up(net, node)
            carried[node] = sum(int(net.bps[x]) for x in links if net.dst[x] == goal)
            continue
        k = int(routes.ecmp[router, group])
        links = routes.link[routes.first[k] : routes.first[k + 1]].tolist()
        carried[node] = accumulated(net, links, carried)
    return carried


def accumulated(net: Net, links: Sequence[int], carried: Mapping[int, int]) -> int:
    """The least of what leads to a neighbour and of what it carries, over all neighbours."""
    to: dict[int, int] = {}
    for link in links:
        node = int(net.dst[link])
        to[node] = to.get(node, 0) + int(net.bps[link])
    return sum(min(bps, carried.get(node, 0)) for node, bps in to.items())


def links_up(net: Net, node: int) -> list[int]:
    """Links that leave a node and that are up."""
    first, end = int(net.first_out[node]), int(net.first_out[node + 1])
    return [x for x in range(first, end) if net.is_up[x]]
