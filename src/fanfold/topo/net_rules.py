"""What makes a net usable, and where its nodes stand when nobody said so."""

import numpy as np
import rustworkx as rx
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.topo.net import Net

I64 = NDArray[np.int64]
FAR_TIER = 2**30


def check_net(net: Net, source: str) -> None:
    """Raise ConfigError where a host hangs on no router or hosts have no path to each other.

    A path leads over routers only; two hosts that share one part of the routers have one.
    """
    part = _parts(net)
    homes: list[set[int]] = [set() for _ in range(net.n_hosts)]
    n_mine = int(net.first_out[net.n_hosts])
    for host, to in zip(net.src[:n_mine].tolist(), net.dst[:n_mine].tolist(), strict=True):
        if to < net.n_hosts:
            pair = f"a link from host {net.node_name(host)} to host {net.node_name(to)}"
            raise ConfigError(source, pair, "a router between hosts")
        homes[host].add(int(part[to - net.n_hosts]))
    first = {frozenset(home): host for host, home in reversed(list(enumerate(homes)))}
    if frozenset() in first:
        alone = net.node_name(first[frozenset()])
        raise ConfigError(source, f"host {alone} without a link", "hosts on routers")
    for home, host in first.items():
        for other, far in first.items():
            if not home & other:
                a, b = (net.node_name(h) for h in sorted((host, far)))
                raise ConfigError(
                    source, f"no path from {a} to {b}", "hosts that are connected"
                )


def tiers_of(n_hosts: int, n_nodes: int, a: I64, b: I64) -> tuple[I64, I64]:
    """Tier of each node, links to the nearest host; rack of each host, its first router.

    Args:
        a, b: (E,) ends of cables. Nodes without a way to a host stand above all others.
    """
    tier = np.full(n_nodes, FAR_TIER, np.int64)
    tier[:n_hosts] = 0
    src, dst = np.concatenate([a, b]), np.concatenate([b, a])
    level = 0
    while (tier == level).any():
        reached = dst[tier[src] == level]
        level += 1
        tier[reached[tier[reached] == FAR_TIER]] = level
    tier[tier == FAR_TIER] = level
    lowest = np.full(n_nodes, n_nodes, np.int64)
    up = (src < n_hosts) & (dst >= n_hosts)
    np.minimum.at(lowest, src[up], dst[up])
    _, rack = np.unique(lowest[:n_hosts], return_inverse=True)
    return tier, rack.reshape(-1).astype(np.int64)


def _parts(net: Net) -> I64:
    """Number of the connected part each router is in, hosts left out."""
    n_routers = net.n_nodes - net.n_hosts
    graph: rx.PyGraph[None, None] = rx.PyGraph()
    graph.add_nodes_from([None] * n_routers)
    inner = (net.src >= net.n_hosts) & (net.dst > net.src)
    ends = np.stack([net.src[inner], net.dst[inner]], axis=1) - net.n_hosts
    graph.add_edges_from_no_data([(int(x), int(y)) for x, y in ends.tolist()])
    part = np.zeros(n_routers, np.int64)
    for i, nodes in enumerate(rx.connected_components(graph)):
        part[list(nodes)] = i
    return part
