"""Rows and arrays that kernels work on, declared once; the drivers own them.

Letters: W = words of a BitString, P = ports (0 is the node itself), S = slots, K = packets
looked at in one pass, F = flows counted.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.kernels.codes import N_CLASSES, N_DROPS, N_FOLDS
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
        ("n_words", np.int64),
        ("port", np.int64),  # where the data came from: feedback goes back out of it
        ("flow_port", np.int64),
        ("bfir_addr", np.int64),
        ("entropy", np.int64),  # of words to the BFIR: that of the last one joined
        ("deadline_ps", np.int64),
        ("armed_ps", np.int64),  # when the last data packet passed
        ("wait_ps", np.int64),  # from then to its deadline
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
    ]
)
A_BM = 0
P_BM = 1
DONE_BM = 2
FIRST_ROW = 3
SLOT_PLANES = FIRST_ROW + MAX_PSN

NODE_ROW = np.dtype(
    [
        ("bfr_id", np.int64),
        ("addr", np.int64),
        ("folds", np.int64),  # 1 where this node keeps slots
        ("is_end", np.int64),  # 1 where nothing that came in goes out again: a host
        ("fold_ps", np.int64),  # shortest deadline of a slot just above the leaves
        ("queue_ps", np.int64),  # known beforehand: receivers' queues hold data so long
        ("lag_ps", np.int64),  # mean time from the last data packet to a complete slot
        ("lag_at_ps", np.int64),  # when that was measured last
        ("depth", np.int64),  # hops from the farthest BFIR to the leaves, at most
        ("mtu", np.int64),
        ("queue", np.int64),  # fill of the receive queue, 0..255
        ("next_ps", np.int64),  # no slot expires before
    ]
)


class Fold(NamedTuple):
    """Slot table: rows (S,), words (S, SLOT_PLANES, W), events (N_FOLDS,)."""

    rows: NDArray[np.void]
    words: U64
    events: I64
    ready: I64  # (S + 1,), ready[0] = how many slots are complete, then their indices


class Ports(NamedTuple):
    """Neighbours by port, (P,): IPv4 address and BFR-id; row 0 is the node itself."""

    addr: I64
    bfr_id: I64


class Counters(NamedTuple):
    """What was sent, received and dropped.

    tx, rx: (P, N_CLASSES, 2) packets and bytes; drops: (N_DROPS,); flow_key, flow_used: (F,);
    flow_tx: (F, P, N_CLASSES, 2).
    """

    tx: I64
    rx: I64
    drops: I64
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


def build_fold(n_slots: int, n_words: int) -> Fold:
    """Empty slot table; ``n_slots`` is a power of two."""
    assert n_slots & (n_slots - 1) == 0
    return Fold(
        rows=np.zeros(n_slots, SLOT_ROW),
        words=np.zeros((n_slots, SLOT_PLANES, n_words), np.uint64),
        events=np.zeros(N_FOLDS, np.int64),
        ready=np.zeros(n_slots + 1, np.int64),
    )


def build_counters(n_ports: int) -> Counters:
    """Zero counters for ports 0..n_ports-1."""
    shape = (n_ports, N_CLASSES, 2)
    return Counters(
        tx=np.zeros(shape, np.int64),
        rx=np.zeros(shape, np.int64),
        drops=np.zeros(N_DROPS, np.int64),
        flow_key=np.full(MAX_FLOWS, -1, np.int64),
        flow_used=np.zeros(MAX_FLOWS, np.int64),
        flow_tx=np.zeros((MAX_FLOWS, *shape), np.int64),
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
