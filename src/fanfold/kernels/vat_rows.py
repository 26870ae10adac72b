"""Rows of virtual aggregation trees: made, grown, narrowed, and given up for others.

A group is given slots side by side, as many as it asks for, and more when it asks for more;
what is in its slots stays. Where all are given away a group that was idle for long loses its
own: rank 0 arms such a one again (docs/wire/fold.md section 4).
"""

from fanfold.kernels.jit import kernel
from fanfold.kernels.octets import ZERO, copy_octets
from fanfold.kernels.shares import is_same_tenant, room_of, sub_domain_of
from fanfold.kernels.state import U64
from fanfold.kernels.vat import (
    FLUSHED_BM,
    FREE,
    HEARD_BM,
    NO_ROW,
    SHARE_FIRST,
    SHARE_ROWS,
    SHARE_SLOTS,
    VAT_ARMED,
    VAT_FULL,
    VAT_QUOTA,
    Vats,
    close_vat,
    free_slots,
    is_inside,
    meets,
    slot_of,
)

IDLE_PS = 30_000_000_000_000
"""A row unused for so long makes room for another group. Who waits for a result asks for it
several times a second, so nobody does."""
KEPT_PART = 4
"""This part of all slots is kept for groups that ask for few."""


@kernel
def open_vat(
    vats: Vats,
    group: int,
    port: int,
    is_root: int,
    bits: U64,
    n_words: int,
    bift_id: int,
    n_slots: int,
    n_least: int,
    now: int,
) -> int:
    """Row of a group for one way to its root, made where there is none, or NO_ROW: table full.

    The same A-BM and slots again leave everything as it is, part of the A-BM keeps the slots,
    more slots keep what is in them, others start anew. ``bits`` of zero make a row that only
    knows the way. ``n_least``: so many slots will do, 0: as many as asked for or none.
    """
    at = NO_ROW
    for r in range(vats.clock[2]):
        row = vats.rows[r]
        if row["used"] != 0 and row["group"] == group and row["port"] == port:
            at = r
    if at == NO_ROW:
        at = free_row(vats, bift_id, now)
        vats.clock[2] = max(vats.clock[2], at + 1)
    if at == NO_ROW:
        vats.events[VAT_FULL] += 1
        return NO_ROW
    row = vats.rows[at]
    forget_others(vats, at, group, bits, n_words)
    row["used_ps"] = now
    same = is_inside(bits, vats.a_bm[at], n_words) and is_inside(vats.a_bm[at], bits, n_words)
    is_known = row["used"] != 0 and row["is_root"] == is_root
    stays = n_slots == row["n_slots"] or (n_least > 0 and n_slots == row["n_asked"])
    if is_known and stays and (same or narrow_vat(vats, at, bits, n_words)):
        return at
    if is_known and same and 0 < row["n_slots"] < n_slots:
        grow_slots(vats, at, n_slots, n_least, now)
        return at
    close_vat(vats, at)
    row["used"], row["group"], row["port"], row["is_root"] = 1, group, port, is_root
    row["is_anew"], row["armer"], row["is_laid"] = 0, 0, 0
    row["bift_id"], row["n_words"] = bift_id, n_words
    empty = True
    for w in range(n_words):
        vats.a_bm[at, w] = bits[w]
        vats.late_bm[at, w] = ZERO
        empty = empty and bits[w] == ZERO
    row["n_asked"] = n_slots
    if not empty and n_slots > 0:
        take_slots(vats, at, n_slots, n_least, now)
    vats.events[VAT_ARMED] += 1
    return at


@kernel
def forget_others(vats: Vats, at: int, group: int, bits: U64, n_words: int) -> None:
    """Close rows of a group with another way for the same ranks: its root is elsewhere now."""
    for r in range(vats.clock[2]):
        row = vats.rows[r]
        is_other = r != at and row["used"] != 0 and row["group"] == group
        if is_other and meets(vats.a_bm[r], bits, n_words):
            close_vat(vats, r)


@kernel
def close_group(vats: Vats, group: int) -> int:
    """Close all rows of a group; how many there were."""
    n = 0
    for r in range(vats.clock[2]):
        if vats.rows[r]["used"] != 0 and vats.rows[r]["group"] == group:
            close_vat(vats, r)
            n += 1
    return n


@kernel
def narrow_vat(vats: Vats, at: int, bits: U64, n_words: int) -> bool:
    """Take ranks out of an A-BM and keep the slots; False when others are to come in."""
    if not meets(bits, vats.a_bm[at], n_words) or not is_inside(bits, vats.a_bm[at], n_words):
        return False
    for w in range(n_words):
        vats.a_bm[at, w] = bits[w]
    return True


@kernel
def free_row(vats: Vats, bift_id: int, now: int) -> int:
    """A row nobody uses, else the one idle longest if that is long enough, else NO_ROW.

    What was configured stays: no rank would arm it again. A tenant has its number of rows.
    """
    oldest, n_own = NO_ROW, 0
    most = room_of(vats.shares, sub_domain_of(bift_id), SHARE_ROWS, vats.rows.shape[0])
    for r in range(vats.clock[2]):
        if vats.rows[r]["used"] != 0 and is_same_tenant(vats.rows[r]["bift_id"], bift_id):
            n_own += 1
    for r in range(vats.rows.shape[0]):
        row = vats.rows[r]
        if row["used"] == 0:
            if n_own < most:
                return r
            continue
        if not is_same_tenant(row["bift_id"], bift_id):
            continue
        is_older = oldest == NO_ROW or row["used_ps"] < vats.rows[oldest]["used_ps"]
        if row["is_laid"] == 0 and is_older:
            oldest = r
    if oldest == NO_ROW or vats.rows[oldest]["used_ps"] + IDLE_PS > now:
        return NO_ROW
    close_vat(vats, oldest)
    return oldest


@kernel
def take_slots(vats: Vats, at: int, n_slots: int, n_least: int, now: int) -> None:
    """Give a row slots side by side, or none: then it passes everything on.

    As many as asked for; else, where fewer will do, the largest half, quarter and so on that
    leaves some for others. Groups idle for long give theirs up, the longest first.
    """
    row = vats.rows[at]
    least = n_slots if n_least == 0 else min(n_least, n_slots)
    if slots_of(vats, row["group"]) + least > vats.limits[1]:
        vats.events[VAT_QUOTA] += 1
        return
    while True:
        n, first = find_slots(vats, row["group"], row["bift_id"], n_slots, n_least)
        if n > 0:
            row["first_slot"], row["n_slots"] = first, n
            for i in range(first, first + n):
                vats.owner[i] = at + 1
                vats.slots[i]["state"] = FREE
            return
        if not close_idle(vats, at, now):
            vats.events[VAT_FULL] += 1
            return


@kernel
def find_slots(
    vats: Vats, group: int, bift_id: int, n_slots: int, n_least: int
) -> tuple[int, int]:
    """So many free slots side by side, and the first of them; 0 where there are none."""
    if not has_place(vats, bift_id):
        return 0, 0
    n_free, sub_domain = 0, sub_domain_of(bift_id)
    begin = room_of(vats.shares, sub_domain, SHARE_FIRST, 0)
    n_all = room_of(vats.shares, sub_domain, SHARE_SLOTS, vats.owner.shape[0])
    for s in range(begin, begin + n_all):
        n_free += 1 if vats.owner[s] == 0 else 0
    own, n = slots_of(vats, group), n_slots
    while n > 0:
        is_kept = n_least > 0 and n > n_least and n_free - n < n_all // KEPT_PART
        if not is_kept and own + n <= vats.limits[1]:
            first = find_run(vats, begin, begin + n_all, n)
            if first >= 0:
                return n, first
        if n_least == 0 or n <= n_least:
            break
        n = max(n // 2, n_least)
    return 0, 0


@kernel
def find_run(vats: Vats, begin: int, end: int, n: int) -> int:
    """First of n free slots side by side, or -1."""
    run = 0
    for s in range(begin, end):
        run = run + 1 if vats.owner[s] == 0 else 0
        if run == n:
            return s - n + 1
    return -1


@kernel
def close_idle(vats: Vats, at: int, now: int) -> bool:
    """Close the tenant's row idle longest, if that is long enough; never row ``at``."""
    oldest, bift_id = NO_ROW, vats.rows[at]["bift_id"]
    for r in range(vats.clock[2]):
        row = vats.rows[r]
        has_slots = r != at and row["used"] != 0 and row["n_slots"] > 0 and row["is_laid"] == 0
        has_slots = has_slots and is_same_tenant(row["bift_id"], bift_id)
        if has_slots and (oldest == NO_ROW or row["used_ps"] < vats.rows[oldest]["used_ps"]):
            oldest = r
    if oldest == NO_ROW or vats.rows[oldest]["used_ps"] + IDLE_PS > now:
        return False
    close_vat(vats, oldest)
    return True


@kernel
def grow_slots(vats: Vats, at: int, n_slots: int, n_least: int, now: int) -> None:
    """Give a row more slots and keep what is in those it has.

    Without room it keeps what it has, where that will do; else it passes everything on.
    """
    row = vats.rows[at]
    first, n = row["first_slot"], row["n_slots"]
    row["n_asked"] = n_slots
    row["first_slot"], row["n_slots"] = 0, 0
    take_slots(vats, at, n_slots, max(n_least, n) if n_least > 0 else 0, now)
    if row["n_slots"] <= n and n_least > 0:
        free_slots(vats, row["first_slot"], row["n_slots"])
        row["first_slot"], row["n_slots"] = first, n
        return
    for s in range(first, first + n if row["n_slots"] > 0 else first):
        if vats.slots[s]["state"] != FREE:
            move_slot(vats, s, slot_of(row, vats.slots[s]["block"]))
    free_slots(vats, first, n)


@kernel
def move_slot(vats: Vats, old: int, new: int) -> None:
    """Copy a slot with its packet."""
    a, b = vats.slots[old], vats.slots[new]
    b["state"], b["vat"], b["block"], b["n_bytes"] = (
        a["state"],
        a["vat"],
        a["block"],
        a["n_bytes"],
    )
    b["flags"], b["exponent"], b["n_merged"] = a["flags"], a["exponent"], a["n_merged"]
    b["patience_ps"], b["began_ps"] = a["patience_ps"], a["began_ps"]
    b["deadline_ps"], b["sent_ps"] = a["deadline_ps"], a["sent_ps"]
    for w in range(vats.words.shape[2]):
        vats.words[new, HEARD_BM, w] = vats.words[old, HEARD_BM, w]
        vats.words[new, FLUSHED_BM, w] = vats.words[old, FLUSHED_BM, w]
    copy_octets(vats.room[new], 0, vats.room[old], 0, vats.room.shape[1])


@kernel
def slots_of(vats: Vats, group: int) -> int:
    """Slots that all rows of a group have together."""
    total = 0
    for r in range(vats.clock[2]):
        if vats.rows[r]["used"] != 0 and vats.rows[r]["group"] == group:
            total += vats.rows[r]["n_slots"]
    return total


@kernel
def has_place(vats: Vats, bift_id: int) -> bool:
    """One row more of a tenant may have slots."""
    total = 0
    for r in range(vats.clock[2]):
        row = vats.rows[r]
        if row["used"] != 0 and row["n_slots"] > 0 and is_same_tenant(row["bift_id"], bift_id):
            total += 1
    return total < vats.limits[0]
