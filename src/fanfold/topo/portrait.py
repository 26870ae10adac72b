"""What a net is, in numbers: tiers, cables, distances, and packets for each message to many."""

import re
from math import gcd

import msgspec
import numpy as np
from numpy.typing import NDArray

from fanfold.topo.net import Net
from fanfold.topo.placement import KINDS, place_hosts
from fanfold.topo.routes import FAR, Routes

BSLS = (256, 1024)
"""Lengths of a BitString that packets are counted for."""
MAX_KINDS = 4
_NUMBER = re.compile(r"\d+")


class TierLine(msgspec.Struct, frozen=True):
    """Nodes of one tier; names: the first and last of each kind."""

    tier: int
    n_nodes: int
    names: tuple[str, ...]
    least_ports: int
    most_ports: int


class CableLine(msgspec.Struct, frozen=True):
    """Cables between two tiers, or inside one; rates and delays: least and greatest.

    total_bps: of all, one way. down_to_up: what the lower nodes have further down to what they
    have in these, "4:1"; empty for hosts and inside a tier. halves: cables between routers of
    the first and of the second half of the hosts, inside the lowest tier of routers.
    """

    low_tier: int
    high_tier: int
    n_cables: int
    bps: tuple[int, int]
    prop_ps: tuple[int, int]
    total_bps: int
    down_to_up: str
    halves: int


class PacketLine(msgspec.Struct, frozen=True):
    """Packets of one message to all hosts, and to the rack, pod and job that take most."""

    placement: str
    bitstring_bits: int
    to_all: int
    to_a_rack: int
    to_a_pod: int
    to_a_job: int
    sub_domains: int


class Portrait(msgspec.Struct, frozen=True):
    """One net; diameter: links between the two hosts farthest apart; n_planes: of links.

    notes: of a file, what it left open or had that is not used.
    """

    name: str
    n_hosts: int
    n_routers: int
    n_cables: int
    n_planes: int
    n_racks: int
    n_pods: int
    diameter: int
    n_groups: int
    n_ecmp_sets: int
    most_paths: int
    tiers: tuple[TierLine, ...]
    cables: tuple[CableLine, ...]
    packets: tuple[PacketLine, ...]
    notes: tuple[str, ...] = ()


def build_portrait(net: Net, routes: Routes, n_jobs: int) -> Portrait:
    """Portrait of a net; job j of ``n_jobs`` has the hosts whose index is j modulo n_jobs."""
    sizes = np.diff(routes.first)
    return Portrait(
        name=net.name,
        n_hosts=net.n_hosts,
        n_routers=net.n_nodes - net.n_hosts,
        n_cables=net.n_links // 2,
        n_planes=int(net.plane.max(initial=0)) + 1,
        n_racks=int(np.unique(net.rack).size),
        n_pods=int(np.unique(net.pod).size),
        diameter=_diameter(net, routes),
        n_groups=routes.n_groups,
        n_ecmp_sets=sizes.size,
        most_paths=int(sizes.max(initial=1)),
        tiers=tuple(_tier(net, int(t)) for t in np.unique(net.tier)),
        cables=_cables(net),
        packets=_packets(net, n_jobs),
        notes=net.notes,
    )


def _diameter(net: Net, routes: Routes) -> int:
    """Links between the two hosts farthest apart; FAR where some have no path."""
    most = 0
    hangs = routes.hops == 1
    for g in range(routes.n_groups):
        ways = routes.hops[hangs[:, g]].min(axis=0)
        most = max(most, int(ways.max()))
    return min(most + 1, FAR) if net.n_hosts > 1 else 0


def _tier(net: Net, tier: int) -> TierLine:
    nodes = np.nonzero(net.tier == tier)[0]
    ports = np.diff(net.first_out)[nodes]
    spans: dict[str, tuple[str, str]] = {}
    for name in map(net.node_name, nodes.tolist()):
        kind = _NUMBER.sub("#", name)
        spans[kind] = (spans[kind][0] if kind in spans else name, name)
    ends = list(spans.values())
    if len(ends) > MAX_KINDS:
        ends = [(ends[0][0], ends[-1][1])]
    names = tuple(a if a == b else f"{a} .. {b}" for a, b in ends)
    return TierLine(tier, nodes.size, names, int(ports.min()), int(ports.max()))


def _cables(net: Net) -> tuple[CableLine, ...]:
    once = net.reverse > np.arange(net.n_links)
    src, dst = net.src[once], net.dst[once]
    is_up = net.tier[src] <= net.tier[dst]
    lower, upper = np.where(is_up, src, dst), np.where(is_up, dst, src)
    bps, prop_ps = net.bps[once], net.prop_ps[once]
    tiers = np.stack([net.tier[lower], net.tier[upper]], axis=1)
    half = _halves(net)
    lines = []
    for low, high in np.unique(tiers, axis=0).tolist():
        these = (tiers == (low, high)).all(axis=1)
        total = int(bps[these].sum())
        down = int(bps[np.isin(upper, lower[these])].sum()) if 0 < low < high else 0
        lines.append(
            CableLine(
                low,
                high,
                int(these.sum()),
                (int(bps[these].min()), int(bps[these].max())),
                (int(prop_ps[these].min()), int(prop_ps[these].max())),
                total,
                _ratio(down, total) if down else "",
                int((half[src] * half[dst] < 0)[these].sum()) if low == high == 1 else 0,
            )
        )
    return tuple(lines)


def _halves(net: Net) -> NDArray[np.int64]:
    """(N,) -1, 1: first and second half of the hosts, and routers they hang on; else 0."""
    half = np.zeros(net.n_nodes, np.int64)
    half[: net.n_hosts] = np.where(2 * np.arange(net.n_hosts) < net.n_hosts, -1, 1)
    mine = slice(0, int(net.first_out[net.n_hosts]))
    half[net.dst[mine]] = half[net.src[mine]]
    return half


def _ratio(a: int, b: int) -> str:
    common = gcd(a, b)
    return f"{a // common}:{b // common}"


def _packets(net: Net, n_jobs: int) -> tuple[PacketLine, ...]:
    hosts = np.arange(net.n_hosts)
    jobs = [hosts[j::n_jobs].tolist() for j in range(n_jobs)]
    lines = []
    for bits in BSLS:
        for kind in KINDS:
            placed = place_hosts(net, kind, bits, jobs)
            lines.append(
                PacketLine(
                    placement=kind,
                    bitstring_bits=bits,
                    to_all=placed.n_packets(hosts),
                    to_a_rack=_most_sets(placed.set_of, net.rack),
                    to_a_pod=_most_sets(placed.set_of, net.pod),
                    to_a_job=_most_sets(placed.set_of, hosts % n_jobs),
                    sub_domains=int(placed.sub_domain.max(initial=0)) + 1,
                )
            )
    return tuple(lines)


def _most_sets(set_of: NDArray[np.int64], label: NDArray[np.int64]) -> int:
    """Most sets that the hosts of one label touch."""
    pairs = np.unique(np.stack([label, set_of], axis=1), axis=0)
    return int(np.bincount(pairs[:, 0]).max(initial=0))
