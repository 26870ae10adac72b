"""FEEDBACK packets between bytes and slots (docs/wire/feedback.md).

The BitStrings inside belong to the data's BIFT-id; the BIER header around them names the BFIR's
own bit, so a BFR that knows nothing of folding carries the packet all the way.
"""

import numpy as np

from fanfold.kernels.codes import FOLD_UNFOLDED
from fanfold.kernels.frame import is_inner_sound, seal_inner
from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.layout import (
    BITS_AT,
    FANFOLD_PORT,
    FEEDBACK_BYTES,
    FLAG_EARLY,
    FLAG_MORE,
    FLAG_PARTIAL,
    FLAG_SPENT,
    INNER_BYTES,
    IP_BYTES,
    IP_UDP,
    KIND_FEEDBACK,
    MAX_PSN,
    PROTO_IPV4,
    UNDERLAY_BYTES,
    VERSION,
)
from fanfold.kernels.octets import (
    ONE,
    ZERO,
    read_bits,
    read_u16,
    read_u32,
    write_bits,
    write_u16,
    write_u32,
)
from fanfold.kernels.replicate import bit
from fanfold.kernels.slots import NO_SLOT, clear_done_gaps, find_slot, hear, lack, signal
from fanfold.kernels.state import A_BM, DONE_BM, FIRST_ROW, P_BM, U8, U64, Fold, Row

ENTROPY_MASK = 0xFFFFF
TTL = 64
NOT_TOLD = 4095
"""``behind`` of a receiver that lacks a block this far back."""


@kernel
def bsl_words(bift_id: int) -> int:
    """Words of the BitString a BIFT-id selects, 0 when its BSL code is not 1..7."""
    bsl = bift_id >> 16
    return 1 << (bsl - 1) if 1 <= bsl <= 7 else 0


@kernel
def is_feedback_sound(buf: U8, fan: int, n: int) -> bool:
    """A FEEDBACK message at ``fan`` of ``n`` bytes is one that docs/wire/feedback.md allows."""
    n_words = bsl_words(read_u32(buf, fan + 16) >> 12)
    n_psn = i64(buf[fan + 2])
    n_rows = i64(buf[fan + 3])
    if n_words == 0 or n_psn < 1 or n_psn > MAX_PSN or n_rows > n_psn:
        return False
    if n != FEEDBACK_BYTES + 16 * n_words + n_rows * (4 + 8 * n_words):
        return False
    heard = fan + FEEDBACK_BYTES
    step = 8 * n_words
    if not is_within(buf, heard + step, heard, step):
        return False
    last = -1
    for r in range(n_rows):
        at = heard + 2 * step + r * (4 + step)
        psn = i64(buf[at])
        if psn <= last or psn >= n_psn or not is_within(buf, at + 4, heard, step):
            return False
        last = psn
    return True


@kernel
def is_within(buf: U8, inner: int, outer: int, n: int) -> bool:
    """Every bit of the ``n`` bytes at ``inner`` is set in those at ``outer`` too."""
    for i in range(n):
        if i64(buf[inner + i]) & ~i64(buf[outer + i]):
            return False
    return True


@kernel
def raise_queue(buf: U8, at: int, n: int, outer_words: int, queue: int, worst: int) -> None:
    """Let a sound FEEDBACK say that a queue on its way is so full, if it says less.

    worst: BFR-id of whose queue it is.
    """
    fan = at + BITS_AT + 8 * outer_words + INNER_BYTES
    if not is_inner_sound(buf, at, n, outer_words):
        return
    if not is_feedback_sound(buf, fan, n - (fan - at)):
        return
    if queue > max(i64(buf[fan + 13]), 255 - i64(buf[fan + 14])):
        write_u16(buf, fan + 20, worst)
    if queue > i64(buf[fan + 13]):
        buf[fan + 13] = queue
        seal_inner(buf, at, n, outer_words)


@kernel
def slot_of(buf: U8, at: int, outer_words: int, fold: Fold) -> int:
    """Slot that waits for a sound FEEDBACK packet; NO_SLOT, counted: it goes on unfolded.

    Args:
        buf, at: the packet. outer_words: words of its own BIER BitString.
    """
    fan = at + BITS_AT + 8 * outer_words + INNER_BYTES
    slot = find_slot(
        fold,
        read_u16(buf, at + 10),
        read_u32(buf, fan + 4),
        read_u32(buf, fan + 8),
        read_u32(buf, fan + 16) >> 12,
    )
    if slot == NO_SLOT or fold.rows[slot]["n_psn"] != i64(buf[fan + 2]):
        fold.events[FOLD_UNFOLDED] += 1
        return NO_SLOT
    return slot


@kernel
def fold_packet(buf: U8, at: int, fan: int, fold: Fold, slot: int, scratch: U64) -> None:
    """Merge one sound FEEDBACK packet, whose message is at ``fan``, into its slot.

    Args:
        scratch: (4, W), rows 1 to 3 are overwritten; row 1 with who it heard.
    """
    merge_feedback(buf, fan, fold, slot, scratch)
    fold.rows[slot]["entropy"] = read_u32(buf, at + 4) & ENTROPY_MASK


@kernel
def merge_feedback(buf: U8, fan: int, fold: Fold, slot: int, scratch: U64) -> None:
    """Join a sound FEEDBACK message into a slot of the same BIFT-id."""
    row = fold.rows[slot]
    n_words = row["n_words"]
    step = 8 * n_words
    at = fan + FEEDBACK_BYTES
    read_bits(buf, at, n_words, scratch[1])
    read_bits(buf, at + step, n_words, scratch[2])
    is_part = buf[fan + 1] & FLAG_MORE != 0
    hear(fold, slot, scratch[1], scratch[2], n_words, is_part)
    row["round"] = min(row["round"], i64(buf[fan + 12]))
    row["behind"] = max(row["behind"], read_u32(buf, fan + 16) & NOT_TOLD)
    row["n_merged"] = min(row["n_merged"] + read_u16(buf, fan + 22), 0xFFFF)
    signal(fold, slot, i64(buf[fan + 13]), i64(buf[fan + 14]), read_u16(buf, fan + 20))
    at += 2 * step
    for _ in range(i64(buf[fan + 3])):
        read_bits(buf, at + 4, n_words, scratch[3])
        lack(fold, slot, i64(buf[at]), scratch[3], n_words)
        at += 4 + step


@kernel
def bfir_bift(bift_id: int, bfir_id: int) -> int:
    """BIFT-id of the BFIR's own bit: same BSL and sub-domain, its own SI (RFC 8279 3)."""
    return (bift_id & ~0xFF) | ((bfir_id - 1) // (64 * bsl_words(bift_id)))


@kernel
def write_feedback(fold: Fold, slot: int, own_addr: int, mtu: int, psn: int, out: U8) -> int:
    """One FEEDBACK packet of a slot, with the gap rows from ``psn`` on that fit the MTU.

    Args:
        fold, slot: what to say. own_addr: inner source. mtu: of the way up; one row goes out
            even where it does not fit. psn: 0, then what was returned. out: overwritten.

    Returns:
        Bytes written * 128 + next PSN (MAX_PSN when all rows are out; call again otherwise).
    """
    row = fold.rows[slot]
    words = row["n_words"]
    if psn == 0:
        clear_done_gaps(fold, slot, words)
    fan = write_head(row, own_addr, psn, out)
    step = 8 * words
    at = fan + FEEDBACK_BYTES
    write_bits(out, at, words, fold.words[slot, P_BM])
    write_bits(out, at + step, words, fold.words[slot, DONE_BM])
    at += 2 * step
    n_rows = 0
    while psn < row["n_psn"]:
        if row["gaps"] & bit(psn) != ZERO:
            if n_rows > 0 and at + 4 + step + UNDERLAY_BYTES > mtu:
                out[fan + 1] |= FLAG_MORE
                break
            write_u32(out, at, psn << 24)
            write_bits(out, at + 4, words, fold.words[slot, FIRST_ROW + psn])
            at += 4 + step
            n_rows += 1
        psn += 1
    out[fan + 3] = n_rows
    seal_inner(out, 0, at, words)
    return at * 128 + (MAX_PSN if psn >= row["n_psn"] else psn)


@kernel
def write_head(row: Row, own_addr: int, psn: int, out: U8) -> int:
    """BIER, IPv4, UDP and FEEDBACK headers of a slot's packet, lengths and checksums left 0.

    Returns:
        Where the FEEDBACK header starts.
    """
    words = row["n_words"]
    step = 8 * words
    bfir = row["bfir_id"]
    out[: BITS_AT + step + INNER_BYTES + FEEDBACK_BYTES] = 0
    write_u32(out, 0, (bfir_bift(row["bift_id"], bfir) << 12) | 0x100 | TTL)
    write_u32(out, 4, (row["bift_id"] >> 16) << 20 | row["entropy"])
    out[9] = PROTO_IPV4
    write_u16(out, 10, bfir)  # names the flow, not the sender of this packet
    index = (bfir - 1) % (64 * words)
    out[BITS_AT + step - 1 - index // 8] = 1 << (index % 8)
    ip = BITS_AT + step
    out[ip], out[ip + 6], out[ip + 8], out[ip + 9] = 0x45, 0x40, TTL, IP_UDP
    write_u32(out, ip + 12, own_addr)
    write_u32(out, ip + 16, row["bfir_addr"])
    write_u16(out, ip + IP_BYTES, FANFOLD_PORT)
    write_u16(out, ip + IP_BYTES + 2, row["flow_port"])
    fan = ip + INNER_BYTES
    out[fan], out[fan + 2] = (VERSION << 4) | KIND_FEEDBACK, row["n_psn"]
    out[fan + 1] = FLAG_PARTIAL if row["partial"] else 0
    out[fan + 1] |= FLAG_SPENT if row["spent"] else 0
    out[fan + 1] |= FLAG_EARLY if row["is_early"] else 0
    write_u32(out, fan + 4, row["flow"])
    write_u32(out, fan + 8, row["block"])
    out[fan + 12], out[fan + 13], out[fan + 14] = row["round"], row["queue"], row["room"]
    write_u32(out, fan + 16, (row["bift_id"] << 12) | row["behind"])
    write_u16(out, fan + 20, row["worst"])
    write_u16(out, fan + 22, row["n_merged"] if psn == 0 else 0)
    return fan


@kernel
def own_report(fold: Fold, own_index: int, have: np.uint64) -> None:
    """Fill slot 0 of a receiver's own table with its word on one block.

    Args:
        fold: table of one slot whose row is set, words zeroed here.
        own_index: this BFER's bit index in its SI. have: PSNs it holds.
    """
    row = fold.rows[0]
    words = row["n_words"]
    fold.words[0, :FIRST_ROW] = ZERO
    w = own_index // 64
    mine = bit(own_index % 64)
    fold.words[0, A_BM, w] = mine
    fold.words[0, P_BM, w] = mine
    row["gaps"] = ~have & whole_block(row["n_psn"])
    row["n_merged"] = 1
    if row["gaps"] == ZERO:
        fold.words[0, DONE_BM, w] = mine
        return
    for psn in range(row["n_psn"]):
        if row["gaps"] & bit(psn) != ZERO:
            for j in range(words):
                fold.words[0, FIRST_ROW + psn, j] = ZERO
            fold.words[0, FIRST_ROW + psn, w] = mine


@kernel
def whole_block(n_psn: int) -> np.uint64:
    """Word with the lowest ``n_psn`` bits set."""
    if n_psn >= 64:
        return ~ZERO
    return (ONE << np.uint64(n_psn)) - ONE
