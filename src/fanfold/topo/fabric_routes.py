"""Paths of a fabric, computed once: the routing underlay of RFC 8279 section 4.1.

Hosts never pass traffic on: a path may start or end at a host and holds none in between.
"""

import msgspec
import numpy as np

from fanfold.kernels.bift import NO_WAY, Birt, cost_of, n_ways, port_of, way_at
from fanfold.kernels.tables import NULL_NBR
from fanfold.topo.birt import build_birt
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_net import fabric_net
from fanfold.topo.routes import build_routes


class FabricRoutes:
    """A fabric's net and the BIRT of each of its nodes."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.net = fabric_net(fabric)
        self._index = {self.net.node_name(n): n for n in range(self.net.n_nodes)}
        n_bits = fabric.bitstring_bits
        n_sets = -(-max(fabric.by_bfr_id, default=0) // n_bits)
        target_of = np.full(n_sets * n_bits, NULL_NBR, np.int64)
        for bfr_id, node in fabric.by_bfr_id.items():
            target_of[bfr_id - 1] = self._index[node.name]
        routes = build_routes(self.net, to_routers=True)
        self.birt = build_birt(self.net, routes, fabric.n_ecmp, target_of)
        self._birts: dict[int, Birt] = {}

    def birt_of(self, sub_domain: int) -> Birt:
        """BIRTs that know the BFERs of one sub-domain only."""
        if not self.fabric.tenants:
            return self.birt
        birt = self._birts.get(sub_domain)
        if birt is None:
            birt = self._birts[sub_domain] = self._build_birt_of(sub_domain)
        return birt

    def _build_birt_of(self, sub_domain: int) -> Birt:
        if self.fabric.rule_of(sub_domain):
            kept = FabricRoutes(confined(self.fabric, sub_domain)).birt
            return self._masked(kept, sub_domain)
        return self._masked(self.birt, sub_domain)

    def _masked(self, birt: Birt, sub_domain: int) -> Birt:
        target_of = np.full_like(birt.target_of, NULL_NBR)
        for bfr_id in self.fabric.sub_domains[sub_domain]:
            target_of[bfr_id - 1] = birt.target_of[bfr_id - 1]
        return birt._replace(target_of=target_of)

    def index(self, name: str) -> int:
        """Number of a node in the net."""
        return self._index[name]

    def hops(self, source: str, target: str) -> int | None:
        """Cost of a shortest path, 0 to itself, None where there is no path."""
        cost = cost_of(self.birt, self._index[source], self._index[target])
        return None if cost == NO_WAY else int(cost)

    def next_hops(self, source: str, target: str) -> tuple[str, ...]:
        """All neighbours of the source on shortest paths, by port; none to itself."""
        if source == target:
            return ()
        ends = self._index[source], self._index[target]
        n = range(n_ways(self.birt, *ends))
        return tuple(self._name_at(source, way_at(self.birt, *ends, at)) for at in n)

    def next_hop(self, source: str, target: str, table: int) -> str:
        """The one of them that a BIFT takes; empty where there is none."""
        port = int(port_of(self.birt, self._index[source], self._index[target], table))
        return "" if port == NULL_NBR else self._name_at(source, port)

    def _name_at(self, node: str, port: int) -> str:
        return self.fabric.port_nodes(node)[port].name


def confined(fabric: Fabric, sub_domain: int) -> Fabric:
    """The fabric as a sub-domain with a rule may use it: links of nodes that break it are down.

    It has no tenants: its tables are those of all BFERs.
    """
    links = tuple(
        link
        if all(fabric.keeps_rule(end, sub_domain) for end in (link.a, link.b))
        else msgspec.structs.replace(link, up=False)
        for link in fabric.links
    )
    return msgspec.structs.replace(fabric, links=links, tenants=())
