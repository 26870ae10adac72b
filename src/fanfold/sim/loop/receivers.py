"""Fans at receivers: the kernels that the live node runs, on rows instead of bytes.

Gaps and words are those of ``fanfold.kernels``; FEEDBACK is the very bytes of
docs/wire/feedback.md. Receiver rows are the ones of kernels/collect.py: row f of ``follow`` is
one receiver of one fan (``map_at`` = fan, ``map_len`` = blocks left), its blocks follow each
other from ``front_ps`` ... see ``Receivers``.
"""

from typing import NamedTuple

import numpy as np

from fanfold.kernels.collect import (
    FILLING,
    FREE,
    WHOLE,
    Collect,
    note_space,
    put_off,
    rest_ps,
)
from fanfold.kernels.due import gaps_of, report_at
from fanfold.kernels.feedback import NOT_TOLD, own_report, whole_block, write_feedback
from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.layout import MAX_PSN, UNDERLAY_BYTES
from fanfold.kernels.octets import ZERO
from fanfold.kernels.replicate import bit, n_bits
from fanfold.kernels.state import DONE_BM, I64, U64, Fold
from fanfold.sim.loop.alone import FIRST_ALONE, say_alone, size_of
from fanfold.sim.loop.events import push
from fanfold.sim.loop.fans import Bier, psns_of
from fanfold.sim.loop.ports import take_pkt
from fanfold.sim.loop.rows import (
    AGAIN_PS,
    BIFT_BASE,
    EV_REPORT,
    FEEDBACK_MTU,
    N_BITS,
    N_KINDS,
    N_WORDS,
    NONE,
    NOW,
    PER_LOSS,
    SILENT_PS,
    Row,
    Rows,
)
from fanfold.sim.loop.words import shrink, take_body, word_pkt

N_WAYS = 64
"""Ways home that a receiver tries in turn: no fewer than tables (Protective ReRoute, 2023)."""
PAUSE_SHARE = 8
"""Of the time since a block's last new packet, before its gaps are told again: where whoever
speaks is heard by the source itself."""
OWED = 2
"""``told`` of a whole block that was asked for again: a word is due at its report time."""
MARKED = 200
"""Queue that FEEDBACK tells of after a marked packet: the sender's window shrinks."""


class Receivers(NamedTuple):
    """What receivers keep: collect.blocks, collect.follow, timing; own: a slot to speak from.

    Follow row of bit k of a fan: ``fan.recv_at + k``; block row ``fan.block_at + k * n_blocks
    + block``. Of a follow row ``map_at`` is the fan, ``map_len`` the blocks it lacks,
    ``heard_ps`` its bit k, ``flow_port`` its host, ``bift_id`` 1 when a marked packet came
    since its last word, ``entropy`` its way home. ``port`` of a block: the link its last packet
    came by, and a word on it leaves by; ``front_port``: that of the front.
    """

    collect: Collect
    own: Fold


@kernel
def on_fan_data(
    q: I64,
    nodes: Rows,
    pkts: Rows,
    pkt_bits: U64,
    fans: Rows,
    receivers: Receivers,
    p: int,
    host: int,
) -> int:
    """DATA at a receiver (kernels/collect.py does the same on bytes).

    Returns:
        Block row on which a word is due at once, or NONE.
    """
    pkt = pkts[p]
    fan = fans[pkt["stream"]]
    collect = receivers.collect
    now = q[NOW]
    k = nodes[host]["bfr_id"] - 1
    block = pkt["psn"]
    f, b = fan["recv_at"] + k, fan["block_at"] + k * fan["n_blocks"] + block
    row = collect.blocks[b]
    follow = collect.follow[f]
    fresh = pkt_bits[p, q[N_WORDS]] & ~row["have"]
    note_data(q, nodes[host], pkt, fresh)
    if row["state"] == FREE:
        row["state"], row["follow"], row["block"] = FILLING, f, block
        row["n_psn"] = psns_of(fan, block)
        row["round"], row["report_ps"] = pkt["stamp"], now + collect.timing[1]
        push(q, row["report_ps"], b * N_KINDS + EV_REPORT)
    row["port"] = pkt["link"]
    if row["state"] == WHOLE:
        return tell_again(q, pkt, follow, row, b, rest_ps(follow, collect.timing))
    row["round"] = max(row["round"], pkt["stamp"])
    row["last_ps"] = last_of(fan, row, fresh, now)
    if pkt["marked"] != 0:
        follow["bift_id"] = 1
    polled = 2 if pkt["poll"] == 1 else i64(pkt["poll"] != 0)
    put_off(row, follow, polled, fresh != ZERO, now, collect.timing)
    see(q, collect, follow, b, fan["n_back"])
    row["have"] |= fresh
    nodes[host]["got_bytes"] += bytes_of(fan, block, fresh)
    if row["have"] == whole_block(row["n_psn"]):
        row["state"] = WHOLE
        follow["map_len"] -= 1
        if follow["map_len"] == 0:
            nodes[host]["done_ps"] = now
            fan["unreceived"] -= 1
        is_told = fan["speaks"] != PER_LOSS or follow["bift_id"] != 0  # a queue is told at once
        return b if is_told or row["polled"] == 2 else NONE
    if polled:
        push(q, row["report_ps"], b * N_KINDS + EV_REPORT)
    return NONE


@kernel
def note_data(q: I64, node: Row, pkt: Row, fresh: np.uint64) -> None:
    """Where links fail: a silence of a receiver, and what repairs it needed or did not.

    fresh: PSNs of the packet that it lacked.
    """
    now = q[NOW]
    if q[SILENT_PS] == 0:
        return
    if node["gap_ps"] == NONE and now - node["data_ps"] > q[SILENT_PS]:
        node["gap_ps"], node["back_ps"] = node["data_ps"], now
    node["data_ps"] = now
    if pkt["again"] != 0:
        node["mended"] += n_bits(fresh)
        if fresh == ZERO:
            node["spare_bytes"] += pkt["bytes"]


@kernel
def tell_again(q: I64, pkt: Row, follow: Row, row: Row, b: int, wait_ps: int) -> int:
    """A block that is whole: when asked for it, its row, and what was said did not arrive.

    Each packet of a repair asks. One word answers all that come soon after the first: a slot
    is free again when it has heard each once, and more words would travel on unfolded.
    """
    if pkt["poll"] != 1 or row["told"] == OWED:
        return NONE
    follow["entropy"] = (follow["entropy"] + 1) % N_WAYS
    if pkt["again"] == 0:
        return b
    row["told"], row["report_ps"] = OWED, q[NOW] + wait_ps
    push(q, row["report_ps"], b * N_KINDS + EV_REPORT)
    return NONE


@kernel
def see(q: I64, collect: Collect, follow: Row, b: int, n_back: int) -> None:
    """Note the front block of a fan: what two before it, by the same link, lacks is lost."""
    row = collect.blocks[b]
    block = row["block"]
    if block > follow["front"]:
        note_space(follow, block, row["n_psn"], q[NOW])
        follow["front"] = block
        for back in range(2, min(n_back, block) + 1):
            before = collect.blocks[b - back]
            if before["state"] == FILLING and (n_back == 2 or before["port"] == row["port"]):
                push(q, q[NOW] + collect.timing[0], (b - back) * N_KINDS + EV_REPORT)
    if block >= follow["front"]:
        follow["front_ps"], follow["front_port"] = q[NOW], row["port"]


@kernel
def bytes_of(fan: Row, block: int, psns: np.uint64) -> int:
    """Payload of some PSNs of a block."""
    n_bytes = n_bits(psns) * fan["stride"]
    if block == fan["n_blocks"] - 1 and psns & bit(fan["last_n_psn"] - 1) != ZERO:
        n_bytes += fan["last_bytes"] - fan["stride"]
    return i64(n_bytes)


@kernel
def on_report(q: I64, fans: Rows, receivers: Receivers, b: int) -> bool:
    """A block's report time: True when a word on its gaps is due now.

    Behind a way that is broken a receiver says it less and less often.
    """
    collect = receivers.collect
    row = collect.blocks[b]
    if row["state"] == WHOLE:
        return is_owed(q, row)
    if row["state"] != FILLING:
        return False
    when = report_at(collect, b)
    if when > q[NOW]:
        push(q, when, b * N_KINDS + EV_REPORT)
        return False
    due = gaps_of(collect, b) != ZERO
    pause = q[AGAIN_PS] if due else collect.timing[1]
    if is_patient(fans[collect.follow[row["follow"]]["map_at"]]):
        pause = max(pause, (q[NOW] - row["last_ps"]) // PAUSE_SHARE)
    row["report_ps"] = q[NOW] + pause
    row["told"] = max(row["told"], i64(due))
    push(q, row["report_ps"], b * N_KINDS + EV_REPORT)
    return due


@kernel
def is_owed(q: I64, row: Row) -> bool:
    """A word on a whole block that was asked for again is due now."""
    if row["told"] != OWED or row["report_ps"] > q[NOW]:
        return False
    row["told"] = 0
    return True


@kernel
def last_of(fan: Row, row: Row, fresh: np.uint64, now: int) -> int:
    """When a block's last packet came; a question that brings nothing new mends no way."""
    return now if fresh != ZERO or not is_patient(fan) else i64(row["last_ps"])


@kernel
def is_patient(fan: Row) -> bool:
    """Words on what was lost all come to the source: along trees, and where none is folded."""
    return fan["is_tree"] != 0 or fan["speaks"] == PER_LOSS


@kernel
def speak_up(
    q: I64,
    pkts: Rows,
    pkt_bits: U64,
    fans: Rows,
    bier: Bier,
    receivers: Receivers,
    b: int,
) -> int:
    """Write a receiver's FEEDBACK on a block (kernels/speak.py does the same live).

    Returns:
        The first packet of a list linked by ``next``, to be posted from its host.
    """
    collect, own = receivers.collect, receivers.own
    block = collect.blocks[b]
    follow = collect.follow[block["follow"]]
    fan = fans[follow["map_at"]]
    if fan["speaks"] == PER_LOSS:
        return speak_alone(q, pkts, pkt_bits, fan, collect, b)
    k = follow["heard_ps"]
    row = own.rows[0]
    is_whole = block["state"] == WHOLE
    have = ~ZERO if is_whole else ~gaps_of(collect, b)
    row["n_psn"], row["round"] = block["n_psn"], 255 if is_whole else block["round"]
    row["room"], row["worst"], row["partial"] = 255, k + 1, 0
    row["queue"], row["behind"] = queue_of(follow), behind_of(collect, fan, b)
    row["bfir_id"], row["flow"], row["block"] = fan["bfir_id"], fan["flow"], block["block"]
    row["bift_id"] = q[BIFT_BASE] + k // q[N_BITS]
    row["n_words"] = q[N_WORDS]
    row["flow_port"], row["bfir_addr"] = fan["flow_port"], fan["addr"]
    own_report(own, k % q[N_BITS], np.uint64(have))
    if not is_whole:
        own.words[0, DONE_BM] = ZERO
    head, last = NONE, NONE
    psn = 0
    while psn < MAX_PSN:
        p = take_pkt(q, pkts)
        body = take_body(q)
        coded = write_feedback(
            own, 0, follow["flow_port"], q[FEEDBACK_MTU], psn, bier.bodies[body]
        )
        psn = coded % 128
        word_pkt(q, pkts, p, body, follow["map_at"], block["block"], coded // 128)
        last, head = enlist(q, pkts, fan, follow, p, last, head)
    return head


@kernel
def speak_alone(q: I64, pkts: Rows, pkt_bits: U64, fan: Row, collect: Collect, b: int) -> int:
    """The same where no word is folded: what a packet says stands in its row (alone.py).

    Whole fabrics may tell of what they lost at once, and the bytes of so many words, most of
    them BitStrings of one bit, are 30 times as many.
    """
    block = collect.blocks[b]
    follow = collect.follow[block["follow"]]
    is_whole = block["state"] == WHOLE
    gaps = ZERO if is_whole else gaps_of(collect, b)
    rnd = 255 if is_whole else i64(block["round"])
    queue, behind = queue_of(follow), behind_of(collect, fan, b)
    head, last = NONE, NONE
    psn = 0
    while psn < MAX_PSN:
        told, n_rows, first = ZERO, 0, psn
        while psn < block["n_psn"]:
            if gaps & bit(psn) != ZERO:
                if n_rows > 0 and size_of(q, n_rows + 1) + UNDERLAY_BYTES > q[FEEDBACK_MTU]:
                    break
                told |= bit(psn)
                n_rows += 1
            psn += 1
        if psn >= block["n_psn"]:
            psn = MAX_PSN
        p = take_pkt(q, pkts)
        who = FIRST_ALONE - follow["heard_ps"]
        word_pkt(q, pkts, p, who, follow["map_at"], block["block"], size_of(q, n_rows))
        is_part = psn < MAX_PSN
        pkts[p]["stamp"] = say_alone(rnd, queue, behind, first == 0, is_whole, is_part)
        pkt_bits[p, 0] = told
        last, head = enlist(q, pkts, fan, follow, p, last, head)
    return head


@kernel
def queue_of(follow: Row) -> int:
    """Queue that a receiver tells of: once for each time that marks came."""
    if follow["bift_id"] == 0:
        return 0
    follow["bift_id"] = 0
    return MARKED


@kernel
def behind_of(collect: Collect, fan: Row, b: int) -> int:
    """Blocks from a receiver's first one that is not whole to this one."""
    block = collect.blocks[b]
    follow = collect.follow[block["follow"]]
    floor = follow["floor"]
    base = b - block["block"]
    while floor < fan["n_blocks"] and collect.blocks[base + floor]["state"] == WHOLE:
        floor += 1
    follow["floor"] = floor
    return i64(min(max(block["block"] - floor, 0), NOT_TOLD))


@kernel
def enlist(
    q: I64, pkts: Rows, fan: Row, follow: Row, p: int, last: int, head: int
) -> tuple[int, int]:
    """A word's packet behind those before it: it, and the first of them."""
    pkts[p]["poll"] = follow["entropy"]
    if fan["is_tree"] != 0:
        shrink(q, pkts[p], fan["word"])
    pkts[p]["next"] = NONE
    if head == NONE:
        return p, p
    pkts[last]["next"] = p
    return p, head
