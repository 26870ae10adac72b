"""A receiver's side of DATA: place payloads into blocks being collected, notice what is due.

R = blocks collected at once, C = bytes of one block at most, F = flows followed. A block is
complete when all its PSNs are in; gaps are one word (docs/wire/fan.md).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.kernels.codes import (
    CLASS_DATA,
    CLASS_REPAIR,
    DROP_BAD_CHECKSUM,
    DROP_BAD_FAN,
    DROP_DUPLICATE,
    DROP_NO_BUFFER,
    DROP_UNKNOWN_FLOW,
)
from fanfold.kernels.feedback import whole_block
from fanfold.kernels.frame import is_inner_sound
from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.layout import (
    BITS_AT,
    FAN_BYTES,
    FLAG_LAST,
    FLAG_POLL,
    FLAG_REPAIR,
    INNER_BYTES,
    IP_BYTES,
    MAX_PSN,
)
from fanfold.kernels.octets import ZERO, copy_octets, read_u16, read_u32
from fanfold.kernels.replicate import bit
from fanfold.kernels.slots import NEVER_PS
from fanfold.kernels.state import I64, U8, Plan, Row, Rows

IDLE_ROW_PS = 1_000_000_000_000
"""A block that nothing came for in this time gives its row to another flow that needs one."""

MOST_AGAINST = 8
"""So many sound packets in a row that are not of the geometry that was learned: it was learned
from a damaged one, whose checksum of 16 bits was right by chance."""

FREE = 0
FILLING = 1
WHOLE = 2

FOLLOW_ROW = np.dtype(
    [
        ("used", np.int64),
        ("bfir_id", np.int64),
        ("flow", np.int64),
        ("stride", np.int64),  # 0: learn it from the first packet
        ("n_psn", np.int64),  # packets of every block but the last; 0: learn it
        ("n_blocks", np.int64),  # 0: unknown, the packet flagged LAST tells
        ("last_n_psn", np.int64),
        ("last_bytes", np.int64),  # payload bytes of the very last packet, 0: any
        ("map_at", np.int64),  # where this flow's have-map starts
        ("map_len", np.int64),
        ("newest", np.int64),  # highest block seen
        ("front", np.int64),  # where the sender's pass over the blocks has come to
        ("front_ps", np.int64),  # when a packet of it came last
        ("front_port", np.int64),  # by which port
        ("begun_ps", np.int64),  # when its first packet came
        ("space_ps", np.int64),  # from a packet to the next, in the mean of blocks
        ("port", np.int64),  # by which the last packet of all came
        ("floor", np.int64),  # every block before it is here
        ("flow_port", np.int64),
        ("bfir_addr", np.int64),
        ("bift_id", np.int64),
        ("entropy", np.int64),  # of words to the BFIR
        ("heard_ps", np.int64),
        ("is_told", np.int64),  # a manifest told the geometry: nothing of it was learned
        ("against", np.int64),  # packets in a row that what was learned speaks against
    ]
)
BLOCK_ROW = np.dtype(
    [
        ("state", np.int64),
        ("follow", np.int64),
        ("block", np.int64),
        ("n_psn", np.int64),
        ("have", np.uint64),
        ("tail", np.int64),  # payload bytes of the last packet, -1 until it came
        ("round", np.int64),
        ("last_ps", np.int64),
        ("report_ps", np.int64),  # when its gaps are reported, NEVER_PS when not due
        ("polled", np.int64),  # the sender asked for a word on this block
        ("told", np.int64),  # its gaps were reported once: again at report_ps, no earlier
        ("port", np.int64),  # by which its last packet came
    ]
)
EVENT_WHOLE = 1
EVENT_AGAIN = 2
EVENT_UNKNOWN = 3
SPACES = 2
"""Times as long as from one packet to the next, a receiver waits for another of a repair."""
MOST_EVENTS = 4
"""Blocks that are looked at in one turn of a role."""


class Collect(NamedTuple):
    """What a receiver holds: blocks (R,), room (R, C), follow (F,), have (map bytes,).

    events: (N, 3), rows (kind, block row or offset, block number); n_events: (1,).
    timing: (2,) reorder and idle time in ps.
    """

    blocks: NDArray[np.void]
    room: U8
    follow: NDArray[np.void]
    have: U8
    events: I64
    n_events: I64
    timing: I64


def build_collect(n_blocks: int, block_bytes: int, n_follow: int, map_bytes: int) -> Collect:
    """Empty receiver state; memory is touched only when used."""
    return Collect(
        blocks=np.zeros(n_blocks, BLOCK_ROW),
        room=np.zeros((n_blocks, block_bytes), np.uint8),
        follow=np.zeros(n_follow, FOLLOW_ROW),
        have=np.zeros(map_bytes, np.uint8),
        events=np.zeros((1024, 3), np.int64),
        n_events=np.zeros(1, np.int64),
        timing=np.array([2_000_000_000, 20_000_000_000], np.int64),
    )


@kernel
def note(collect: Collect, kind: int, what: int, block: int) -> None:
    """Add an event; past the end it is lost, and the sender's poll brings it back.

    What was noted just now is not noted again: each packet of a repair asks.
    """
    i = collect.n_events[0]
    for k in range(max(i - MOST_EVENTS, 0), i):
        event = collect.events[k]
        if event[0] == kind and event[1] == what and event[2] == block:
            return
    if i < collect.events.shape[0]:
        collect.events[i, 0] = kind
        collect.events[i, 1] = what
        collect.events[i, 2] = block
        collect.n_events[0] = i + 1


@kernel
def is_call(collect: Collect) -> bool:
    """A role is to look now: at a flow nobody follows, or at as many blocks as may wait.

    Fewer blocks wait until the socket is empty: a role that is behind looks at several in a
    turn, and one that is not is called for each.
    """
    n = collect.n_events[0]
    for i in range(n):
        if collect.events[i, 0] == EVENT_UNKNOWN:
            return True  # its packets stand in the pass in hand
    return n >= MOST_EVENTS


@kernel
def find_follow(follow: Rows, bfir_id: int, flow: int) -> int:
    """Row of a followed flow, or -1."""
    for f in range(follow.shape[0]):
        row = follow[f]
        if row["used"] != 0 and row["flow"] == flow and row["bfir_id"] == bfir_id:
            return f
    return -1


@kernel
def find_block(collect: Collect, f: int, block: int, hint: int) -> int:
    """Row collecting a block; else a free row; else -1. ``hint`` is looked at first."""
    rows = collect.blocks
    row = rows[hint]
    if row["state"] != FREE and row["follow"] == f and row["block"] == block:
        return hint
    free = -1
    for r in range(rows.shape[0]):
        row = rows[r]
        if row["state"] == FREE:
            if free < 0:
                free = r
        elif row["follow"] == f and row["block"] == block:
            return r
    return free


@kernel
def rows_of(collect: Collect, bfir_id: int) -> int:
    """Rows that collect blocks of one sender."""
    n = 0
    for r in range(collect.blocks.shape[0]):
        row = collect.blocks[r]
        if row["state"] != FREE and collect.follow[row["follow"]]["bfir_id"] == bfir_id:
            n += 1
    return n


@kernel
def make_room(collect: Collect, f: int, now_ps: int) -> int:
    """Free a row for a block of a flow when all are taken; -1 when nobody owes one.

    The row idle longest of those that were given up, and of the sender that holds most: at
    least two more than this one, or rows would go to and fro. What was in it is repaired.
    """
    bfir_id = collect.follow[f]["bfir_id"]
    most, greedy = rows_of(collect, bfir_id) + 1, -1
    for g in range(collect.follow.shape[0]):
        if collect.follow[g]["used"] != 0 and collect.follow[g]["bfir_id"] != bfir_id:
            n = rows_of(collect, collect.follow[g]["bfir_id"])
            if n > most:
                most, greedy = n, collect.follow[g]["bfir_id"]
    found = -1
    for r in range(collect.blocks.shape[0]):
        row = collect.blocks[r]
        if row["state"] != FILLING or row["follow"] == f:
            continue
        is_idle = now_ps - row["last_ps"] >= IDLE_ROW_PS
        is_owed = is_idle or collect.follow[row["follow"]]["bfir_id"] == greedy
        if is_owed and (found < 0 or row["last_ps"] < collect.blocks[found]["last_ps"]):
            found = r
    if found >= 0:
        collect.blocks[found]["state"] = FREE
    return found


@kernel
def is_fan_sound(row: Rows, buf: U8, fan: int, size: int, collect: Collect) -> bool:
    """Fields of a DATA header agree with what is known of its flow."""
    n_psn = i64(buf[fan + 2])
    psn = i64(buf[fan + 3])
    block = read_u32(buf, fan + 8)
    stride = read_u16(buf, fan + 14)
    if n_psn < 1 or n_psn > MAX_PSN or psn >= n_psn or block >= row["map_len"]:
        return False
    if stride < 1 or size < 1 or size > stride or n_psn * stride > collect.room.shape[1]:
        return False
    if row["stride"] != 0 and row["stride"] != stride:
        return False
    last = (buf[fan + 1] & FLAG_LAST) != 0
    end = row["n_blocks"]
    if end != 0 and (block >= end or last != (block == end - 1)):
        return False
    if last and block < row["newest"]:
        return False
    if not last:
        return size == stride and (row["n_psn"] == 0 or n_psn == row["n_psn"])
    if row["last_n_psn"] != 0 and n_psn != row["last_n_psn"]:
        return False
    if psn < n_psn - 1:
        return size == stride
    return row["last_bytes"] == 0 or size == row["last_bytes"]


@kernel
def learn(row: Rows, buf: U8, fan: int) -> None:
    """Take over what a sound DATA header tells of a flow's geometry."""
    n_psn = i64(buf[fan + 2])
    row["stride"] = read_u16(buf, fan + 14)
    if buf[fan + 1] & FLAG_LAST:
        row["n_blocks"] = read_u32(buf, fan + 8) + 1
        row["last_n_psn"] = n_psn
    else:
        row["n_psn"] = n_psn


@kernel
def doubt(collect: Collect, f: int) -> None:
    """A packet is not of the geometry that was learned; after many in a row learn it anew."""
    row = collect.follow[f]
    row["against"] += 1
    if row["is_told"] != 0 or row["against"] < MOST_AGAINST:
        return
    row["against"] = row["stride"] = row["n_psn"] = row["n_blocks"] = row["last_n_psn"] = 0
    row["newest"] = row["front"] = -1
    for r in range(collect.blocks.shape[0]):
        block = collect.blocks[r]
        if block["state"] == FILLING and block["follow"] == f:
            block["state"] = FREE


@kernel
def place(
    buf: U8, fan: int, size: int, f: int, port: int, now_ps: int, hint: int, collect: Collect
) -> int:
    """Place one sound DATA packet that came by a port.

    Returns:
        Block row it went to, or -(2 + drop code).
    """
    follow = collect.follow[f]
    block = read_u32(buf, fan + 8)
    psn = i64(buf[fan + 3])
    poll = (buf[fan + 1] & FLAG_POLL) != 0
    is_repair = (buf[fan + 1] & FLAG_REPAIR) != 0
    if collect.have[follow["map_at"] + block]:
        if poll:
            note(collect, EVENT_AGAIN, f, block)
        return -2 - DROP_DUPLICATE
    r = find_block(collect, f, block, hint)
    if r < 0:
        r = make_room(collect, f, now_ps)
    if r < 0:
        return -2 - DROP_NO_BUFFER
    row = collect.blocks[r]
    if row["state"] == FREE:
        row["state"], row["follow"], row["block"] = FILLING, f, block
        row["n_psn"], row["have"], row["tail"] = i64(buf[fan + 2]), ZERO, -1
        row["round"], row["report_ps"] = i64(buf[fan + 12]), NEVER_PS
        row["polled"] = row["told"] = 0
        if not is_repair:
            # a sender that begins an earlier block passes anew, or sends by several ports
            note_space(follow, block, i64(buf[fan + 2]), now_ps)
            follow["front"], follow["front_port"] = block, port
    if row["n_psn"] != i64(buf[fan + 2]):
        return -2 - DROP_BAD_FAN
    row["round"] = max(row["round"], i64(buf[fan + 12]))
    row["last_ps"], row["port"] = now_ps, port
    put_off(row, follow, i64(poll), row["have"] & bit(psn) == ZERO, now_ps, collect.timing)
    follow["newest"] = max(follow["newest"], block)
    if block >= follow["front"] and not is_repair:
        follow["front"], follow["front_ps"], follow["front_port"] = block, now_ps, port
    if row["have"] & bit(psn) != ZERO:
        if poll and row["state"] == WHOLE:
            note(collect, EVENT_WHOLE, r, block)  # its first event may have been lost
        return -2 - DROP_DUPLICATE
    stride = read_u16(buf, fan + 14)
    copy_octets(collect.room[r], psn * stride, buf, fan + FAN_BYTES, size)
    row["have"] |= bit(psn)
    if psn == row["n_psn"] - 1:
        row["tail"] = size
    if row["have"] == whole_block(row["n_psn"]) and row["state"] == FILLING:
        row["state"] = WHOLE
        row["report_ps"] = NEVER_PS
        note(collect, EVENT_WHOLE, r, block)
    return r


@kernel
def note_space(follow: Row, block: int, n_psn: int, now_ps: int) -> None:
    """A first sending of a block begins: how far packets of the one before it were apart."""
    if block == follow["front"] + 1 and block > 0:
        space_ps = (now_ps - follow["begun_ps"]) // n_psn
        mean_ps = follow["space_ps"]
        follow["space_ps"] = mean_ps + (space_ps - mean_ps) // 4 if mean_ps > 0 else space_ps
    follow["begun_ps"] = now_ps


@kernel
def rest_ps(follow: Row, timing: I64) -> int:
    """How long after one packet of a repair the next one may still come."""
    return i64(max(timing[0], SPACES * follow["space_ps"]))


@kernel
def put_off(row: Row, follow: Row, polled: int, is_new: bool, now_ps: int, timing: I64) -> None:
    """A packet of a block came: set when its gaps are to be told.

    Args:
        polled: 0 unless it asks. is_new: it brings something. timing: as Collect has it.

    Each packet of a repair asks: while new ones come, the others are on their way. On a slow
    link they are far apart.
    """
    if polled:
        soon_ps = now_ps + rest_ps(follow, timing)
        row["polled"] = max(row["polled"], polled)
        row["report_ps"] = soon_ps if is_new else min(row["report_ps"], soon_ps)
    elif row["polled"] == 0 and row["told"] == 0:
        row["report_ps"] = now_ps + timing[1]
    elif row["polled"] == 0:
        row["report_ps"] = max(row["report_ps"], now_ps + timing[1])


@kernel
def collect_pass(
    buf: U8,
    first: int,
    seg: int,
    n: int,
    port: int,
    now_ps: int,
    plan: Plan,
    collect: Collect,
    drops: I64,
) -> None:
    """Place the packets that a pass planned for the node itself (port 0).

    Args:
        buf, first, seg, n, port: the block as given to ``plan_pass``. plan: its result.
        collect: updated, events appended. drops: counters by drop code.
    """
    hint = 0
    unknown = 0
    for i in range(plan.n[0]):
        k = plan.pkt[0, i]
        if plan.kind[k] != CLASS_DATA and plan.kind[k] != CLASS_REPAIR:
            continue
        at = first + k * seg
        size = min(seg, n - at)
        words = plan.words[k]
        fan = at + BITS_AT + 8 * words + INNER_BYTES
        if not is_inner_sound(buf, at, size, words):
            drops[DROP_BAD_CHECKSUM] += 1
            continue
        f = find_follow(collect.follow, read_u16(buf, at + 10), read_u32(buf, fan + 4))
        if f < 0:
            drops[DROP_UNKNOWN_FLOW] += 1
            if unknown == 0:
                note(collect, EVENT_UNKNOWN, at, 0)
            unknown = 1
            continue
        payload = size - (fan - at) - FAN_BYTES
        follow = collect.follow[f]
        if not is_fan_sound(follow, buf, fan, payload, collect):
            drops[DROP_BAD_FAN] += 1
            doubt(collect, f)
            continue
        follow["heard_ps"], follow["port"] = now_ps, port
        follow["bift_id"] = read_u32(buf, at) >> 12
        follow["flow_port"] = read_u16(buf, at + BITS_AT + 8 * words + IP_BYTES)
        follow["bfir_addr"] = read_u32(buf, at + BITS_AT + 8 * words + 12)
        r = place(buf, fan, payload, f, port, now_ps, hint, collect)
        if r >= 0:
            hint = r
            follow["against"] = 0
            learn(follow, buf, fan)  # of what was refused nothing is taken over
        else:
            drops[-2 - r] += 1
            if r == -2 - DROP_BAD_FAN:
                doubt(collect, f)
