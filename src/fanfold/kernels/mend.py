"""Repair by the nearest holder: a BFR answers gaps from what it keeps (feedback.md 4).

A word that names gaps comes up to an armed slot. What the store has of them goes down again, to
exactly those who lack it; they are *mending*: heard, but the slot waits for their next word.
What is not kept, too much of a block, or lacking after two repairs goes up as it came.

What one word sets off is bounded: a third of a block for each receiver that it may speak for,
twice a slot, and a slot is armed by DATA alone. So the DATA that passes down bounds it.
"""

import numpy as np

from fanfold.kernels.codes import (
    STORE_FULL,
    STORE_HEAVY,
    STORE_HIT,
    STORE_LATE,
    STORE_MISS,
    STORE_SPENT,
)
from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.layout import BITS_AT, FLAG_POLL, FLAG_REPAIR, INNER_BYTES
from fanfold.kernels.octets import ONE, ZERO, copy_octets, fold_sum, read_u16, write_u16
from fanfold.kernels.replicate import bit, lowest_bit, n_bits
from fanfold.kernels.state import (
    DONE_BM,
    FIRST_ROW,
    MAX_TODO,
    MENDED,
    MENDED_TWICE,
    MENDING,
    U8,
    U64,
    Fold,
    Row,
    Rows,
    Store,
)
from fanfold.kernels.store import NOT_KEPT, find_kept, note_repair

LEAST_GAPS = 2
SHARE = 3
"""Of the packets of a block a receiver may lack two, or a third: where its link and the one
above lose 10 % by chance it seldom lacks more of 64. Who lacks more is behind a queue that
drops, and the source has to hear of that."""
LAGS, WORD_LAGS = 4, 2
"""A repair is lost when no word of it came for so many mean times, or twice as long as the word
took that it answers; within the shortest deadline of a slot and this part of it. Who takes
longer than that deadline to tell of a gap has a deep queue before it: a repair would wait there
too, and the source knows that way's time."""
LEAST_PART = 12
SICK_WAITS = 16
"""Shortest deadlines for which whoever was left to the source stays so: its way is not one that
loses by chance. The source knows its rate, and learns it from what is lost."""


@kernel
def most_gaps(n_psn: int) -> int:
    """Packets of a block that a BFR sends one receiver again."""
    return max(n_psn // SHARE, LEAST_GAPS)


@kernel
def speak_anew(fold: Fold, slot: int, heard: U64, node: Rows, now_ps: int) -> None:
    """Who is mending says how that went: what they lacked before counts no more."""
    row, words = fold.rows[slot], fold.words[slot]
    spoke = ZERO
    for w in range(row["n_words"]):
        spoke |= words[MENDING, w] & heard[w]
    if spoke == ZERO:
        return
    lag_ps = max(min(now_ps - row["mended_ps"], node[0]["fold_ps"]), 1)
    mean_ps = node[0]["mend_lag_ps"]
    node[0]["mend_lag_ps"] = mean_ps + (lag_ps - mean_ps) // 8 if mean_ps > 0 else lag_ps
    left = ZERO
    for w in range(row["n_words"]):
        new = words[MENDING, w] & heard[w]
        words[MENDING, w] &= ~new
        left |= words[MENDING, w]
        for psn in range(row["n_psn"]):
            if row["gaps"] & bit(psn) != ZERO:
                words[FIRST_ROW + psn, w] &= ~new
    drop_empty_rows(fold, slot)
    if left == ZERO:
        row["mend_ps"] = 0


@kernel
def drop_empty_rows(fold: Fold, slot: int) -> None:
    """A row of a packet that nobody lacks is in use no more."""
    row, words = fold.rows[slot], fold.words[slot]
    for psn in range(row["n_psn"]):
        if row["gaps"] & bit(psn) == ZERO:
            continue
        left = ZERO
        for w in range(row["n_words"]):
            left |= words[FIRST_ROW + psn, w]
        if left == ZERO:
            row["gaps"] &= ~(ONE << np.uint64(psn))


@kernel
def mend_word(fold: Fold, slot: int, heard: U64, node: Rows, now_ps: int) -> None:
    """Answer the gaps of a word that was merged just now, as far as the store has them.

    Args:
        heard: (W,), by that word, of which no more is to come. node: this BFR.
    """
    row, words, store = fold.rows[slot], fold.words[slot], fold.store
    able, hit, nowhere, rest = store.sets[0], store.sets[1], store.sets[2], store.sets[3]
    if not who_lacks(fold, slot, heard, able):
        return
    sick_ps = now_ps + SICK_WAITS * node[0]["fold_ps"]
    if now_ps - row["armed_ps"] > row["near_ps"]:
        give_up(fold, slot, able, STORE_LATE, sick_ps)
        return
    leave_heavy(fold, slot, able, rest, sick_ps)
    leave_sick(fold, slot, able, now_ps)
    for w in range(row["n_words"]):
        rest[w] = able[w] & words[MENDED_TWICE, w]
        able[w] &= ~rest[w]
    give_up(fold, slot, rest, STORE_SPENT, sick_ps)
    begin = store.n_todo[0]
    if not answer(fold, slot, able, hit, nowhere):
        return
    for w in range(row["n_words"]):
        words[MENDED_TWICE, w] |= hit[w] & words[MENDED, w]
        words[MENDED, w] |= hit[w]
        words[MENDING, w] |= hit[w] & ~nowhere[w]
    # Who lacks something else too speaks again when that comes: what is on its way is no gap.
    for i in range(begin, store.n_todo[0]):
        for w in range(row["n_words"]):
            words[FIRST_ROW + store.todo[i, 1], w] &= ~nowhere[w]
    drop_empty_rows(fold, slot)
    wait_for_mended(row, node, now_ps)


@kernel
def who_lacks(fold: Fold, slot: int, heard: U64, out: U64) -> bool:
    """Who of those heard lacks some of the block; False where nobody does."""
    row, words = fold.rows[slot], fold.words[slot]
    some = ZERO
    for w in range(row["n_words"]):
        lacks = ZERO
        for psn in range(row["n_psn"]):
            if row["gaps"] & bit(psn) != ZERO:
                lacks |= words[FIRST_ROW + psn, w]
        out[w] = lacks & heard[w] & ~words[DONE_BM, w]
        some |= out[w]
    return some != ZERO


@kernel
def leave_heavy(fold: Fold, slot: int, able: U64, heavy: U64, sick_ps: int) -> None:
    """Who lost much of a block below here is left to the source. ``heavy``: overwritten.

    What is not kept was lost above: it says nothing of the way down.
    """
    row, words = fold.rows[slot], fold.words[slot]
    most = most_gaps(row["n_psn"])
    for w in range(row["n_words"]):
        heavy[w] = ZERO
    if n_bits(row["gaps"]) <= most:
        return
    kept = kept_of(fold, row)
    if n_bits(kept) <= most:
        return
    for w in range(row["n_words"]):
        rest = able[w]
        while rest != ZERO:
            one = rest & ~(rest - ONE)
            rest &= ~one
            n = 0
            for psn in range(row["n_psn"]):
                if kept & bit(psn) != ZERO and words[FIRST_ROW + psn, w] & one != ZERO:
                    n += 1
            if n > most:
                heavy[w] |= one
                able[w] &= ~one
    give_up(fold, slot, heavy, STORE_HEAVY, sick_ps)


@kernel
def kept_of(fold: Fold, row: Row) -> np.uint64:
    """PSNs of a slot's gaps that the store has."""
    key, kept = (row["bfir_id"] << 32) | row["flow"], ZERO
    for psn in range(row["n_psn"]):
        if row["gaps"] & bit(psn) == ZERO:
            continue
        where = find_kept(fold.store, key, row["bift_id"], row["block"], psn, row["n_words"])
        if where != NOT_KEPT:
            kept |= bit(psn)
    return kept


@kernel
def leave_sick(fold: Fold, slot: int, able: U64, now_ps: int) -> None:
    """Who was left to the source a while ago still is."""
    for w in range(fold.rows[slot]["n_words"]):
        rest = able[w]
        while rest != ZERO:
            k = lowest_bit(rest)
            rest &= rest - ONE
            if fold.store.sick[64 * w + k] > now_ps:
                able[w] &= ~bit(k)
                fold.rows[slot]["spent"] = 1


@kernel
def give_up(fold: Fold, slot: int, who: U64, why: int, sick_ps: int) -> None:
    """The source is to send them what they lack: the slot waits for them no more.

    sick_ps: until when all repairs of theirs are the source's.
    """
    row, words = fold.rows[slot], fold.words[slot]
    some = left = ZERO
    for w in range(row["n_words"]):
        fold.store.events[why] += n_bits(who[w])
        some |= who[w]
        rest = who[w] if why == STORE_HEAVY else ZERO
        while rest != ZERO:
            fold.store.sick[64 * w + lowest_bit(rest)] = sick_ps
            rest &= rest - ONE
        words[MENDING, w] &= ~who[w]
        left |= words[MENDING, w]
    if some != ZERO:
        row["spent"] = 1
    if left == ZERO:
        row["mend_ps"] = 0


@kernel
def answer(fold: Fold, slot: int, able: U64, hit: U64, nowhere: U64) -> bool:
    """Note repairs of what ``able`` lack, as far as it is kept.

    Args:
        hit, nowhere: (W,), overwritten: who is sent some, who lacks some that is not kept.

    Returns:
        Whether anything is to be sent.
    """
    row, words, store = fold.rows[slot], fold.words[slot], fold.store
    n_words = row["n_words"]
    begin = store.n_todo[0]
    key = (row["bfir_id"] << 32) | row["flow"]
    for w in range(hit.shape[0]):
        hit[w] = nowhere[w] = ZERO
    if n_bits(row["gaps"]) > MAX_TODO - begin:
        store.events[STORE_FULL] += 1
        return False
    for i in range(row["n_psn"]):
        psn = row["n_psn"] - 1 - i  # sent in the order of PSNs: send takes the last one first
        if row["gaps"] & bit(psn) == ZERO:
            continue
        to = store.todo_bits[store.n_todo[0]]
        some = ZERO
        for w in range(to.shape[0]):
            to[w] = words[FIRST_ROW + psn, w] & able[w] if w < n_words else ZERO
            some |= to[w]
        if some == ZERO:
            continue
        where = find_kept(store, key, row["bift_id"], row["block"], psn, n_words)
        if where == NOT_KEPT:
            store.events[STORE_MISS] += 1
            for w in range(n_words):
                nowhere[w] |= to[w]
            continue
        store.events[STORE_HIT] += 1
        for w in range(n_words):
            hit[w] |= to[w]
        note_repair(store, where, psn)
    ask(store, begin, nowhere, n_words)
    return store.n_todo[0] > begin


@kernel
def ask(store: Store, begin: int, nowhere: U64, n_words: int) -> None:
    """The last repair that each receiver is sent asks for the word that its slot waits for.

    But of who lacks something else too: the source's repair asks then.
    """
    for i in range(begin, store.n_todo[0]):
        fresh = ZERO
        for w in range(n_words):
            new = store.todo_bits[i, w] & ~nowhere[w]
            for j in range(begin, i):
                new &= ~store.todo_bits[j, w]
            fresh |= new
        store.todo[i, 2] = 1 if fresh != ZERO else 0


@kernel
def wait_for_mended(row: Row, node: Rows, now_ps: int) -> None:
    """Repairs go now: word of them is waited for, much shorter than a slot waits."""
    least_ps = node[0]["fold_ps"] // LEAST_PART
    usual_ps = node[0]["mend_lag_ps"] if node[0]["mend_lag_ps"] > 0 else least_ps
    told_ps = now_ps - row["armed_ps"]
    wait_ps = max(LAGS * usual_ps, WORD_LAGS * told_ps, least_ps)
    wait_ps = min(wait_ps, row["near_ps"])
    row["mended_ps"], row["mend_wait_ps"] = now_ps, max(wait_ps, 1)
    row["mend_ps"] = now_ps + row["mend_wait_ps"]
    node[0]["next_ps"] = min(node[0]["next_ps"], row["mend_ps"])


@kernel
def mend_again(fold: Fold, slot: int, now_ps: int) -> None:
    """No word of repairs came in time: they go once more; after that the source is told."""
    row, words, sets = fold.rows[slot], fold.words[slot], fold.store.sets
    able, hit, nowhere, rest = sets[0], sets[1], sets[2], sets[3]
    sick_ps = now_ps + SICK_WAITS * row["mend_wait_ps"]
    for w in range(row["n_words"]):
        rest[w] = words[MENDING, w] & words[MENDED_TWICE, w]
        able[w] = words[MENDING, w] & ~rest[w]
    give_up(fold, slot, rest, STORE_SPENT, sick_ps)
    answer(fold, slot, able, hit, nowhere)
    some = ZERO
    for w in range(row["n_words"]):
        words[MENDED_TWICE, w] |= hit[w]
        rest[w] = able[w] & (nowhere[w] | ~hit[w])
    give_up(fold, slot, rest, STORE_SPENT, sick_ps)
    for w in range(row["n_words"]):
        some |= words[MENDING, w]
    row["mended_ps"] = now_ps
    row["mend_ps"] = now_ps + row["mend_wait_ps"] if some != ZERO else 0


@kernel
def is_mending(fold: Fold, slot: int) -> bool:
    """Somebody's next word on a repair of this BFR's is waited for."""
    some = ZERO
    for w in range(fold.rows[slot]["n_words"]):
        some |= fold.words[slot, MENDING, w]
    return some != ZERO


@kernel
def write_mend(store: Store, i: int, n_words: int, out: U8) -> int:
    """Repair ``i`` of the list as a packet: what is kept, with REPAIR set, and POLL if it asks.

    Its BitString is still that of the packet that passed. The inner checksum stays that of the
    source but for the flags (RFC 1624).

    Returns:
        Its bytes.
    """
    n_entries = store.entries.shape[1]
    g, e = store.todo[i, 0] // n_entries, store.todo[i, 0] % n_entries
    entry = store.entries[g, e]
    size: int = entry["size"]
    copy_octets(out, 0, store.room[g], entry["at"], size)
    fan = BITS_AT + 8 * n_words + INNER_BYTES
    checksum = fan - 2
    flags = i64(out[fan + 1]) & ~FLAG_POLL | FLAG_REPAIR
    if store.todo[i, 2] != 0:
        flags |= FLAG_POLL
    change = (0xFFFF - i64(out[fan + 1])) + flags
    total = fold_sum((0xFFFF - read_u16(out, checksum)) + change)
    out[fan + 1] = flags
    write_u16(out, checksum, 0xFFFF if total == 0xFFFF else 0xFFFF - total)
    return size
