"""Packets of sums: real headers, and a few words that stand for all of a block.

What a packet is charged is what it has live: its headers and all words of its block.
"""

import numpy as np

from fanfold.kernels.absorb import (
    FLAG_EMPTY,
    FLAG_RETRY,
    SCOPE_ONLY,
    WHAT_ARM,
    WHAT_ARRAY,
    fold_at,
)
from fanfold.kernels.frame import seal_inner
from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.layout import BITS_AT, FOLD_BYTES
from fanfold.kernels.octets import copy_octets, read_u32, write_bits, write_u16, write_u32
from fanfold.kernels.state import I64, U8, Rows
from fanfold.sim.loop.ports import take_pkt
from fanfold.sim.loop.rows import (
    CUT_BYTES,
    N_TOLD,
    N_WORDS,
    NONE,
    NOW,
    PK_ARRAY,
    PK_FOLD_WORD,
    REPAIR_BYTES,
    REPAIR_PKTS,
    UNDERLAY,
    Ranks,
)
from fanfold.sim.loop.sum_rows import (
    N_STAND_IN,
    R_ASKED,
    R_HERE,
    R_SENT,
    R_TRIES,
    STAND_IN,
    bytes_of_block,
    clock_of,
    codes_of_block,
    low_bits,
)
from fanfold.sim.loop.words import take_body


@kernel
def may_send_block(ranks: Ranks, m: int) -> bool:
    """The next block may go: its slot is free, and not too much is under way.

    No block is ahead of the oldest one lacking by a window or more, so the one that had its
    slot before is here.
    """
    rank = ranks.rows[m]
    one = ranks.sums[rank["sum"]]
    i = rank["next"]
    if rank["armed"] != 1 or i >= one["n_blocks"] or i - rank["n_done"] >= rank["cwnd"]:
        return False
    if i >= one["n_asked"] > rank["floor"] or i >= one["n_agreed"] > rank["floor"]:
        return False
    return i - rank["floor"] < rank["window"]


@kernel
def build_array(q: I64, pkts: Rows, ranks: Ranks, m: int) -> int:
    """Next block of a rank as a packet; it may send one."""
    rank = ranks.rows[m]
    i = rank["next"]
    rank["next"] = i + 1
    at = rank["ring_at"] + i % rank["window"]
    ranks.ring[at, R_SENT], ranks.ring[at, R_ASKED] = clock_of(q), 0
    ranks.ring[at, R_TRIES], ranks.ring[at, R_HERE] = 0, 0
    return array_pkt(q, pkts, ranks, m, i, 0)


@kernel
def array_pkt(q: I64, pkts: Rows, ranks: Ranks, m: int, i: int, retry: int) -> int:
    """A packet with a rank's block i; ``retry``: it is sent again."""
    one = ranks.sums[ranks.rows[m]["sum"]]
    n_words = q[N_WORDS]
    fan = fold_at(n_words)
    head = fan + FOLD_BYTES
    row = take_body(q)
    body = ranks.bodies[row]
    copy_octets(body, 0, ranks.heads[m], 0, head)
    write_u32(body, fan + 8, i)
    if one["only"] != 0 and i >= one["n_agreed"]:
        body[fan + 18] = SCOPE_ONLY
        write_u16(body, fan + 16, one["only"])
    if retry:
        body[fan + 2] = FLAG_RETRY
    words = body[head : head + STAND_IN].view(np.int32)
    for j in range(N_STAND_IN):
        words[j] = ranks.own[m, j] + low_bits(i, j)
    seal_inner(body, 0, head + STAND_IN, n_words)
    p = fold_pkt(q, pkts, ranks.sums, row, body, head + STAND_IN)
    if retry:
        q[REPAIR_PKTS] += 1
        q[REPAIR_BYTES] += pkts[p]["bytes"]
    return p


@kernel
def told_pkt(q: I64, pkts: Rows, ranks: Ranks, m: int, what: int, block: int) -> int:
    """A packet without an array from a rank: REQUEST for a block, ARM, CLOSE."""
    rank = ranks.rows[m]
    n_words = q[N_WORDS]
    fan = fold_at(n_words)
    head = fan + FOLD_BYTES
    row = take_body(q)
    body = ranks.bodies[row]
    copy_octets(body, 0, ranks.heads[m], 0, head)
    body[fan + 1] = what
    write_u32(body, fan + 8, block)
    write_u16(body, fan + 14, 0)
    if what == WHAT_ARM:
        write_u16(body, fan + 20, 2 * rank["window"])
        body[fan + 19] = rank["root_level"]
        write_bits(body, BITS_AT, n_words, ranks.members[rank["sum"]])
    seal_inner(body, 0, head, n_words)
    return fold_pkt(q, pkts, ranks.sums, row, body, head)


@kernel
def fold_pkt(q: I64, pkts: Rows, sums: Rows, row: int, body: U8, size: int) -> int:
    """A FOLD packet whose bytes stand in row ``row`` already."""
    fan = fold_at(q[N_WORDS])
    a, block = read_u32(body, fan + 4), read_u32(body, fan + 8)
    p = take_pkt(q, pkts)
    pkt = pkts[p]
    pkt["kind"], pkt["bytes"] = PK_FOLD_WORD, size + q[UNDERLAY]
    q[N_TOLD] += 1
    if body[fan + 1] == WHAT_ARRAY:
        q[N_TOLD] -= 1
        pkt["kind"] = PK_ARRAY
        if body[fan + 2] & FLAG_EMPTY == 0:
            pkt["bytes"] += bytes_of_block(sums[a], block) - STAND_IN
        pkt["bytes"] += codes_of_block(sums[a], block)
    pkt["again"] = 1 if i64(body[fan + 2]) & FLAG_RETRY else 0
    pkt["stream"], pkt["psn"], pkt["n"] = a, block, 1
    pkt["si"], pkt["path"], pkt["labels"] = size, row, 0
    pkt["head"] = q[CUT_BYTES] if q[CUT_BYTES] > 0 else pkt["bytes"]
    pkt["ttl"], pkt["stamp"], pkt["poll"] = 64, q[NOW], 0
    pkt["span_ps"], pkt["marked"], pkt["trimmed"] = 0, 0, 0
    pkt["link"] = NONE
    return p
