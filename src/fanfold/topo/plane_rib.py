"""What one host knows of the planes of its net from BGP, and the weights that follow.

A pure machine: routes of peers come in, weights of links to each destination go out. A peer is
the far end of one link; links of one plane lead to one neighbour, and its bandwidth counts once
for all of them (FARE counts neighbours, not sessions).
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from fanfold.topo.path_weights import Missing, accumulate, over_links, shares, to_integers
from fanfold.wire.bgp_update import Update
from fanfold.wire.link_bandwidth import lowest


class RibLink(NamedTuple):
    """One link of a host: a leg of its port in a plane, and what it carries."""

    plane: int
    bandwidth: Fraction


class PlaneRib:
    """Routes of one host.

    Args:
        links: by the address of their far end. missing, default: as in ``shares``.
    """

    def __init__(
        self,
        links: Mapping[str, RibLink],
        missing: Missing = Missing.ECMP,
        default: Fraction = Fraction(0),
    ) -> None:
        self.links, self._missing, self._default = links, missing, default
        self._routes: dict[str, dict[str, Fraction | None]] = {}

    def on_update(self, peer: str, update: Update) -> bool:
        """Take an UPDATE of a peer; whether it is one of a link."""
        if peer not in self.links:
            return False
        known = self._routes.setdefault(peer, {})
        for prefix in update.withdrawn:
            known.pop(prefix, None)
        bandwidth = lowest(update.bandwidths)
        known.update(dict.fromkeys(update.announced, bandwidth))
        return True

    def on_peer_up(self, peer: str) -> None:
        """A session is there, and has no routes yet."""
        if peer in self.links:
            self._routes[peer] = {}

    def on_peer_down(self, peer: str) -> None:
        """A session is gone, with its routes."""
        self._routes.pop(peer, None)

    def on_silence(self) -> None:
        """Who told of the peers is gone: what it said is not known any more."""
        self._routes.clear()

    @property
    def peers(self) -> tuple[str, ...]:
        """Peers whose sessions are up."""
        return tuple(self._routes)

    def prefixes(self) -> set[str]:
        """Destinations that a peer has a route to."""
        return {prefix for known in self._routes.values() for prefix in known}

    def planes_to(self, prefix: str) -> dict[int, Fraction]:
        """Share of each plane that reaches a destination, in rising order of planes."""
        paths = self.paths_to(prefix)
        parts = shares(list(paths.values()), self._missing, self._default)
        return dict(zip(paths, parts, strict=True))

    def weights_to(self, prefix: str) -> dict[str, int]:
        """Weight of each link to a destination, by the address of its far end; none of 0."""
        live: dict[int, list[int]] = {}
        order = list(self.links)
        for at, peer in enumerate(order):
            if prefix in self._routes.get(peer, ()):
                live.setdefault(self.links[peer].plane, []).append(at)
        parts = over_links(self.planes_to(prefix), live)
        weights = to_integers(list(parts.values()))
        return {order[at]: weight for at, weight in zip(parts, weights, strict=True) if weight}

    def paths_to(self, prefix: str) -> dict[int, Fraction | None]:
        """Bandwidth of the path over each plane that has one, in rising order of planes."""
        up: dict[int, list[Fraction | None]] = {}
        said: dict[int, list[Fraction | None]] = {}
        for peer, link in self.links.items():
            if prefix in self._routes.get(peer, ()):
                up.setdefault(link.plane, []).append(link.bandwidth)
                said.setdefault(link.plane, []).append(self._routes[peer][prefix])
        return {plane: accumulate(up[plane], _agreed(said[plane])) for plane in sorted(up)}


def has_grown(old: Mapping[int, Fraction | None], new: Mapping[int, Fraction | None]) -> bool:
    """Whether a plane carries more to a destination than it did."""
    return any((bandwidth or 0) > (old.get(plane) or 0) for plane, bandwidth in new.items())


def _agreed(said: list[Fraction | None]) -> Fraction | None:
    """What a neighbour said by several sessions: the least, as for several communities."""
    return None if None in said else min(x for x in said if x is not None)
