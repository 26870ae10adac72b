"""Slots: expected (A-BM), heard (P-BM), done, gaps. Arm, merge, complete, expire.

A data packet that passes down arms the slot of its block; its BitString joins the A-BM.
Feedback joins by OR, so hearing twice changes nothing. docs/wire/feedback.md section 3.
"""

import numpy as np

from fanfold.kernels.codes import (
    FOLD_ARMED,
    FOLD_COMPLETE,
    FOLD_EARLY,
    FOLD_FULL,
    FOLD_MERGED,
    FOLD_PARTIAL,
    FOLD_UNHEARD,
)
from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.mend import is_mending, mend_again
from fanfold.kernels.octets import ONE, ZERO, times
from fanfold.kernels.replicate import bit
from fanfold.kernels.shares import note_full, slots_from, slots_in
from fanfold.kernels.silent import note_missed
from fanfold.kernels.state import (
    A_BM,
    COMING,
    DONE_BM,
    FIRST_ROW,
    GONE,
    MENDING,
    P_BM,
    SILENT,
    U64,
    Fold,
    Row,
    Rows,
)

NO_SLOT = -1
PROBES = 16
"""Places a key may stand in; when all are taken the packet passes unfolded."""
NEVER_PS = 2**63 - 1
LAGS = 4
MAX_WAITS = 3
"""A slot waits a shortest deadline for each level below it, and one for its own, or LAGS mean
lags up to MAX_WAITS times that: busy is not lost, and a lag has all levels in it. A sender asks
later than the slots of four levels flush (core/pace.py), so that it knows whom to ask."""
LATE_WAITS = 16
"""A slot that has heard nobody by its deadline is kept so many waits more, while its place is
not needed: words may stand in a queue. A second at the leaves, as long as a word may be on its
way (STALE_PS of core/waiting.py)."""
EARLY_LAGS, EARLY_PART = 2, 3
"""A slot that waits twice the longest lag lately, this part of a shortest deadline at least,
tells of those who have the block and waits on for the others: whom a dead link hides costs the
others nothing, and the source need not ask them."""
OLD_WAITS = 4
"""Shortest deadlines after which a lag says nothing of now."""

_MIX = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


@kernel
def slot_home(bfir_id: int, flow: int, block: int, bift_id: int) -> int:
    """First place of a key: a mix whose result is never negative."""
    word = times(np.uint64(block), _MIX)
    word = times(word ^ (word >> _SHIFT) ^ np.uint64(flow), _MIX)
    word = times(word ^ (word >> _SHIFT) ^ np.uint64(bfir_id | (bift_id << 16)), _MIX)
    return i64(word >> np.uint64(1))


@kernel
def find_slot(fold: Fold, bfir_id: int, flow: int, block: int, bift_id: int) -> int:
    """Armed slot of a block and one set of receivers (BIFT-id), or NO_SLOT."""
    rows = fold.rows
    first, n = slots_from(fold, bift_id), slots_in(fold, bift_id)
    home = slot_home(bfir_id, flow, block, bift_id)
    for i in range(PROBES if n > 0 else 0):
        at = first + ((home + i) & (n - 1))
        row = rows[at]
        if (
            row["armed"] != 0
            and row["block"] == block
            and row["flow"] == flow
            and row["bfir_id"] == bfir_id
            and row["bift_id"] == bift_id
        ):
            return at
    return NO_SLOT


@kernel
def open_slot(fold: Fold, bfir_id: int, flow: int, block: int, bift_id: int) -> int:
    """Free slot made ready for a block, or NO_SLOT when its places are taken (counted).

    Where none is free, the oldest of those that are late gives way.
    """
    home = slot_home(bfir_id, flow, block, bift_id)
    at = find_place(fold, home, slots_from(fold, bift_id), slots_in(fold, bift_id))
    if at == NO_SLOT:
        fold.events[FOLD_FULL] += 1
        note_full(fold.store.shares, bift_id)
        return NO_SLOT
    row = fold.rows[at]
    row["armed"] = 1
    row["bfir_id"], row["flow"], row["block"] = bfir_id, flow, block
    row["bift_id"] = bift_id
    row["round"], row["queue"], row["room"] = 255, 0, 255
    row["worst"], row["n_merged"], row["partial"] = 0, 0, 0
    row["behind"], row["entropy"], row["late"] = 0, 0, 0
    row["spent"], row["mended_ps"], row["mend_ps"] = 0, 0, 0
    row["early_ps"], row["is_early"] = 0, 0
    row["gaps"] = ZERO
    for plane in range(FIRST_ROW):
        for w in range(fold.words.shape[2]):
            fold.words[at, plane, w] = ZERO
    fold.events[FOLD_ARMED] += 1
    return at


@kernel
def find_place(fold: Fold, home: int, first: int, n: int) -> int:
    """A free place among those of a key, else that of the oldest late slot, else NO_SLOT.

    ``first``, ``n``: slots that the key's tenant has.
    """
    rows = fold.rows
    oldest = NO_SLOT
    for i in range(PROBES if n > 0 else 0):
        at = first + ((home + i) & (n - 1))
        if rows[at]["armed"] == 0:
            return at
        if rows[at]["late"] != 0 and (
            oldest == NO_SLOT or rows[at]["armed_ps"] < rows[oldest]["armed_ps"]
        ):
            oldest = at
    return oldest


@kernel
def set_deadline(row: Row, node: Rows, n_hops: int, now_ps: int) -> None:
    """Let a slot wait from now on; ``n_hops`` below the BFIR is first_ttl - ttl.

    Deadlines grow with height above the leaves, so children flush before their parent.
    """
    height = min(max(node[0]["depth"] - n_hops, 1), node[0]["depth"])
    fold_ps = node[0]["fold_ps"]
    if now_ps - node[0]["lag_at_ps"] > OLD_WAITS * fold_ps:
        node[0]["lag_ps"] = node[0]["worst_ps"] = 0
    wait = max(fold_ps, min(LAGS * node[0]["lag_ps"], MAX_WAITS * fold_ps))
    row["armed_ps"], row["late"] = now_ps, 0
    row["wait_ps"] = wait + fold_ps * (height - 1) + node[0]["queue_ps"]
    row["deadline_ps"] = now_ps + row["wait_ps"]
    row["near_ps"] = fold_ps * (2 * height - 1) + node[0]["queue_ps"]
    worst = node[0]["worst_ps"]
    early = min(max(EARLY_LAGS * worst, fold_ps // EARLY_PART), row["wait_ps"] // 2)
    row["early_ps"] = now_ps + early if worst > 0 and n_hops < 1 else 0
    due = row["early_ps"] or row["deadline_ps"]
    node[0]["next_ps"] = min(node[0]["next_ps"], due)


@kernel
def end_silence(row: Row, node: Rows, now_ps: int) -> None:
    """The first word in a late slot: from now on it waits for the others."""
    row["late"] = 0
    row["deadline_ps"] = now_ps + row["wait_ps"]
    node[0]["next_ps"] = min(node[0]["next_ps"], row["deadline_ps"])


@kernel
def note_lag(node: Rows, lag_ps: int, now_ps: int) -> None:
    """A slot is complete this long after its last data packet.

    In the mean more than it may wait is cut.
    """
    worst = node[0]["worst_ps"]
    node[0]["worst_ps"] = max(lag_ps, worst - worst // 8)
    lag_ps = min(lag_ps, MAX_WAITS * node[0]["fold_ps"])
    node[0]["lag_ps"] += (lag_ps - node[0]["lag_ps"]) // 8
    node[0]["lag_at_ps"] = now_ps


@kernel
def expect(fold: Fold, at: int, bits: U64, n_words: int, nowhere: U64) -> None:
    """Join the BitString that passed down to the A-BM.

    Who is silent is left out of the wait, and whom no neighbour leads to. Whoever is asked anew
    is waited for anew.

    Args:
        bits: (W,). nowhere: (W,), of the null next hop in the table in use.
    """
    row, words = fold.rows[at], fold.words[at]
    for w in range(n_words):
        silent = bits[w] & (fold.silent[row["which"], SILENT, w] | nowhere[w])
        words[A_BM, w] |= bits[w]
        words[GONE, w] = words[GONE, w] & ~bits[w] | silent


@kernel
def hear(fold: Fold, at: int, heard: U64, done: U64, n_words: int, is_part: bool) -> None:
    """Join who was heard and who has the whole block.

    is_part: further packets of that word follow.
    """
    for w in range(n_words):
        fold.words[at, P_BM, w] |= heard[w]
        fold.words[at, COMING, w] &= ~heard[w]
        if is_part:
            fold.words[at, COMING, w] |= heard[w]
        fold.words[at, GONE, w] &= ~heard[w]
        fold.words[at, DONE_BM, w] |= done[w]
    fold.events[FOLD_MERGED] += 1


@kernel
def lack(fold: Fold, at: int, psn: int, bits: U64, n_words: int) -> None:
    """Join those who lack one PSN; the row is cleared when first used."""
    row = fold.rows[at]
    plane = FIRST_ROW + psn
    if row["gaps"] & bit(psn) == ZERO:
        row["gaps"] |= bit(psn)
        for w in range(n_words):
            fold.words[at, plane, w] = ZERO
    for w in range(n_words):
        fold.words[at, plane, w] |= bits[w]


@kernel
def signal(fold: Fold, at: int, queue: int, room: int, worst: int) -> None:
    """Worst branch wins: largest queue, smallest room, and whose it was."""
    row = fold.rows[at]
    if max(queue, 255 - room) > max(row["queue"], 255 - row["room"]):
        row["worst"] = worst
    row["queue"] = max(row["queue"], queue)
    row["room"] = min(row["room"], room)


@kernel
def is_complete(fold: Fold, at: int, n_words: int) -> bool:
    """A-BM is inside P-BM: all expected were heard to the end or left out, none is mending."""
    words = fold.words[at]
    for w in range(n_words):
        spoke = words[P_BM, w] & ~(words[MENDING, w] | words[COMING, w]) | words[GONE, w]
        if words[A_BM, w] & ~spoke != ZERO:
            return False
    return True


@kernel
def settle(fold: Fold, at: int) -> None:
    """Note a complete slot for sending up: PARTIAL where somebody was left out."""
    row, left = fold.rows[at], ZERO
    for w in range(row["n_words"]):
        left |= fold.words[at, A_BM, w] & ~fold.words[at, P_BM, w]
    row["partial"] = i64(left != ZERO)
    fold.events[FOLD_COMPLETE] += 1
    fold.ready[0] += 1
    fold.ready[fold.ready[0]] = at


@kernel
def settle_once(fold: Fold, slot: int) -> None:
    """Note a complete slot, unless this pass noted it already."""
    for i in range(fold.ready[0]):
        if fold.ready[1 + i] == slot:
            return
    settle(fold, slot)


@kernel
def has_done(fold: Fold, at: int) -> bool:
    """Of those who were heard all have the whole block, and somebody was."""
    heard = other = ZERO
    words = fold.words[at]
    for w in range(fold.rows[at]["n_words"]):
        heard |= words[P_BM, w]
        other |= words[P_BM, w] & ~words[DONE_BM, w]
    return bool(heard != ZERO and other == ZERO)


@kernel
def let_go(row: Row) -> None:
    """Its word has left: a slot is free, or waits on where that was early."""
    if row["is_early"] != 0:
        row["is_early"] = 0
    else:
        row["armed"] = 0


@kernel
def expire(fold: Fold, node: Rows, now_ps: int) -> int:
    """Note every slot past its deadline for sending up, partial.

    One that heard nobody is late: counted, and freed LATE_WAITS later. One that waits long for
    some tells of the others before, once.

    Returns:
        Earliest deadline still ahead, NEVER_PS when nothing is armed.
    """
    nearest = NEVER_PS
    for at in range(fold.rows.shape[0]):
        row = fold.rows[at]
        if row["armed"] == 0:
            continue
        if 0 < row["mend_ps"] <= now_ps:
            mend_again(fold, at, now_ps)
            if not is_mending(fold, at) and is_complete(fold, at, row["n_words"]):
                settle(fold, at)
                continue
        if row["deadline_ps"] > now_ps:
            if 0 < row["early_ps"] <= now_ps:
                row["early_ps"] = 0
                if has_done(fold, at):
                    row["is_early"] = 1
                    fold.events[FOLD_EARLY] += 1
                    fold.ready[0] += 1
                    fold.ready[fold.ready[0]] = at
            due = min(row["deadline_ps"], row["mend_ps"] or NEVER_PS)
            nearest = min(nearest, due, row["early_ps"] or NEVER_PS)
            continue
        heard = ZERO
        for w in range(row["n_words"]):
            heard |= fold.words[at, P_BM, w]
        note_missed(fold, at, node, now_ps)
        if heard == ZERO and row["late"] != 0:
            row["armed"] = 0
            continue
        if heard == ZERO:
            row["late"], row["early_ps"] = 1, 0
            row["deadline_ps"] = now_ps + LATE_WAITS * row["wait_ps"]
            nearest = min(nearest, row["deadline_ps"])
            fold.events[FOLD_UNHEARD] += 1
            continue
        row["partial"] = 1
        if is_mending(fold, at):
            row["spent"] = 1  # it took too long
        fold.events[FOLD_PARTIAL] += 1
        fold.ready[0] += 1
        fold.ready[fold.ready[0]] = at
    return nearest


@kernel
def clear_done_gaps(fold: Fold, at: int, n_words: int) -> None:
    """Those who have the whole block lack nothing, whatever they said before."""
    row = fold.rows[at]
    for psn in range(row["n_psn"]):
        if row["gaps"] & bit(psn) == ZERO:
            continue
        left = ZERO
        for w in range(n_words):
            fold.words[at, FIRST_ROW + psn, w] &= ~fold.words[at, DONE_BM, w]
            left |= fold.words[at, FIRST_ROW + psn, w]
        if left == ZERO:
            row["gaps"] &= ~(ONE << np.uint64(psn))
