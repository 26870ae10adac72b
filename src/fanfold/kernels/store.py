"""Recent DATA of fans that pass a BFR, kept for a while: what it repairs from (mend.py).

A store is G segments of B bytes. A segment belongs to one fan at a time, a fan has at most half
of those of its tenant; the one that was written to longest ago makes room, and all that is in
it goes at once.

Letters: G = segments, E = entries of each, B = its bytes, T = repairs noted, W = words of a
BitString.
"""

import numpy as np

from fanfold.kernels.codes import (
    CLASS_DATA,
    CLASS_REPAIR,
    STORE_CORRUPT,
    STORE_EVICTED,
    STORE_KEPT,
)
from fanfold.kernels.frame import is_inner_sound
from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.layout import BITS_AT, FLAG_SOURCE, INNER_BYTES
from fanfold.kernels.octets import ZERO, read_u32, stream_octets
from fanfold.kernels.replicate import bit
from fanfold.kernels.shares import note_evicted, segs_from, segs_in
from fanfold.kernels.state import U8, Counters, Fold, Plan, Rows, Store

KEEP_PS = 10_000_000_000_000
"""After the last gap that a word named DATA is kept so long."""
NOT_KEPT = -1
ALIGN = 16
"""Bytes; where packets that are kept together begin."""


@kernel
def has_store(store: Store) -> bool:
    """This node keeps DATA."""
    return store.segs.shape[0] > 0


@kernel
def find_seg(store: Store, key: int, bift_id: int, size: int, n: int) -> int:
    """Segment of a fan with room for ``n`` more entries of ``size`` bytes, made where need be.

    Args:
        key: BFIR-id << 32 | flow.

    Returns:
        The segment, or NOT_KEPT: they are larger than a segment.
    """
    segs = store.segs
    n_own = 0
    first, n_segs = segs_from(store, bift_id), segs_in(store, bift_id)
    own, oldest = NOT_KEPT, first
    if n_segs == 0 or size > segs[first]["most"] or n > store.entries.shape[1]:
        return NOT_KEPT
    for g in range(first, first + n_segs):
        row = segs[g]
        if row["used_at"] < segs[oldest]["used_at"]:
            oldest = g
        if row["key"] != key:
            continue
        if has_room(store, g, size, n):
            return g
        n_own += 1
        if own == NOT_KEPT or row["used_at"] < segs[own]["used_at"]:
            own = g
    if n_own >= max(n_segs // 2, 1):
        oldest = own
    note_evicted(store.shares, bift_id, segs[oldest]["n_pkts"])
    evict(store, oldest)
    segs[oldest]["key"] = key
    return oldest


@kernel
def has_room(store: Store, g: int, size: int, n: int) -> bool:
    """``n`` more entries of ``size`` bytes fit into a segment."""
    row = store.segs[g]
    return row["n"] + n <= store.entries.shape[1] and row["used"] + size <= row["most"]


@kernel
def evict(store: Store, g: int) -> None:
    """Forget all that is in a segment."""
    row = store.segs[g]
    store.events[STORE_EVICTED] += row["n_pkts"]
    store.held[0] -= row["used"]
    row["used"], row["n"], row["n_pkts"], row["key"] = 0, 0, 0, -1


@kernel
def keep(
    store: Store, key: int, bift_id: int, block: int, psns: np.uint64, n_pkts: int, size: int
) -> int:
    """Note that packets of a block are kept, ``size`` bytes in all.

    Returns:
        Segment * E + entry, or NOT_KEPT.
    """
    g = find_seg(store, key, bift_id, size, 1)
    if g == NOT_KEPT:
        return NOT_KEPT
    row = store.segs[g]
    e = row["n"]
    entry = store.entries[g, e]
    entry["bift_id"], entry["block"], entry["psns"] = bift_id, block, psns
    entry["at"], entry["size"] = row["used"], size
    row["n"], row["n_pkts"] = e + 1, row["n_pkts"] + n_pkts
    row["used"] += size
    store.held[0] += size
    store.held[1] += 1
    row["used_at"] = store.held[1]
    store.events[STORE_KEPT] += n_pkts
    return i64(g * store.entries.shape[1] + e)


@kernel
def find_kept(store: Store, key: int, bift_id: int, block: int, psn: int, n_words: int) -> int:
    """Where a packet is kept: segment * E + entry, the newest of its segment; or NOT_KEPT.

    What does not add up is forgotten: receivers would drop it.
    """
    n_entries = store.entries.shape[1]
    first = segs_from(store, bift_id)
    for g in range(first, first + segs_in(store, bift_id)):
        if store.segs[g]["key"] != key:
            continue
        for i in range(store.segs[g]["n"]):
            e = store.segs[g]["n"] - 1 - i
            entry = store.entries[g, e]
            if entry["block"] != block or entry["bift_id"] != bift_id:
                continue
            if entry["psns"] & bit(psn) == ZERO:
                continue
            if store.room.shape[1] == 0 or is_inner_sound(
                store.room[g], entry["at"], entry["size"], n_words
            ):
                return g * n_entries + e
            entry["psns"] = ZERO
            store.events[STORE_CORRUPT] += 1
    return NOT_KEPT


@kernel
def is_worth(node: Rows, now_ps: int) -> bool:
    """Something was lost lately: where nothing is, to keep all would be work for nothing.

    The first gap after a long rest is the source's to fill.
    """
    return bool(now_ps - node[0]["gap_ps"] < KEEP_PS)


@kernel
def keep_pass(
    buf: U8, first: int, seg: int, n: int, plan: Plan, counters: Counters, fold: Fold
) -> None:
    """Keep the DATA of a pass that was accepted, as it leaves: with its TTL one lower.

    Args:
        buf, first, seg: the block as given to ``plan_pass``. n: where the pass ended, at most
            the end of the block. plan: its result.
    """
    store = fold.store
    k = 0
    at = first
    while at < n:
        kind = plan.kind[k]
        n_pkts = 1
        if plan.flow[k] >= 0 and (kind == CLASS_DATA or kind == CLASS_REPAIR):
            n_pkts = min(plan.run[k], (n - at + seg - 1) // seg)
            f, words = plan.flow[k], plan.words[k]
            is_kept = keep_run(
                buf, at, seg, min(n_pkts * seg, n - at), words, store, counters, f
            )
            for i in range(0 if is_kept else n_pkts):
                left = min(seg, n - at - i * seg)
                keep_run(buf, at + i * seg, seg, left, words, store, counters, f)
        at += n_pkts * seg
        k += n_pkts


@kernel
def keep_run(
    buf: U8, at: int, seg: int, size: int, words: int, store: Store, counters: Counters, f: int
) -> bool:
    """Keep ``size`` bytes of DATA packets alike but in their PSNs, of the flow in row ``f``.

    They stand behind one another in the store as in the block. What its source forbids is not
    kept.

    Returns:
        False where no segment is large enough for all of them.
    """
    fan = at + BITS_AT + 8 * words + INNER_BYTES
    if buf[fan + 1] & FLAG_SOURCE != 0:
        return True
    key, bift_id, n = counters.flow_key[f], read_u32(buf, at) >> 12, (size + seg - 1) // seg
    room = (size + ALIGN - 1) & -ALIGN
    g = find_seg(store, key, bift_id, room, n)
    if g == NOT_KEPT:
        return False
    row = store.segs[g]
    for i in range(n):
        entry = store.entries[g, row["n"] + i]
        entry["bift_id"], entry["block"] = bift_id, read_u32(buf, fan + 8)
        entry["psns"] = bit(i64(buf[fan + i * seg + 3]) & 63)
        entry["at"], entry["size"] = row["used"] + i * seg, min(seg, size - i * seg)
    stream_octets(store.room[g], row["used"], buf, at, size)
    row["n"], row["n_pkts"] = row["n"] + n, row["n_pkts"] + n
    row["used"] += room
    store.held[0] += room
    store.held[1] += n
    row["used_at"] = store.held[1]
    store.events[STORE_KEPT] += n
    return True


@kernel
def note_repair(store: Store, where: int, psn: int) -> None:
    """Note a repair, to whom row ``n_todo`` of ``todo_bits`` says; it asks for no word yet."""
    i = store.n_todo[0]
    store.todo[i, 0], store.todo[i, 1] = where, psn
    store.todo[i, 2] = 0
    store.n_todo[0] = i + 1
