"""Results without somebody's array: what a rank notes of them, and why it may have to stop.

Letters: N = blocks of the operation, W = words of a BitString.
"""

import numpy as np

from fanfold.kernels.absorb import FLAG_PARTIAL
from fanfold.kernels.jit import kernel
from fanfold.kernels.octets import ZERO, read_bits, read_u16
from fanfold.kernels.replicate import bit
from fanfold.kernels.state import U8
from fanfold.live.rank_state import RankState

OVERTAKEN = 1
"""The others went on, and the result is no longer kept."""
NO_MEMBER = 2
"""The group went on without this rank."""
LEFT_OUT = 3
"""A result is without this rank, and the group leaves out who is late."""
UNLIKE = 4
"""Ranks were asked for different things: there will be no more results."""
FALSE_SUM = 5
"""Check words of a result are not those of its words: something on the way added wrongly."""
UNCHECKED = 6
"""A sum that was to be checked outgrew its words."""

HAVE_LATE = 4
"""Bit of ``have``: the result is without this rank's array."""
ANY = 0
ALL = 1
"""Rows of ``lacking``: ranks that some result lacks, and that each one lacks."""


@kernel
def note_unlike(rank: RankState) -> None:
    """End an agreement of which the first block is here, where not all were asked alike."""
    n = rank.job[0]["asked"]
    for j in range(n):
        if rank.dst[j] != rank.dst[n + j] ^ 0xFF:
            rank.job[0]["gone"] = UNLIKE


@kernel
def bits_bytes(rank: RankState, flags: int) -> int:
    """Bytes of the P-BM at the end of a result."""
    return 8 * rank.row[0]["n_words"] if flags & FLAG_PARTIAL != 0 else 0


@kernel
def share_of(rank: RankState, buf: U8, fan: int) -> np.float64:
    """What a result's sums are multiplied by: 1, or for a mean 1 / arrays inside."""
    n = read_u16(buf, fan + 14)
    whole = np.float64(1)
    return rank.share[0] if rank.share[0] == whole or n == 0 else whole / np.float64(n)


@kernel
def note_inside(rank: RankState, i: int, buf: U8, fan: int, end: int, flags: int) -> None:
    """Note how many arrays are in the result of block i, and whose are not; P-BM before end."""
    row, job = rank.row[0], rank.job[0]
    n_words = row["n_words"]
    rank.tally[i] = read_u16(buf, fan + 14)
    row["lacks"] = 0
    if flags & FLAG_PARTIAL == 0:
        for w in range(n_words):
            rank.lacking[ALL, w] = ZERO
        return
    read_bits(buf, end - 8 * n_words, n_words, rank.heard)
    own = row["own_index"]
    some = ZERO
    for w in range(n_words):
        lacks = rank.live[w] & ~rank.heard[w]
        rank.lacking[ANY, w] |= lacks
        rank.lacking[ALL, w] &= lacks
        some |= lacks
    if some == ZERO:
        return
    job["n_partial"] += 1
    row["lacks"] = 1
    if rank.heard[own // 64] & bit(own % 64) == ZERO:
        rank.have[i] |= HAVE_LATE
        if row["is_strict"] != 0:
            job["gone"] = LEFT_OUT


@kernel
def take_out(rank: RankState) -> None:
    """The root keeps the result of a block no longer; ``heard`` has the group's members."""
    own = rank.row[0]["own_index"]
    is_member = rank.heard[own // 64] & bit(own % 64) != ZERO
    rank.job[0]["gone"] = OVERTAKEN if is_member else NO_MEMBER
