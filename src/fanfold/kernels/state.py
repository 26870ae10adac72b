"""Rows and arrays that kernels work on, declared once; the drivers own them.

Letters: W = words of a BitString, P = ports (0 is the node itself), S = slots, K = packets
looked at in one pass, F = flows counted, D = sub-domains.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.kernels.codes import N_CLASSES, N_DROPS, N_FOLDS, N_STORE
from fanfold.kernels.layout import MAX_PSN

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
U8 = NDArray[np.uint8]
Rows = NDArray[np.void]
Row = np.void

MAX_PKTS = 128
"""Packets planned in one pass; a longer block takes several passes."""
MAX_FLOWS = 64
"""Flows with counters of their own; the row idle longest makes room."""

SLOT_ROW = np.dtype(
    [
        ("armed", np.int64),
        ("bfir_id", np.int64),
        ("flow", np.int64),
        ("block", np.int64),
        ("bift_id", np.int64),
        ("which", np.int64),  # set of the BIFT-id, by place in the node's tables
        ("n_words", np.int64),
        ("port", np.int64),  # where the data came from: feedback goes back out of it
        ("flow_port", np.int64),
        ("bfir_addr", np.int64),
        ("entropy", np.int64),  # of words to the BFIR: that of the last one joined
        ("deadline_ps", np.int64),
        ("armed_ps", np.int64),  # when the last data packet passed
        ("wait_ps", np.int64),  # from then to its deadline
        ("early_ps", np.int64),  # when it tells of those it heard, 0: not, or it did
        ("is_early", np.int64),  # 1 while it is to tell so, and waits on
        ("near_ps", np.int64),  # and to a word of who has no deep queue before it
        ("late", np.int64),  # 1 where the deadline has passed and nobody was heard
        ("n_psn", np.int64),
        ("round", np.int64),
        ("queue", np.int64),
        ("room", np.int64),
        ("worst", np.int64),
        ("n_merged", np.int64),
        ("partial", np.int64),
        ("behind", np.int64),  # blocks back to the oldest one lacking, worst of those merged
        ("gaps", np.uint64),  # bit p: some receiver lacks PSN p, its row is in use
        ("mended_ps", np.int64),  # when this BFR sent some of the block again last
        ("mend_wait_ps", np.int64),  # and how long it waits for word of that
        ("mend_ps", np.int64),  # when that is over, 0: it waits for none
        ("spent", np.int64),  # 1 where a BFR sent some again in vain: the source is to do it
    ]
)
A_BM = 0
P_BM = 1
DONE_BM = 2
MENDING = 3  # heard, but this BFR sent what they lack: their next word is waited for
MENDED = 4  # this BFR sent them something once,
MENDED_TWICE = 5  # and again
GONE = 6  # waited for no more: a BFR below waited for them in vain
COMING = 7  # heard, and further packets of their word follow
FIRST_ROW = 8
SLOT_PLANES = FIRST_ROW + MAX_PSN
SPOKE, BEFORE, MISSED, SILENT = 0, 1, 2, 3
N_PLANES = 4
"""Planes of a set of receivers (silent.py)."""

NODE_ROW = np.dtype(
    [
        ("bfr_id", np.int64),
        ("addr", np.int64),
        ("folds", np.int64),  # 1 where this node keeps slots
        ("is_end", np.int64),  # 1 where nothing that came in goes out again: a host
        ("fold_ps", np.int64),  # shortest deadline of a slot just above the leaves
        ("queue_ps", np.int64),  # known beforehand: receivers' queues hold data so long
        ("lag_ps", np.int64),  # mean time from the last data packet to a complete slot
        ("worst_ps", np.int64),  # the longest lately, which an eighth is taken off each time
        ("lag_at_ps", np.int64),  # when that was measured last
        ("depth", np.int64),  # hops from the farthest BFIR to the leaves, at most
        ("mtu", np.int64),
        ("queue", np.int64),  # fill of the receive queue, 0..255
        ("next_ps", np.int64),  # no slot expires before
        ("gap_ps", np.int64),  # when a word named a gap last, or the node began
        ("mend_lag_ps", np.int64),  # mean time from a repair of this BFR's to the word on it
    ]
)
SHARE_ROW = np.dtype(
    [
        ("first_slot", np.int64),
        ("n_slots", np.int64),  # a power of two, 0: none
        ("first_seg", np.int64),
        ("n_segs", np.int64),
        ("first_flow", np.int64),  # of MAX_FLOWS rows
        ("receivers", np.int64),  # bits of a packet at most, 0: any number
        ("byte_ps", np.int64),  # that a byte takes at the rate, 0: no rate
        ("burst_ps", np.int64),  # how far ahead of its rate
        ("free_ps", np.int64),  # when all that came in is paid for
        ("n_pkts", np.int64),  # that came in
        ("n_bytes", np.int64),
        ("n_late", np.int64),  # beyond its rate
        ("n_wide", np.int64),  # to too many receivers
        ("n_full", np.int64),  # blocks that found no slot
        ("n_evicted", np.int64),  # packets that made room in its segments
    ]
)
SEG_ROW = np.dtype(
    [
        ("key", np.int64),  # BFIR-id << 32 | flow, -1 nobody's
        ("used", np.int64),  # bytes
        ("n", np.int64),  # entries
        ("n_pkts", np.int64),
        ("used_at", np.int64),  # the store's count of entries when it was written to last
        ("most", np.int64),  # bytes it has room for
    ]
)
KEPT_ROW = np.dtype(
    [
        ("block", np.int64),
        ("bift_id", np.int64),
        ("psns", np.uint64),  # which packets of the block
        ("at", np.int64),  # where in its segment
        ("size", np.int64),
    ]
)
MAX_TODO = 256
"""Repairs noted before they are sent; what finds no room is left to the source."""
SEG_BYTES = 1 << 16
"""Of a segment at least: the largest packet fits."""
MAX_SEGS = 16
LEAST_PKT = 512
"""Bytes of a packet from which the entries of a segment suffice for its bytes."""


class Store(NamedTuple):
    """DATA that a BFR keeps (store.py), and repairs from it that are to be sent.

    segs: (G,) of SEG_ROW; entries: (G, E) of KEPT_ROW; room: (G, B), (G, 0) where packets have
    no bytes. most: (1,) bytes of the largest segment. held: (2,) bytes kept, entries ever
    made. events: (N_STORE,). todo: (T, 3), where it is kept, its PSN, 1 where it asks for a
    word; todo_bits: (T, W), to whom; n_todo: (1,). sets: (4, W), scratch. sick: (64 * W,), by
    bit: until when the source alone repairs a receiver. shares: (D,) of SHARE_ROW, by
    sub-domain what each tenant has of slots, segments and rate; (0,) where there are none.
    """

    segs: Rows
    entries: Rows
    room: U8
    most: I64
    held: I64
    events: I64
    todo: I64
    todo_bits: U64
    n_todo: I64
    sets: U64
    sick: I64
    shares: Rows


class Fold(NamedTuple):
    """Slot table: rows (S,), words (S, SLOT_PLANES, W), events (N_FOLDS,).

    silent: (sets, 4, W), turn: (2,): who of a set says nothing (silent.py).
    """

    rows: NDArray[np.void]
    words: U64
    events: I64
    ready: I64  # (S + 1,), ready[0] = how many slots are complete, then their indices
    store: Store
    silent: U64
    turn: I64


class Ports(NamedTuple):
    """Neighbours by port, (P,): IPv4 address and BFR-id; row 0 is the node itself."""

    addr: I64
    bfr_id: I64


class Counters(NamedTuple):
    """What was sent, received and dropped.

    tx, rx: (P, N_CLASSES, 2) packets and bytes; drops: (N_DROPS,); port_drops: (P, N_DROPS),
    the same by where packets came in, row 0 what came by no port; drops_noted: (N_DROPS,), how
    many of them stand there; flow_key, flow_used: (F,); flow_tx: (F, P, N_CLASSES, 2).
    """

    tx: I64
    rx: I64
    drops: I64
    port_drops: I64
    drops_noted: I64
    flow_key: I64
    flow_used: I64
    flow_tx: I64


class Plan(NamedTuple):
    """Copies of one pass: what goes to which port, with which BitString.

    n: (P,) packets to each port; pkt: (P, K) which packets of the pass; dport: (P, K) outer
    UDP port; row: (P, K) which row of bits: (P, K, W) is its BitString, the same one for a run
    of packets alike. kind, flow, words: (K,) of each packet; clean: (K,) 1 where all copies
    were planned; run: (K,) packets from this one on that are alike: one kind, flow and size,
    to the same ports. scratch: (4, W). copy_nbr, copy_bits: (P + 1,), (P + 1, W), the copies
    of one packet, the null one too.
    """

    n: I64
    pkt: I64
    row: I64
    bits: U64
    dport: I64
    kind: I64
    flow: I64
    words: I64
    clean: I64
    run: I64
    scratch: U64
    copy_nbr: I64
    copy_bits: U64


def build_node(
    bfr_id: int, addr: int, *, folds: bool, fold_ps: int, depth: int, mtu: int
) -> NDArray[np.void]:
    """One NODE_ROW in an array of one."""
    node = np.zeros(1, NODE_ROW)
    node[0]["bfr_id"], node[0]["addr"], node[0]["folds"] = bfr_id, addr, int(folds)
    node[0]["fold_ps"], node[0]["depth"], node[0]["mtu"] = fold_ps, depth, mtu
    node[0]["next_ps"] = np.iinfo(np.int64).max
    return node


def build_shares(n: int = 0) -> Rows:
    """Shares of no tenant; ``n``: sub-domains, 0 where all is everybody's."""
    return np.zeros(n, SHARE_ROW)


def _no_segs(most: list[int]) -> Rows:
    rows = np.zeros(len(most), SEG_ROW)
    rows["key"], rows["most"] = -1, most
    return rows


def build_store(n_bytes: int, n_words: int, *, has_bytes: bool = True) -> Store:
    """Empty store of about ``n_bytes``, none below SEG_BYTES; memory is touched when used."""
    return build_shared_store((n_bytes,), n_words, build_shares(), has_bytes=has_bytes)


def build_shared_store(
    sizes: Sequence[int], n_words: int, shares: Rows, *, has_bytes: bool = True
) -> Store:
    """Stores of several sizes side by side, each with segments of its own."""
    mosts = [most for n_bytes in sizes for most in _segs_of(n_bytes)]
    n_segs, most = len(mosts), max(mosts, default=0)
    return Store(
        segs=_no_segs(mosts),
        entries=np.zeros((n_segs, most // LEAST_PKT), KEPT_ROW),
        room=np.zeros((n_segs, most if has_bytes else 0), np.uint8),
        most=np.array([most], np.int64),
        held=np.zeros(2, np.int64),
        events=np.zeros(N_STORE, np.int64),
        todo=np.zeros((MAX_TODO, 3), np.int64),
        todo_bits=np.zeros((MAX_TODO, n_words), np.uint64),
        n_todo=np.zeros(1, np.int64),
        sets=np.zeros((4, n_words), np.uint64),
        sick=np.full(64 * n_words, -1, np.int64),
        shares=shares,
    )


def n_segs_of(n_bytes: int) -> int:
    """Segments of a store of about so many bytes."""
    return len(_segs_of(n_bytes))


def _segs_of(n_bytes: int) -> list[int]:
    n_segs = min(n_bytes // SEG_BYTES, MAX_SEGS)
    return [n_bytes // n_segs & ~15] * n_segs if n_segs else []


def build_fold(n_slots: int, n_words: int, store_bytes: int = 0, *, n_sets: int = 1) -> Fold:
    """Empty slot table; ``n_slots`` is a power of two. Memory is touched when used."""
    assert n_slots & (n_slots - 1) == 0
    store = build_store(store_bytes, n_words)
    return build_shared_fold(n_slots, n_words, store, n_sets=n_sets)


def build_shared_fold(n_slots: int, n_words: int, store: Store, *, n_sets: int) -> Fold:
    """Empty slot table; ``n_slots``: of all shares of the store."""
    return Fold(
        rows=np.zeros(n_slots, SLOT_ROW),
        words=np.zeros((n_slots, SLOT_PLANES, n_words), np.uint64),
        events=np.zeros(N_FOLDS, np.int64),
        ready=np.zeros(n_slots + 1, np.int64),
        store=store,
        silent=np.zeros((n_sets, N_PLANES, n_words), np.uint64),
        turn=np.zeros(2, np.int64),
    )


def build_counters(n_ports: int, n_shares: int = 1) -> Counters:
    """Zero counters for ports 0..n_ports-1; MAX_FLOWS flows of each tenant."""
    n_flows = n_shares * MAX_FLOWS
    shape = (n_ports, N_CLASSES, 2)
    return Counters(
        tx=np.zeros(shape, np.int64),
        rx=np.zeros(shape, np.int64),
        drops=np.zeros(N_DROPS, np.int64),
        port_drops=np.zeros((n_ports, N_DROPS), np.int64),
        drops_noted=np.zeros(N_DROPS, np.int64),
        flow_key=np.full(n_flows, -1, np.int64),
        flow_used=np.zeros(n_flows, np.int64),
        flow_tx=np.zeros((n_flows, *shape), np.int64),
    )


def build_plan(n_ports: int, n_words: int) -> Plan:
    """Room for one pass over ports 0..n_ports-1."""
    return Plan(
        n=np.zeros(n_ports, np.int64),
        pkt=np.zeros((n_ports, MAX_PKTS), np.int64),
        row=np.zeros((n_ports, MAX_PKTS), np.int64),
        bits=np.zeros((n_ports, MAX_PKTS, n_words), np.uint64),
        dport=np.zeros((n_ports, MAX_PKTS), np.int64),
        kind=np.zeros(MAX_PKTS, np.int64),
        flow=np.zeros(MAX_PKTS, np.int64),
        words=np.zeros(MAX_PKTS, np.int64),
        clean=np.zeros(MAX_PKTS, np.int64),
        run=np.zeros(MAX_PKTS, np.int64),
        scratch=np.zeros((4, n_words), np.uint64),
        copy_nbr=np.zeros(n_ports + 1, np.int64),
        copy_bits=np.zeros((n_ports + 1, n_words), np.uint64),
    )
