"""FEEDBACK: who was heard, who is done, who lacks what; docs/wire/feedback.md section 2.

    bits              field      meaning
    0-3               version    always 1
    4-7               kind       always 2
    8-11              reserved   ignored, sent as 0
    12-15             flags      8 EARLY, 4 MORE of it follows, 2 SPENT, 1 PARTIAL
    16-23             n_psn      packets in the block, 1..64
    24-31             n_rows     rows that follow, 0..n_psn
    32-63             flow       flow of the data
    64-95             block      block of the data
    96-103            round      lowest round of those merged
    104-111           queue      fullest queue on the way, the largest of those merged
    112-119           room       receiver buffer left, 255 empty buffer, the smallest merged
    120-127           reserved   ignored, sent as 0
    128-147           bift_id    BIFT-id of the data: the BSL and SI of the BitStrings below
    148-159           behind     blocks back to the oldest one lacking, 0 none, 4095 not told
    160-175           worst      BFR-id of who set queue or room, 0 nobody
    176-191           n_merged   receivers' own reports inside
    192-191+8L        heard      P-BM, L bytes: who has been heard
    192+8L-191+16L    done       L bytes: who has the whole block, a subset of heard
    192+16L-          rows       n_rows rows, psn strictly rising

One row, 4 + L bytes:

    bits              field      meaning
    0-7               psn        place in the block, below n_psn
    8-31              reserved   ignored, sent as 0
    32-31+8L          lacking    L bytes: who lacks that packet, a subset of heard

L is the BitString's length in bytes that the BSL code in `bift_id` stands for.
"""

from enum import IntFlag
from struct import Struct

import msgspec

from fanfold.errors import MisuseError, WireError, WireReason
from fanfold.wire import bitstring as bs
from fanfold.wire.fan import MAX_PSN
from fanfold.wire.kinds import Kind, first_byte, require, require_end
from fanfold.wire.width import fits, pack, within

HEADER = "feedback"
FIXED_BYTES = 24
ROW_FIXED_BYTES = 4
NOT_TOLD = 4095
"""A receiver that lacks a block this far back, or says nothing of earlier blocks."""

_LAYOUT = Struct("!BBBBIIBBBBIHH")


class FeedbackFlag(IntFlag):
    """Flags of FEEDBACK.

    PARTIAL: by a deadline. SPENT: the source is to repair. MORE: packets of
    the same word follow. EARLY: the slot waits on for others.
    """

    PARTIAL = 1
    SPENT = 2
    MORE = 4
    EARLY = 8


class FeedbackRow(msgspec.Struct, frozen=True, gc=False):
    """Who lacks one packet."""

    psn: int
    lacking: int


class Feedback(msgspec.Struct, frozen=True, gc=False):
    """One receiver's report, or many folded into one."""

    bift_id: int
    flow: int
    block: int
    n_psn: int
    heard: int
    done: int
    rows: tuple[FeedbackRow, ...] = ()
    flags: int = 0
    round: int = 0
    queue: int = 0
    room: int = 255
    worst: int = 0
    n_merged: int = 1
    behind: int = NOT_TOLD

    @property
    def n_rows(self) -> int:
        """Rows that follow the BitStrings."""
        return len(self.rows)

    @property
    def size_bytes(self) -> int:
        """Length of the whole message."""
        return _size(bs.bitstring_bytes(self.bift_id >> 16), len(self.rows))


def decode(buf: bytes) -> Feedback:
    """Read a message that fills `buf` exactly.

    Raises:
        WireError: TRUNCATED, TRAILING, BAD_VERSION, BAD_KIND, BAD_BIFT_ID, BAD_FIELD;
            nothing else escapes.
    """
    require(HEADER, buf, Kind.FEEDBACK, FIXED_BYTES)
    _, flags, n_psn, n_rows, flow, block, round_, queue, room, _, word, worst, n_merged = (
        _LAYOUT.unpack_from(buf)
    )
    bift_id = word >> 12
    n_bytes = bs.bitstring_bytes(bs.split_bift_id(bift_id).bsl)
    require_end(HEADER, buf, _size(n_bytes, n_rows))
    at = FIXED_BYTES + 2 * n_bytes
    value = Feedback(
        bift_id=bift_id,
        flow=flow,
        block=block,
        n_psn=n_psn,
        heard=bs.from_bytes(buf[FIXED_BYTES : FIXED_BYTES + n_bytes]),
        done=bs.from_bytes(buf[FIXED_BYTES + n_bytes : at]),
        rows=_decode_rows(buf[at:], ROW_FIXED_BYTES + n_bytes),
        flags=flags & 15,
        round=round_,
        queue=queue,
        room=room,
        worst=worst,
        n_merged=n_merged,
        behind=word & NOT_TOLD,
    )
    flaw = _flaw(value)
    if flaw:
        raise WireError(HEADER, WireReason.BAD_FIELD, flaw)
    return value


def encode(feedback: Feedback) -> bytes:
    """Write the message.

    Raises:
        MisuseError: a value does not fit its field, or decode would refuse it.
    """
    flaw = _flaw(feedback)
    if flaw:
        raise MisuseError(f"{HEADER}: got {flaw}, allowed: see docs/wire/feedback.md")
    bsl = within(HEADER, "bsl", feedback.bift_id >> 16, bs.MIN_BSL, bs.MAX_BSL)
    n_bits = bs.bitstring_bits(bsl)
    fixed = pack(
        HEADER,
        _LAYOUT,
        first_byte(Kind.FEEDBACK),
        fits(HEADER, "flags", feedback.flags, 4),
        feedback.n_psn,
        feedback.n_rows,
        feedback.flow,
        feedback.block,
        feedback.round,
        feedback.queue,
        feedback.room,
        0,
        feedback.bift_id << 12 | fits(HEADER, "behind", feedback.behind, 12),
        feedback.worst,
        feedback.n_merged,
    )
    heard = bs.to_bytes(fits(HEADER, "heard", feedback.heard, n_bits), bsl)
    done = bs.to_bytes(feedback.done, bsl)  # a subset of heard, so it fits
    rows = (bytes((row.psn, 0, 0, 0)) + bs.to_bytes(row.lacking, bsl) for row in feedback.rows)
    return fixed + heard + done + b"".join(rows)


def _size(n_bytes: int, n_rows: int) -> int:
    """Length of a message; n_bytes is L."""
    return FIXED_BYTES + 2 * n_bytes + n_rows * (ROW_FIXED_BYTES + n_bytes)


def _decode_rows(buf: bytes, row_bytes: int) -> tuple[FeedbackRow, ...]:
    """Read whole rows; the length was checked before."""
    starts = range(0, len(buf), row_bytes)
    return tuple(
        FeedbackRow(buf[at], bs.from_bytes(buf[at + ROW_FIXED_BYTES : at + row_bytes]))
        for at in starts
    )


def _flaw(feedback: Feedback) -> str:
    """Name the first rule that the fields break, or nothing."""
    if not 1 <= feedback.n_psn <= MAX_PSN:
        return f"n_psn {feedback.n_psn}"
    if feedback.n_rows > feedback.n_psn:
        return f"n_rows {feedback.n_rows} of {feedback.n_psn}"
    if feedback.done & ~feedback.heard:
        return "done outside heard"
    last = -1
    for row in feedback.rows:
        if not last < row.psn < feedback.n_psn:
            return f"row psn {row.psn} after {last} of {feedback.n_psn}"
        if row.lacking & ~feedback.heard:
            return f"row psn {row.psn} lacking outside heard"
        last = row.psn
    return ""
