"""A rank's compiled loop: blocks of an array out, results in, and what was lost asked for.

One operation at a time. Block i goes out when the result of block i - w is here, w the window,
so a slot in the network is free before it is used again (docs/wire/fold.md rule 6). The result
also brings the exponent that block i is to be sent with. Every wait ends in this rank's timers.
sim/loop/ranks.py simulates this; tests/parity/test_parity_sums.py holds the packets equal.

Letters: N = blocks of the operation, w = window, W = words of a BitString.
"""

import numpy as np

from fanfold.kernels.absorb import (
    FLAG_NOT_FINITE,
    FLAG_OUT,
    FLAG_OVERFLOW,
    WHAT_ARM,
    WHAT_ARRAY,
    WHAT_HEARD,
    fold_at,
    is_fold_sound,
)
from fanfold.kernels.codes import CLASS_FOLD
from fanfold.kernels.frame import check_bier, classify, is_sound_from
from fanfold.kernels.impairment import Impairments, impair, release
from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.layout import BIER_PORT, FOLD_BYTES, KIND_SPREAD
from fanfold.kernels.octets import ZERO, copy_octets, fetch, read_bits, read_u16, read_u32
from fanfold.kernels.rank_timers import (
    MOST_LOST,
    QUEUE_PS,
    REORDER_PS,
    RTO_MOST_PS,
    note_round,
)
from fanfold.kernels.replicate import bit
from fanfold.kernels.state import I64, U8
from fanfold.kernels.vat import BLOCK_MASK, copy_words
from fanfold.kernels.words import unpack_block, unpack_values
from fanfold.live.exits import drain
from fanfold.live.rank_late import (
    FALSE_SUM,
    UNCHECKED,
    bits_bytes,
    note_inside,
    note_unlike,
    share_of,
    take_out,
)
from fanfold.live.rank_state import (
    B_BYTES,
    B_DST,
    B_SRC,
    C_AGAIN,
    C_AGAIN_BYTES,
    C_DUPLICATES,
    C_RECEIVED,
    C_RECEIVED_BYTES,
    C_REFUSED,
    C_SENT,
    C_SENT_BYTES,
    NOTHING,
    R_ASKED,
    R_SENT,
    R_TRIES,
    RankState,
    check_bytes,
    codes_bytes,
    has_codes,
    is_sum_true,
    words_bytes,
    write_block,
)
from fanfold.live.rank_words import (
    arm_due,
    ask_due,
    hops_of,
    note_answer,
    probe_due,
    send_out,
    up_port,
)
from fanfold.live.rings import channel_to, commit, next_in, reserve, ring_owed, wait_for
from fanfold.live.sock import (
    BASE,
    BUF_BYTES,
    HELD_DUE,
    LATER,
    PEER_ADDR,
    PORT,
    REST_AT,
    REST_END,
    SEG,
    SEND_BYTES,
    Sock,
    came_at,
    now,
)
from fanfold.live.trailers import has_handshake, open_block
from fanfold.live.trailers_out import send_room, trailer_of

DONE = 0
LATE = 1
WOKEN = 2
NO_ROOM = 3
GONE = 4
HANDSHAKES = 5

LEAST_SLOTS = 8
"""Rank 0 asks for fewer slots down to so many; then, at BFRs further up, no more."""

REPAIR_QUEUE_PS = 10_000_000_000
"""As QUEUE_PS, while more than one block in FEW_ASKED is asked for: repairs wait there."""
FEW_ASKED = 64
RUN_MASK = 0xFFFFFFFF
MOST_RUN = 60
"""Packets of one send."""
ENOUGH = 32
"""Blocks under way, however long round trips are."""


@kernel
def may_send(rank: RankState) -> bool:
    """The next block may go: its slot is free, and not too much is under way."""
    row, job = rank.row[0], rank.job[0]
    i = job["next"]
    if i >= job["n_blocks"] or row["armed"] != 1 or i - job["n_done"] >= row["cwnd"]:
        return False
    return i < job["window"] or rank.have[i - job["window"]] != 0


@kernel
def send_fresh(sock: Sock, rank: RankState) -> None:
    """Send blocks that may go, equal sizes in one call, or written where a neighbour reads."""
    port = up_port(rank)
    while may_send(rank) and sock.exits[port]["used"] == 0:  # else: when the queue is empty
        when = now(sock)
        c = channel_to(sock, port, BIER_PORT)
        at = reserve(sock, c, SEND_BYTES) if c >= 0 else -1
        if at >= 0:
            wrote = write_run(rank, when, sock.buf, at, SEND_BYTES)
            commit(sock, c, wrote & RUN_MASK, wrote >> 32)
        else:
            room = min(send_room(sock) - MOST_RUN * trailer_of(sock), SEND_BYTES)
            wrote = write_run(rank, when, sock.out, 0, room)
            send_out(sock, rank, wrote & RUN_MASK, wrote >> 32)


@kernel
def write_run(rank: RankState, when: int, out: U8, first: int, room: int) -> int:
    """Packets of blocks that may go, of equal size but the last, at ``first`` of ``out``.

    room: bytes of them at most.

    Returns:
        Their bytes, and those of the first one times 2**32.
    """
    row, job = rank.row[0], rank.job[0]
    at, seg, n_pkts = 0, 0, 0
    while may_send(rank) and n_pkts < MOST_RUN:
        i = job["next"]
        n = fold_at(row["n_words"]) + FOLD_BYTES + codes_bytes(rank, i + job["window"])
        if rank.blocks[i, B_SRC] != NOTHING:
            n += words_bytes(rank, i) + check_bytes(rank)
        if at > 0 and (at + n > room or n > seg):
            break
        size = write_block(rank, i, 0, out, first + at)
        slot = i % job["window"]
        rank.ring[R_SENT, slot], rank.ring[R_ASKED, slot] = when, 0
        rank.ring[R_TRIES, slot] = 0
        job["next"] = i + 1
        seg = size if at == 0 else seg
        at += size
        n_pkts += 1
        if size < seg:
            break
    rank.counts[C_SENT] += n_pkts
    rank.counts[C_SENT_BYTES] += at
    return at | (seg << 32)


@kernel
def send_block_again(sock: Sock, rank: RankState, i: int, when: int) -> None:
    """Send one block once more: the network has not heard it."""
    size = write_block(rank, i, 1, sock.out, 0)
    send_out(sock, rank, size, size)
    slot = i % rank.job[0]["window"]
    rank.ring[R_SENT, slot] = when
    rank.ring[R_TRIES, slot] += 1
    rank.counts[C_AGAIN] += 1
    rank.counts[C_AGAIN_BYTES] += size
    rank.row[0]["epoch_lost"] += 1


@kernel
def place_result(rank: RankState, buf: U8, at: int, size: int, when: int) -> None:
    """Take in the result of a block."""
    row, job = rank.row[0], rank.job[0]
    fan = at + fold_at(row["n_words"])
    i = (read_u32(buf, fan + 8) - row["base"]) & BLOCK_MASK
    if i >= job["next"] or rank.have[i] != 0:
        rank.counts[C_DUPLICATES] += 1
        return
    start = rank.blocks[i, B_DST]
    flags = i64(buf[fan + 2])
    n_codes = codes_bytes(rank, i + job["window"])
    words_at = fan + FOLD_BYTES + n_codes
    n = size - (words_at - at) - bits_bytes(rank, flags)
    if buf[fan + 3] != ((job["op"] << 4) | job["word"]) or n < 0:
        rank.counts[C_REFUSED] += 1
        return
    if has_codes(rank) and read_u16(buf, fan + 12) != n_codes:
        rank.counts[C_REFUSED] += 1
        return
    if start != NOTHING:
        n_checks = check_bytes(rank)
        if n != words_bytes(rank, i) + n_checks:
            rank.counts[C_REFUSED] += 1
            return
        if n_checks > 0:
            words = buf[words_at : words_at + n]
            if flags & FLAG_OVERFLOW != 0 or not is_sum_true(rank, i, words):
                job["gone"] = FALSE_SUM if flags & FLAG_OVERFLOW == 0 else UNCHECKED
                return
            n -= n_checks
        unpack_own(rank, i, buf[words_at : words_at + n], share_of(rank, buf, fan))
    rank.have[i] = 1
    job["n_done"] += 1
    job["flags"] |= flags & (FLAG_OVERFLOW | FLAG_NOT_FINITE)
    if flags & FLAG_NOT_FINITE:
        rank.have[i] = 3
    if i == 0:
        note_unlike(rank)
    note_inside(rank, i, buf, fan, at + size, flags)
    ahead = i + job["window"]
    if has_codes(rank):
        copy_octets(rank.agreed[i % job["window"]], 0, buf, fan + FOLD_BYTES, n_codes)
    elif ahead < job["n_blocks"]:
        rank.shared[ahead] = read_u16(buf, fan + 12)
    measure(rank, i, when)
    while job["floor"] < job["n_blocks"] and rank.have[job["floor"]] != 0:
        job["floor"] += 1
        job["floor_ps"] = when


@kernel
def unpack_own(rank: RankState, i: int, words: U8, share: np.float64) -> None:
    """Joined words of block i to values in this rank's array."""
    row, job = rank.row[0], rank.job[0]
    at = rank.blocks[i, B_DST]
    n = rank.blocks[i, B_BYTES]
    out = rank.dst[at : at + n]
    fetch(rank.dst, at + n, n)
    if has_codes(rank):
        codes = rank.agreed[i % job["window"], : codes_bytes(rank, i)]
        unpack_values(job["kind"], row["n_ranks"], codes, words, out, rank.wide, share)
        return
    kind, op, code = job["kind"], job["op"], rank.shared[i]
    unpack_block(kind, op, row["n_ranks"], code, words, out, rank.wide, rank.pow2, share)


@kernel
def measure(rank: RankState, i: int, when: int) -> None:
    """Round trip of a block that was sent once and not asked for, and the congestion window."""
    row, job = rank.row[0], rank.job[0]
    slot = i % job["window"]
    if rank.ring[R_TRIES, slot] == 0 and rank.ring[R_ASKED, slot] == 0:
        rtt = max(when - rank.ring[R_SENT, slot], 1)
        row["patience"] = 0
        row["least_ps"] = min(row["least_ps"], rtt)
        job["fresh_ps"] = max(job["fresh_ps"], rank.ring[R_SENT, slot])
        note_round(row, rtt)
    row["epoch_end"] -= 1
    if row["epoch_end"] <= 0:
        if row["epoch_lost"] * MOST_LOST > row["cwnd"] and row["epoch_lost"] > 1:
            row["cwnd"] = max(row["cwnd"] // 2, 4)
        else:
            queue_ps = QUEUE_PS
            if row["epoch_asked"] * FEW_ASKED > row["cwnd"]:
                queue_ps = REPAIR_QUEUE_PS
            row["cwnd"] = next_window(row, 2 * row["least_ps"] + queue_ps)
        row["epoch_end"], row["epoch_lost"], row["epoch_asked"] = row["cwnd"], 0, 0


@kernel
def next_window(row: np.void, aim_ps: int) -> int:
    """Congestion window with which round trips take ``aim_ps`` or so."""
    cwnd, window = row["cwnd"], row["window"]
    if row["srtt_ps"] * 2 < aim_ps:
        return min(cwnd + max(cwnd // 2, 1), window)
    more = min(max(cwnd * aim_ps // row["srtt_ps"], cwnd * 3 // 4), cwnd + cwnd // 8 + 1)
    return min(max(more, min(cwnd, ENOUGH)), window)


@kernel
def take_heard(sock: Sock, rank: RankState, buf: U8, at: int, when: int) -> None:
    """Somebody on the way says whom it has heard: send again what it has not."""
    row, job = rank.row[0], rank.job[0]
    fan = at + fold_at(row["n_words"])
    i = (read_u32(buf, fan + 8) - row["base"]) & BLOCK_MASK
    if not note_answer(rank, buf, at, when) or i >= job["next"] or rank.have[i] != 0:
        return
    read_bits(buf, fan + FOLD_BYTES, row["n_words"], rank.heard)
    if buf[fan + 2] & FLAG_OUT != 0:
        take_out(rank)
        return
    if hops_of(buf, at) == row["root_hops"] and tells_more(rank, i, when):
        job["heard_of"], job["told_ps"] = i, when
        copy_words(rank.at_root, rank.heard, row["n_words"])
    w, k = row["own_index"] // 64, row["own_index"] % 64
    slot = i % job["window"]
    if rank.heard[w] & bit(k) != ZERO:
        rank.ring[R_ASKED, slot] = when  # who is not in there sends again: give it time
        return
    if when - rank.ring[R_SENT, slot] > max(row["srtt_ps"] // 2, REORDER_PS):
        send_block_again(sock, rank, i, when)


@kernel
def tells_more(rank: RankState, i: int, when: int) -> bool:
    """Whom the root has heard of block i is better known than of the block before it.

    The first block that is awaited says who is silent: of a later one the root lacks also ranks
    with a smaller congestion window.
    """
    before = rank.job[0]["heard_of"]
    if before < 0 or rank.have[before] != 0 or i <= before:
        return True
    return bool(when - rank.job[0]["told_ps"] > 2 * RTO_MOST_PS)


@kernel
def take_block(sock: Sock, rank: RankState, n: int, when: int) -> None:
    """Take in the packets of a received block."""
    seg, base = sock.ints[SEG], sock.ints[BASE]
    row = rank.row[0]
    at = 0
    while at < n:
        size = min(seg, n - at)
        take_packet(sock, rank, base + at, size, when)
        at += seg
    row["heard_ps"] = when if n > 0 else row["heard_ps"]


@kernel
def take_packet(sock: Sock, rank: RankState, at: int, size: int, when: int) -> None:
    """Take in one packet, if it is a sound one of this group on its way down."""
    buf, row = sock.buf, rank.row[0]
    n_words = row["n_words"]
    rank.counts[C_RECEIVED] += 1
    rank.counts[C_RECEIVED_BYTES] += size
    fan = at + fold_at(n_words)
    t = check_bier(buf, at, size, rank.ids, rank.id_words)
    if t < 0 or not is_for_rank(buf, at, size, fan, n_words, row["group"]):
        rank.counts[C_REFUSED] += 1
    elif buf[fan + 1] == WHAT_ARRAY:
        place_result(rank, buf, at, size, when)
    elif buf[fan + 1] == WHAT_HEARD:
        take_heard(sock, rank, buf, at, when)
    elif buf[fan + 1] == WHAT_ARM:
        take_armed(sock, rank, buf, fan, hops_of(buf, at))


@kernel
def take_armed(sock: Sock, rank: RankState, buf: U8, fan: int, hops: int) -> None:
    """The tree is armed, with so many slots; or the root had no room for this group.

    A host that has none was asked last: then there is no room anywhere, for any rank.
    """
    row = rank.row[0]
    n_slots, asked = read_u16(buf, fan + 20), read_u32(buf, fan + 8)
    if n_slots == 1 or hops < 0:
        rank.counts[C_REFUSED] += 1  # no window, or from beyond the largest TTL
        return
    if n_slots == 0:
        row["n_full"] += 1
        is_last = row["is_first"] != 0 or read_u16(buf, fan + 16) != 0
        if is_last and row["armed"] == 0 and (row["n_asked"] == 0 or row["n_asked"] == asked):
            row["armed"] = -1
        return
    if n_slots > 2 * rank.ring.shape[1]:
        return
    if row["armed"] == 1 and asked > row["n_asked"]:
        row["told_asked"], row["told_slots"] = asked, n_slots  # others are further on already
    elif row["armed"] != 1 and (row["n_asked"] == 0 or row["n_asked"] == asked):
        row["window"], row["n_slots"] = n_slots // 2, n_slots
        row["n_least"], row["n_asked"] = 0, asked
        row["cwnd"] = min(row["cwnd"], row["window"])
        rank.job[0]["window"] = min(rank.job[0]["most"], row["window"])
        row["armed"], row["up_addr"], row["root_hops"] = 1, sock.ints[PEER_ADDR], hops


@kernel
def is_for_rank(buf: U8, at: int, size: int, fan: int, n_words: int, group: int) -> bool:
    """A sound FOLD packet of a group on its way down."""
    if classify(buf, at, size, n_words) != CLASS_FOLD:
        return False
    if not is_sound_from(buf, at, size, n_words, at >= BUF_BYTES):
        return False
    if not is_fold_sound(buf, fan, size - (fan - at), n_words):
        return False
    return i64(buf[fan]) & 0xF == KIND_SPREAD and read_u32(buf, fan + 4) == group


@kernel
def is_near(rank: RankState, addr: int) -> int:
    """Port of a neighbour's address, or -1."""
    for p in range(rank.near.shape[0]):
        if rank.near[p] == addr:
            return p + 1
    return -1


@kernel
def next_rank_block(
    sock: Sock, rank: RankState, impairments: Impairments, drops: I64, when: int
) -> int:
    """Bytes of the next block, after what befalls it; -1 when none waits."""
    if sock.ints[REST_AT] < sock.ints[REST_END]:
        return open_block(sock, 0, drops, when)
    if impairments.n_held[0] > 0 and sock.ints[HELD_DUE] <= when:
        n = release(sock.buf, when, impairments, sock.found)
        sock.ints[HELD_DUE] = sock.found[2]
        if n > 0:
            sock.ints[BASE], sock.ints[SEG] = 0, sock.found[1]
            sock.name_in[2], sock.name_in[3] = 0, 0  # who sent it is not known any more
            sock.ints[PEER_ADDR], sock.ints[PORT] = rank.near[sock.found[0] - 1], sock.found[0]
            return open_block(sock, n, drops, when)
    n = next_in(sock)
    if n < 0:
        return n
    port = is_near(rank, sock.ints[PEER_ADDR])
    if port < 0:
        rank.counts[C_REFUSED] += 1
        return 0
    if impairments.ports[port]["active"] != 0:
        if sock.ints[BASE] != 0:
            copy_octets(sock.buf, 0, sock.buf, sock.ints[BASE], n)
            sock.ints[BASE] = 0
        came = came_at(sock, when)
        n = impair(sock.buf, n, sock.ints[SEG], port, when, impairments, drops, came)
        if impairments.n_held[0] > 0:
            sock.ints[HELD_DUE] = min(sock.ints[HELD_DUE], when)
    sock.ints[PORT] = port
    return open_block(sock, n, drops, when)


@kernel
def serve_rank(
    sock: Sock, rank: RankState, impairments: Impairments, drops: I64, until_ps: int
) -> int:
    """Work on an operation until it is over.

    Returns:
        DONE: every result is here. LATE: ``until_ps`` has come. WOKEN: somebody else calls.
        NO_ROOM: the root has no slots for this group. GONE: it goes on without this rank.
        HANDSHAKES: the block in hand is of keys.
    """
    sock.ints[LATER] = 1
    code = serve_on(sock, rank, impairments, drops, until_ps)
    sock.ints[LATER] = 0
    ring_owed(sock)
    return code


@kernel
def serve_on(
    sock: Sock, rank: RankState, impairments: Impairments, drops: I64, until_ps: int
) -> int:
    """``serve_rank``, with neighbours that are to be woken at its end."""
    row, job = rank.row[0], rank.job[0]
    while True:
        when = now(sock)
        for _ in range(64):
            drain(sock)
            n = next_rank_block(sock, rank, impairments, drops, when)
            if n < 0:
                break
            when = now(sock)
            if has_handshake(sock, n):
                return HANDSHAKES
            take_block(sock, rank, n, when)
            send_fresh(sock, rank)
        if job["gone"] != 0:
            return GONE
        if job["n_done"] == job["n_blocks"]:
            return DONE
        if row["armed"] < 0:
            return NO_ROOM
        when = now(sock)
        if when >= until_ps:
            return LATE
        send_fresh(sock, rank)
        wake = min(arm_due(sock, rank, when), ask_due(sock, rank, when))
        wake = min(wake, probe_due(sock, rank, when), until_ps, sock.ints[HELD_DUE])
        ring_owed(sock)
        if wake > when and wait_for(sock, wake - when):
            return WOKEN
