"""DATA that passes down arms the slot of its block (docs/wire/feedback.md section 3)."""

from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.layout import BITS_AT, FLAG_REPAIR, INNER_BYTES, IP_BYTES
from fanfold.kernels.octets import read_u16, read_u32
from fanfold.kernels.slots import NO_SLOT, expect, find_slot, open_slot, set_deadline
from fanfold.kernels.state import U8, U64, Fold, Rows
from fanfold.kernels.tables import Bifts

TTL_AT = 3


@kernel
def arm(
    buf: U8,
    at: int,
    table: int,
    port: int,
    now_ps: int,
    node: Rows,
    bifts: Bifts,
    fold: Fold,
    bits: U64,
    last: int,
) -> int:
    """Arm the slot of a DATA packet that passes down.

    Args:
        buf, at: the packet, as received. table: its BIFT. port: where it came from. bits: its
            BitString. last: slot armed before it, NO_SLOT at first. fold: updated.
        node: its ``next_ps`` is updated.

    Returns:
        The slot, or NO_SLOT when the table is full.
    """
    words = bifts.n_words[table]
    ip = at + BITS_AT + 8 * words
    fan = ip + INNER_BYTES
    slot = arm_slot(
        fold,
        bifts.ids[table],
        read_u16(buf, at + 10),
        read_u32(buf, fan + 4),
        read_u32(buf, fan + 8),
        last,
    )
    if slot == NO_SLOT:
        return NO_SLOT
    row = fold.rows[slot]
    row["port"] = port  # the newest DATA tell the way home: an older one may be dead
    if row["armed_ps"] < 0:
        row["n_words"], row["which"] = words, table
        row["n_psn"] = min(max(i64(buf[fan + 2]), 1), 64)
        row["bfir_addr"], row["flow_port"] = (
            read_u32(buf, ip + 12),
            read_u16(buf, ip + IP_BYTES),
        )
    if row["armed_ps"] < 0 or row["late"] != 0 or buf[fan + 1] & FLAG_REPAIR == 0:
        # A repair joins a slot that waits already: it must not hold back what was heard.
        set_deadline(row, node, i64(buf[fan + 13]) - i64(buf[at + TTL_AT]), now_ps)
    expect(fold, slot, bits, words, bifts.f_bm[bifts.first[table], 0])
    return slot


@kernel
def arm_slot(fold: Fold, bift_id: int, bfir_id: int, flow: int, block: int, last: int) -> int:
    """Slot of a block and its set of receivers, opened where there is none yet.

    A new one has ``armed_ps`` below zero: the caller fills in the rest. ``last`` is looked at
    first. NO_SLOT when the table is full.
    """
    if last != NO_SLOT:
        row = fold.rows[last]
        if (
            row["armed"] != 0
            and row["block"] == block
            and row["flow"] == flow
            and row["bfir_id"] == bfir_id
            and row["bift_id"] == bift_id
        ):
            return last
    slot = find_slot(fold, bfir_id, flow, block, bift_id)
    if slot == NO_SLOT:
        slot = open_slot(fold, bfir_id, flow, block, bift_id)
        if slot != NO_SLOT:
            fold.rows[slot]["armed_ps"] = -1
    return slot
