"""Nodes of virtual aggregation trees, and the slots in which arrays are joined (ADR 0023).

A row stands for one group of ranks at this BFR and one way toward its root: the A-BM, the ranks
it is responsible for, and ``n_slots`` slots; block b belongs in slot b modulo ``n_slots``. A
slot holds a whole packet, its array is the sum so far; the P-BM says whose arrays are inside.

Letters: R = rows, S = slots, W = words of a BitString, M = bytes of a packet, T = things to do.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.kernels.jit import kernel
from fanfold.kernels.octets import ZERO
from fanfold.kernels.slots import NEVER_PS
from fanfold.kernels.state import I64, U8, U64, Rows

VAT_ROW = np.dtype(
    [
        ("used", np.int64),
        ("group", np.int64),
        ("port", np.int64),  # toward the root; 0 at the root
        ("is_root", np.int64),
        ("bift_id", np.int64),
        ("n_words", np.int64),
        ("first_slot", np.int64),
        ("n_slots", np.int64),  # 0: everything is passed on
        ("n_asked", np.int64),  # slots that were asked for
        ("used_ps", np.int64),
        ("is_anew", np.int64),  # blocks were sent before it was armed: nothing is cut short
        ("armer", np.int64),  # BFR-id of the rank that armed it, 0 where it was configured
        ("is_laid", np.int64),  # 1: configured, BFRs below need not be on a shortest path
    ]
)
ARRAY_ROW = np.dtype(
    [
        ("state", np.int64),
        ("vat", np.int64),
        ("block", np.int64),
        ("n_bytes", np.int64),  # of the words, 0 while all that came was empty
        ("n_codes", np.int64),  # bytes of the exponents before them
        ("flags", np.int64),
        ("exponent", np.int64),
        ("n_merged", np.int64),
        ("patience_ps", np.int64),  # shortest of the arrays inside, 0: wait
        ("began_ps", np.int64),
        ("deadline_ps", np.int64),
        ("sent_ps", np.int64),  # when it was sent last, -1 never
    ]
)
FREE = 0
OPEN = 1
DONE = 2

HEARD_BM = 0
"""P-BM of the array in the slot."""
FLUSHED_BM = 1
"""Ranks whose arrays went up before, in partials; at the root those that are not waited for."""

NO_ROW = -1
HALF = 1 << 31
BLOCK_MASK = (1 << 32) - 1

# What happened, indices of ``events``; core/effects.py has the words.
VAT_ARMED = 0
VAT_ABSORBED = 1
VAT_COMPLETE = 2
VAT_PARTIAL = 3
VAT_DUPLICATE = 4
VAT_OVERLAP = 5
VAT_STALE = 6
VAT_EVICTED = 7
VAT_PASSED = 8
VAT_FULL = 9
VAT_UNKNOWN = 10
VAT_UNLIKE = 11
VAT_REQUEST = 12
VAT_RESENT = 13
VAT_OVERFLOW = 14
VAT_QUOTA = 15
N_VAT_EVENTS = 16

# Things to do, column 0 of ``todo``.
DO_UP = 0
"""Send the array of a slot toward the root: (slot, port)."""
DO_RESULT = 1
"""Fan the array of a slot out to ``todo_bits``: (slot, 0)."""
DO_PASS = 2
"""Send a packet of the block in hand on as it is: (offset, port), size in column 3."""
DO_REPLY = 3
"""Send the small packet of this row out of a port: (row, port), size in column 3."""
DO_SPREAD = 4
"""Fan the small packet of this row out to ``todo_bits``: (row, 0), size in column 3."""

MAX_TODO = 512

# Columns of ``shares``.
SHARE_ROWS = 0
SHARE_FIRST = 1
SHARE_SLOTS = 2
N_SHARE = 3
NO_LIMIT = 1 << 31
WAIT_PS = 1_000_000_000_000
"""A slot sends up what it has when its first array has waited for so long."""
SOON_PS = 50_000_000_000
"""And after so long when what came is itself such a part: somebody below gave up waiting."""
SOON_PART = 8
"""Or after this part of the patience, where that is less."""


class Vats(NamedTuple):
    """Everything a BFR keeps of arrays.

    rows: (R,); a_bm: (R, W); late_bm: (R, W), ranks that are not waited for, as their last
    arrays were late; slots: (S,); words: (S, 2, W), HEARD_BM and FLUSHED_BM; room: (S, M), the
    packets, each with room for its P-BM behind; owner: (S,), row + 1 or 0; events:
    (N_VAT_EVENTS,); todo: (T, 4), todo bits: (T, W), small: (T, bytes) packets without an
    array; n_todo: (1,); clock: (3,), no slot is due before the first, how long a slot waits,
    and rows that were ever in use; limits: (2,), rows that have slots at most, and slots of one
    group at most, of each tenant. shares: (D, 3) by sub-domain, rows, first slot and slots of a
    tenant; (0, 3) where all is everybody's.
    """

    rows: Rows
    a_bm: U64
    late_bm: U64
    slots: NDArray[np.void]
    words: U64
    room: U8
    owner: I64
    events: I64
    todo: I64
    todo_bits: U64
    small: U8
    n_todo: I64
    clock: I64
    limits: I64
    shares: I64


def build_vats(
    n_rows: int,
    n_slots: int,
    n_words: int,
    packet_bytes: int,
    *,
    most_with_slots: int = NO_LIMIT,
    most_of_group: int = NO_LIMIT,
    shares: I64 | None = None,
) -> Vats:
    """No group yet; memory is touched only when used. ``packet_bytes``: of the largest."""
    return Vats(
        rows=np.zeros(n_rows, VAT_ROW),
        a_bm=np.zeros((n_rows, n_words), np.uint64),
        late_bm=np.zeros((n_rows, n_words), np.uint64),
        slots=np.zeros(n_slots, ARRAY_ROW),
        words=np.zeros((n_slots, 2, n_words), np.uint64),
        room=np.zeros((n_slots, (packet_bytes + 8 * n_words + 63) & ~63), np.uint8),
        owner=np.zeros(n_slots, np.int64),
        events=np.zeros(N_VAT_EVENTS, np.int64),
        todo=np.zeros((MAX_TODO, 4), np.int64),
        todo_bits=np.zeros((MAX_TODO, n_words), np.uint64),
        small=np.zeros((MAX_TODO, 64 + 16 * n_words), np.uint8),
        n_todo=np.zeros(1, np.int64),
        clock=np.array([NEVER_PS, WAIT_PS, 0], np.int64),
        limits=np.array([most_with_slots, most_of_group], np.int64),
        shares=np.zeros((0, N_SHARE), np.int64) if shares is None else shares,
    )


@kernel
def meets(a: U64, b: U64, n_words: int) -> bool:
    """Some bit is set in both."""
    for w in range(n_words):
        if a[w] & b[w] != ZERO:
            return True
    return False


@kernel
def is_inside(inner: U64, outer: U64, n_words: int) -> bool:
    """Every bit of ``inner`` is set in ``outer``."""
    for w in range(n_words):
        if inner[w] & ~outer[w] != ZERO:
            return False
    return True


@kernel
def find_vat(vats: Vats, group: int, bits: U64, n_words: int) -> int:
    """Row of a group whose A-BM meets the bits.

    Returns:
        The row; -(2 + row) of the group when no A-BM meets them: the way on; or NO_ROW.
    """
    found = NO_ROW
    for r in range(vats.clock[2]):
        row = vats.rows[r]
        if row["used"] == 0 or row["group"] != group:
            continue
        if row["n_words"] == n_words and meets(vats.a_bm[r], bits, n_words):
            return r
        if found == NO_ROW:
            found = -2 - r
    return found


@kernel
def is_from_root(vats: Vats, group: int, bits: U64, n_words: int, port: int) -> bool:
    """The port is a group's way to its root: what goes down may come in by it."""
    found = find_vat(vats, group, bits, n_words)
    if found == NO_ROW:
        return False
    row = vats.rows[found if found >= 0 else -2 - found]
    return row["is_root"] == 0 and row["port"] == port


@kernel
def close_vat(vats: Vats, at: int) -> None:
    """Forget a row and give its slots back."""
    row = vats.rows[at]
    free_slots(vats, row["first_slot"], row["n_slots"])
    row["used"], row["n_slots"], row["first_slot"] = 0, 0, 0


@kernel
def free_slots(vats: Vats, first: int, n: int) -> None:
    """Give slots back."""
    for s in range(first, first + n):
        vats.slots[s]["state"] = FREE
        vats.owner[s] = 0


@kernel
def slot_of(row: np.void, block: int) -> int:
    """Slot that a block of a row belongs in."""
    return row["first_slot"] + block % row["n_slots"]


@kernel
def age_of(slot: np.void, block: int) -> int:
    """0: the slot's own block; above: so much newer; below: so much older."""
    diff = (block - slot["block"]) & BLOCK_MASK
    return diff if diff < HALF else diff - BLOCK_MASK - 1


@kernel
def start_slot(vats: Vats, at: int, vat: int, block: int, now_ps: int) -> None:
    """Make a slot ready for a block."""
    slot = vats.slots[at]
    if slot["state"] == OPEN:
        vats.events[VAT_EVICTED] += 1
    slot["state"], slot["vat"], slot["block"] = OPEN, vat, block
    slot["sent_ps"], slot["patience_ps"], slot["began_ps"] = -1, 0, now_ps
    slot["deadline_ps"] = now_ps + vats.clock[1]
    vats.clock[0] = min(vats.clock[0], slot["deadline_ps"])
    for w in range(vats.words.shape[2]):
        vats.words[at, HEARD_BM, w] = ZERO
        vats.words[at, FLUSHED_BM, w] = ZERO
    empty_slot(slot)


@kernel
def hurry_slot(vats: Vats, at: int, now_ps: int) -> None:
    """A part came from below: wait for the rest of it only, not as long once more."""
    slot = vats.slots[at]
    soon = SOON_PS
    if slot["patience_ps"] > 0:
        soon = min(soon, slot["patience_ps"] // SOON_PART)
    slot["deadline_ps"] = min(slot["deadline_ps"], now_ps + soon)
    vats.clock[0] = min(vats.clock[0], slot["deadline_ps"])


@kernel
def empty_slot(slot: np.void) -> None:
    """Nothing has been added yet."""
    slot["n_bytes"], slot["flags"], slot["exponent"], slot["n_merged"] = 0, 0, 0, 0
    slot["n_codes"] = 0


@kernel
def flush_slot(vats: Vats, at: int) -> None:
    """What was in the slot went up as a partial: the next one starts from nothing."""
    for w in range(vats.words.shape[2]):
        vats.words[at, FLUSHED_BM, w] |= vats.words[at, HEARD_BM, w]
        vats.words[at, HEARD_BM, w] = ZERO
    empty_slot(vats.slots[at])


@kernel
def is_whole(vats: Vats, at: int, n_words: int) -> bool:
    """Everyone expected is in the slot, or went up before."""
    a_bm = vats.a_bm[vats.slots[at]["vat"]]
    for w in range(n_words):
        seen = vats.words[at, HEARD_BM, w] | vats.words[at, FLUSHED_BM, w]
        if a_bm[w] & ~seen != ZERO:
            return False
    return True


@kernel
def note(vats: Vats, what: int, which: int, port: int, size: int) -> int:
    """Add to the things to do; its row, or -1 when there are MAX_TODO already."""
    n = vats.n_todo[0]
    if n == vats.todo.shape[0]:
        return -1
    vats.todo[n, 0], vats.todo[n, 1], vats.todo[n, 2], vats.todo[n, 3] = what, which, port, size
    vats.n_todo[0] = n + 1
    return n


@kernel
def copy_words(out: U64, words: U64, n_words: int) -> None:
    """Copy a BitString."""
    for w in range(n_words):
        out[w] = words[w]
