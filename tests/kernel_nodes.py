"""Nodes at kernel level: arrays of one BFR or host, packets in, copies out, no sockets."""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import naive
import numpy as np

from fanfold.core.effects import DropReason, FoldEvent
from fanfold.kernels.collect import build_collect
from fanfold.kernels.feedback import write_feedback
from fanfold.kernels.forward import patch, plan_pass
from fanfold.kernels.layout import BITS_AT, MAX_PSN
from fanfold.kernels.mend import write_mend
from fanfold.kernels.octets import write_bits
from fanfold.kernels.replicate import replicate
from fanfold.kernels.slots import expire, let_go
from fanfold.kernels.state import Ports, build_counters, build_fold, build_node, build_plan
from fanfold.kernels.store import has_store, is_worth, keep_pass
from fanfold.kernels.tables import NULL_NBR, Bifts, build_unchecked
from fanfold.kernels.vat import build_vats
from fanfold.topo.bift import build_bifts
from fanfold.topo.fabric import Fabric, Link
from fanfold.topo.fabric import Node as FabricNode
from fanfold.topo.fabric_routes import FabricRoutes
from fanfold.wire import bier
from fanfold.wire import bitstring as bs
from fanfold.wire.bier import BierHeader
from fanfold.wire.fan import Data
from fanfold.wire.feedback import Feedback, FeedbackRow
from fanfold.wire.inner import GROUP_ADDRESS, address_of
from fanfold.wire.packet import build, parse

FLOW_PORT = 50_000
BFIR = 9
BFIR_ADDR = 0x7F510009
FOLD_PS = 1000


class Copy(NamedTuple):
    """One copy of one packet: which packet, to whom, outer UDP port, its bytes as sent."""

    k: int
    bits: int
    dport: int
    packet: bytes


class Mend(NamedTuple):
    """A repair of a BFR's own: to whom, and the packet by port."""

    bits: int
    copies: dict[int, bytes]


class KernelNode:
    """One node's arrays, and its kernels as plain calls.

    Packets come in by ``inlet``, a port of their own that no table leads to, unless told.
    """

    def __init__(
        self,
        bifts: Bifts,
        port_ids: Sequence[int],
        *,
        bfr_id: int = 0,
        addr: int = 1,
        folds: bool = True,
        depth: int = 4,
        mtu: int = 9000,
        n_slots: int = 64,
        port_addrs: Sequence[int] = (),
        store_bytes: int = 0,
    ) -> None:
        self.n_words = int(bifts.n_words.max())
        self.row = build_node(bfr_id, addr, folds=folds, fold_ps=FOLD_PS, depth=depth, mtu=mtu)
        self.bifts = bifts
        self.inlet = len(port_ids)
        addrs = np.array([*([*port_addrs] or [0] * len(port_ids)), 0], np.int64)
        self.ports = Ports(addr=addrs, bfr_id=np.array([*port_ids, 0], np.int64))
        self.fold = build_fold(n_slots, self.n_words, store_bytes, n_sets=len(bifts.ids))
        self.counters = build_counters(len(port_ids) + 1)
        self.plan = build_plan(len(port_ids) + 1, self.n_words)
        self.collect = build_collect(4, 4096, 2, 64)
        self.vats = build_vats(1, 1, self.n_words, 64)
        self.out = np.zeros(1 << 16, np.uint8)

    def give(self, packets: Sequence[bytes], port: int = -1, now_ps: int = 0) -> None:
        """One pass over packets of one size, the last may be shorter; port -1: the inlet."""
        port = self.inlet if port < 0 else port
        self.seg = max(len(packets[0]), 1)
        self.block = np.array([*b"".join(packets)], np.uint8)
        end = plan_pass(
            self.block,
            0,
            len(self.block),
            self.seg,
            port,
            now_ps,
            self.row,
            self.bifts,
            self.ports,
            self.fold,
            self.counters,
            self.plan,
            self.vats,
        )
        assert end >= len(self.block)
        self.mended = self.take_mends()
        if has_store(self.fold.store) and is_worth(self.row, now_ps):
            n = len(self.block)
            keep_pass(self.block, 0, self.seg, n, self.plan, self.counters, self.fold)

    def take_mends(self) -> list[Mend]:
        """Repairs that this BFR makes itself, as live/mending.py sends them."""
        store, found = self.fold.store, []
        while store.n_todo[0]:
            store.n_todo[0] -= 1
            i = int(store.n_todo[0])
            bits = bs.from_words(store.todo_bits[i])
            size = write_mend(store, i, self.n_words, self.out)
            header = bier.decode(self.out[:size].tobytes())
            nbrs, words = np.zeros(64, np.int64), np.zeros((64, self.n_words), np.uint64)
            t = self.bifts.ids.tolist().index(header.bift_id)
            which = self.bifts.first[t] + header.entropy % self.bifts.n_ecmp[t]
            masks = self.bifts.nbr_of[which], self.bifts.f_bm[which]
            n = replicate(store.todo_bits[i], self.n_words, *masks, nbrs, words)
            copies = {}
            for c in range(n):
                write_bits(self.out, BITS_AT, self.n_words, words[c])
                copies[int(nbrs[c])] = self.out[:size].tobytes()
            found.append(Mend(bits, copies))
        return found

    def copies(self) -> dict[int, list[Copy]]:
        """What the last pass planned, by port."""
        found: dict[int, list[Copy]] = {}
        for port in np.flatnonzero(self.plan.n).tolist():
            patch(self.block, 0, self.seg, port, self.plan)
            for i in range(int(self.plan.n[port])):
                k = int(self.plan.pkt[port, i])
                packet = self.block[k * self.seg : (k + 1) * self.seg].tobytes()
                bits = bs.from_words(
                    self.plan.bits[port, self.plan.row[port, i], : self.plan.words[k]]
                )
                found.setdefault(port, []).append(
                    Copy(k, bits, int(self.plan.dport[port, i]), packet)
                )
        return found

    def forward(
        self, packets: Sequence[bytes], port: int = -1, now_ps: int = 0
    ) -> dict[int, list[Copy]]:
        self.give(packets, port, now_ps)
        return self.copies()

    def expire(self, now_ps: int) -> int:
        following = int(expire(self.fold, self.row, now_ps))
        self.mended = self.take_mends()
        return following

    def send_ready(self) -> list[tuple[int, list[bytes]]]:
        """(port, packets) of each slot that is complete or past its deadline; frees them."""
        sent = []
        for i in range(int(self.fold.ready[0])):
            slot = int(self.fold.ready[1 + i])
            row = self.fold.rows[slot]
            sent.append((int(row["port"]), write_all(self, slot)))
            let_go(row)
        self.fold.ready[0] = 0
        return sent

    def drops(self) -> dict[str, int]:
        """Drop counters that are not zero."""
        names = zip(DropReason, self.counters.drops.tolist(), strict=True)
        return {reason.value: n for reason, n in names if n}

    def events(self) -> dict[str, int]:
        """Fold counters that are not zero."""
        names = zip(FoldEvent, self.fold.events.tolist(), strict=True)
        return {event.value: n for event, n in names if n}

    def n_armed(self) -> int:
        return int((self.fold.rows["armed"] != 0).sum())


def write_all(node: KernelNode, slot: int) -> list[bytes]:
    """All FEEDBACK packets of one slot."""
    psn, packets = 0, []
    while psn < MAX_PSN:
        assert len(packets) <= MAX_PSN, "no progress"
        coded = write_feedback(
            node.fold, slot, int(node.row[0]["addr"]), int(node.row[0]["mtu"]), psn, node.out
        )
        size, psn = divmod(int(coded), 128)
        packets.append(node.out[:size].tobytes())
    return packets


def table(
    nbr_of: Sequence[Sequence[int]], n_ports: int, *, bift_ids: Sequence[int], n_ecmp: int = 1
) -> Bifts:
    """BIFTs of one node from the BFR-NBR of each bit index, F-BMs as RFC 8279 6.4 has them."""
    n_bits = len(nbr_of[0])
    f_bm = np.zeros((len(nbr_of), n_ports + 1, n_bits // 64), np.uint64)
    for t, row in enumerate(nbr_of):
        for k, nbr in enumerate(row):
            f_bm[t, nbr + 1, k // 64] |= np.uint64(1 << (k % 64))
    n = len(bift_ids)
    return Bifts(
        ids=np.array(bift_ids, np.int64),
        n_words=np.full(n, n_bits // 64, np.int64),
        n_ecmp=np.full(n, n_ecmp, np.int64),
        first=np.arange(n, dtype=np.int64) * n_ecmp,
        nbr_of=np.array(nbr_of, np.int64),
        f_bm=f_bm,
        behind=build_unchecked(),
    )


BIFT_ID = bs.bift_id(1, 0, 0)
ROWS = [0, 1, 1, 2, 3, 3, 3, NULL_NBR, *[NULL_NBR] * 56]
"""The usual node: bit 0 is its own, 1-2 behind port 1, 3 port 2, 4-6 port 3, the rest null."""


def plain_node(**kwargs: int | bool) -> KernelNode:
    return KernelNode(table([ROWS], 4, bift_ids=[BIFT_ID]), [1, 0, 4, 0], **kwargs)


def data(
    bits: int,
    *,
    bift_id: int = BIFT_ID,
    ttl: int = 60,
    flow: int = 7,
    block: int = 0,
    psn: int = 0,
    n_psn: int = 4,
    stride: int = 8,
    payload: bytes = b"12345678",
    flags: int = 0,
    round_: int = 0,
    first_ttl: int = 64,
    entropy: int = 0,
    bfir_id: int = BFIR,
) -> bytes:
    """One DATA packet."""
    header = BierHeader(
        bift_id=bift_id, ttl=ttl, bfir_id=bfir_id, bitstring=bits, entropy=entropy
    )
    message = Data(flow, block, n_psn, psn, stride, first_ttl, flags, round_)
    return build(header, BFIR_ADDR, GROUP_ADDRESS, FLOW_PORT, message, payload)


def feedback(
    word: naive.Word,
    key: naive.Key = (BFIR, 7, 0),
    *,
    outer_bits: int = 1 << (BFIR - 1),
    outer_bift: int | None = None,
) -> bytes:
    """One FEEDBACK packet on its way up."""
    bfir_id, flow, block = key
    header = BierHeader(
        bift_id=word.bift_id & ~0xFF if outer_bift is None else outer_bift,
        ttl=64,
        bfir_id=bfir_id,
        bitstring=outer_bits,
    )
    message = Feedback(
        bift_id=word.bift_id,
        flow=flow,
        block=block,
        n_psn=word.n_psn,
        heard=word.heard,
        done=word.done,
        rows=tuple(FeedbackRow(psn, bits) for psn, bits in word.rows.items()),
        flags=int(word.is_partial),
        round=word.round,
        queue=word.queue,
        room=word.room,
        worst=word.worst,
        n_merged=word.n_merged,
        behind=word.behind,
    )
    return build(header, 5, BFIR_ADDR, FLOW_PORT, message)


def word_of(packets: Iterable[bytes]) -> naive.Word:
    """What FEEDBACK packets of one slot say together, and that they agree where they must."""
    messages = [parse(packet).message for packet in packets]
    first = messages[0]
    assert isinstance(first, Feedback)
    rows: dict[int, int] = {}
    for i, message in enumerate(messages):
        assert isinstance(message, Feedback)
        assert (message.heard, message.done) == (first.heard, first.done)
        assert message.behind == first.behind
        assert i == 0 or (message.n_merged == 0 and message.rows)
        assert not rows.keys() & {row.psn for row in message.rows}
        rows |= {row.psn: row.lacking for row in message.rows}
    return naive.Word(
        bift_id=first.bift_id,
        n_psn=first.n_psn,
        heard=first.heard,
        done=first.done,
        rows=rows,
        round=first.round,
        queue=first.queue,
        room=first.room,
        worst=first.worst,
        n_merged=first.n_merged,
        behind=first.behind,
        is_partial=bool(first.flags & 1),
    )


def three_levels(bitstring_bits: int = 64) -> Fabric:
    """Two pods of two leaves and two spines below two cores, 12 receivers, source h0."""
    receivers = [f"h{i}" for i in range(1, 13)]
    leaves = [f"leaf{i}" for i in range(4)]
    spines = [f"spine{i}" for i in range(4)]
    names = [*receivers, "h0", *leaves, *spines, "core0", "core1"]
    nodes = tuple(
        FabricNode(n, f"127.81.0.{i + 1}", "host", i + 1)
        if n.startswith("h")
        else FabricNode(n, f"127.81.0.{i + 1}", "bfr")
        for i, n in enumerate(names)
    )
    links = [Link(h, leaves[i // 3]) for i, h in enumerate(receivers)] + [Link("h0", "leaf0")]
    for pod in (0, 2):
        links += [
            Link(leaf, s) for leaf in leaves[pod : pod + 2] for s in spines[pod : pod + 2]
        ]
    links += [Link(s, c) for s in spines for c in ("core0", "core1")]
    return Fabric("three", nodes, tuple(links), bitstring_bits=bitstring_bits, n_ecmp=4)


class KernelFabric:
    """All nodes of a fabric; packets travel from node to node until they are delivered."""

    def __init__(self, fabric: Fabric, store_bytes: int = 0) -> None:
        self.fabric = fabric
        paths = FabricRoutes(fabric)
        self.nodes: dict[str, KernelNode] = {}
        for node in fabric.nodes:
            ends = fabric.port_nodes(node.name)
            self.nodes[node.name] = KernelNode(
                build_bifts(paths, node.name),
                [n.bfr_id for n in ends],
                bfr_id=node.bfr_id,
                addr=address_of(node.address),
                folds=node.role == "bfr",
                depth=6,
                port_addrs=[address_of(n.address) for n in ends],
                store_bytes=store_bytes if node.role == "bfr" else 0,
            )
        self.delivered: list[tuple[str, bytes]] = []
        self.n_on_link: dict[tuple[str, str], int] = {}

    def send(self, name: str, packets: Sequence[bytes], now_ps: int = 0) -> None:
        """Impose packets at a node and carry them, and what they set off, to the end."""
        self._carry([(name, 0, [*packets])], now_ps)

    def up(self, name: str, packets: Sequence[bytes], now_ps: int = 0) -> None:
        """Let a receiver send FEEDBACK to its leaf, and carry it to the end."""
        self._carry([self._across(name, 1, [packet]) for packet in packets], now_ps)

    def expire(self, now_ps: int) -> None:
        """Let the slots' deadlines pass, children before parents."""
        for tier in ("leaf", "spine", "core"):
            for name, node in self.nodes.items():
                if name.startswith(tier):
                    node.expire(now_ps)
                    self._carry(self._ready(name), now_ps)

    def _carry(self, start: list[tuple[str, int, list[bytes]]], now_ps: int) -> None:
        todo = deque(start)
        while todo:
            name, port, block = todo.popleft()
            if not block:
                continue
            found = self.nodes[name].forward(block, port, now_ps)
            self.delivered += [(name, copy.packet) for copy in found.pop(0, ())]
            for out_port, copies in found.items():
                todo.append(self._across(name, out_port, [c.packet for c in copies]))
            todo.extend(self._ready(name))

    def _ready(self, name: str) -> list[tuple[str, int, list[bytes]]]:
        node = self.nodes[name]
        mended, node.mended = node.mended, []
        down = [self._across(name, at, [p]) for m in mended for at, p in m.copies.items()]
        ready = node.send_ready()
        up = [self._across(name, port, [p]) for port, packets in ready for p in packets]
        return [*down, *up]

    def _across(
        self, name: str, port: int, packets: list[bytes]
    ) -> tuple[str, int, list[bytes]]:
        peer = self.fabric.port_nodes(name)[port].name
        self.n_on_link[name, peer] = self.n_on_link.get((name, peer), 0) + len(packets)
        return peer, self.fabric.port_to(peer, name), self.arriving(name, peer, packets)

    def arriving(self, name: str, peer: str, packets: list[bytes]) -> list[bytes]:
        """What of them arrives at the other end of a link."""
        del name, peer
        return packets
