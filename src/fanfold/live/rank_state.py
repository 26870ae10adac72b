"""What a rank keeps of its operation, and how a block of its array becomes a packet.

Letters: N = blocks of the operation, w = window, W = words of a BitString.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.kernels.absorb import FLAG_EMPTY, FLAG_NOT_FINITE, FLAG_OUT, FLAG_RETRY, fold_at
from fanfold.kernels.check import N_CHECK_WORDS, Check, is_true_sum, write_checks
from fanfold.kernels.frame import frame_inner
from fanfold.kernels.jit import kernel
from fanfold.kernels.layout import FOLD_BYTES
from fanfold.kernels.octets import copy_octets, fetch, write_u16, write_u32
from fanfold.kernels.reduce import (
    F64,
    OP_SUM,
    WORD_FIX32,
    WORD_FIX64,
    WORD_I32,
    WORD_I64,
)
from fanfold.kernels.state import I64, U8, U64, Rows
from fanfold.kernels.vat import BLOCK_MASK
from fanfold.kernels.words import (
    NOT_FINITE,
    code_of_block,
    code_values,
    count_flushed,
    is_fixed,
    mark_block,
    pack_block,
    pack_values,
)

RANK_ROW = np.dtype(
    [
        ("group", np.int64),
        ("n_ranks", np.int64),
        ("is_first", np.int64),  # rank 0 arms the tree
        ("own_index", np.int64),
        ("n_words", np.int64),
        ("window", np.int64),  # half of the slots that there are
        ("n_slots", np.int64),  # that are asked for, or are there
        ("n_least", np.int64),  # so many will do, 0: as many or none
        ("n_asked", np.int64),  # asked for first, which ARM repeats; 0: not known yet
        ("told_asked", np.int64),  # what an ARM says that came before this rank waits for it,
        ("told_slots", np.int64),  # and the slots that there are then
        ("up_addr", np.int64),
        ("armed", np.int64),  # 1: ARM came; -1: the root has no room
        ("root_id", np.int64),  # BFR-id of the host whose node is the root, 0: a BFR is
        ("root_hops", np.int64),  # BFRs between this rank's own and the root, -1 before ARM
        ("n_full", np.int64),  # ARM that said: no room at the root
        ("arm_ps", np.int64),  # when rank 0 arms again
        ("probe_ps", np.int64),  # when the way to the root is probed again
        ("ping_ps", np.int64),  # when a ping came back from the own BFR, 0 never
        ("cwnd", np.int64),
        ("epoch_end", np.int64),  # block that ends a round of the congestion window
        ("epoch_lost", np.int64),
        ("epoch_asked", np.int64),
        ("srtt_ps", np.int64),
        ("var_ps", np.int64),
        ("least_ps", np.int64),  # shortest round trip
        ("patience", np.int64),  # doublings of the timeout since a round trip was measured
        ("patient_ps", np.int64),  # when it doubled last
        ("base", np.int64),  # number of block 0 of the operation
        ("heard_ps", np.int64),  # when anything came last
        ("lacks", np.int64),  # 1: the last result was without somebody
        ("is_patient", np.int64),  # 1: blocks may end without somebody
        ("is_strict", np.int64),  # 1: who is late is no longer one of the group
        ("place", np.int64),  # of this rank among the members
    ]
)
JOB_ROW = np.dtype(
    [
        ("kind", np.int64),
        ("op", np.int64),
        ("word", np.int64),
        ("n_blocks", np.int64),
        ("most", np.int64),  # blocks under way, if there are slots for them
        ("window", np.int64),  # blocks under way at most, by slots too
        ("next", np.int64),
        ("floor", np.int64),  # every block before it is here
        ("n_done", np.int64),
        ("fresh_ps", np.int64),  # latest first transmission whose result is here
        ("flags", np.int64),  # OVERFLOW and NOT_FINITE of any result
        ("floor_ps", np.int64),  # when floor rose last
        ("heard_of", np.int64),  # block that ``at_root`` speaks of, -1 none
        ("told_ps", np.int64),  # when it was told
        ("n_probes", np.int64),
        ("n_partial", np.int64),  # results without somebody
        ("n_flushed", np.int64),  # values that are not 0 and went as 0
        ("gone", np.int64),  # why this rank cannot go on, 0: it can
        ("asked", np.int64),  # first bytes of an agreement, and as many inverted, or 0
    ]
)

# Columns of ``blocks``.
B_SRC = 0
B_DST = 1
B_BYTES = 2
B_SCOPE = 3
B_ONLY = 4
N_COLUMNS = 5
MARKED = NOT_FINITE << 1
"""Of a code: what is not finite in the block stands in ``marks``; elsewhere are old bytes."""
NOTHING = -1
"""Offset of a block that this rank does not send, or does not keep."""

# Rows of ``ring``, by block modulo window.
R_SENT = 0
R_ASKED = 1
R_TRIES = 2

# Counters.
C_SENT = 0
C_SENT_BYTES = 1
C_AGAIN = 2
C_AGAIN_BYTES = 3
C_REQUESTS = 4
C_RECEIVED = 5
C_RECEIVED_BYTES = 6
C_DUPLICATES = 7
C_REFUSED = 8
C_SEND_FAILED = 9
C_ARMS = 10
C_PROBES = 11
N_RANK_COUNTERS = 12
Codes = NDArray[np.unsignedinteger]
MAX_HOPS = 16
"""BFRs on the way to a root whose answers are told apart."""


class RankState(NamedTuple):
    """What a rank's loop works on.

    row, job: (1,); blocks: (N, N_COLUMNS); have: (N,), 1, plus 2 where a value was not finite,
    plus 4 where this rank is not inside; codes, shared: (N,) exponents of blocks, codes with
    NOT_FINITE; agreed: (w, C), exponents of values of the block of each place in the window;
    own: (C,) scratch; ring: (3, w); near: addresses of neighbours; ids, id_words: of the BIFT-
    ids; head: headers of a packet, then the BitString of all ranks and the root_level; wide:
    scratch; marks: a byte for each value of src, in blocks that are MARKED; src, dst: bytes of
    the arrays; share: (1,), what sums are multiplied by; heard: (W,); at_root: (W,), whom
    the root has heard; told: (MAX_HOPS,), when the BFR so many hops behind this rank's own
    answered last, 0 never; live: (W,), members; lacking: (2, W), of rank_late; tally: (N,),
    arrays in each result; counts: (N_RANK_COUNTERS,); check: of kernels/check.py.
    """

    row: Rows
    job: Rows
    blocks: I64
    have: U8
    codes: I64
    shared: I64
    agreed: U8
    own: U8
    ring: I64
    near: I64
    ids: I64
    id_words: I64
    head: U8
    wide: U8
    marks: U8
    src: U8
    dst: U8
    pow2: F64
    share: F64
    heard: U64
    at_root: U64
    told: I64
    live: U64
    lacking: U64
    tally: I64
    counts: I64
    check: Check


@kernel
def has_codes(rank: RankState) -> bool:
    """Each value of the operation has an exponent of its own."""
    return rank.job[0]["word"] >= WORD_FIX32


@kernel
def codes_bytes(rank: RankState, i: int) -> int:
    """Bytes of the exponents that go ahead of block i; none past the last block."""
    if not has_codes(rank) or i >= rank.job[0]["n_blocks"]:
        return 0
    n = rank.blocks[i, B_BYTES] // width_of(rank.job[0]["kind"])
    return 2 * n if rank.job[0]["word"] == WORD_FIX64 else n


@kernel
def code_block(rank: RankState, i: int, out: U8) -> None:
    """Exponents of this rank's block i: of its values into ``out``, or of all of it."""
    at, n = rank.blocks[i, B_SRC], rank.blocks[i, B_BYTES]
    kind = rank.job[0]["kind"]
    rank.codes[i] = 0
    if at != NOTHING:
        fetch(rank.src, at + n, n)  # the next block's: memory is slower than all that is done
    if at != NOTHING and has_codes(rank):
        rank.codes[i] = code_values(kind, rank.src[at : at + n], out, rank.wide)
    elif at != NOTHING and is_fixed(kind, rank.job[0]["op"]):
        rank.codes[i] = code_of_block(kind, rank.src[at : at + n], rank.wide)
    elif has_codes(rank):
        for j in range(out.shape[0]):
            out[j] = 0


@kernel
def code_first(rank: RankState) -> None:
    """Exponents of the first window of blocks, the largest that there may be."""
    for i in range(min(rank.job[0]["n_blocks"], rank.job[0]["most"])):
        code_block(rank, i, rank.own[: codes_bytes(rank, i)])


@kernel
def first_bytes(rank: RankState) -> int:
    """Bytes of the exponents of the largest first window of blocks."""
    n = 0
    for i in range(min(rank.job[0]["n_blocks"], rank.job[0]["most"])):
        n += codes_bytes(rank, i)
    return n


@kernel
def first_codes(rank: RankState, out: U8) -> None:
    """Exponents of this rank's values of the largest first window, block behind block."""
    at = 0
    for i in range(min(rank.job[0]["n_blocks"], rank.job[0]["most"])):
        n = codes_bytes(rank, i)
        code_block(rank, i, out[at : at + n])
        at += n


@kernel
def set_first(rank: RankState, src: U8) -> None:
    """Take in the agreed exponents of the first window."""
    at = 0
    for i in range(min(rank.job[0]["n_blocks"], rank.job[0]["window"])):
        n = codes_bytes(rank, i)
        copy_octets(rank.agreed[i], 0, src, at, n)
        at += n


@kernel
def words_bytes(rank: RankState, i: int) -> int:
    """Bytes that block i has as words."""
    kind, n = rank.job[0]["kind"], rank.blocks[i, B_BYTES]
    word = rank.job[0]["word"]
    width = 8 if word == WORD_I64 or word == WORD_FIX64 else 4
    if word > WORD_I64 and word < WORD_FIX32:
        return n
    own = width_of(kind)
    return n // own * width


@kernel
def check_bytes(rank: RankState) -> int:
    """Bytes of the check words behind a block; only sums of whole words have them."""
    op, word = rank.job[0]["op"], rank.job[0]["word"]
    if rank.check.coeffs.shape[1] == 0 or op != OP_SUM:
        return 0
    if word == WORD_I32 or word == WORD_FIX32:
        return 4 * N_CHECK_WORDS
    return 8 * N_CHECK_WORDS if word == WORD_I64 or word == WORD_FIX64 else 0


@kernel
def is_sum_true(rank: RankState, i: int, words: U8) -> bool:
    """The joined words of block i, check words behind them, are what ranks sent."""
    n = words.shape[0] - check_bytes(rank)
    width, block = check_bytes(rank) // N_CHECK_WORDS, (rank.row[0]["base"] + i) & BLOCK_MASK
    return is_true_sum(rank.check, block, words[:n], width, words[n:])


@kernel
def width_of(kind: int) -> int:
    """Bytes of one value of a kind."""
    if kind == 0 or kind == 4:
        return 4
    if kind == 1 or kind == 5:
        return 8
    return 2 if kind < 4 else 1


@kernel
def write_block(rank: RankState, i: int, retry: int, out: U8, at: int) -> int:
    """Packet of this rank's block i at ``at`` of ``out``, bare; its size."""
    row, job = rank.row[0], rank.job[0]
    n_words = row["n_words"]
    fan = at + fold_at(n_words)
    copy_octets(out, at, rank.head, 0, fold_at(n_words) + FOLD_BYTES)
    kind, op = job["kind"], job["op"]
    out[fan + 3] = (op << 4) | job["word"]
    write_u32(out, fan + 8, (row["base"] + i) & BLOCK_MASK)
    write_u16(out, fan + 16, rank.blocks[i, B_ONLY])
    out[fan + 18] = rank.blocks[i, B_SCOPE]
    flags = FLAG_RETRY if retry else 0
    start = rank.blocks[i, B_SRC]
    size = fan - at + FOLD_BYTES
    ahead = i + job["window"]
    n_codes = codes_bytes(rank, ahead)
    if n_codes > 0:
        code_block(rank, ahead, out[at + size : at + size + n_codes])
    size += n_codes
    if start == NOTHING:
        flags |= FLAG_EMPTY
    elif is_out(rank, i):
        flags |= FLAG_EMPTY | FLAG_OUT
        write_u16(out, fan + 14, 0)
    else:
        n = words_bytes(rank, i)
        if rank.codes[i] & NOT_FINITE:
            flags |= FLAG_NOT_FINITE
            mark_own(rank, i)
            rank.codes[i] |= MARKED
        pack_own(rank, i, out[at + size : at + size + n], retry)
        size += n
        more = check_bytes(rank)
        if more > 0:
            words, block = out[at + size - n : at + size], (row["base"] + i) & BLOCK_MASK
            behind = out[at + size : at + size + more]
            write_checks(rank.check, row["place"], block, words, more // N_CHECK_WORDS, behind)
            size += more
    if has_codes(rank):
        write_u16(out, fan + 12, n_codes)
    elif is_fixed(kind, op) and ahead < job["n_blocks"]:
        if retry == 0:
            code_block(rank, ahead, rank.own[:0])
        write_u16(out, fan + 12, rank.codes[ahead] & 0xFFFF)
    out[fan + 2] = flags
    frame_inner(out, at, size, n_words)
    return size


@kernel
def pack_own(rank: RankState, i: int, out: U8, retry: int) -> None:
    """Words of this rank's block i."""
    row, job = rank.row[0], rank.job[0]
    at = rank.blocks[i, B_SRC]
    n = rank.blocks[i, B_BYTES]
    src = rank.src[at : at + n]
    fetch(rank.src, at + n, n)
    if has_codes(rank):
        codes = rank.agreed[i % job["window"], : codes_bytes(rank, i)]
        pack_values(job["kind"], row["n_ranks"], codes, src, out, rank.wide)
        return
    kind, op = job["kind"], job["op"]
    pack_block(kind, op, row["n_ranks"], rank.shared[i], src, out, rank.wide, rank.pow2)
    if is_fixed(kind, op) and retry == 0:
        job["n_flushed"] += count_flushed(kind, src, out)


@kernel
def is_out(rank: RankState, i: int) -> bool:
    """This rank's block i does not fit the exponents that the others agreed on without it."""
    kind, op = rank.job[0]["kind"], rank.job[0]["op"]
    if not is_fixed(kind, op) or rank.row[0]["is_patient"] == 0:
        return False
    if has_codes(rank):
        return has_larger(rank, i)
    return rank.codes[i] & 0xFFFF > rank.shared[i] & 0xFFFF


@kernel
def has_larger(rank: RankState, i: int) -> bool:
    """Some exponent of this rank's block i is above the agreed one."""
    n = codes_bytes(rank, i)
    own, agreed = rank.own[:n], rank.agreed[i % rank.job[0]["window"], :n]
    code_block(rank, i, own)
    if rank.job[0]["word"] == WORD_FIX64:
        return is_above(own.view(np.uint16), agreed.view(np.uint16))
    return is_above(own, agreed)


@kernel
def is_above(a: Codes, b: Codes) -> bool:
    """Some element of ``a`` is larger than that of ``b``."""
    for i in range(a.shape[0]):
        if a[i] > b[i]:
            return True
    return False


@kernel
def mark_own(rank: RankState, i: int) -> None:
    """Keep what is not finite in this rank's block i: its array may be overwritten."""
    kind = rank.job[0]["kind"]
    at, n, width = rank.blocks[i, B_SRC], rank.blocks[i, B_BYTES], width_of(kind)
    marks = rank.marks[at // width : (at + n) // width]
    for j in range(marks.shape[0]):
        marks[j] = 0
    mark_block(kind, rank.src[at : at + n], marks, rank.wide)
