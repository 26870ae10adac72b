"""A random regular graph, as peer-to-peer systems build: every router has the same degree.

Pairs of free ends are drawn until no two ends are left (Steger and Wormald 1999); a draw that
gets stuck, or is not connected, is thrown away.
"""

from collections.abc import Callable

import numpy as np
import rustworkx as rx
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.streams import stream
from fanfold.topo.net import Net
from fanfold.topo.sketch import LINE, Line, direct_sketch

MAX_DRAWS = 1000
Pair = tuple[int, int]


def random_regular(hosts: int, degree: int, seed: int, *, line: Line = LINE) -> Net:
    """Random regular graph of routers with a host on each.

    Raises:
        ConfigError: no such graph, or none found that is connected.
    """
    if degree >= hosts:
        raise ConfigError("degree", degree, f"below hosts = {hosts}")
    if hosts * degree % 2:
        raise ConfigError("degree", degree, f"an even number, as hosts = {hosts} is odd")
    draw = stream(seed, f"topo/random/{hosts}/{degree}")
    for _ in range(MAX_DRAWS):
        pairs = _draw_pairs(hosts, degree, draw.shuffle)
        if pairs and _is_connected(hosts, pairs):
            sketch, router = direct_sketch(hosts, line)
            low, high = np.array(sorted(pairs)).T
            sketch.cable(router[low], router[high], line)
            return sketch.build("random", sketch.hosts)
    raise ConfigError("degree", degree, "a degree of which connected graphs are not rare")


def _draw_pairs(
    hosts: int, degree: int, shuffle: Callable[[NDArray[np.int64]], None]
) -> set[Pair]:
    """One draw; empty when it got stuck."""
    pairs: set[Pair] = set()
    free = np.repeat(np.arange(hosts), degree)
    while free.size:
        shuffle(free)
        left: list[int] = []
        for a, b in np.sort(free.reshape(-1, 2), axis=1).tolist():
            if a == b or (a, b) in pairs:
                left += (a, b)
            else:
                pairs.add((a, b))
        if len(left) == free.size and not _can_go_on(left, pairs):
            return set()
        free = np.array(left, np.int64)
    return pairs


def _can_go_on(left: list[int], pairs: set[Pair]) -> bool:
    ends = sorted(set(left))
    return any((a, b) not in pairs for i, a in enumerate(ends) for b in ends[i + 1 :])


def _is_connected(hosts: int, pairs: set[Pair]) -> bool:
    graph: rx.PyGraph[None, None] = rx.PyGraph()
    graph.add_nodes_from([None] * hosts)
    graph.add_edges_from_no_data(sorted(pairs))
    return rx.is_connected(graph)
