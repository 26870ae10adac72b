"""Where the nodes of a net stand on a drawing; what is too many for one is drawn in groups.

Letters: N = nodes, L = directed links, S = spots of the drawing. Coordinates run from 0 to 1,
y downwards. Tiers are rows, hosts below; where nodes of one tier are joined to each other they
stand on a circle instead, and what hangs on them outside it.
"""

from math import cos, pi, sin
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.topo.net import Net

I64 = NDArray[np.int64]
MOST_SPOTS = 280
"""Nodes that are drawn one by one."""
MOST_RACKS = 420
"""Racks and routers together that are drawn one by one."""
MOST_GROUPS = 64
"""Groups of one tier in a drawing of groups."""
NOT_ONE = -1


class Spot(NamedTuple):
    """A node, or a group of nodes of one tier."""

    name: str
    tier: int
    n_nodes: int
    x: float
    y: float


class Layout(NamedTuple):
    """spot_of: (N,). lines: pairs of spots that a cable joins, the lower number first."""

    spots: tuple[Spot, ...]
    spot_of: I64
    lines: tuple[tuple[int, int], ...]
    is_round: bool
    is_grouped: bool


def place_nodes(net: Net) -> Layout:
    """Layout of a net."""
    label = _labels(net)
    _, first, spot_of = np.unique(label, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(first))  # spots in the order of their first node
    spot_of = order[spot_of]
    n_spots = first.size
    first = np.sort(first)
    tier = net.tier[first]
    ends = np.stack([spot_of[net.src], spot_of[net.dst]], axis=1)
    ends = np.unique(np.sort(ends, axis=1), axis=0)
    ends = ends[ends[:, 0] != ends[:, 1]]
    is_round = bool((tier[ends[:, 0]] == tier[ends[:, 1]]).any())
    rank = _ranks(tier, ends)
    place = _on_circles if is_round else _in_rows
    xy = place(tier, rank, ends)
    sizes = np.bincount(spot_of, minlength=n_spots)
    spots = tuple(
        Spot(_name(net, spot_of, s, int(first[s])), int(tier[s]), int(sizes[s]), *xy[s])
        for s in range(n_spots)
    )
    lines = tuple((int(a), int(b)) for a, b in ends)
    return Layout(spots, spot_of, lines, is_round, n_spots < net.n_nodes)


def _labels(net: Net) -> I64:
    """(N,) equal for nodes that are drawn as one."""
    nodes = np.arange(net.n_nodes)
    if net.n_nodes <= MOST_SPOTS:
        return nodes
    by_rack = nodes.copy()
    by_rack[: net.n_hosts] = -1 - net.rack
    if np.unique(by_rack).size <= MOST_RACKS:
        return by_rack
    pod = _pods(net)
    n_pods = int(pod.max(initial=0)) + 1
    label = nodes.copy()
    for tier in np.unique(net.tier).tolist():
        here = np.nonzero(net.tier == tier)[0]
        own = pod[here]
        n_groups = min(MOST_GROUPS, here.size)
        chunk = np.arange(here.size) * n_groups // here.size
        of_pod = own * MOST_GROUPS // max(n_pods, MOST_GROUPS)
        label[here] = (tier + 1) * 4 * MOST_GROUPS + np.where(
            own == NOT_ONE, 2 * MOST_GROUPS + chunk, of_pod
        )
    return label


def _pods(net: Net) -> I64:
    """(N,) the one pod that all hosts below a node stand in, NOT_ONE where they are several."""
    pod = np.full(net.n_nodes, NOT_ONE)
    pod[: net.n_hosts] = net.pod
    for tier in range(1, int(net.tier.max(initial=0)) + 1):
        up = (net.tier[net.dst] == tier) & (net.tier[net.src] < tier)
        low, high = net.dst[up], pod[net.src[up]]
        least, most = np.full(net.n_nodes, 2**62), np.full(net.n_nodes, -(2**62))
        np.minimum.at(least, low, high)
        np.maximum.at(most, low, high)
        here = (net.tier == tier) & (least == most)
        pod[here] = least[here]
    return pod


def _ranks(tier: I64, ends: I64) -> NDArray[np.float64]:
    """(S,) from 0 to 1 along a tier: hosts in order, others above what is below them."""
    rank = np.zeros(tier.size)
    for level in np.unique(tier).tolist():
        here = np.nonzero(tier == level)[0]
        if level != tier.min():
            want = _middles(here, tier, rank, ends)
            here = here[np.lexsort((here, want))]
        rank[here] = (np.arange(here.size) + 0.5) / here.size
    return rank


def _middles(here: I64, tier: I64, rank: NDArray[np.float64], ends: I64) -> NDArray[np.float64]:
    total, count = np.zeros(tier.size), np.zeros(tier.size)
    for low, high in ((ends[:, 0], ends[:, 1]), (ends[:, 1], ends[:, 0])):
        up = tier[low] < tier[high]
        np.add.at(total, high[up], rank[low[up]])
        np.add.at(count, high[up], 1)
    middle: NDArray[np.float64] = (total / np.maximum(count, 1)).round(6)[here]
    return middle


def _in_rows(tier: I64, rank: NDArray[np.float64], ends: I64) -> list[tuple[float, float]]:
    del ends
    levels = np.unique(tier)
    row = np.searchsorted(levels, tier)
    y = 1 - row / max(levels.size - 1, 1)
    return [(round(float(a), 5), round(float(b), 5)) for a, b in zip(rank, y, strict=True)]


def _on_circles(tier: I64, rank: NDArray[np.float64], ends: I64) -> list[tuple[float, float]]:
    """Highest tier on the inner circle, what hangs on it outside, at its angle."""
    turn = rank.copy()
    top = int(tier.max())
    inner = np.nonzero(tier == top)[0]
    turn[inner] = np.arange(inner.size) / max(inner.size, 1)
    for level in sorted(set(tier.tolist()) - {top}, reverse=True):
        parent: dict[int, int] = {}
        for a, b in ends.tolist():
            low, high = (a, b) if tier[a] < tier[b] else (b, a)
            if tier[low] == level < tier[high]:
                parent.setdefault(low, high)
        below: dict[int, list[int]] = {}
        for low, high in sorted(parent.items()):
            below.setdefault(high, []).append(low)
        width = 1 / max(int((tier == top).sum()), 1) ** (1 if level == top - 1 else 1.5)
        for high, lows in below.items():
            for i, low in enumerate(lows):
                turn[low] = turn[high] + width * ((i + 0.5) / len(lows) - 0.5) * 0.8
    n_levels = len(set(tier.tolist()))
    radius = {t: 1 - i / n_levels for i, t in enumerate(sorted(set(tier.tolist())))}
    return [
        (
            round(0.5 + 0.5 * radius[t] * sin(2 * pi * a), 5),
            round(0.5 - 0.5 * radius[t] * cos(2 * pi * a), 5),
        )
        for t, a in zip(tier.tolist(), turn.tolist(), strict=True)
    ]


def _name(net: Net, spot_of: I64, spot: int, first: int) -> str:
    nodes = np.nonzero(spot_of == spot)[0]
    if nodes.size == 1:
        return net.node_name(first)
    return f"{net.node_name(first)} .. {net.node_name(int(nodes[-1]))}"
