"""Repair by the nearest holder: the store of each BFR, and what it sends from it.

What is kept, and who is answered, is decided by the kernels of the live node (kernels/store.py,
kernels/mend.py); packets have no bytes here, so an entry of a store says in ``at`` what else of
a header counts: round, TTL and table.
"""

import numpy as np

from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.replicate import bit
from fanfold.kernels.state import U64, Fold, Store
from fanfold.kernels.store import NOT_KEPT, keep
from fanfold.sim.loop.ports import take_pkt
from fanfold.sim.loop.rows import (
    BIFT_BASE,
    CUT_BYTES,
    I64,
    N_WORDS,
    NONE,
    PK_FAN,
    Row,
    Rows,
)

ROUND_AT, TTL_AT = 24, 16


@kernel
def store_of(all_of: Store, r: int, n: int) -> Store:
    """What router r of n keeps; the rooms to work in are everybody's."""
    n_segs = all_of.segs.shape[0] // n
    a, b = r * n_segs, (r + 1) * n_segs
    n_events, n_sick = all_of.events.shape[0] // n, all_of.sick.shape[0] // n
    return Store(
        all_of.segs[a:b],
        all_of.entries[a:b],
        all_of.room[a:b],
        all_of.most,
        all_of.held[2 * r : 2 * r + 2],
        all_of.events[r * n_events : (r + 1) * n_events],
        all_of.todo,
        all_of.todo_bits,
        all_of.n_todo,
        all_of.sets,
        all_of.sick[r * n_sick : (r + 1) * n_sick],
        all_of.shares,
    )


@kernel
def keep_fan(q: I64, pkt: Row, fan: Row, psns: np.uint64, store: Store) -> None:
    """Keep DATA that passes a BFR."""
    key = i64(fan["bfir_id"]) << 32 | i64(fan["flow"])
    bift_id = q[BIFT_BASE] + pkt["si"]
    where = keep(store, key, bift_id, pkt["psn"], psns, pkt["n"], pkt["bytes"])
    if where != NOT_KEPT:
        n_entries = store.entries.shape[1]
        entry = store.entries[where // n_entries, where % n_entries]
        told = i64(pkt["stamp"]) << ROUND_AT | i64(pkt["ttl"]) << TTL_AT
        entry["at"] = told | i64(pkt["path"])


@kernel
def take_mend(q: I64, pkts: Rows, pkt_bits: U64, fans: Rows, fold: Fold) -> int:
    """The last repair that is noted, as a packet of its own; NONE where none is left."""
    store = fold.store
    if store.n_todo[0] == 0:
        return NONE
    store.n_todo[0] -= 1
    i = store.n_todo[0]
    n_entries = store.entries.shape[1]
    g = store.todo[i, 0] // n_entries
    entry = store.entries[g, store.todo[i, 0] % n_entries]
    m = (store.segs[g]["key"] & 0xFFFFFFFF) // 2
    fan, psn, told = fans[m], store.todo[i, 1], i64(entry["at"])
    p = take_pkt(q, pkts)
    pkt = pkts[p]
    payload = i64(fan["stride"])
    if entry["block"] == fan["n_blocks"] - 1 and psn == fan["last_n_psn"] - 1:
        payload = i64(fan["last_bytes"])
    pkt["kind"], pkt["stream"], pkt["n"] = PK_FAN, m, 1
    pkt["psn"], pkt["si"] = entry["block"], entry["bift_id"] - q[BIFT_BASE]
    pkt["bytes"] = pkt["head"] = payload + fan["head"]
    if q[CUT_BYTES] > 0:
        pkt["head"] = q[CUT_BYTES]
    pkt["path"], pkt["labels"] = told & ((1 << TTL_AT) - 1), 0
    pkt["span_ps"], pkt["marked"], pkt["trimmed"] = 0, 0, 0
    pkt["again"], pkt["poll"] = 1, store.todo[i, 2]
    pkt["stamp"], pkt["ttl"] = told >> ROUND_AT, told >> TTL_AT & 0xFF
    pkt["link"] = NONE
    for w in range(q[N_WORDS]):
        pkt_bits[p, w] = store.todo_bits[i, w]
    pkt_bits[p, q[N_WORDS]] = bit(psn)
    return i64(p)
