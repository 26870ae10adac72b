"""Unicast paths between routers over the links that are up; every link costs one.

Routes of topo lead to hosts; trees need the way to a router: a rendezvous point, a root. Of
equal paths the group takes one, numbered from the lowest link (RFC 6388 2.4.1.1).
"""

from collections import deque

from fanfold.errors import ConfigError
from fanfold.topo.net import Net

FAR = 2**30
NONE = -1


class Paths:
    """Shortest paths; each target is searched from once."""

    def __init__(self, net: Net, down: frozenset[int], group: int) -> None:
        self._net, self._down, self._group = net, down, group
        self._first = net.first_out.tolist()
        self._dst = net.dst.tolist()
        self._hops: dict[int, list[int]] = {}
        self._next: dict[tuple[int, int], int] = {}

    def hops(self, node: int, target: int) -> int:
        """Links from a router to a router; FAR where there is no path."""
        return self._to(target)[node]

    def next_link(self, node: int, target: int) -> int:
        """The link a router takes toward another, NONE at the end or without a path."""
        link = self._next.get((node, target))
        if link is None:
            link = self._next[node, target] = self._find_next(node, target)
        return link

    def _find_next(self, node: int, target: int) -> int:
        hops = self._to(target)
        if hops[node] in (0, FAR):
            return NONE
        best = hops[node] - 1
        ways = [k for k in self._up(node) if self._is_router(k) and hops[self._dst[k]] == best]
        return ways[self._group % len(ways)]

    def path(self, node: int, target: int) -> tuple[int, ...]:
        """Links from a router to a router, empty where there is none to take."""
        links = []
        while (link := self.next_link(node, target)) != NONE:
            links.append(link)
            node = self._dst[link]
        return tuple(links)

    def attach(self, host: int, target: int = NONE) -> int:
        """The link of a host that has the shortest way to a router.

        Without a target: one of those that lead to the most routers; a host may also hang on a
        switch of its server that leads nowhere else.

        Raises:
            ConfigError: no link of the host leads there.
        """
        ways = self._up(host)
        if target != NONE and ways:
            hops = self._to(target)
            best = min(hops[self._dst[k]] for k in ways)
            ways = [k for k in ways if hops[self._dst[k]] == best < FAR]
        elif ways:
            reach = {k: self._n_routers(self._dst[k]) for k in ways}
            ways = [k for k in ways if reach[k] == max(reach.values())]
        if not ways:
            ends = self._net.node_name(host), self._net.node_name(target)
            raise ConfigError("members", f"no path from {ends[0]} to {ends[1]}", "a path")
        return ways[self._group % len(ways)]

    def _n_routers(self, router: int) -> int:
        return sum(hops < FAR for hops in self._to(router)[self._net.n_hosts :])

    def _up(self, node: int) -> list[int]:
        links = range(self._first[node], self._first[node + 1])
        return [k for k in links if k not in self._down]

    def _is_router(self, link: int) -> bool:
        return bool(self._dst[link] >= self._net.n_hosts)

    def _to(self, target: int) -> list[int]:
        """Hops of every node to a target; hosts pass nothing on."""
        if target not in self._hops:
            hops = [FAR] * self._net.n_nodes
            hops[target] = 0
            queue = deque([target])
            while queue:
                node = queue.popleft()
                for link in self._up(node):
                    to = self._dst[link]
                    if self._is_router(link) and hops[to] == FAR:
                        hops[to] = hops[node] + 1
                        queue.append(to)
            self._hops[target] = hops
        return self._hops[target]
