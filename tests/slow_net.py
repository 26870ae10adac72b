"""A net as plain data and its paths, by itself: breadth-first search, no tables of fanfold."""

import hashlib
from collections import deque
from typing import NamedTuple

FAR = 10**6
MASK = 2**64 - 1
BYTE_BIT_PS = 8 * 10**12
DATA, ACK, WORD, FOLD = "data", "ack", "word", "fold"
WIDTHS = (64, 128, 256, 512, 1024, 2048, 4096)


class Item(NamedTuple):
    """A message, a fan to several, or their sum; needs: items that come before it.

    joins: of a sum, "one" or "all" who get it; src is its rank 0.
    """

    src: int
    to: tuple[int, ...]
    size: int
    needs: tuple[int, ...] = ()
    is_fan: bool = False
    joins: str = ""


class Rules(NamedTuple):
    """What is charged. tree: "" for BIER; "ip", "mpls", "sr": what packets of trees bear."""

    payload: int = 4096
    header: int = 64
    ack: int = 64
    switch_ps: int = 0
    is_sprayed: bool = True
    cuts: bool = False
    window: int = 0
    block: int = 64
    folds: bool = False
    tree: str = ""
    is_each: bool = False
    seed: int = 1
    sum_window: int = 0
    has_codes: bool = False


class Plain(NamedTuple):
    """Links sorted by the node they leave, hosts numbered first; ``back``: the other way."""

    n_hosts: int
    n_nodes: int
    src: list[int]
    dst: list[int]
    bps: list[int]
    prop: list[int]
    back: list[int]


class Paths:
    """Shortest paths of a net; hosts pass nothing on."""

    def __init__(self, net):
        self.net, self.far_from = net, {}
        self.out = [[k for k, a in enumerate(net.src) if a == n] for n in range(net.n_nodes)]
        routers = range(net.n_hosts, net.n_nodes)
        self.is_flat = all(any(net.dst[k] < net.n_hosts for k in self.out[r]) for r in routers)

    def far(self, *targets):
        """Links from each router to the nearest of some routers."""
        if targets not in self.far_from:
            far = [FAR] * self.net.n_nodes
            for node in targets:
                far[node] = 0
            edge = deque(targets)
            while edge:
                node = edge.popleft()
                for k in self.out[node]:
                    to = self.net.dst[k]
                    if to >= self.net.n_hosts and far[to] == FAR:
                        far[to] = far[node] + 1
                        edge.append(to)
            self.far_from[targets] = far
        return self.far_from[targets]

    def hops(self, node, host):
        """Links from a router to a host."""
        return 1 + self.far(*(self.net.dst[k] for k in self.out[host]))[node]

    def first_links(self, source, host):
        """A host's own links that begin a shortest path."""
        left = {k: self.hops(self.net.dst[k], host) for k in self.out[source]}
        return [k for k in left if left[k] == min(left.values())]

    def fan_link(self, source, host):
        """The first link if it leads there, else the nearest one."""
        first = self.out[source][0]
        leads = self.hops(self.net.dst[first], host) < FAR
        return first if leads else self.first_links(source, host)[0]

    def ways(self, router, host):
        """Links on shortest paths; the first one of several to the host itself."""
        left = self.hops(router, host)
        if left == 1:
            down = next(k for k in self.out[host] if self.net.dst[k] == router)
            return [self.net.back[down]]
        return [
            k
            for k in self.out[router]
            if self.net.dst[k] >= self.net.n_hosts
            and self.hops(self.net.dst[k], host) == left - 1
        ]

    def table_way(self, router, host, table, n_tables):
        """The link of one table: odd hops by its low part, even ones by its high part."""
        ways = self.ways(router, host)
        if len(ways) == 1 or self.is_flat:
            return ways[0 if table % 2 == 0 else -1]
        is_odd = self.hops(router, host) % 2
        part = table if is_odd else table * len(ways) // n_tables
        return ways[(part + router) % len(ways)]

    def tree_link(self, source):
        """A host may also hang on a switch of its server that leads nowhere else."""
        reach = {k: sum(n < FAR for n in self.far(self.net.dst[k])) for k in self.out[source]}
        return max(reach, key=reach.__getitem__)

    def tree_way(self, router, host, source):
        """A tree is made of the first shortest paths from receivers to the source's router."""
        far = self.far(self.net.dst[self.tree_link(source)])
        up = min(self.out[host], key=lambda k: far[self.net.dst[k]])
        while (node := self.net.dst[up]) != router:
            up = next(k for k in self.out[node] if far[self.net.dst[k]] == far[node] - 1)
        return self.net.back[up]

    def round_trip(self):
        """The longest of idle ones: a full packet there, no size back, by any equal path."""
        hosts = range(self.net.n_hosts)
        pairs = [(a, b) for a in hosts for b in hosts if a != b]
        return max(self._round(k, b) for a, b in pairs for k in self.first_links(a, b))

    def _round(self, link, host):
        """From a link on."""
        node, net = self.net.dst[link], self.net
        left = 0 if node == host else max(self._round(k, host) for k in self.ways(node, host))
        return 2 * net.prop[link] + 4160 * 8 * 10**12 // net.bps[link] + left


def first_path(src, dst, nic, seed):
    """Number that picks a message's paths, of its ends, its first link and the seed."""
    return mixed(src * 1_000_003 + dst * 7919 + nic * 31, seed, "sim/paths") >> 33


def first_table(source, seed):
    """Number that picks the table of a source's first fan."""
    return mixed(source * 1_000_003, seed, "sim/fans")


def mixed(code, seed, name):
    """SplitMix64's finisher over a number and a named stream of the seed."""
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=16).digest()
    code ^= int.from_bytes(digest) & MASK
    code = (code ^ code >> 30) * 0xBF58476D1CE4E5B9 & MASK
    code = (code ^ code >> 27) * 0x94D049BB133111EB & MASK
    return code ^ code >> 31
