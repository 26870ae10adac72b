"""What a rank says without an array, and when: REQUEST, ARM, and probes while nothing moves.

A probe is a REQUEST for a block that nobody has: each BFR on the way to the root that has slots
for the group answers it by HEARD, whose TTL says from how far. A second one, a HEARD for this
rank itself, comes back from its own BFR, which need not know the group (docs/wire/fold.md
section 6). What came back stays in ``told`` and ``ping_ps``, for the words of an error.
"""

import numpy as np

from fanfold.kernels.absorb import (
    FLAG_RETRY,
    SCOPE_ALL,
    SCOPE_ONLY,
    TTL,
    TTL_AT,
    WHAT_ARM,
    WHAT_HEARD,
    WHAT_REQUEST,
    fold_at,
)
from fanfold.kernels.frame import seal_bare, seal_inner
from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.layout import (
    BIER_PORT,
    BITS_AT,
    FANFOLD_PORT,
    FOLD_BYTES,
    INNER_BYTES,
    IP_BYTES,
    KIND_SPREAD,
    VERSION,
)
from fanfold.kernels.octets import copy_octets, read_u16, write_u16, write_u32
from fanfold.kernels.rank_timers import (
    ARM_AGAIN_PS,
    ARM_FIRST_PS,
    MOST_ASKED,
    MOST_PATIENCE,
    REORDER_PS,
    RTO_MOST_PS,
    rto_of,
)
from fanfold.kernels.slots import NEVER_PS
from fanfold.kernels.state import U8
from fanfold.kernels.vat import BLOCK_MASK
from fanfold.live.exits import FULL, KEPT, aim, send_iov
from fanfold.live.rank_state import (
    C_ARMS,
    C_PROBES,
    C_REQUESTS,
    C_SEND_FAILED,
    R_ASKED,
    R_SENT,
    R_TRIES,
    RankState,
)
from fanfold.live.rings import channel_to, put
from fanfold.live.sock import GSO, Sock

STALL_PS = 500_000_000_000
"""A rank probes when nothing has moved for so long."""
PROBE_PS = 250_000_000_000
PROBE_AHEAD = 1 << 20
"""A probe asks for a block so far ahead: no slot holds it."""


@kernel
def send_out(sock: Sock, rank: RankState, n: int, seg: int) -> None:
    """Send ``n`` bytes of ``sock.out``, packets of ``seg`` bytes, toward the root."""
    n_pkts = (n + seg - 1) // seg
    sock.iov_out[0] = np.uint64(sock.out.ctypes.data)
    sock.iov_out[1] = np.uint64(n)
    port = up_port(rank)
    c = channel_to(sock, port, BIER_PORT)
    if c >= 0 and put(sock, c, 1, seg):
        return
    seal_bare(sock.out, 0, n, seg, rank.row[0]["n_words"])
    aim(sock, rank.row[0]["up_addr"], BIER_PORT)
    if sock.ints[GSO] != 0:
        code = send_iov(sock, port, 1, n_pkts, seg)
        if code > KEPT and (code == FULL or n_pkts == 1):
            rank.counts[C_SEND_FAILED] += n_pkts
        if code <= FULL or n_pkts == 1:
            return
    at = 0
    while at < n:
        sock.iov_out[0] = np.uint64(sock.out.ctypes.data) + np.uint64(at)
        sock.iov_out[1] = np.uint64(min(seg, n - at))
        if send_iov(sock, port, 1, 1, seg) > KEPT:
            rank.counts[C_SEND_FAILED] += 1
        at += seg


@kernel
def up_port(rank: RankState) -> int:
    """Port toward the root: that of the neighbour there, else the first."""
    for p in range(rank.near.shape[0]):
        if rank.near[p] == rank.row[0]["up_addr"]:
            return p + 1
    return 1


@kernel
def send_word(sock: Sock, rank: RankState, what: int, block: int) -> None:
    """Send a message without an array: REQUEST for a block, or ARM."""
    row = rank.row[0]
    fan = fold_at(row["n_words"])
    size = fan + FOLD_BYTES
    copy_octets(sock.out, 0, rank.head, 0, size)
    sock.out[fan + 1] = what
    write_u32(sock.out, fan + 8, block & BLOCK_MASK)
    write_u16(sock.out, fan + 14, 0)
    if what == WHAT_ARM:
        write_u16(sock.out, fan + 20, row["n_slots"])
        write_u16(sock.out, fan + 22, row["n_least"])
        write_u16(sock.out, fan + 16, row["root_id"])
        sock.out[fan + 18] = SCOPE_ONLY if row["root_id"] != 0 else SCOPE_ALL
        if row["base"] + rank.job[0]["next"] > 0:
            sock.out[fan + 2] |= FLAG_RETRY  # a BFR that hears of it now has lost what it had
        copy_octets(sock.out, BITS_AT, rank.head, size, 8 * row["n_words"])
        sock.out[fan + 19] = rank.head[size + 8 * row["n_words"]]
    seal_inner(sock.out, 0, size, row["n_words"])
    send_out(sock, rank, size, size)


@kernel
def ask_due(sock: Sock, rank: RankState, when: int) -> int:
    """Ask for results that are overdue; when to look again."""
    row, job = rank.row[0], rank.job[0]
    rto = rto_of(row)
    reorder = max(row["srtt_ps"] // 4, REORDER_PS)
    n_late = 0
    nearest = NEVER_PS
    for i in range(job["floor"], job["next"]):
        if rank.have[i] != 0:
            continue
        slot = i % job["window"]
        last = max(rank.ring[R_SENT, slot], rank.ring[R_ASKED, slot])
        tries = rank.ring[R_TRIES, slot]
        due = last + min(rto << min(max(tries - 1, 0), 8), RTO_MOST_PS)
        if job["fresh_ps"] > last + reorder:
            due = when  # what left later is answered: what is asked comes before it
        elif due <= when and tries == 0 and when > row["patient_ps"] + rto:
            row["patience"] = min(row["patience"] + 1, MOST_PATIENCE)
            row["patient_ps"] = when
        if due <= when:
            rank.ring[R_ASKED, slot] = when
            rank.ring[R_TRIES, slot] += 1
            row["epoch_asked"] += 1
            send_word(sock, rank, WHAT_REQUEST, row["base"] + i)
            rank.counts[C_REQUESTS] += 1
            due = when + rto
            n_late += 1
        nearest = min(nearest, due)
        if n_late >= MOST_ASKED:
            return min(nearest, when + rto // 4)
    return nearest


@kernel
def arm_due(sock: Sock, rank: RankState, when: int) -> int:
    """Rank 0 arms the tree: at first, and when nothing has moved for long."""
    row, job = rank.row[0], rank.job[0]
    if row["is_first"] == 0:
        return NEVER_PS
    if row["armed"] == 1 and row["lacks"] == 0:
        row["arm_ps"] = max(row["arm_ps"], job["floor_ps"] + ARM_AGAIN_PS)
    if row["arm_ps"] <= when:
        send_word(sock, rank, WHAT_ARM, row["n_asked"])
        rank.counts[C_ARMS] += 1
        row["arm_ps"] = when + (ARM_AGAIN_PS if row["armed"] == 1 else ARM_FIRST_PS)
    return row["arm_ps"]


@kernel
def probe_due(sock: Sock, rank: RankState, when: int) -> int:
    """Probe the way to the root while nothing moves; when to look again."""
    row, job = rank.row[0], rank.job[0]
    due = max(job["floor_ps"] + STALL_PS, row["probe_ps"])
    if due > when:
        return due
    send_ping(sock, rank)
    if row["armed"] == 1:
        send_word(sock, rank, WHAT_REQUEST, row["base"] + job["n_blocks"] + PROBE_AHEAD)
    rank.counts[C_PROBES] += 1
    job["n_probes"] += 1
    row["probe_ps"] = when + PROBE_PS
    return row["probe_ps"]


@kernel
def send_ping(sock: Sock, rank: RankState) -> None:
    """Send a HEARD for this rank itself by its own BFR; ``root_level`` 1 marks it."""
    n_words = rank.row[0]["n_words"]
    fan = fold_at(n_words)
    size = fan + FOLD_BYTES
    out = sock.out
    copy_octets(out, 0, rank.head, 0, size)
    udp = fan - INNER_BYTES + IP_BYTES
    write_u16(out, udp, read_u16(out, udp + 2))
    write_u16(out, udp + 2, FANFOLD_PORT)
    out[fan] = (VERSION << 4) | KIND_SPREAD
    out[fan + 1] = WHAT_HEARD
    out[fan + 19] = 1
    for i in range(8 * n_words):
        out[size + i] = 0
    size += 8 * n_words
    seal_inner(out, 0, size, n_words)
    send_out(sock, rank, size, size)


@kernel
def hops_of(buf: U8, at: int) -> int:
    """BFRs between this rank's own and the one that a packet on its way down began at."""
    return TTL - i64(buf[at + TTL_AT])


@kernel
def note_answer(rank: RankState, buf: U8, at: int, when: int) -> bool:
    """Note who said HEARD, by its distance; False for a ping that came back."""
    if buf[at + fold_at(rank.row[0]["n_words"]) + 19] != 0:
        rank.row[0]["ping_ps"] = when
        return False
    d = hops_of(buf, at)
    if 0 <= d < rank.told.shape[0]:
        rank.told[d] = when
    return True
