"""What makes a virtual aggregation tree sound, and what is wrong with one that is not.

draft-song-ina-00, section 2.1, sets the first rules of ``VatRule``; the others follow from what
a switch does with A-BM and P-BM: a bit that meets the wrong node first, or none, leaves a slot
that never fills. Packets take shortest ways. A way that meets another node of the job with a
bit of the packet in its A-BM before the node that waits for it is out of order: the packet
would end there.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import combinations

import msgspec

from fanfold.topo.net import Net
from fanfold.topo.vat import FAR, NONE, Vat, VatNode, Ways, edges, hosts_of, mask_of


class VatRule(StrEnum):
    """What was broken; the words stand in reports and JSON."""

    TWICE = "twice"
    NOT_A_SWITCH = "not-a-switch"
    NO_PATH = "no-path"
    NO_ROOT = "no-root"
    NO_PARENT = "no-parent"
    EMPTY = "empty"
    OVERLAP = "overlap"
    NOT_A_SUPERSET = "not-a-superset"
    STARVED = "starved"
    NOT_THE_WORKERS = "not-the-workers"
    OUT_OF_ORDER = "out-of-order"
    TOO_FEW_SLOTS = "too-few-slots"


class VatFault(msgspec.Struct, frozen=True):
    """One broken rule: of which job, at which nodes of the net, in words."""

    job: str
    rule: VatRule
    nodes: tuple[int, ...]
    text: str


def check_vats(net: Net, vats: Sequence[Vat], n_slots: int) -> tuple[VatFault, ...]:
    """All faults of the trees of several jobs on one net, each switch with n_slots slots."""
    ways = Ways(net)
    faults = [fault for vat in vats for fault in check_vat(ways, vat)]
    used: Counter[int] = Counter()
    for vat in vats:
        for at in {node.at for node in vat.nodes}:
            used[at] += vat.quota
    for at, n in sorted(used.items()):
        if at >= net.n_hosts and n > n_slots:
            name = net.node_name(at)
            jobs = [vat.job for vat in vats if any(node.at == at for node in vat.nodes)]
            text = f"{name} gives {n} slots to {', '.join(jobs)}, and has {n_slots}"
            faults.append(VatFault(jobs[-1], VatRule.TOO_FEW_SLOTS, (at,), text))
    return tuple(faults)


def check_vat(ways: Ways, vat: Vat) -> tuple[VatFault, ...]:
    """Faults of one tree: of its shape; or else of its A-BMs; of who sends; of the ways."""
    judge = _Judge(ways, vat)
    for stage in (judge.shape, judge.masks, judge.senders, judge.ways_up):
        found = tuple(
            VatFault(vat.job, rule, nodes, f"{vat.job}: {text}")
            for rule, nodes, text in stage()
        )
        if found:
            return found
    return ()


Finding = tuple[VatRule, tuple[int, ...], str]


class _Judge:
    def __init__(self, ways: Ways, vat: Vat) -> None:
        self.ways, self.vat = ways, vat
        self.by_at = {node.at: node for node in vat.nodes}

    def shape(self) -> Iterator[Finding]:
        """One VAT node a switch, one root, all else below it."""
        for at, n in Counter(node.at for node in self.vat.nodes).items():
            if n > 1:
                yield (
                    VatRule.TWICE,
                    (at,),
                    f"{self._name(at)} has {n} VAT nodes, allowed is one",
                )
        roots = [node.at for node in self.vat.roots]
        if len(roots) != 1:
            names = ", ".join(map(self._name, roots)) or "none"
            yield VatRule.NO_ROOT, tuple(roots), f"roots: {names}; allowed is one"
        for node in self.vat.nodes:
            name = self._name(node.at)
            if node.at < self.ways.n_hosts and node.parent != NONE:
                text = f"{name} is a server; below the root only switches sum"
                yield VatRule.NOT_A_SWITCH, (node.at,), text
            if node.parent != NONE and node.parent not in self.by_at:
                text = f"the parent of {name}, {self._name(node.parent)}, is no VAT node"
                yield VatRule.NO_PARENT, (node.at, node.parent), text
            elif self._is_in_a_ring(node):
                text = f"{name} is above itself: its parents lead round and never to a root"
                yield VatRule.NO_ROOT, (node.at,), text

    def masks(self) -> Iterator[Finding]:
        """A-BMs nested or apart, a parent's holds its child's, the root's is the job's."""
        nodes = self.vat.nodes
        for node in nodes:
            if not node.a_bm:
                text = f"{self._name(node.at)} waits for nobody"
                yield VatRule.EMPTY, (node.at,), text
        for one, other in combinations(nodes, 2):
            both = one.a_bm & other.a_bm
            if both not in (0, one.a_bm, other.a_bm):
                text = (
                    f"{self._name(one.at)} and {self._name(other.at)} both wait for "
                    f"{self._hosts(both)}, and each for more; nested or apart is allowed"
                )
                yield VatRule.OVERLAP, (one.at, other.at), text
        for node in nodes:
            lacking = node.a_bm & ~self.by_at[node.parent].a_bm if node.parent != NONE else 0
            if lacking:
                text = (
                    f"{self._name(node.parent)} lacks {self._hosts(lacking)} "
                    f"of its child {self._name(node.at)}"
                )
                yield VatRule.NOT_A_SUPERSET, (node.at, node.parent), text
        (root,) = self.vat.roots
        wrong = root.a_bm ^ mask_of(self.vat.workers)
        if wrong:
            text = (
                f"the A-BM of the root {self._name(root.at)} and the job's workers differ "
                f"in {self._hosts(wrong)}"
            )
            yield VatRule.NOT_THE_WORKERS, (root.at,), text

    def senders(self) -> Iterator[Finding]:
        """Every bit that a node waits for is sent to it."""
        comes = dict.fromkeys(self.by_at, 0)
        for _, target, p_bm in edges(self.vat):
            comes[target] |= p_bm
        for node in self.vat.nodes:
            never = node.a_bm & ~comes[node.at]
            if never:
                text = (
                    f"{self._name(node.at)} waits for {self._hosts(never)}, "
                    "whose packets end elsewhere or are sent past it to a node above"
                )
                yield VatRule.STARVED, (node.at,), text

    def ways_up(self) -> Iterator[Finding]:
        """Every sender has a way to the node that waits for it, and meets no other first."""
        for source, target, p_bm in edges(self.vat):
            n_links = self.ways.hops(source, target)
            pair = f"{self._name(source)} to {self._name(target)}"
            if n_links >= FAR:
                yield VatRule.NO_PATH, (source, target), f"no path from {pair}"
                continue
            avoid = frozenset(
                node.at
                for node in self.vat.nodes
                if node.a_bm & p_bm and node.at not in (source, target)
            )
            way = self.ways.way(source, target, avoid)
            if len(way) - 1 != n_links:
                met = avoid.intersection(self.ways.way(source, target))
                names = ", ".join(self._name(at) for at in sorted(met))
                text = (
                    f"the ways from {pair} lead through {names}, whose A-BM shares a bit: "
                    "the packet would end there"
                )
                yield VatRule.OUT_OF_ORDER, (source, target, *sorted(met)), text

    def _is_in_a_ring(self, node: VatNode) -> bool:
        at = node.parent
        for _ in self.vat.nodes:
            if at not in self.by_at:
                return False
            if at == node.at:
                return True
            at = self.by_at[at].parent
        return False

    def _name(self, at: int) -> str:
        return self.ways.net.node_name(at)

    def _hosts(self, bits: int) -> str:
        hosts = hosts_of(bits)
        names = [self._name(h) for h in hosts if h < self.ways.n_hosts][:4]
        more = len(hosts) - len(names)
        return ", ".join(names) + (f" and {more} more" if more else "")
