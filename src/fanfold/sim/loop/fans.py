"""Fans at BFRs: the kernels that the live node runs, on rows instead of bytes.

DATA travels as rows (BitString words, a mask of PSNs); FEEDBACK as the very bytes of
docs/wire/feedback.md. Replication, slots, merging and repairs are those of ``fanfold.kernels``.
"""

from typing import NamedTuple

from fanfold.kernels.arm import arm_slot
from fanfold.kernels.feedback import write_feedback
from fanfold.kernels.fold_in import fold_in
from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.layout import BITS_AT, FLAG_PARTIAL, INNER_BYTES, MAX_PSN
from fanfold.kernels.octets import ZERO, read_u32
from fanfold.kernels.replicate import replicate
from fanfold.kernels.slots import NEVER_PS, NO_SLOT, expect, expire, let_go, set_deadline
from fanfold.kernels.state import I64, U8, U64, Fold, Store
from fanfold.kernels.store import has_store, is_worth
from fanfold.kernels.tables import NULL_NBR
from fanfold.sim.loop.events import push
from fanfold.sim.loop.mend import keep_fan, store_of, take_mend
from fanfold.sim.loop.ports import follow, free_pkt, pass_on, send_made, take_pkt
from fanfold.sim.loop.rows import (
    BIFT_BASE,
    CUT_BYTES,
    EV_SLOTS,
    FEEDBACK_MTU,
    FRR_AT,
    N_BITS,
    N_DEALT,
    N_HOSTS,
    N_KINDS,
    N_SI,
    N_SLOTS,
    N_WORDS,
    NONE,
    NOW,
    PFC_HIGH,
    PK_FEEDBACK,
    SILENT_PS,
    Row,
    Rows,
)
from fanfold.sim.loop.tables import Tables, look_up
from fanfold.sim.loop.words import SIZE, take_body, word_pkt

LABEL_BYTES = 4
"""Of the tunnel that a detour is: one MPLS label (RFC 3032 2.1)."""


class Bier(NamedTuple):
    """What BFRs know and keep. R = routers, T = R * n_si * all tables, B = rows of bytes.

    tables: filled as they are looked at. heads: (T, P + 2) bytes of labels by table and
    neighbour + 1, where there are trees. bfrs: (R,) NODE_ROW of the kernels. frr: (R, 2) port
    of a neighbour that is lost, 0 for none, and which of the two sets of backup tables leads
    round it (sim/failing.py).
    slots, words, events, ready: slot tables of all BFRs side by side, (R * S, ...), (R, ...).
    silent, turn: (R * n_si, 4, W), (R, 2), who says nothing (kernels/silent.py).
    store: what BFRs keep, side by side but for the rooms to work in. drops: (N_DROPS,) bad
    FEEDBACK. scratch: (4, W). copy_nbr, copy_bits: of one packet. bodies: (B, bytes) of
    FEEDBACK packets under way.
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
    frr: I64
    silent: U64
    turn: I64


@kernel
def fold_of(q: I64, bier: Bier, r: int) -> Fold:
    """Slot table of one router."""
    a, b = r * q[N_SLOTS], (r + 1) * q[N_SLOTS]
    store = bier.store
    if has_store(store):
        store = store_of(store, r, bier.bfrs.shape[0])
    n_si = q[N_SI]
    silent = bier.silent[r * n_si : (r + 1) * n_si]
    rows, words = bier.slots[a:b], bier.words[a:b]
    return Fold(rows, words, bier.events[r], bier.ready[r], store, silent, bier.turn[r])


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
    """DATA at a BFR: arm, keep, replicate, send (kernels/forward.py does the same on bytes)."""
    if bier.bfrs[node - q[N_HOSTS]]["folds"] != 0:
        arm_fan(q, links, nodes, pkts, pkt_bits, fans, bier, p, node)
        r = node - q[N_HOSTS]
        if has_store(bier.store) and is_worth(bier.bfrs[r : r + 1], q[NOW]):
            pkt = pkts[p]
            store = store_of(bier.store, r, bier.bfrs.shape[0])
            keep_fan(q, pkt, fans[pkt["stream"]], pkt_bits[p, q[N_WORDS]], store)
    came = NONE
    if q[SILENT_PS] > 0 and pkts[p]["path"] < q[FRR_AT]:  # a tunnel may lead back
        came = i64(links[pkts[p]["link"]]["reverse"])
        if bier.frr[node - q[N_HOSTS], 0] != 0 and not detour(
            q, links, nodes, pkts, pkt_bits, fans, bier, p, node
        ):
            return
    spread(q, links, nodes, pkts, pkt_bits, fans, bier, p, node, came)


@kernel
def detour(
    q: I64,
    links: Rows,
    nodes: Rows,
    pkts: Rows,
    pkt_bits: U64,
    fans: Rows,
    bier: Bier,
    p: int,
    node: int,
) -> bool:
    """BIER-FRR: who is behind a lost neighbour gets a packet of its own, by backup tables.

    Returns:
        Whether packet ``p`` is for somebody else too.
    """
    r, path = node - q[N_HOSTS], pkts[p]["path"]
    if path >= q[N_DEALT]:
        return True  # a tree's, or on its detour already
    table = look_up(q, bier.tables, r, pkts[p]["si"], path)
    mask = bier.tables.f_bm[table, bier.frr[r, 0] + 1]
    n_words = q[N_WORDS]
    rest = n_behind = 0
    for w in range(n_words):
        n_behind += i64(pkt_bits[p, w] & mask[w] != ZERO)
        rest += i64(pkt_bits[p, w] & ~mask[w] != ZERO)
    if n_behind == 0:
        return True
    a = p
    if rest > 0:
        a = take_pkt(q, pkts)
        copy_pkt(pkts, p, a)
    for w in range(n_words):
        behind = pkt_bits[p, w] & mask[w]
        pkt_bits[p, w] &= ~mask[w]
        pkt_bits[a, w] = behind
    pkt_bits[a, n_words] = pkt_bits[p, n_words]
    pkts[a]["path"] = q[FRR_AT] + bier.frr[r, 1] * q[N_DEALT] + path
    relabel(q, pkts[a], LABEL_BYTES)
    spread(q, links, nodes, pkts, pkt_bits, fans, bier, a, node, NONE)
    return rest > 0


@kernel
def spread(
    q: I64,
    links: Rows,
    nodes: Rows,
    pkts: Rows,
    pkt_bits: U64,
    fans: Rows,
    bier: Bier,
    p: int,
    node: int,
    came: int,
) -> None:
    """Copies of DATA by each port that leads to who is wanted.

    came: where links fail, the link that leads back to where it came from; nothing goes there.
    """
    pkt = pkts[p]
    fan = fans[pkt["stream"]]
    r = node - q[N_HOSTS]
    si = pkt["si"]
    n_words = q[N_WORDS]
    pkt["ttl"] -= 1
    if q[SILENT_PS] > 0 and pkt["ttl"] < 1:
        nodes[node]["n_dead"] += pkt["n"]
        free_pkt(q, pkts, p)
        return
    table = look_up(q, bier.tables, r, si, pkt["path"])
    nbr_of, f_bm = bier.tables.nbr_of[table], bier.tables.f_bm[table]
    n = replicate(pkt_bits[p], n_words, nbr_of, f_bm, bier.copy_nbr, bier.copy_bits)
    out = nodes[node]["first_out"] - 1
    used = False
    for c in range(n):
        nbr = bier.copy_nbr[c]
        if nbr <= 0:
            continue
        if out + nbr == came:
            bier.copy_nbr[c] = 0
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
    row["port"] = links[pkt["link"]]["reverse"]
    if row["armed_ps"] < 0:
        row["n_words"], row["which"] = q[N_WORDS], pkt["si"]
        row["n_psn"] = psns_of(fan, pkt["psn"])
        row["bfir_addr"], row["flow_port"] = fan["addr"], fan["flow_port"]
    if row["armed_ps"] < 0 or row["late"] != 0 or pkt["again"] == 0:
        set_deadline(row, bier.bfrs[r : r + 1], 64 - pkt["ttl"], q[NOW] + pkt["span_ps"])
    table = look_up(q, bier.tables, r, pkt["si"], pkt["path"])
    expect(fold, slot, pkt_bits[p], q[N_WORDS], bier.tables.f_bm[table, 0])
    watch_slots(q, nodes, bier, node)


@kernel
def watch_slots(q: I64, nodes: Rows, bier: Bier, node: int) -> None:
    """See to it that a BFR's next deadline is looked at."""
    when = bier.bfrs[node - q[N_HOSTS]]["next_ps"]
    if when < nodes[node]["slots_ps"]:
        nodes[node]["slots_ps"] = when
        push(q, when, node * N_KINDS + EV_SLOTS)


@kernel
def send_mends(
    q: I64,
    links: Rows,
    nodes: Rows,
    pkts: Rows,
    pkt_bits: U64,
    fans: Rows,
    bier: Bier,
    node: int,
    of: int,
) -> None:
    """Send what a BFR repairs itself; ``of``: the word that told, NONE where none did."""
    if not has_store(bier.store):
        return
    fold = fold_of(q, bier, node - q[N_HOSTS])
    while True:
        p = take_mend(q, pkts, pkt_bits, fans, fold)
        if p == NONE:
            return
        follow(q, pkts, p, of)
        spread(q, links, nodes, pkts, pkt_bits, fans, bier, p, node, NONE)


@kernel
def on_slots(
    q: I64,
    links: Rows,
    nodes: Rows,
    pkts: Rows,
    pkt_bits: U64,
    fans: Rows,
    bier: Bier,
    node: int,
) -> None:
    """A BFR's deadline: send up what is late, as it is."""
    if q[NOW] != nodes[node]["slots_ps"]:
        return
    nodes[node]["slots_ps"] = NEVER_PS
    r = node - q[N_HOSTS]
    fold = fold_of(q, bier, r)
    bier.bfrs[r]["next_ps"] = expire(fold, bier.bfrs[r : r + 1], q[NOW])
    send_mends(q, links, nodes, pkts, pkt_bits, fans, bier, node, NONE)
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
        let_go(row)
    fold.ready[0] = 0


@kernel
def on_word(
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
    """FEEDBACK at a BFR: fold it into its slot, or pass it on toward the BFIR."""
    pkt = pkts[p]
    r = node - q[N_HOSTS]
    fold = fold_of(q, bier, r)
    row = bier.bfrs[r : r + 1]
    if pkt["kind"] == PK_FEEDBACK and pkt["path"] >= 0:
        body = bier.bodies[pkt["path"]]
        si = (read_u32(body, fan_of(q) + 16) >> 12) - q[BIFT_BASE]
        behind = bier.scratch[0][: who_is_behind(q, links, nodes, bier, pkt, node, si)]
        if bier.bfrs[r]["folds"] != 0 and fold_in(
            body, 0, q[N_WORDS], q[NOW], row, fold, bier.scratch, si, behind
        ):
            send_mends(q, links, nodes, pkts, pkt_bits, fans, bier, node, p)
            if fold.ready[0] > 0:
                send_up(q, links, pkts, bier, fold, r, p)
            free_pkt(q, pkts, p)
            watch_slots(q, nodes, bier, node)
            return
        body[3] -= 1  # TTL
    bfir = fans[pkt["stream"]]["bfir_id"] - 1
    way = i64(pkt["poll"] % q[N_DEALT])
    if pkt["labels"] > 0:  # on a detour
        way += q[FRR_AT] + (pkt["labels"] - 1) * q[N_DEALT]
    table = look_up(q, bier.tables, r, bfir // q[N_BITS], way)
    nbr = bier.tables.nbr_of[table, bfir % q[N_BITS]]
    if bier.frr[r, 0] != 0 and nbr == bier.frr[r, 0] and pkt["labels"] == 0:
        pkt["labels"] = bier.frr[r, 1] + 1
        way += q[FRR_AT] + bier.frr[r, 1] * q[N_DEALT]
        table = look_up(q, bier.tables, r, bfir // q[N_BITS], way)
        nbr = bier.tables.nbr_of[table, bfir % q[N_BITS]]
    if nbr == NULL_NBR:
        nodes[node]["n_dead"] += 1
        free_pkt(q, pkts, p)
        return
    pass_on(q, links, pkts, p, nodes[node]["first_out"] + nbr - 1)


@kernel
def fan_of(q: I64) -> int:
    """Where the FEEDBACK header of a word begins."""
    return i64(BITS_AT + 8 * q[N_WORDS] + INNER_BYTES)


@kernel
def who_is_behind(
    q: I64, links: Rows, nodes: Rows, bier: Bier, pkt: Row, node: int, si: int
) -> int:
    """Who of a set is behind the port that a PARTIAL word came by, whatever path data takes.

    Returns:
        Words of ``bier.scratch[0]`` that say so; 0: not PARTIAL, or by a detour.
    """
    behind = bier.scratch[0]
    body = bier.bodies[pkt["path"]]
    if body[fan_of(q) + 1] & FLAG_PARTIAL == 0 or pkt["labels"] > 0 or pkt["link"] == NONE:
        return 0
    nbr = links[pkt["link"]]["reverse"] - nodes[node]["first_out"] + 1
    for w in range(q[N_WORDS]):
        behind[w] = ZERO
    for e in range(q[N_DEALT]):
        table = look_up(q, bier.tables, node - q[N_HOSTS], si, e)
        for w in range(q[N_WORDS]):
            behind[w] |= bier.tables.f_bm[table, nbr + 1, w]
    return i64(q[N_WORDS])


@kernel
def psns_of(fan: Row, block: int) -> int:
    """Packets of a block."""
    return i64(fan["last_n_psn"] if block == fan["n_blocks"] - 1 else fan["n_psn"])
