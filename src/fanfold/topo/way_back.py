"""Which entropy leads a word back over the way that the data came.

A node picks one of its equal paths by the packet's entropy and by its own place in the fabric
(``topo.bift``), so the same entropy may lead down over one spine and up over another.
"""

from fanfold.topo.bift import has_hosts_everywhere, pick_nbr, table_of
from fanfold.topo.birt import BirtRow
from fanfold.topo.fabric import Fabric
from fanfold.topo.graph import Paths

Way = tuple[str, ...]


class WaysBack:
    """Entropies of one node's answers; what was found once is kept."""

    def __init__(self, fabric: Fabric, name: str) -> None:
        self._fabric, self._name = fabric, name
        self._paths: Paths | None = None  # a matrix of all nodes: only where it is needed
        self._is_flat = has_hosts_everywhere(fabric)
        ordered = sorted(fabric.nodes, key=lambda node: node.role != "host")
        self._rotation = {node.name: i for i, node in enumerate(ordered)}
        self._found: dict[tuple[int, int], int] = {}
        self._rows: dict[tuple[str, str], BirtRow] = {}

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
            row = self._row(way[-1], target)
            if not row.nbrs:
                return ()
            port = pick_nbr(
                row,
                table,
                self._fabric.n_ecmp,
                self._rotation[way[-1]],
                is_flat=self._is_flat,
            )
            way.append(self._fabric.port_nodes(way[-1])[port].name)
        return tuple(way)

    def _row(self, node: str, target: str) -> BirtRow:
        if (node, target) not in self._rows:
            if self._paths is None:
                self._paths = Paths(self._fabric)
            near = self._paths.next_hops(node, target)
            nbrs = tuple(self._fabric.port_to(node, n) for n in near)
            hops = self._paths.hops(node, target) or 0
            self._rows[node, target] = BirtRow(0, 0, 0, hops, nbrs)
        return self._rows[node, target]
