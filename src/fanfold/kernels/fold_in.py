"""FEEDBACK that comes up at a BFR: into its slot, answered from the store, or on its way."""

from fanfold.kernels.feedback import TTL, bsl_words, fold_packet, slot_of
from fanfold.kernels.frame import find_bift
from fanfold.kernels.jit import kernel
from fanfold.kernels.layout import (
    BITS_AT,
    FEEDBACK_BYTES,
    FLAG_MORE,
    FLAG_PARTIAL,
    FLAG_SPENT,
    INNER_BYTES,
)
from fanfold.kernels.mend import mend_word, speak_anew
from fanfold.kernels.octets import read_bits, read_u16, read_u32
from fanfold.kernels.silent import IS_ANY, leave_out, note_spoke
from fanfold.kernels.slots import NO_SLOT, end_silence, is_complete, note_lag, settle_once
from fanfold.kernels.state import U8, U64, Fold, Rows
from fanfold.kernels.store import has_store
from fanfold.kernels.tables import Bifts

TTL_AT = 3


@kernel
def fold_word(
    buf: U8,
    at: int,
    words: int,
    port: int,
    now_ps: int,
    node: Rows,
    bifts: Bifts,
    fold: Fold,
    scratch: U64,
) -> bool:
    """``fold_in`` at a node with tables of its own."""
    fan = at + BITS_AT + 8 * words + INNER_BYTES
    which = find_bift(bifts.ids, read_u32(buf, fan + 16) >> 12)
    behind = scratch[0][:0]
    if which >= 0 and bifts.behind.shape[0] > 0:
        behind = bifts.behind[which, port]
    return fold_in(buf, at, words, now_ps, node, fold, scratch, which, behind)


@kernel
def fold_in(
    buf: U8,
    at: int,
    words: int,
    now_ps: int,
    node: Rows,
    fold: Fold,
    scratch: U64,
    which: int,
    behind: U64,
) -> bool:
    """Fold one sound FEEDBACK packet as it came; False when it travels on unfolded.

    Args:
        buf, at: the packet; words: of its own BitString. which: set of its BIFT-id. behind:
            (W,), who is behind the port it came by; nothing where that is not known.

    What a neighbour wrote itself is answered from the store. What another BFR passed on without
    a slot is not: that one had the packet, and the source was told.
    """
    slot = slot_of(buf, at, words, fold)
    fan = at + BITS_AT + 8 * words + INNER_BYTES
    if buf[fan + 3] != 0:
        node[0]["gap_ps"] = now_ps
    if slot == NO_SLOT:
        if fold.turn[IS_ANY] != 0 and which >= 0:
            n_words = bsl_words(read_u32(buf, fan + 16) >> 12)
            read_bits(buf, fan + FEEDBACK_BYTES, n_words, scratch[1])
            note_spoke(fold, which, scratch[1], n_words, node, now_ps)
        return False
    row = fold.rows[slot]
    is_first = read_u16(buf, fan + 22) != 0
    if has_store(fold.store) and is_first:
        read_bits(buf, fan + FEEDBACK_BYTES, row["n_words"], scratch[1])
        speak_anew(fold, slot, scratch[1], node, now_ps)
    fold_packet(buf, at, fan, fold, slot, scratch)
    note_spoke(fold, row["which"], scratch[1], row["n_words"], node, now_ps)
    if buf[fan + 1] & FLAG_PARTIAL != 0:
        leave_out(fold, slot, behind)
    if row["late"] != 0:
        end_silence(row, node, now_ps)
    if buf[fan + 1] & FLAG_SPENT != 0:
        row["spent"] = 1
    elif is_whole_word(buf, fan) and has_store(fold.store) and buf[at + TTL_AT] >= TTL:
        mend_word(fold, slot, scratch[1], node, now_ps)
    if is_complete(fold, slot, row["n_words"]):
        settle_once(fold, slot)
        if row["mended_ps"] == 0:
            note_lag(node, now_ps - row["armed_ps"], now_ps)
    return True


@kernel
def is_whole_word(buf: U8, fan: int) -> bool:
    """A word names gaps, and this packet is its last."""
    return bool(buf[fan + 3] != 0 and buf[fan + 1] & FLAG_MORE == 0)
