"""Nothing is written beside an array, or beside the row that was meant, whatever packets say.

Every array of a node lies between guard zones, and every row that a packet may not touch is
filled with a pattern. Run without JIT an index past an end raises; with JIT it writes, and the
zones show it. The node believes every port, so that nothing is kept from its arrays.
"""

import inspect
import re
import sys
from collections.abc import Callable
from random import Random
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
from hostile_packets import HostilePackets

import fanfold.kernels as package
from fanfold.kernels import (
    absorb,
    codes,
    collect,
    forward,
    frame,
    impairment,
    impose,
    late,
    mend,
    octets,
    replicate,
    slots,
    speak,
    spread,
    store,
    vat,
    vat_packet,
)
from fanfold.kernels import feedback as words_of_feedback
from fanfold.kernels.due import due_reports
from fanfold.kernels.jit import JIT
from fanfold.kernels.layout import MAX_PSN
from fanfold.kernels.state import Ports, build_counters, build_fold, build_node, build_plan
from fanfold.kernels.tables import build_unchecked
from fanfold.live import arrays
from fanfold.topo.bift import build_bifts
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_routes import FabricRoutes
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.wire import bitstring as bs

ZONE = 1 << 16
PATTERN = 0xEE
N_PACKETS = 3000 if JIT else 400
MTU = 9000
STORE_BYTES = 1 << 18
STEP_PS = 10**9
OWN = 2


class Zones:
    """Arrays between zones of a pattern."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, np.ndarray, int]] = []

    def array(self, name: str, given: np.ndarray) -> np.ndarray:
        """A copy of an array with a zone on either side."""
        n = given.nbytes
        room = np.full(2 * ZONE + (n + 63 & ~63), PATTERN, np.uint8)
        made = np.ndarray(given.shape, given.dtype, room.data, ZONE)
        made[...] = given
        self.kept.append((name, room, n))
        return made

    def every(self, given: Any) -> Any:
        """The same for all arrays of a named tuple."""
        name = type(given).__name__
        made = (
            self.every(value) if isinstance(value, tuple) else self.array(f"{name}.{f}", value)
            for f, value in given._asdict().items()
        )
        return type(given)(*made)

    def broken(self) -> list[str]:
        """Arrays beside which something was written."""
        return [
            name
            for name, room, n in self.kept
            if (room[:ZONE] != PATTERN).any() or (room[ZONE + n :] != PATTERN).any()
        ]


class Guarded(NamedTuple):
    """A node whose arrays lie in zones."""

    zones: Zones
    row: np.ndarray
    bifts: Any
    ports: Ports
    fold: Any
    counters: Any
    plan: Any
    collect: Any
    vats: Any
    out: np.ndarray
    impairments: Any


def guarded(fabric: Fabric, name: str) -> Guarded:
    zones = Zones()
    n_words = fabric.bitstring_bits // 64
    ends = fabric.port_nodes(name)
    me = fabric.by_name[name]
    is_bfr = me.role == "bfr"
    row = build_node(me.bfr_id, 1, folds=is_bfr, fold_ps=1000, depth=4, mtu=MTU)
    row[0]["is_end"] = int(not is_bfr)
    made = Guarded(
        zones,
        zones.array("row", row),
        zones.every(build_bifts(FabricRoutes(fabric), name)._replace(behind=build_unchecked())),
        Ports(
            zones.array("addr", np.zeros(len(ends), np.int64)),
            zones.array("bfr_id", np.array([n.bfr_id for n in ends], np.int64)),
        ),
        zones.every(build_fold(16, n_words, STORE_BYTES if is_bfr else 0)),
        zones.every(build_counters(len(ends))),
        zones.every(build_plan(len(ends), n_words)),
        zones.every(collect.build_collect(4, 4096, 2, 64)),
        zones.every(vat.build_vats(4, 16, n_words, MTU - 28)),
        zones.array("out", np.zeros(1 << 16, np.uint8)),
        zones.every(impairment.build_impairments(len(ends), 8, MTU)),
    )
    made.vats.small[:] = PATTERN
    made.vats.room[:] = PATTERN
    for f, flow in enumerate((6, 7)):
        follow = made.collect.follow[f]
        follow["used"], follow["flow"], follow["bfir_id"] = 1, flow, OWN
        follow["map_at"], follow["map_len"], follow["newest"] = 32 * f, 8, -1
    for p in range(1, len(ends)):
        chances = made.impairments.ports[p]
        chances["active"], chances["duplicate"], chances["corrupt"] = 1, 2**30, 2**26
        chances["reorder"], chances["reorder_ps"], chances["rng"] = 2**30, 5, np.uint64(p)
    return made


def give(node: Guarded, packet: bytes, port: int, now: int) -> None:
    """One packet through everything that a node does with it, but for sending."""
    buf = node.zones.array("buf", np.zeros(1 << 17, np.uint8))
    n = len(packet)
    buf[:n] = np.frombuffer(packet, np.uint8)
    drops = node.counters.drops
    n = impairment.impair(buf, n, n, port, now, node.impairments, drops, now)
    rest = [n, impairment.release(buf, now, node.impairments, np.zeros(3, np.int64))]
    for size in rest:
        if size:
            pass_of(node, buf, size, port, now)
    del node.zones.kept[-1]


def pass_of(node: Guarded, buf: np.ndarray, n: int, port: int, now: int) -> None:
    plan, drops = node.plan, node.counters.drops
    forward.plan_pass(
        buf,
        0,
        n,
        n,
        port,
        now,
        node.row,
        node.bifts,
        node.ports,
        node.fold,
        node.counters,
        plan,
        node.vats,
    )
    for out in range(1, plan.n.shape[0]):
        forward.patch(buf, 0, n, out, plan)
    mend_all(node)
    if store.has_store(node.fold.store):
        store.keep_pass(buf, 0, n, n, plan, node.counters, node.fold)
    if plan.n[0] and plan.kind[0] == codes.CLASS_FOLD:
        words = plan.words[0]
        vats = node.vats
        vat_packet.take_fold(
            buf,
            0,
            n,
            words,
            port,
            now,
            node.row,
            node.bifts,
            node.ports,
            vats,
            drops,
            plan.scratch,
            bool(now & 1),
        )
        small_is_whole(node)
        headers_of_results(node)
        vats.small[: int(vats.n_todo[0])] = PATTERN
        flush_all(node)
    if plan.kind[0] == codes.CLASS_FEEDBACK and plan.words[0]:
        words_of_feedback.raise_queue(buf, 0, n, plan.words[0], 200, 1)
    collect.collect_pass(buf, 0, n, n, 1, now, plan, node.collect, drops)
    say_all(node, now)


def mend_all(node: Guarded) -> None:
    """Repairs that are noted, as packets."""
    for i in range(int(node.fold.store.n_todo[0])):
        size = mend.write_mend(node.fold.store, i, node.plan.scratch.shape[1], node.out)
        assert 0 < size <= MTU
    node.fold.store.n_todo[0] = 0


def flush_all(node: Guarded) -> None:
    """What is to be sent was sent."""
    vats = node.vats
    for what, which in vats.todo[: int(vats.n_todo[0]), :2].tolist():
        if what == vat.DO_UP and vats.slots[which]["state"] == vat.OPEN:
            vat.flush_slot(vats, which)
    vats.n_todo[0] = 0


def small_is_whole(node: Guarded) -> None:
    """A packet without an array stands in its row, and in no other."""
    vats = node.vats
    used = int(vats.n_todo[0])
    assert (vats.small[used:] == PATTERN).all(), "beside its row"
    assert (vats.todo[:used, 3] <= max(vats.small.shape[1], 1 << 16)).all()


def headers_of_results(node: Guarded) -> None:
    """Headers of results without arrays, as many as one call sends."""
    vats = node.vats
    for i in range(int(vats.n_todo[0])):
        if vats.todo[i, 0] == vat.DO_RESULT:
            n_words = node.plan.scratch.shape[1]
            head = absorb.fold_at(n_words) + 24
            packet = vats.room[vats.todo[i, 1]]
            arrays.write_empty(node.out, 0, packet, int(vats.todo[i, 3]), n_words, head, 0)


def say_all(node: Guarded, now: int) -> None:
    """Words of slots that are ready, words of blocks that lack something, deadlines."""
    slots.expire(node.fold, node.row, now - 5 * STEP_PS)
    mend_all(node)
    for i in range(int(node.fold.ready[0])):
        slot = int(node.fold.ready[1 + i])
        psn = 0
        while psn < MAX_PSN:
            psn = int(words_of_feedback.write_feedback(node.fold, slot, 1, MTU, psn, node.out))
            psn %= 128
        slots.let_go(node.fold.rows[slot])
    node.fold.ready[0] = 0
    due = node.zones.array("due", np.zeros(4, np.int64))
    for r in due[: due_reports(node.collect, now, 50, due)].tolist():
        row = node.collect.blocks[r]
        own = build_fold(1, node.plan.scratch.shape[1])
        speak.speak(
            node.collect,
            int(row["follow"]),
            int(row["block"]),
            r,
            node.row,
            0,
            own,
            0,
            node.out,
        )
    del node.zones.kept[-1]
    node.collect.n_events[0] = 0
    vat_packet.expire_arrays(node.vats, node.row, now)
    flush_all(node)
    for r in range(node.collect.blocks.shape[0]):
        if node.collect.blocks[r]["state"] == collect.WHOLE:
            node.collect.blocks[r]["state"] = collect.FREE


def world(n_bits: int, seed: int) -> tuple[Fabric, HostilePackets]:
    made = leaf_spine(2, 2, 4, name="zones", prefix=0)
    fabric = Fabric(made.name, made.nodes, made.links, bitstring_bits=n_bits, mtu=MTU)
    top = max(n.bfr_id for n in fabric.nodes)
    return fabric, HostilePackets(
        seed, bsl=bs.bsl_of_bits(n_bits), own=OWN, top=top, groups=(7, 8), flows=(6,)
    )


def run_all(n_bits: int, name: str) -> Guarded:
    fabric, maker = world(n_bits, n_bits)
    node = guarded(fabric, name)
    random = Random(n_bits)
    n_ports = len(fabric.port_nodes(name))
    buf = np.zeros(1 << 17, np.uint8)
    for packet in maker.lossy_block(flow=6):
        buf[: len(packet)] = np.frombuffer(packet, np.uint8)
        pass_of(node, buf, len(packet), n_ports - 1, 0)
    honest = list(maker.session(group=7, flow=6))
    for i, packet in enumerate(honest):
        give(node, packet, n_ports - 1, 2 * STEP_PS * i)
    for i in range(2 * len(honest), N_PACKETS):
        sound = maker.random.random() < 0.5
        packet = maker.sound() if sound else maker.mutated()
        if packet:
            give(node, packet, random.randrange(n_ports), STEP_PS * i)
        if i % 50 == 0:
            assert node.zones.broken() == []
    assert node.zones.broken() == []
    return node


@pytest.mark.parametrize("n_bits", [64, 128, 256, 4096])
@pytest.mark.parametrize("name", ["leaf1", "h1"])
def test_no_packet_writes_beside_an_array_or_a_row(n_bits: int, name: str) -> None:
    node = run_all(n_bits, name)
    assert node.counters.drops.sum() > N_PACKETS // 4
    if name == "leaf1":
        assert node.vats.events[vat.VAT_ARMED] > 0
        assert node.vats.events[vat.VAT_ABSORBED] > 0
        assert node.fold.events.sum() > 0
        assert node.fold.store.events[codes.STORE_HIT] > 0
    else:
        assert node.collect.blocks["state"].any() or node.counters.drops[codes.DROP_DUPLICATE]


@pytest.mark.parametrize("n_bits", [64, 4096])
def test_a_block_is_imposed_within_its_room(n_bits: int) -> None:
    zones = Zones()
    n_words = n_bits // 64
    out = zones.array("out", np.zeros(65_400, np.uint8))
    head = zones.array("head", np.zeros(12 + 8 * n_words + 44, np.uint8))
    head[-14], head[-15] = 64, 1
    payload = zones.array("payload", np.zeros(64 * 9000, np.uint8))
    bits = zones.array("bits", np.full((64, n_words), 1, np.uint64))
    for stride in (1, 9000, 65_399):
        n = min(64 * stride, payload.shape[0])
        impose.impose(
            out, head, payload, n, n_words, stride, bits, np.uint64(2**64 - 1), 0, 65_400
        )
        assert zones.broken() == []


# Every kernel that writes is reached.

MODULES = (
    absorb,
    collect,
    forward,
    frame,
    impose,
    late,
    impairment,
    octets,
    replicate,
    slots,
    speak,
    spread,
    store,
    vat,
    vat_packet,
    words_of_feedback,
)
ELSEWHERE = {"note_late", "leave_out", "plan_alike", "repeat_words", "clear_done_gaps"} | {
    "make_room",
    "end_silence",
    "keep",
}
"""Need more than one packet of a kind in a row, patience, no row left, or the simulator: tests
of their own have them."""


STORES = re.compile(r"\] [|&+*^-]?= ")


def writers(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """Kernels of a module that store into something."""
    found = {}
    for name, made in vars(module).items():
        plain = getattr(made, "py_func", made)
        if inspect.isfunction(plain) and plain.__module__ == module.__name__:
            source = inspect.getsource(plain)
            if "@kernel" in source and STORES.search(source):
                found[name] = plain
    return found


@pytest.mark.skipif(JIT, reason="compiled code cannot be traced")
def test_every_kernel_that_writes_is_reached() -> None:
    wanted = {name for module in MODULES for name in writers(module)}
    assert len(wanted) > 40
    called: set[str] = set()
    folder = str(package.__path__[0])

    def trace(frame_: Any, event: str, arg: object) -> None:
        del arg
        if event == "call" and frame_.f_code.co_filename.startswith(folder):
            called.add(frame_.f_code.co_name)

    sys.setprofile(trace)
    try:
        run_all(64, "leaf1")
        run_all(64, "h1")
        test_a_block_is_imposed_within_its_room(64)
    finally:
        sys.setprofile(None)
    missed = sorted(wanted - called - ELSEWHERE)
    assert missed == [], " ".join(missed)
