"""Equal-cost next hops of a net, by group: hosts that hang on the same routers are one group.

Letters: H = hosts, N = nodes, R = routers, G = groups, K = ECMP sets. A link between routers
costs its weight, one where nothing else is said; links that are not up are left out. Computed
once for a net: one search for each group, from the routers its hosts hang on. Why the search is
our own: docs/adr/0054-routes-by-our-own-search.md.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.kernels.bift import HERE, NONE
from fanfold.topo.net import Net
from fanfold.topo.search import (
    EMPTY,
    MAX_COST,
    NO_ROOM,
    TOO_FAR,
    Arcs,
    Batch,
    Sets,
    refill,
    search,
)

I64 = NDArray[np.int64]
FAR = MAX_COST + 1
"""Cost to a group that cannot be reached."""
MAX_PAIRS = 2**27
"""Pairs of router and group: six bytes each."""
_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))
"""Shifts and factors of SplitMix64's finisher."""


class Routes(NamedTuple):
    """Where each router sends what is meant for a group.

    group: (H,) group of a host; (N,) of every node where routers are targets too. hops: (R, G)
    int16 cost from a router to the hosts of a group (1 where they hang on it), FAR where there
    is no path; one more than the cost to a router that is a target. ecmp: (R, G) int32 index of
    the set of links on shortest paths, HERE where hops is 1, NONE where it is FAR. first,
    link: (K + 1,) and the links of set k at first[k]..first[k + 1], rising. longest:
    links of the longest path between two hosts. n_groups: G.

    A router r is node H + r. Where hops is 1 the link is the one of the router that leads to
    the host itself. A host sends over any of its own links whose router has the fewest hops.
    """

    group: NDArray[np.int32]
    hops: NDArray[np.int16]
    ecmp: NDArray[np.int32]
    first: I64
    link: NDArray[np.int32]
    longest: int

    @property
    def n_groups(self) -> int:
        """Groups of hosts."""
        return int(self.hops.shape[1])


def build_routes(net: Net, *, to_routers: bool = False) -> Routes:
    """Routes of a net; what cannot be reached stays FAR.

    Args:
        to_routers: every router is a target too, and hosts may have links to each other.

    Raises:
        ConfigError: a host without a router, or more pairs of router and group than fit.
    """
    if not to_routers:
        _check_hosts(net)
    group, homes = _build_groups(net, to_routers=to_routers)
    n_routers, n_groups = net.n_nodes - net.n_hosts, len(homes)
    if n_routers * n_groups > MAX_PAIRS:
        pairs = f"{n_routers} routers x {n_groups} groups of hosts"
        raise ConfigError("topology", pairs, f"at most {MAX_PAIRS} pairs")
    hops = np.full((n_routers, n_groups), FAR, np.int16)
    ecmp = np.full((n_routers, n_groups), NONE, np.int32)
    arcs, link = _build_arcs(net)
    sets = _empty_sets(4 * n_routers + 64, arcs.to.size + 64)
    n_fronts = 1 << int(arcs.cost.max(initial=1)).bit_length()
    for g0 in range(0, n_groups, 64):
        mine = homes[g0 : g0 + 64]
        at, _ = np.nonzero(mine >= 0)
        routers = mine[mine >= 0]
        hops[routers, g0 + at], ecmp[routers, g0 + at] = 1, HERE
        seen = np.zeros(n_routers, np.uint64)
        np.bitwise_or.at(seen, routers, np.left_shift(np.uint64(1), at.astype(np.uint64)))
        while True:
            batch = Batch(
                seen.copy(),
                np.zeros((n_fronts, n_routers), np.uint64),
                np.zeros(64, np.uint64),
                np.zeros(64, np.int64),
                np.zeros(64, np.int64),
            )
            found = search(arcs, batch, sets, g0, hops, ecmp)
            if found == TOO_FAR:
                raise ConfigError(
                    "topology", "a path too long", f"a cost of at most {MAX_COST}"
                )
            if found != NO_ROOM:
                break
            sets = _enlarged(sets)
    n_sets = int(sets.n[0])
    first = sets.first[: n_sets + 1].copy()
    longest = int(np.max(hops, where=hops < FAR, initial=1)) + 1
    return Routes(group, hops, ecmp, first, link[sets.arc[: first[-1]]], longest)


def _check_hosts(net: Net) -> None:
    """Raise ConfigError where a host has no link, or one to a host."""
    n_hosts = net.n_hosts
    n_out = np.diff(net.first_out[: n_hosts + 1])
    if n_hosts and not n_out.all():
        alone = net.node_name(int(np.argmin(n_out)))
        raise ConfigError("topology", f"host {alone} has no link", "one link or more each")
    mine = slice(0, int(net.first_out[n_hosts]))
    host, router = net.src[mine], net.dst[mine] - n_hosts
    if (router < 0).any():
        i = int(np.argmax(router < 0))
        pair = f"{net.node_name(int(host[i]))} and {net.node_name(int(net.dst[i]))}"
        raise ConfigError("topology", f"a link between hosts {pair}", "a router between them")


def _build_groups(net: Net, *, to_routers: bool) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Group of each target, and routers of each group as rows (G, D), -1 beyond the last."""
    n_hosts = net.n_hosts
    n_routers = net.n_nodes - n_hosts if to_routers else 0
    mine = slice(0, int(net.first_out[n_hosts]))
    host, router = net.src[mine], net.dst[mine] - n_hosts
    n_out = np.diff(net.first_out[: n_hosts + 1])
    rows = np.full((n_hosts + n_routers, int(n_out.max(initial=1))), -1, np.int64)
    is_way = (net.is_up[mine] != 0) & (router >= 0)
    rows[host, np.arange(host.size) - net.first_out[host]] = np.where(is_way, router, -1)
    rows[n_hosts:, 0] = np.arange(n_routers)
    rows.sort(axis=1)
    rows[:, 1:][rows[:, 1:] == rows[:, :-1]] = -1  # two links to one router
    rows = -np.sort(-rows, axis=1)
    homes, at, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(at)
    number = np.empty(order.size, np.int32)
    number[order] = np.arange(order.size)
    return number[inverse.reshape(-1)], homes[order]


def _build_arcs(net: Net) -> tuple[Arcs, NDArray[np.int32]]:
    """Links between routers, and their indices in the net."""
    is_inner = (net.src >= net.n_hosts) & (net.dst >= net.n_hosts) & (net.is_up != 0)
    link = np.nonzero(is_inner)[0]
    n_routers = net.n_nodes - net.n_hosts
    src, to = net.src[link] - net.n_hosts, net.dst[link] - net.n_hosts
    first = np.searchsorted(src, np.arange(n_routers + 1)).astype(np.int64)
    code = np.arange(1, link.size + 1, dtype=np.uint64)
    for shift, factor in _MIX:
        code = (code ^ (code >> np.uint64(shift))) * np.uint64(factor)
    cost = net.weight[link].astype(np.int32)
    return Arcs(first, to.astype(np.int32), code, cost), link.astype(np.int32)


def _empty_sets(n_sets: int, n_arcs: int) -> Sets:
    n_slots = 1 << (2 * n_sets).bit_length()
    return Sets(
        np.zeros(n_sets + 1, np.int64),
        np.zeros(n_arcs, np.int32),
        np.zeros(n_sets, np.uint64),
        np.full(n_slots, EMPTY, np.int32),
        np.zeros(1, np.int64),
    )


def _enlarged(sets: Sets) -> Sets:
    """Room for twice as many sets and links."""
    more = _empty_sets(2 * sets.key.size, 2 * sets.arc.size)
    more.first[: sets.first.size] = sets.first
    more.arc[: sets.arc.size] = sets.arc
    more.key[: sets.key.size] = sets.key
    more.n[:] = sets.n
    refill(more)
    return more
