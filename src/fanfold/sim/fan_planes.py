"""Planes of fans in the simulator: links of a source, weights, BIFTs that deal out legs.

A fan that has several planes is one StripedSender, as live (ADR 0053); a plane may have several
links at a host, the legs of a Y-cable, and blocks of the plane take them in turn, on both ends.
A *strand* is one link of a source by which a part of a fan leaves. Weights are those of a fan
from what paths to all its receivers carry (ADR 0056).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.core.flight import Shape
from fanfold.core.striped import StripedSender
from fanfold.errors import ConfigError
from fanfold.kernels.bift import fill_bift
from fanfold.kernels.tables import WORD_BITS
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import NO_TREE, Fan
from fanfold.sim.fan_crowd import Part, Way
from fanfold.sim.fan_shares import Share
from fanfold.sim.loop.tables import Tables
from fanfold.topo.birt import build_birt
from fanfold.topo.fan_weights import fan_weights
from fanfold.topo.net import Net
from fanfold.topo.plane_paths import PlanePaths, planes_asked
from fanfold.topo.routes import Routes, build_routes

I64 = NDArray[np.int64]
MOST_BACK = 32
"""Blocks back at most that a receiver looks for one of the same link."""


class Strand(NamedTuple):
    """One link of a source. part: number; plane: index among the ways of the part."""

    part: int
    plane: int
    nic: int


class FanPlanes:
    """What fans of a run know of planes, as their net stands."""

    def __init__(self, net: Net, routes: Routes, settings: Settings) -> None:
        self.net, self.settings = net, settings
        self.asked = planes_asked(settings.planes, net)
        self.paths = PlanePaths(net, routes)
        if self.asked is not None and settings.feedback == "nack":
            raise ConfigError("settings.feedback", "nack", "block, packet or folded by planes")

    def ways(self, fan: Fan) -> tuple[Way, ...]:
        """Planes of a fan's source that are asked for; none where it goes by its first link.

        Where no plane leads to all receivers the fan leaves by several links, as without them.
        """
        if self.asked is None or fan.tree != NO_TREE:
            return ()
        net = self.net
        mine = range(int(net.first_out[fan.source]), int(net.first_out[fan.source + 1]))
        ways = tuple(
            Way(plane, links)
            for plane in self.asked
            if (links := tuple(link for link in mine if net.plane[link] == plane))
        )
        return ways if any(self.weights(fan, ways)) else ()

    def weights(self, fan: Fan, ways: Sequence[Way]) -> tuple[int, ...]:
        """Whole numbers, one for each way; all 0 where none leads to all receivers."""
        planes = [way.plane for way in ways]
        paths = (self.paths.carried(fan.source, host, planes) for host in fan.receivers)
        found = fan_weights(paths, planes) or {}
        return tuple(found.get(plane, 0) for plane in planes)

    def follow(self, is_up: NDArray[np.bool_]) -> None:
        """The net has these links from now on."""
        net = self.net._replace(is_up=is_up.astype(np.uint8))
        self.net, self.paths = net, PlanePaths(net, build_routes(net))

    def fill(self, tables: Tables, n_si: int, n_tables: int) -> None:
        """All BIFTs that ECMP deals out: one of a host's several links to a router by turns."""
        net, n_dealt = self.net, self.settings.n_ecmp
        birt = build_birt(net, self.paths.routes, n_dealt, tables.birt.target_of)
        n_bits = tables.nbr_of.shape[1]
        for node in range(net.n_hosts, net.n_nodes):
            legs = _legs(net, node)
            for si, e in np.ndindex(n_si, n_dealt):
                row = ((node - net.n_hosts) * n_si + si) * n_tables + e
                nbr_of, f_bm = tables.nbr_of[row], np.zeros_like(tables.f_bm[row])
                fill_bift(birt, node, si, e, nbr_of, f_bm)
                targets = birt.target_of[si * n_bits : (si + 1) * n_bits]
                for bit in np.flatnonzero(np.isin(targets, list(legs))).tolist():
                    ports = legs[int(targets[bit])]
                    nbr_of[bit] = ports[e % len(ports)]
                tables.f_bm[row] = masks(nbr_of, f_bm)
                tables.is_filled[row] = 1


def _legs(net: Net, node: int) -> dict[int, list[int]]:
    """Ports of a router to each host that has several links to it."""
    first = int(net.first_out[node])
    found: dict[int, list[int]] = {}
    for link in range(first, int(net.first_out[node + 1])):
        host = int(net.dst[link])
        if host < net.n_hosts and net.is_up[link]:
            found.setdefault(host, []).append(link - first + 1)
    return {host: ports for host, ports in found.items() if len(ports) > 1}


def masks(nbr_of: I64, f_bm: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """F-BM of each neighbour: the OR of its rows, RFC 8279 section 6.4."""
    f_bm[:] = 0
    bit = np.arange(nbr_of.size)
    word = np.left_shift(np.uint64(1), (bit % WORD_BITS).astype(np.uint64))
    np.bitwise_or.at(f_bm, (nbr_of + 1, bit // WORD_BITS), word)
    return f_bm


def strands_of(parts: Sequence[Part]) -> list[Strand]:
    """Links by which parts leave, part by part, plane by plane."""
    return [
        Strand(m, plane, nic)
        for m, part in enumerate(parts)
        for plane, way in enumerate(part.ways or (Way(0, (part.nic,)),))
        for nic in way.links
    ]


def as_parts(parts: Sequence[Part], strands: Sequence[Strand]) -> list[Part]:
    """What goes by each strand, as a part of its own, for estimates of load."""
    n_of = np.bincount([one.part for one in strands], minlength=len(parts)).tolist()
    return [
        Part(part.item, part.fan._replace(n_bytes=-(-part.fan.n_bytes // n)), one.nic)
        for one in strands
        for part, n in [(parts[one.part], n_of[one.part])]
    ]


def joined(
    strands: Sequence[Strand], each: Sequence[Share], weights: Sequence[Sequence[int]]
) -> list[Share]:
    """Share of each part: as much as its planes carry when each has its weight.

    Args:
        each: of every strand. weights: of each part's planes, one for one without ways.
    """
    bps_of = [[0] * len(mine) for mine in weights]
    wait_ps = [0] * len(weights)
    for one, share in zip(reversed(strands), reversed(each), strict=True):
        bps_of[one.part][one.plane] += share.bps
        wait_ps[one.part] = share.wait_ps  # of its first
    found = []
    for bps, mine, wait in zip(bps_of, weights, wait_ps, strict=True):
        total = sum(mine) or len(mine)
        used = [(b, w or 1) for b, w in zip(bps, mine, strict=True) if w or not any(mine)]
        found.append(Share(min(b * total // w for b, w in used), wait))
    return found


def n_back(part: Part, weights: Sequence[int]) -> int:
    """How many blocks back one may be that took the same link: 2 over one plane."""
    if not part.ways:
        return 2
    least = min((weight for weight in weights if weight), default=1)
    legs = max(len(way.links) for way in part.ways)
    return min(2 * legs * -(-sum(weights) // least), MOST_BACK)


def striped(
    flow: int, shape: Shape, bits: int, cap_bps: int, weights: Sequence[int]
) -> StripedSender:
    """The sender of a fan over planes, whose weights are told."""
    return StripedSender(flow, shape, [bits], cap_bps, weights, learns=False)
