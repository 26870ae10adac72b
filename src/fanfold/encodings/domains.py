"""Parts of a net that number their own hosts: pods, or racks where all is one pod."""

import numpy as np
from numpy.typing import NDArray

from fanfold.topo.net import Net

I64 = NDArray[np.int64]
OUTSIDE = -1


def places_of(net: Net) -> I64:
    """(H,) pod of each host, numbered in the order in which they first appear."""
    label = net.pod if np.unique(net.pod).size > 1 else net.rack
    _, at, inverse = np.unique(label, return_index=True, return_inverse=True)
    number = np.empty(at.size, np.int64)
    number[np.argsort(at)] = np.arange(at.size)
    found: I64 = number[inverse.reshape(-1)]
    return found


def domains_of(net: Net, place: I64) -> I64:
    """(N,) domain of each node: that of all nodes below it, or OUTSIDE where they differ."""
    domain = np.full(net.n_nodes, OUTSIDE, np.int64)
    domain[: net.n_hosts] = place
    for tier in range(1, int(net.tier.max()) + 1):
        is_down = (net.tier[net.src] == tier) & (net.tier[net.dst] < tier)
        node, below = net.src[is_down], domain[net.dst[is_down]]
        low = np.full(net.n_nodes, np.iinfo(np.int64).max)
        high = np.full(net.n_nodes, OUTSIDE, np.int64)
        np.minimum.at(low, node, below)
        np.maximum.at(high, node, below)
        is_one = (low == high) & (net.tier == tier)
        domain[is_one] = low[is_one]
    return domain
