"""The longest idle round trip of a net, from which waits are made (sim/waits.py).

A full packet out and its answer back, by the longest of equal paths. Letters: H = hosts, R =
routers, L = links.
"""

import numpy as np
from numpy.typing import NDArray

from fanfold.topo.byte_time import BYTE_BIT_PS
from fanfold.topo.net import Net
from fanfold.topo.routes import FAR, Routes

I64 = NDArray[np.int64]
FULL_BYTES = 4160
"""Of a full packet and its answer on a line."""
SAMPLE = 16
"""Racks from which every host is tried."""
N_SWEEPS = 2
"""Then the farthest host found so far, in turn: together they are the ends of the net."""


def round_trip(net: Net, routes: Routes) -> int:
    """Longest round trip without queues, in ps.

    From all hosts to one of each of up to SAMPLE racks, to the slowest host, and to those that
    were farthest; to all hosts where these are few.
    """
    cost = 2 * net.prop_ps + FULL_BYTES * BYTE_BIT_PS // net.bps
    picked = list(range(net.n_hosts))
    if net.n_hosts > SAMPLE:
        _, first = np.unique(net.rack, return_index=True)
        best = np.maximum.reduceat(net.bps, net.first_out[: net.n_hosts])
        some = first[:: max(first.size // SAMPLE, 1)][:SAMPLE].tolist()
        picked = sorted({*some, int(np.argmin(best)), net.n_hosts - 1})
    rounds = np.stack([_rounds_to(net, routes, cost, host) for host in picked])
    longest = int(rounds.max())
    for _ in range(N_SWEEPS if net.n_hosts > SAMPLE else 0):
        far = int(np.argmax(rounds.max(axis=0)))
        rounds = _rounds_to(net, routes, cost, far)[np.newaxis]
        longest = max(longest, int(rounds.max()))
    return longest


def _rounds_to(net: Net, routes: Routes, cost: I64, host: int) -> I64:
    """(H,) round trips from each host to one of them, 0 where there is no path.

    Args:
        cost: (L,) of each link.
    """
    n_hosts, group = net.n_hosts, routes.group[host]
    hops = routes.hops[:, group]
    left = np.zeros(net.n_nodes - n_hosts, np.int64)
    mine = slice(int(net.first_out[host]), int(net.first_out[host + 1]))
    np.maximum.at(left, net.dst[mine] - n_hosts, cost[net.reverse[mine]])
    for level in np.unique(hops[(hops > 1) & (hops < FAR)]):
        (routers,) = np.nonzero(hops == level)
        sets = routes.ecmp[routers, group]
        sizes = routes.first[sets + 1] - routes.first[sets]
        starts = np.cumsum(sizes) - sizes
        at = np.arange(int(sizes.sum())) + np.repeat(routes.first[sets] - starts, sizes)
        links = routes.link[at]
        left[routers] = np.maximum.reduceat(
            cost[links] + left[net.dst[links] - n_hosts], starts
        )
    first = net.first_out[:n_hosts]
    ups = slice(0, int(net.first_out[n_hosts]))
    routers = net.dst[ups] - n_hosts
    nearest = np.minimum.reduceat(hops[routers], first)
    is_best = hops[routers] == np.repeat(nearest, np.diff(net.first_out[: n_hosts + 1]))
    is_best &= hops[routers] < FAR
    rounds = np.maximum.reduceat(np.where(is_best, cost[ups] + left[routers], 0), first)
    rounds[host] = 0
    return rounds
