"""Hop distances and equal-cost next hops in a fabric.

The routing underlay of RFC 8279 section 4.1 with every link at cost one. Hosts never pass
traffic on: a path may start or end at a host and holds none in between.
"""

import numpy as np
import rustworkx as rx
from numpy.typing import NDArray

from fanfold.topo.fabric import Fabric


def build_graph(fabric: Fabric) -> "rx.PyDiGraph[str, None]":
    """Directed graph of who passes traffic on: indices as in the fabric, no arc from a host."""
    graph: rx.PyDiGraph[str, None] = rx.PyDiGraph()
    names = [node.name for node in fabric.nodes]
    index = dict(zip(names, graph.add_nodes_from(names), strict=True))
    for node in fabric.nodes:
        if node.role == "bfr":
            arcs = [(index[node.name], index[n], None) for n in fabric.neighbours[node.name]]
            graph.add_edges_from(arcs)
    return graph


class Paths:
    """Shortest paths of one fabric, computed once: memory is the square of its nodes."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self._index = {node.name: i for i, node in enumerate(fabric.nodes)}
        # onward[v, x]: hops to x of a packet that v passes on; infinite from a host
        self._onward: NDArray[np.float64] = rx.distance_matrix(
            build_graph(fabric), null_value=np.inf
        )
        np.fill_diagonal(self._onward, 0)

    def hops(self, source: str, target: str) -> int | None:
        """Links on a shortest path, 0 to itself, None where there is no path."""
        if source == target:
            return 0
        ways = [self._onward_hops(n, target) for n in self.fabric.neighbours[source]]
        best = min(ways, default=np.inf)
        return None if best == np.inf else int(best) + 1

    def next_hops(self, source: str, target: str) -> tuple[str, ...]:
        """All neighbours of the source on shortest paths, by name; none to itself."""
        n_hops = self.hops(source, target)
        if not n_hops:
            return ()
        near = self.fabric.neighbours[source]
        return tuple(n for n in near if self._onward_hops(n, target) == n_hops - 1)

    def _onward_hops(self, via: str, target: str) -> float:
        return float(self._onward[self._index[via], self._index[target]])
