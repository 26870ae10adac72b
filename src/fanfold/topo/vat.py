"""Virtual aggregation trees: which switches sum the arrays of which servers, and in what order.

draft-song-ina-00, section 2.1. A tree is laid over a net: its leaves are the workers of a job,
all else are VAT nodes on switches, the root may be a server. Each VAT node has an A-BM: the
workers whose arrays it waits for. A worker's packet carries a P-BM with its own bit; where P-BM
and A-BM share a bit the packet is taken in, else it passes. A node that has all of its A-BM
sends one packet to its parent, with P-BM = A-BM. The root sends the result down by BIER with
its A-BM as BitString; that tree need not be this one.

Host h has BFR-id h + 1, so its bit index is h. Switches that are no VAT node pass packets on.
Letters: V = nodes of the net.
"""

from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from fanfold.topo.net import Net

NONE = -1
FAR = 2**30
"""Links of a way that does not exist."""


class VatNode(msgspec.Struct, frozen=True):
    """A node of a tree: at a node of the net, below the VAT node at ``parent`` (NONE: root).

    a_bm: bit h for host h.
    """

    at: int
    parent: int
    a_bm: int


class Vat(msgspec.Struct, frozen=True):
    """The tree of one job. workers: hosts. quota: slots at each switch it stands on."""

    job: str
    workers: tuple[int, ...]
    nodes: tuple[VatNode, ...]
    quota: int = 1

    @property
    def roots(self) -> tuple[VatNode, ...]:
        """Nodes without a parent: one, where the tree is sound."""
        return tuple(node for node in self.nodes if node.parent == NONE)

    def node_of(self, worker: int) -> VatNode | None:
        """The VAT node that takes a worker's own packets: the one with the smallest A-BM.

        Of equal A-BMs it is the one that is deepest.
        """
        mine = [node for node in self.nodes if node.a_bm >> worker & 1]
        above = {node.parent for node in mine}
        return min(
            mine,
            key=lambda node: (node.a_bm.bit_count(), node.at in above),
            default=None,
        )


class VatFigures(msgspec.Struct, frozen=True):
    """What a block costs: links crossed by packets on the way up, and by unicast to the root.

    depth: VAT nodes between a worker and the result, at most. fan_in: packets that the busiest
    VAT node waits for.
    """

    job: str
    n_workers: int
    n_nodes: int
    n_links: int
    n_unicast_links: int
    depth: int
    fan_in: int


class Ways:
    """Shortest ways over the routers of a net; hosts pass nothing on. One search a target."""

    def __init__(self, net: Net) -> None:
        self.net = net
        self.n_hosts = net.n_hosts
        first, dst = net.first_out.tolist(), net.dst.tolist()
        self.near: list[list[int]] = [
            sorted({to for to in dst[first[n] : first[n + 1]] if to >= net.n_hosts})
            for n in range(net.n_nodes)
        ]
        self._hops: dict[int, list[int]] = {}

    def hops(self, source: int, target: int) -> int:
        """Links from a node to a node, FAR where there is no way."""
        return self._hops_of(source, target, self.hops_to(target))

    def hops_to(self, target: int) -> list[int]:
        """(V,) links from each router to a node; hosts other than the target are FAR."""
        if target not in self._hops:
            self._hops[target] = self._search(target, frozenset())
        return self._hops[target]

    def way(
        self, source: int, target: int, avoid: frozenset[int] = frozenset()
    ) -> tuple[int, ...]:
        """Nodes of a shortest way, both ends included, around some nodes; empty without one.

        Of equal ways it takes the lowest node at each step.
        """
        hops = self._search(target, avoid) if avoid else self.hops_to(target)
        left = self._hops_of(source, target, hops)
        if left >= FAR:
            return ()
        found = [source]
        while found[-1] != target:
            left -= 1
            near = self.near[found[-1]]
            on = target if not left else next(n for n in near if hops[n] == left)
            found.append(on)
        return tuple(found)

    def _hops_of(self, source: int, target: int, hops: list[int]) -> int:
        if source == target or source >= self.n_hosts:
            return 0 if source == target else hops[source]
        return min((hops[router] + 1 for router in self.near[source]), default=FAR)

    def _search(self, target: int, avoid: frozenset[int]) -> list[int]:
        hops = [FAR] * self.net.n_nodes
        hops[target] = 0
        queue = deque([target])
        while queue:
            node = queue.popleft()
            for on in self.near[node]:
                if hops[on] == FAR and on not in avoid:
                    hops[on] = hops[node] + 1
                    queue.append(on)
        return hops


def edges(vat: Vat) -> Iterator[tuple[int, int, int]]:
    """Every sender, the VAT node it sends to, and the P-BM of its packet; workers first."""
    for worker in vat.workers:
        node = vat.node_of(worker)
        if node is not None:
            yield worker, node.at, 1 << worker
    for node in vat.nodes:
        if node.parent != NONE:
            yield node.at, node.parent, node.a_bm


def figures(ways: Ways, vat: Vat) -> VatFigures:
    """Figures of a tree without a fault."""
    (root,) = vat.roots
    fan_in = dict.fromkeys((node.at for node in vat.nodes), 0)
    n_links = 0
    for source, target, _ in edges(vat):
        n_links += ways.hops(source, target)
        fan_in[target] += 1
    parent = {node.at: node.parent for node in vat.nodes}
    return VatFigures(
        job=vat.job,
        n_workers=len(vat.workers),
        n_nodes=len(vat.nodes),
        n_links=n_links,
        n_unicast_links=sum(ways.hops(worker, root.at) for worker in vat.workers),
        depth=max(len(_above(parent, node.at)) for node in vat.nodes),
        fan_in=max(fan_in.values()),
    )


def _above(parent: dict[int, int], at: int) -> list[int]:
    chain = [at]
    while (at := parent[at]) != NONE:
        chain.append(at)
    return chain


def mask_of(hosts: Iterable[int]) -> int:
    """BitString of some hosts."""
    bits = 0
    for host in hosts:
        bits |= 1 << host
    return bits


def hosts_of(a_bm: int) -> tuple[int, ...]:
    """Hosts of a BitString, rising."""
    return tuple(i for i, bit in enumerate(reversed(f"{a_bm:b}")) if bit == "1")
