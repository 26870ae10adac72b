"""Equal-cost next hops of a net, by group: hosts that hang on the same routers are one group.

Letters: H = hosts, R = routers, G = groups, K = ECMP sets. Every link costs one. Computed once
for a net: one breadth-first search for each group, from the routers its hosts hang on.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.topo.net import Net
from fanfold.topo.search import EMPTY, NO_ROOM, Arcs, Batch, Sets, refill, search

I64 = NDArray[np.int64]
FAR = 2**14
"""Hops to a group that cannot be reached."""
MAX_PAIRS = 2**27
"""Pairs of router and group: six bytes each."""
_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))
"""Shifts and factors of SplitMix64's finisher."""


class Routes(NamedTuple):
    """Where each router sends what is meant for a group.

    group: (H,) group of a host. hops: (R, G) int16 links from a router to the hosts of a group
    (1 where they hang on it), FAR where there is no path. ecmp: (R, G) int32 index of the set
    of links on shortest paths; unused where hops is 1 or FAR. first, link: (K + 1,) and the
    links of set k at first[k]..first[k + 1], rising. n_groups: G.

    A router r is node H + r. Where hops is 1 the link is the one of the router that leads to
    the host itself. A host sends over any of its own links whose router has the fewest hops.
    """

    group: NDArray[np.int32]
    hops: NDArray[np.int16]
    ecmp: NDArray[np.int32]
    first: I64
    link: NDArray[np.int32]

    @property
    def n_groups(self) -> int:
        """Groups of hosts."""
        return int(self.hops.shape[1])


def build_routes(net: Net) -> Routes:
    """Routes of a net; what cannot be reached stays FAR.

    Raises:
        ConfigError: a host without a router, or more pairs of router and group than fit.
    """
    group, homes = _build_groups(net)
    n_routers, n_groups = net.n_nodes - net.n_hosts, len(homes)
    if n_routers * n_groups > MAX_PAIRS:
        pairs = f"{n_routers} routers x {n_groups} groups of hosts"
        raise ConfigError("topology", pairs, f"at most {MAX_PAIRS} pairs")
    hops = np.full((n_routers, n_groups), FAR, np.int16)
    ecmp = np.zeros((n_routers, n_groups), np.int32)
    arcs, link = _build_arcs(net)
    sets = _empty_sets(4 * n_routers + 64, arcs.to.size + 64)
    for g0 in range(0, n_groups, 64):
        mine = homes[g0 : g0 + 64]
        at, _ = np.nonzero(mine >= 0)
        routers = mine[mine >= 0]
        hops[routers, g0 + at] = 1
        seen = np.zeros(n_routers, np.uint64)
        np.bitwise_or.at(seen, routers, np.left_shift(np.uint64(1), at.astype(np.uint64)))
        while True:
            batch = Batch(
                seen.copy(),
                np.zeros(n_routers, np.uint64),
                np.zeros(n_routers, np.uint64),
                np.zeros(64, np.uint64),
                np.zeros(64, np.int64),
                np.zeros(64, np.int64),
            )
            if search(arcs, batch, sets, g0, hops, ecmp) != NO_ROOM:
                break
            sets = _enlarged(sets)
    n_sets = int(sets.n[0])
    first = sets.first[: n_sets + 1].copy()
    return Routes(group, hops, ecmp, first, link[sets.arc[: first[-1]]])


def _build_groups(net: Net) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Group of each host, and the routers of each group as rows (G, D), -1 beyond the last."""
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
    rows = np.full((n_hosts, int(n_out.max(initial=1))), -1, np.int64)
    rows[host, np.arange(host.size) - net.first_out[host]] = router
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
    link = np.nonzero((net.src >= net.n_hosts) & (net.dst >= net.n_hosts))[0]
    n_routers = net.n_nodes - net.n_hosts
    src, to = net.src[link] - net.n_hosts, net.dst[link] - net.n_hosts
    first = np.searchsorted(src, np.arange(n_routers + 1)).astype(np.int64)
    code = np.arange(1, link.size + 1, dtype=np.uint64)
    for shift, factor in _MIX:
        code = (code ^ (code >> np.uint64(shift))) * np.uint64(factor)
    return Arcs(first, to.astype(np.int32), code), link.astype(np.int32)


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
