"""BFRs that join arrays, at kernel level: packets in, packets out, no sockets."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from kernel_nodes import KernelNode

from fanfold.core.effects import VatEvent
from fanfold.kernels import vat as v
from fanfold.kernels.absorb import fold_at
from fanfold.kernels.codes import CLASS_FOLD
from fanfold.kernels.forward import plan_pass
from fanfold.kernels.frame import seal_bare, seal_inner
from fanfold.kernels.replicate import replicate
from fanfold.kernels.tables import build_unchecked
from fanfold.kernels.vat_packet import expire_arrays, take_fold
from fanfold.kernels.vat_rows import open_vat
from fanfold.topo.bift import build_bifts
from fanfold.topo.fabric import Fabric, Link
from fanfold.topo.fabric import Node as FabricNode
from fanfold.topo.fabric_routes import FabricRoutes
from fanfold.wire import bitstring as bs
from fanfold.wire.bier import BierHeader
from fanfold.wire.fold import Fold, FoldFlag, FoldScope, FoldWhat, FoldWord
from fanfold.wire.inner import GROUP_ADDRESS, address_of
from fanfold.wire.kinds import Kind
from fanfold.wire.packet import Packet, build, parse

GROUP = 0xABCD
GROUP_PORT = 20_001
BSL = 1
BIFT_ID = bs.bift_id(BSL, 0, 0)


def figure_one() -> Fabric:
    """Figure 1 of draft-song-ina-00: eight servers, four leaves, s5 and s6 above, s7 on top."""
    names = [*(f"w{i}" for i in range(1, 9)), *(f"s{i}" for i in range(1, 8))]
    nodes = tuple(
        FabricNode(n, f"127.83.0.{i}", "host", i)
        if n[0] == "w"
        else FabricNode(n, f"127.83.0.{i}", "bfr")
        for i, n in enumerate(names, 1)
    )
    pairs = [(f"w{i}", f"s{(i + 1) // 2}") for i in range(1, 9)]
    pairs += [("s1", "s5"), ("s2", "s5"), ("s3", "s6"), ("s4", "s6")]
    pairs += [("s5", "s7"), ("s6", "s7")]
    links = tuple(Link(a, b) for a, b in pairs)
    return Fabric("figure_one", nodes, links, bitstring_bits=64)


def message(
    bits: int,
    words: Sequence[int] = (),
    *,
    what: int = FoldWhat.ARRAY,
    block: int = 0,
    flags: int = 0,
    kind: int = Kind.FOLD,
    group: int = GROUP,
    exponent: int = 0,
    scope: int = FoldScope.ALL,
    only: int = 0,
    op: int = 0,
    word: int = 0,
    n_merged: int | None = None,
    n_slots: int = 0,
    n_least: int = 0,
    root_level: int = 0,
    heard: int = -1,
    ttl: int = 64,
    armer: int = 0,
) -> bytes:
    """One FOLD packet of the first rank in ``bits``, or of ``armer``; 32-bit words."""
    bfir_id = armer or (bits & -bits).bit_length()
    header = BierHeader(bift_id=BIFT_ID, ttl=ttl, bfir_id=bfir_id, bitstring=bits, entropy=5)
    is_array = what == FoldWhat.ARRAY
    if is_array and not words:
        flags |= FoldFlag.EMPTY
    fold = Fold(
        kind=kind,
        what=what,
        group=group,
        block=block,
        op=op,
        word=word,
        flags=flags,
        exponent=exponent,
        n_merged=bits.bit_count() * is_array if n_merged is None else n_merged,
        only=only,
        scope=scope,
        root_level=root_level,
        n_slots=n_slots,
        patience=n_least,
    )
    payload = np.array(words, ("<i4", "<i8", "<i2", "u1")[word]).tobytes()
    if heard >= 0:
        payload = bs.to_bytes(heard, BSL)
    return build(header, 7, GROUP_ADDRESS, GROUP_PORT, fold, payload)


class Said(NamedTuple):
    """A FOLD packet in short."""

    what: int
    block: int
    bits: int
    words: tuple[int, ...]
    flags: int
    n_merged: int


def said(packet: bytes | Packet) -> Said:
    """What a packet says; a HEARD's words are the P-BM inside."""
    found = parse(packet) if isinstance(packet, bytes) else packet
    fold = found.message
    assert isinstance(fold, Fold)
    words = np.frombuffer(found.payload, "<i4").tolist() if fold.word == 0 else [*found.payload]
    if fold.what == FoldWhat.HEARD:
        words = [bs.from_bytes(found.payload)]
    return Said(
        fold.what, fold.block, found.header.bitstring, tuple(words), fold.flags, fold.n_merged
    )


class VatNode(KernelNode):
    """A node with rows of virtual aggregation trees."""

    def __init__(
        self,
        fabric: Fabric,
        name: str,
        n_rows: int = 8,
        n_slots: int = 64,
        *,
        is_checked: bool = True,
    ) -> None:
        ends = fabric.port_nodes(name)
        bifts = build_bifts(FabricRoutes(fabric), name)
        super().__init__(
            bifts if is_checked else bifts._replace(behind=build_unchecked()),
            [n.bfr_id for n in ends],
            bfr_id=fabric.by_name[name].bfr_id,
            addr=address_of(fabric.by_name[name].address),
            folds=fabric.by_name[name].role == "bfr",
        )
        self.name = name
        self.vats = v.build_vats(n_rows, n_slots, self.n_words, 8972)

    def arm(self, port: int, a_bm: int, *, is_root: bool = False, n_slots: int = 4) -> int:
        """Configure a row as ``open_vat`` has it."""
        bits = np.array(bs.to_words(a_bm, BSL), np.uint64)
        return int(
            open_vat(self.vats, GROUP, port, int(is_root), bits, 1, BIFT_ID, n_slots, 0, 0)
        )

    def take(self, packet: bytes, port: int, now_ps: int = 0) -> list[tuple[int, bytes]]:
        """One packet through the node: (port, packet) of all that leaves it."""
        buf = np.array([*packet], np.uint8)
        plan_pass(
            buf,
            0,
            len(buf),
            len(buf),
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
        self.seg, self.block = len(buf), buf
        if self.plan.n[0] and self.plan.kind[0] == CLASS_FOLD and self.row[0]["folds"]:
            return self.take_in(buf, port, now_ps)
        return [(p, copy.packet) for p, copies in self.copies().items() for copy in copies]

    def take_any(self, packet: bytes, port: int) -> list[tuple[int, bytes]]:
        """A FOLD packet straight to the slots, as a host's node has it too."""
        return self.take_in(np.array([*packet], np.uint8), port, 0)

    def take_in(self, buf: np.ndarray, port: int, now_ps: int) -> list[tuple[int, bytes]]:
        """Take in a FOLD packet and do what it sets off."""
        take_fold(
            buf,
            0,
            len(buf),
            self.n_words,
            port,
            now_ps,
            self.row,
            self.bifts,
            self.ports,
            self.vats,
            self.counters.drops,
            self.plan.scratch,
            False,
        )
        return self.done(buf)

    def flush(self, now_ps: int) -> list[tuple[int, bytes]]:
        """Let deadlines pass."""
        expire_arrays(self.vats, self.row, now_ps)
        return self.done(np.zeros(0, np.uint8))

    def done(self, buf: np.ndarray) -> list[tuple[int, bytes]]:
        """Do what is noted, as live/arrays.py does."""
        out: list[tuple[int, bytes]] = []
        vats = self.vats
        for n in range(int(vats.n_todo[0])):
            what, which, port, size = vats.todo[n].tolist()
            if what in (v.DO_UP, v.DO_RESULT):
                seal_bare(vats.room[which], 0, size, size, self.n_words)
            if what == v.DO_PASS:
                out.append((port, buf[which : which + size].tobytes()))
            elif what == v.DO_UP:
                out.append((port, vats.room[which, :size].tobytes()))
                if vats.slots[which]["state"] == v.OPEN:
                    v.flush_slot(vats, which)
            elif what == v.DO_REPLY:
                out.append((port, vats.small[which, :size].tobytes()))
            elif what == v.DO_SPREAD:
                packet = vats.small[which, :size].tobytes()
                fanned = self.fan(packet, bs.from_words(vats.todo_bits[n]))
                out += [copy for copy in fanned if copy[0] != port]
            else:
                out += self.results(vats.room[which, :size].tobytes(), n)
        vats.n_todo[0] = 0
        return out

    def results(self, packet: bytes, n: int) -> list[tuple[int, bytes]]:
        """A result to whom it is meant for, its header to the rest."""
        bits = bs.from_words(self.vats.todo_bits[n])
        found = parse(packet)
        fold = found.message
        assert isinstance(fold, Fold)
        only = 1 << (fold.only - 1) if fold.only else 0
        if fold.scope == FoldScope.ALL or fold.flags & FoldFlag.EMPTY:
            return self.fan(packet, bits)
        data = bits & (only if fold.scope == FoldScope.ONLY else ~only)
        n_codes = fold.exponent if fold.word >= FoldWord.FIX32 else 0
        head = bytearray(packet[: fold_at(self.n_words) + 24 + n_codes])
        head[fold_at(self.n_words) + 2] |= FoldFlag.EMPTY
        empty = sealed(bytes(head))
        return self.fan(packet, data) + self.fan(empty, bits & ~data)

    def fan(self, packet: bytes, bits: int) -> list[tuple[int, bytes]]:
        """Copies along the node's own BIFT."""
        words = np.array(bs.to_words(bits, BSL), np.uint64)
        t = self.bifts
        n = replicate(
            words, self.n_words, t.nbr_of[0], t.f_bm[0], self.plan.copy_nbr, self.plan.copy_bits
        )
        copies = []
        for c in range(int(n)):
            to = bs.to_bytes(bs.from_words(self.plan.copy_bits[c]), BSL)
            copies.append((int(self.plan.copy_nbr[c]), packet[:12] + to + packet[20:]))
        return [(p, packet) for p, packet in copies if p > 0]

    def said_by(self) -> dict[str, int]:
        """Counters of arrays that are not zero."""
        pairs = zip(VatEvent, self.vats.events.tolist(), strict=True)
        return {event.value: n for event, n in pairs if n}


def sealed(packet: bytes) -> bytes:
    """Inner lengths and checksums made right."""
    buf = np.array([*packet], np.uint8)
    seal_inner(buf, 0, len(buf), 1)
    return buf.tobytes()


Befall = Callable[[str, str, bytes], list[bytes]]
"""(from, to, packet) -> what arrives"""


class VatFabric:
    """All nodes of a fabric; hosts keep what arrives."""

    def __init__(self, fabric: Fabric, befall: Befall | None = None) -> None:
        self.fabric = fabric
        self.nodes = {n.name: VatNode(fabric, n.name) for n in fabric.nodes if n.role == "bfr"}
        self.inbox: dict[str, list[bytes]] = {n.name: [] for n in fabric.nodes}
        self.trace: list[tuple[str, str, Said]] = []
        self.befall = befall or (lambda a, b, packet: [packet])

    def send(self, name: str, packet: bytes, now_ps: int = 0) -> None:
        """Let a host send to its BFR, and carry what follows to the end."""
        (up,) = self.fabric.neighbours[name]
        self._carry([(name, up, packet)], now_ps)

    def flush(self, name: str, now_ps: int) -> None:
        """Let the deadlines of one node pass."""
        self._carry(self._out(name, self.nodes[name].flush(now_ps)), now_ps)

    def _out(self, name: str, sent: list[tuple[int, bytes]]) -> list[tuple[str, str, bytes]]:
        ports = self.fabric.port_nodes(name)
        return [(name, ports[port].name, packet) for port, packet in sent]

    def _carry(self, start: list[tuple[str, str, bytes]], now_ps: int) -> None:
        todo = deque(start)
        while todo:
            src, dst, packet = todo.popleft()
            self.trace.append((src, dst, said(packet)))
            for arrived in self.befall(src, dst, packet):
                if dst not in self.nodes:
                    self.inbox[dst].append(arrived)
                    continue
                port = self.fabric.port_to(dst, src)
                todo.extend(self._out(dst, self.nodes[dst].take(arrived, port, now_ps)))
