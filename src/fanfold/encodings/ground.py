"""Where packets go on a net: next hops of switches, and the tree that a source would draw.

Equal-cost paths are not spread here: every node takes its lowest link. What headers cost does
not depend on which of them is taken.
"""

from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.topo.net import Net
from fanfold.topo.routes import FAR, Routes

I64 = NDArray[np.int64]
NO_LINK = -1

Branches = dict[int, list[int]]
"""Links that leave each node of a tree, rising."""


class Tree(NamedTuple):
    """(N,) link into each node, NO_LINK without a path; (N,) links from the source."""

    into: I64
    hops: I64


class Ground:
    """A net and its routes; everything is looked up, nothing is kept for a group."""

    def __init__(self, net: Net, routes: Routes) -> None:
        self.net = net
        self.routes = routes
        self._down: dict[int, tuple[I64, I64]] = {}
        self._trees: dict[int, Tree] = {}
        self.clos: object = None
        """The net's layers, kept here by ``clos.clos_of``."""

    @cached_property
    def dst(self) -> list[int]:
        """Node at the end of each link."""
        found: list[int] = self.net.dst.tolist()
        return found

    @cached_property
    def routers(self) -> range:
        """All nodes that forward."""
        return range(self.net.n_hosts, self.net.n_nodes)

    def first_link(self, node: int) -> int:
        """Lowest link of a node; port p of a node is this plus p - 1."""
        return int(self.net.first_out[node])

    def n_ports(self, node: int) -> int:
        """Links that leave a node."""
        return int(self.net.first_out[node + 1] - self.net.first_out[node])

    def next_links(self, node: int, hosts: I64) -> I64:
        """The link that a node takes toward each host, NO_LINK where there is none."""
        if node < self.net.n_hosts:
            return self._links_of_host(node, hosts)
        row, group = node - self.net.n_hosts, self.routes.group[hosts]
        hops = self.routes.hops[row, group]
        # Sets of those at hand and of those out of reach are none: masked below.
        first = self.routes.first[np.maximum(self.routes.ecmp[row, group], 0)]
        at = np.minimum(first, max(self.routes.link.size - 1, 0))
        links = np.full(hosts.size, NO_LINK, np.int64)
        if self.routes.link.size:
            links = np.where(hops < FAR, self.routes.link[at], NO_LINK).astype(np.int64)
        near = hops == 1
        if near.any():
            below, ports = self._hosts_below(node)
            links[near] = ports[np.searchsorted(below, hosts[near])]
        return links

    def next_link(self, node: int, host: int) -> int:
        """The same for one host."""
        row = node - self.net.n_hosts
        group = self.routes.group[host] if row >= 0 else 0
        if row < 0 or self.routes.hops[row, group] in (1, FAR):
            return int(self.next_links(node, np.array([host], np.int64))[0])
        return int(self.routes.link[self.routes.first[self.routes.ecmp[row, group]]])

    def tree_of(self, source: int) -> Tree:
        """Shortest paths from a source; of equal ones each node takes its lowest link."""
        if source not in self._trees:
            self._trees[source] = self._search(source)
        return self._trees[source]

    def branches(self, into: I64, members: Iterable[int]) -> Branches:
        """Links of a tree that lead to members, by the node they leave."""
        found: Branches = {}
        seen: set[int] = set()
        for member in members:
            node = member
            while node not in seen and into[node] != NO_LINK:
                seen.add(node)
                link = int(into[node])
                node = int(self.net.src[link])
                found.setdefault(node, []).append(link)
        for links in found.values():
            links.sort()
        return found

    def _search(self, source: int) -> Tree:
        net = self.net
        into = np.full(net.n_nodes, NO_LINK, np.int64)
        hops = np.zeros(net.n_nodes, np.int64)
        is_known = np.zeros(net.n_nodes, bool)
        front = is_known.copy()
        front[source] = is_known[source] = True
        level = 0
        while front.any():
            level += 1
            links = np.nonzero(front[net.src] & ~is_known[net.dst])[0]
            nodes, at = np.unique(net.dst[links], return_index=True)
            into[nodes] = links[at]
            hops[nodes] = level
            is_known[nodes] = True
            front[:] = False
            front[nodes[nodes >= net.n_hosts]] = True
        return Tree(into, hops)

    def _links_of_host(self, host: int, to: I64) -> I64:
        """Of several links the first whose router is nearest."""
        links = np.arange(self.net.first_out[host], self.net.first_out[host + 1])
        routers = self.net.dst[links] - self.net.n_hosts
        hops = self.routes.hops[routers][:, self.routes.group[to]]
        found: I64 = links[np.argmin(hops, axis=0)]
        return np.where(hops.min(axis=0) < FAR, found, NO_LINK)

    def _hosts_below(self, router: int) -> tuple[I64, I64]:
        """Hosts that hang on a router, rising, and the first link to each."""
        if router not in self._down:
            links = np.arange(self.net.first_out[router], self.net.first_out[router + 1])
            to = self.net.dst[links]
            links, to = links[to < self.net.n_hosts], to[to < self.net.n_hosts]
            hosts, at = np.unique(to, return_index=True)
            self._down[router] = hosts, links[at]
        return self._down[router]
