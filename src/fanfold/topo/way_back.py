"""Which entropy leads a word back over the way that the data came.

A node picks one of its equal paths by the packet's entropy and by its own place in the fabric
(``kernels.bift``), so the same entropy may lead down over one spine and up over another.
"""

from functools import cached_property

from fanfold.topo.bift import table_of
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_routes import FabricRoutes

Way = tuple[str, ...]


class WaysBack:
    """Entropies of one node's answers; what was found once is kept."""

    def __init__(self, fabric: Fabric, name: str) -> None:
        self._fabric, self._name = fabric, name
        self._found: dict[tuple[int, int], int] = {}

    @cached_property
    def _routes(self) -> FabricRoutes:
        """Routes of all nodes: only where they are needed."""
        return FabricRoutes(self._fabric)

    def entropy(self, bfir_id: int, entropy: int) -> int:
        """Entropy of a word to a BFIR whose packet came with this one."""
        n_ecmp = self._fabric.n_ecmp
        source = self._fabric.by_bfr_id.get(bfir_id)
        if source is None or source.name == self._name or n_ecmp == 1:
            return entropy
        key = bfir_id, table_of(entropy, n_ecmp)
        if key not in self._found:
            self._found[key] = self._table(source.name, key[1])
        return self._found[key]

    def _table(self, source: str, table: int) -> int:
        """Table whose way back has most of the nodes that the way here has."""
        came = self.way(source, self._name, table)
        if len(came) < 2:
            return table
        last = came[-2]  # words go out where the data came in
        shared = [
            len(set(came).intersection(self.way(last, source, t)))
            for t in range(self._fabric.n_ecmp)
        ]
        return shared.index(max(shared))

    def way(self, source: str, target: str, table: int) -> Way:
        """Nodes from a source to a BFER, both included; empty where there is no path."""
        way = [source]
        while way[-1] != target:
            after = self._routes.next_hop(way[-1], target, table)
            if not after:
                return ()
            way.append(after)
        return tuple(way)
