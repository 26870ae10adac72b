"""Fans at BFRs and receivers: the kernels that the live node runs, on rows instead of bytes.

DATA travels as rows (BitString words, a mask of PSNs); FEEDBACK as the very bytes of
docs/wire/feedback.md. Replication, slots, merging, a receiver's gaps and its words are those of
``fanfold.kernels``. Receiver rows are the ones of kernels/collect.py: row f of ``follow`` is
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
    gaps_of,
    report_at,
)
from fanfold.kernels.feedback import NOT_TOLD, own_report, whole_block, write_feedback
from fanfold.kernels.forward import arm_slot, fold_in
from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.layout import MAX_PSN
from fanfold.kernels.octets import ZERO
from fanfold.kernels.replicate import bit, n_bits, replicate
from fanfold.kernels.slots import NEVER_PS, NO_SLOT, expect, expire, set_deadline
from fanfold.kernels.state import DONE_BM, I64, U8, U64, Fold, Store
from fanfold.kernels.tables import NULL_NBR
from fanfold.sim.loop.events import push
from fanfold.sim.loop.ports import free_pkt, pass_on, send_made, take_pkt
from fanfold.sim.loop.rows import (
    AGAIN_PS,
    BIFT_BASE,
    CUT_BYTES,
    EV_REPORT,
    EV_SLOTS,
    FEEDBACK_MTU,
    N_BITS,
    N_DEALT,
    N_HOSTS,
    N_KINDS,
    N_SLOTS,
    N_WORDS,
    NONE,
    NOW,
    PER_LOSS,
    PFC_HIGH,
    PK_FEEDBACK,
    Row,
    Rows,
)
from fanfold.sim.loop.tables import Tables, look_up
from fanfold.sim.loop.words import SIZE, shrink, take_body, word_pkt

N_WAYS = 64
"""Ways home that a receiver tries in turn: no fewer than tables (Protective ReRoute, 2023)."""
PAUSE_SHARE = 8
"""Of the time since a block's last packet, before its gaps are told again, along a tree."""
MARKED = 200
"""Queue that FEEDBACK tells of after a marked packet: the sender's window shrinks."""


class Bier(NamedTuple):
    """What BFRs know and keep. R = routers, T = R * n_si * all tables, B = rows of bytes.

    tables: filled as they are looked at. heads: (T, P + 2) bytes of labels by table and
    neighbour + 1, where there are trees. bfrs: (R,) NODE_ROW of the kernels.
    slots, words, events, ready: slot tables of all BFRs side by side, (R * S, ...), (R, ...).
    store: what BFRs keep. drops: (N_DROPS,) bad FEEDBACK. scratch: (4, W). copy_nbr, copy_bits:
    of one packet. bodies: (B, bytes) of FEEDBACK packets under way.
    """

    tables: Tables
    heads: I64
    bfrs: Rows
    slots: Rows
    words: U64
    events: I64
    ready: I64
    store: Store
    drops: I64
    scratch: U64
    copy_nbr: I64
    copy_bits: U64
    bodies: U8


class Receivers(NamedTuple):
    """What receivers keep: collect.blocks, collect.follow, timing; own: a slot to speak from.

    Follow row of bit k of a fan: ``fan.recv_at + k``; block row ``fan.block_at + k * n_blocks
    + block``. Of a follow row ``map_at`` is the fan, ``map_len`` the blocks it lacks,
    ``heard_ps`` its bit k, ``flow_port`` its host, ``bfir_addr`` the link it heard of it by,
    ``bift_id`` 1 when a marked packet came since its last word, ``entropy`` its way home.
    """

    collect: Collect
    own: Fold


@kernel
def fold_of(q: I64, bier: Bier, r: int) -> Fold:
    """Slot table of one router."""
    a, b = r * q[N_SLOTS], (r + 1) * q[N_SLOTS]
    return Fold(bier.slots[a:b], bier.words[a:b], bier.events[r], bier.ready[r], bier.store)


@kernel
def on_fan(
    q: I64,
    links: Rows,
    nodes: Rows,
    pkts: Rows,
    pkt_bits: U64,
    fans: Rows,
    bier: Bier,
    p: int,
    node: int,
) -> None:
    """DATA at a BFR: arm, replicate, send (kernels/forward.py does the same on bytes)."""
    pkt = pkts[p]
    fan = fans[pkt["stream"]]
    r = node - q[N_HOSTS]
    si = pkt["si"]
    n_words = q[N_WORDS]
    if bier.bfrs[r]["folds"] != 0:
        arm_fan(q, links, nodes, pkts, pkt_bits, fans, bier, p, node)
    pkt["ttl"] -= 1
    table = look_up(q, bier.tables, r, si, pkt["path"])
    n = replicate(
        pkt_bits[p],
        n_words,
        bier.tables.nbr_of[table],
        bier.tables.f_bm[table],
        bier.copy_nbr,
        bier.copy_bits,
    )
    out = nodes[node]["first_out"] - 1
    used = False
    for c in range(n):
        nbr = bier.copy_nbr[c]
        if nbr <= 0:
            continue
        copy = p
        if used:
            copy = take_pkt(q, pkts)
            copy_pkt(pkts, p, copy)
        used = True
        for w in range(n_words):
            pkt_bits[copy, w] = bier.copy_bits[c, w]
        pkt_bits[copy, n_words] = pkt_bits[p, n_words]
        if fan["is_tree"] != 0:
            relabel(q, pkts[copy], bier.heads[table, nbr + 1])
        bier.copy_nbr[c] = copy * SIZE + nbr
    if q[PFC_HIGH] > 0:
        hold_once(links, pkts, bier.copy_nbr, n, out)
    for c in range(n):
        if bier.copy_nbr[c] > 0:
            pass_on(q, links, pkts, bier.copy_nbr[c] // SIZE, out + bier.copy_nbr[c] % SIZE)
    if not used:
        nodes[node]["n_dead"] += pkt["n"]
        free_pkt(q, pkts, p)


@kernel
def hold_once(links: Rows, pkts: Rows, copies: I64, n: int, out: int) -> None:
    """PFC: copies of one packet count once for the link it came by: that in the longest queue.

    Args:
        copies: packet * SIZE + neighbour of each, 0 and less for none. out: before port 1.
    """
    most, last = -1, NONE
    for c in range(n):
        if copies[c] > 0:
            port = links[out + copies[c] % SIZE]
            waits = port["queued"] + (port["paused"] << 40)
            if waits > most:
                most, last = waits, c
    for c in range(n):
        if copies[c] > 0 and c != last:
            pkts[copies[c] // SIZE]["link"] = NONE


@kernel
def relabel(q: I64, pkt: Row, n_bytes: int) -> None:
    """Give every packet of a record so many bytes of labels instead of those it has."""
    more = n_bytes - pkt["labels"]
    pkt["bytes"] += more * pkt["n"]
    if q[CUT_BYTES] == 0:
        pkt["head"] += more
    pkt["labels"] = n_bytes


@kernel
def copy_pkt(pkts: Rows, a: int, b: int) -> None:
    """Make row b a copy of row a."""
    pkts[b] = pkts[a]


@kernel
def arm_fan(
    q: I64,
    links: Rows,
    nodes: Rows,
    pkts: Rows,
    pkt_bits: U64,
    fans: Rows,
    bier: Bier,
    p: int,
    node: int,
) -> None:
    """Arm the slot of DATA that passes down."""
    pkt = pkts[p]
    fan = fans[pkt["stream"]]
    r = node - q[N_HOSTS]
    fold = fold_of(q, bier, r)
    bift_id = q[BIFT_BASE] + pkt["si"]
    slot = arm_slot(fold, bift_id, fan["bfir_id"], fan["flow"], pkt["psn"], nodes[node]["slot"])
    nodes[node]["slot"] = slot
    if slot == NO_SLOT:
        return
    row = fold.rows[slot]
    if row["armed_ps"] < 0:
        row["n_words"] = q[N_WORDS]
        row["port"] = links[pkt["link"]]["reverse"]
        row["n_psn"] = psns_of(fan, pkt["psn"])
        row["bfir_addr"], row["flow_port"] = fan["addr"], fan["flow_port"]
    if row["armed_ps"] < 0 or row["late"] != 0 or pkt["again"] == 0:
        set_deadline(row, bier.bfrs[r : r + 1], 64 - pkt["ttl"], q[NOW] + pkt["span_ps"])
    expect(fold, slot, pkt_bits[p], q[N_WORDS])
    watch_slots(q, nodes, bier, node)


@kernel
def watch_slots(q: I64, nodes: Rows, bier: Bier, node: int) -> None:
    """See to it that a BFR's next deadline is looked at."""
    when = bier.bfrs[node - q[N_HOSTS]]["next_ps"]
    if when < nodes[node]["slots_ps"]:
        nodes[node]["slots_ps"] = when
        push(q, when, node * N_KINDS + EV_SLOTS)


@kernel
def on_slots(q: I64, links: Rows, nodes: Rows, pkts: Rows, bier: Bier, node: int) -> None:
    """A BFR's deadline: send up what is late, as it is."""
    if q[NOW] != nodes[node]["slots_ps"]:
        return
    nodes[node]["slots_ps"] = NEVER_PS
    r = node - q[N_HOSTS]
    fold = fold_of(q, bier, r)
    bier.bfrs[r]["next_ps"] = expire(fold, q[NOW])
    send_up(q, links, pkts, bier, fold, r, NONE)
    watch_slots(q, nodes, bier, node)


@kernel
def send_up(q: I64, links: Rows, pkts: Rows, bier: Bier, fold: Fold, r: int, of: int) -> None:
    """Send up the word of every slot that is ready, and free it; ``of``: who made it ready."""
    for i in range(fold.ready[0]):
        slot = fold.ready[1 + i]
        row = fold.rows[slot]
        row["queue"] = max(row["queue"], bier.bfrs[r]["queue"])
        psn = 0
        while psn < MAX_PSN:
            p = take_pkt(q, pkts)
            body = take_body(q)
            coded = write_feedback(
                fold, slot, bier.bfrs[r]["addr"], q[FEEDBACK_MTU], psn, bier.bodies[body]
            )
            psn = coded % 128
            word_pkt(q, pkts, p, body, row["flow"] // 2, row["block"], coded // 128)
            send_made(q, links, pkts, p, row["port"], of)
        row["armed"] = 0
    fold.ready[0] = 0


@kernel
def on_word(
    q: I64,
    links: Rows,
    nodes: Rows,
    pkts: Rows,
    fans: Rows,
    bier: Bier,
    p: int,
    node: int,
) -> None:
    """FEEDBACK at a BFR: fold it into its slot, or pass it on toward the BFIR."""
    pkt = pkts[p]
    r = node - q[N_HOSTS]
    fold = fold_of(q, bier, r)
    row = bier.bfrs[r : r + 1]
    if pkt["kind"] == PK_FEEDBACK:
        body = bier.bodies[pkt["path"]]
        if bier.bfrs[r]["folds"] != 0 and fold_in(
            body, 0, q[N_WORDS], q[NOW], row, fold, bier.scratch
        ):
            if fold.ready[0] > 0:
                send_up(q, links, pkts, bier, fold, r, p)
            free_pkt(q, pkts, p)
            watch_slots(q, nodes, bier, node)
            return
        body[3] -= 1  # TTL
    bfir = fans[pkt["stream"]]["bfir_id"] - 1
    way = pkt["poll"] % q[N_DEALT]
    table = look_up(q, bier.tables, r, bfir // q[N_BITS], way)
    nbr = bier.tables.nbr_of[table, bfir % q[N_BITS]]
    if nbr == NULL_NBR:
        nodes[node]["n_dead"] += 1
        free_pkt(q, pkts, p)
        return
    pass_on(q, links, pkts, p, nodes[node]["first_out"] + nbr - 1)


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
    f = fan["recv_at"] + k
    b = fan["block_at"] + k * fan["n_blocks"] + block
    row = collect.blocks[b]
    follow = collect.follow[f]
    poll = pkt["poll"] != 0
    if row["state"] == FREE:
        row["state"], row["follow"], row["block"] = FILLING, f, block
        row["n_psn"] = psns_of(fan, block)
        row["round"], row["report_ps"] = pkt["stamp"], now + collect.timing[1]
        push(q, row["report_ps"], b * N_KINDS + EV_REPORT)
    if row["state"] == WHOLE:
        return tell_again(pkt, follow, b)
    row["round"] = max(row["round"], pkt["stamp"])
    row["last_ps"] = now
    follow["bfir_addr"] = pkt["link"]
    if pkt["marked"] != 0:
        follow["bift_id"] = 1
    if poll:
        row["polled"] = max(row["polled"], 2 if pkt["poll"] == 1 else 1)
        row["report_ps"] = min(row["report_ps"], now + collect.timing[0])
    elif row["polled"] == 0 and row["told"] == 0:
        row["report_ps"] = now + collect.timing[1]
    elif row["polled"] == 0:
        row["report_ps"] = max(row["report_ps"], now + collect.timing[1])
    see(q, collect, follow, b, block)
    fresh = pkt_bits[p, q[N_WORDS]] & ~row["have"]
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
    if poll:
        push(q, row["report_ps"], b * N_KINDS + EV_REPORT)
    return NONE


@kernel
def tell_again(pkt: Row, follow: Row, b: int) -> int:
    """A block that is whole: when asked for it, its row, and what was said did not arrive."""
    if pkt["poll"] != 1:
        return NONE
    follow["entropy"] = (follow["entropy"] + 1) % N_WAYS
    return b


@kernel
def see(q: I64, collect: Collect, follow: Row, b: int, block: int) -> None:
    """Note the front block of a fan: what two before it still lacks is lost."""
    if block > follow["front"]:
        follow["front"] = block
        if block >= 2 and collect.blocks[b - 2]["state"] == FILLING:
            push(q, q[NOW] + collect.timing[0], (b - 2) * N_KINDS + EV_REPORT)
    if block >= follow["front"]:
        follow["front_ps"] = q[NOW]


@kernel
def psns_of(fan: Row, block: int) -> int:
    """Packets of a block."""
    return i64(fan["last_n_psn"] if block == fan["n_blocks"] - 1 else fan["n_psn"])


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

    Behind a tree that is broken a receiver says it less and less often.
    """
    collect = receivers.collect
    row = collect.blocks[b]
    if row["state"] != FILLING:
        return False
    when = report_at(collect, b)
    if when > q[NOW]:
        push(q, when, b * N_KINDS + EV_REPORT)
        return False
    due = gaps_of(collect, b) != ZERO
    pause = q[AGAIN_PS] if due else collect.timing[1]
    if fans[collect.follow[row["follow"]]["map_at"]]["is_tree"] != 0:
        pause = max(pause, (q[NOW] - row["last_ps"]) // PAUSE_SHARE)
    row["report_ps"] = q[NOW] + pause
    row["told"] = max(row["told"], i64(due))
    push(q, row["report_ps"], b * N_KINDS + EV_REPORT)
    return due


@kernel
def speak_up(q: I64, pkts: Rows, fans: Rows, bier: Bier, receivers: Receivers, b: int) -> int:
    """Write a receiver's FEEDBACK on a block (kernels/speak.py does the same live).

    Returns:
        The first packet of a list linked by ``next``, to be posted from its host.
    """
    collect, own = receivers.collect, receivers.own
    block = collect.blocks[b]
    follow = collect.follow[block["follow"]]
    fan = fans[follow["map_at"]]
    k = follow["heard_ps"]
    row = own.rows[0]
    is_whole = block["state"] == WHOLE
    have = ~ZERO if is_whole else ~gaps_of(collect, b)
    row["n_psn"], row["round"] = block["n_psn"], 255 if is_whole else block["round"]
    row["room"], row["queue"], row["worst"], row["partial"] = 255, 0, k + 1, 0
    if follow["bift_id"] != 0:
        row["queue"], follow["bift_id"] = MARKED, 0
    floor = follow["floor"]
    base = b - block["block"]
    while floor < fan["n_blocks"] and collect.blocks[base + floor]["state"] == WHOLE:
        floor += 1
    follow["floor"] = floor
    row["behind"] = min(max(block["block"] - floor, 0), NOT_TOLD)
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
        pkts[p]["poll"] = follow["entropy"]
        if fan["is_tree"] != 0:
            shrink(q, pkts[p], fan["word"])
        pkts[p]["next"] = NONE
        if head == NONE:
            head = p
        else:
            pkts[last]["next"] = p
        last = p
    return head
