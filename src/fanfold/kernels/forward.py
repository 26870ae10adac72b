"""One pass of a BFR over a block of packets: check, arm or fold, replicate, plan the copies.

A block is up to 64 KB of packets of ``seg`` bytes each, the last may be shorter, as UDP_GRO
delivers it. Nothing is sent here: the plan says which packets go to which port with which
BitString, ``patch`` writes those BitStrings into the headers just before a send.
"""

import numpy as np

from fanfold.kernels.codes import (
    CLASS_CONTROL,
    CLASS_DATA,
    CLASS_FEEDBACK,
    CLASS_FOLD,
    CLASS_OPAQUE,
    CLASS_REPAIR,
    DROP_NOT_MINE,
    DROP_NULL_NBR,
    DROP_TTL_EXPIRED,
    DROP_ZERO_BITSTRING,
)
from fanfold.kernels.feedback import PASS, fold_packet
from fanfold.kernels.frame import check_bier, classify, is_for_slots
from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.layout import (
    BIER_PORT,
    BITS_AT,
    FLAG_POLL,
    FLAG_REPAIR,
    INNER_BYTES,
    IP_BYTES,
)
from fanfold.kernels.octets import (
    ZERO,
    read_bits,
    read_u16,
    read_u32,
    repeat_words,
    word_of,
    write_bits,
)
from fanfold.kernels.replicate import replicate
from fanfold.kernels.slots import (
    NO_SLOT,
    expect,
    find_slot,
    is_complete,
    note_lag,
    open_slot,
    set_deadline,
    settle_once,
)
from fanfold.kernels.state import (
    I64,
    MAX_FLOWS,
    MAX_PKTS,
    U8,
    U64,
    Counters,
    Fold,
    Plan,
    Ports,
    Rows,
)
from fanfold.kernels.tables import NULL_NBR, Bifts

TTL_AT = 3
NO_FLOW = -1

# What packets of one run agree in, by words of their headers; the rest they agree in whole.
_BUT_TTL = word_of(b"\xff\xff\xff\x00\xff\xff\xff\xff")
_BUT_ID = word_of(b"\x00\x00\xff\xff\xff\xff\x00\x00")  # IPv4 identification, checksum
_UDP_PORTS = word_of(b"\xff\xff\xff\xff\x00\x00\x00\x00")
_BUT_PSN = word_of(bytes((0xFF, 0xFF & ~FLAG_POLL, 0xFF, 0, 0xFF, 0xFF, 0xFF, 0xFF)))


@kernel
def flow_index(counters: Counters, key: int, now_ps: int) -> int:
    """Row of a flow's own counters; the row idle longest is given to a new flow."""
    oldest = 0
    for f in range(MAX_FLOWS):
        if counters.flow_key[f] == key:
            counters.flow_used[f] = now_ps
            return f
        if counters.flow_used[f] < counters.flow_used[oldest]:
            oldest = f
    counters.flow_key[oldest] = key
    counters.flow_used[oldest] = now_ps
    counters.flow_tx[oldest] = 0
    return oldest


@kernel
def arm(
    buf: U8,
    at: int,
    table: int,
    port: int,
    now_ps: int,
    node: Rows,
    bifts: Bifts,
    fold: Fold,
    bits: U64,
    last: int,
) -> int:
    """Arm the slot of a DATA packet that passes down.

    Args:
        buf, at: the packet, as received. table: its BIFT. port: where it came from. bits: its
            BitString. last: slot armed before it, NO_SLOT at first. fold: updated.
        node: its ``next_ps`` is updated.

    Returns:
        The slot, or NO_SLOT when the table is full.
    """
    words = bifts.n_words[table]
    ip = at + BITS_AT + 8 * words
    fan = ip + INNER_BYTES
    slot = arm_slot(
        fold,
        bifts.ids[table],
        read_u16(buf, at + 10),
        read_u32(buf, fan + 4),
        read_u32(buf, fan + 8),
        last,
    )
    if slot == NO_SLOT:
        return NO_SLOT
    row = fold.rows[slot]
    if row["armed_ps"] < 0:
        row["n_words"], row["port"] = words, port
        row["n_psn"] = min(max(i64(buf[fan + 2]), 1), 64)
        row["bfir_addr"], row["flow_port"] = (
            read_u32(buf, ip + 12),
            read_u16(buf, ip + IP_BYTES),
        )
    if row["armed_ps"] < 0 or buf[fan + 1] & FLAG_REPAIR == 0:
        # A repair joins a slot that waits already: it must not hold back what was heard.
        set_deadline(row, node, i64(buf[fan + 13]) - i64(buf[at + TTL_AT]), now_ps)
    expect(fold, slot, bits, words)
    return slot


@kernel
def arm_slot(fold: Fold, bift_id: int, bfir_id: int, flow: int, block: int, last: int) -> int:
    """Slot of a block and its set of receivers, opened where there is none yet.

    A new one has ``armed_ps`` below zero: the caller fills in the rest. ``last`` is looked at
    first. NO_SLOT when the table is full.
    """
    if last != NO_SLOT:
        row = fold.rows[last]
        if (
            row["armed"] != 0
            and row["block"] == block
            and row["flow"] == flow
            and row["bfir_id"] == bfir_id
            and row["bift_id"] == bift_id
        ):
            return last
    slot = find_slot(fold, bfir_id, flow, block, bift_id)
    if slot == NO_SLOT:
        slot = open_slot(fold, bfir_id, flow, block, bift_id)
        if slot != NO_SLOT:
            fold.rows[slot]["armed_ps"] = -1
    return slot


@kernel
def last_hop_port(buf: U8, at: int, words: int, kind: int, is_last_hop: bool) -> int:
    """Outer UDP port of a copy: a host may run several BFIRs, told apart by the inner port.

    Args:
        buf, at: the packet. words: of its BitString. kind: its class. is_last_hop: whether the
            copy goes to its only BFER.
    """
    if is_last_hop and kind == CLASS_FOLD:
        return read_u16(buf, at + BITS_AT + 8 * words + IP_BYTES)  # the group's own
    if is_last_hop and (kind == CLASS_FEEDBACK or kind == CLASS_CONTROL):
        ip = at + BITS_AT + 8 * words
        if buf[ip + 16] < 224:  # inner destination is not multicast
            return read_u16(buf, ip + IP_BYTES + 2)
    return BIER_PORT


@kernel
def spread(
    buf: U8,
    at: int,
    k: int,
    n_copies: int,
    ttl: int,
    is_end: bool,
    ports: Ports,
    counters: Counters,
    plan: Plan,
) -> None:
    """Enter the copies of packet ``k``, ``plan.copy_*[:n_copies]``, into the plan."""
    words = plan.words[k]
    plan.clean[k] = 1
    for c in range(n_copies):
        nbr = plan.copy_nbr[c]
        if nbr == NULL_NBR:
            counters.drops[DROP_NULL_NBR] += 1
            plan.clean[k] = 0
            continue
        if nbr != 0 and is_end:
            counters.drops[DROP_NOT_MINE] += 1
            plan.clean[k] = 0
            continue
        if nbr != 0 and ttl < 1:
            counters.drops[DROP_TTL_EXPIRED] += 1
            plan.clean[k] = 0
            continue
        i = plan.n[nbr]
        plan.pkt[nbr, i] = k
        plan.row[nbr, i] = i
        for w in range(words):
            plan.bits[nbr, i, w] = plan.copy_bits[c, w]
        plan.dport[nbr, i] = BIER_PORT
        if nbr != 0:
            plan.dport[nbr, i] = last_hop_port(
                buf,
                at,
                words,
                plan.kind[k],
                is_only(plan.bits[nbr, i], words, ports.bfr_id[nbr]),
            )
        plan.n[nbr] = i + 1


@kernel
def is_only(bits: U64, words: int, bfr_id: int) -> bool:
    """The BitString names this BFR-id's bit and no other."""
    if bfr_id == 0:
        return False
    index = (bfr_id - 1) % (64 * words)
    for w in range(words):
        mine = np.uint64(1) << np.uint64(index % 64) if w == index // 64 else ZERO
        if bits[w] != mine:
            return False
    return True


@kernel
def plan_pass(
    buf: U8,
    first: int,
    n: int,
    seg: int,
    port: int,
    now_ps: int,
    node: Rows,
    bifts: Bifts,
    ports: Ports,
    fold: Fold,
    counters: Counters,
    plan: Plan,
) -> int:
    """Plan up to MAX_PKTS packets of a block.

    Args:
        buf: the block. first: byte offset of the first packet. n: bytes of the block.
        seg: bytes of every packet but the last. port: where it came from, 0 = imposed here.
        now_ps: time. node, bifts, ports: this BFR. fold, counters: updated. plan: overwritten.

    Returns:
        Byte offset of the first packet not looked at (>= n when done).
    """
    plan.n[:] = 0
    at = first
    k = 0
    slot = NO_SLOT
    while at < n and k < MAX_PKTS:
        size = min(seg, n - at)
        slot = plan_packet(
            buf, at, size, k, port, now_ps, node, bifts, ports, fold, counters, plan, slot
        )
        n_more = 0
        if plan.clean[k] != 0:
            most = min((n - at) // seg, MAX_PKTS - k) - 1
            n_more = count_alike(buf, at, seg, plan.words[k], port, most)
            plan_alike(plan, k, n_more)
        plan.run[k] = 1 + n_more
        at += seg * (1 + n_more)
        k += 1 + n_more
    return at


@kernel
def count_alike(buf: U8, lead: int, seg: int, words: int, port: int, most: int) -> int:
    """Packets behind ``lead`` that are forwarded, counted and folded exactly like it.

    Headers agree in all that a BFR looks at but the PSN. What counts as alike leaves with a
    TTL one lower, as ``lead`` does already, when it came from a port.

    Args:
        lead: DATA that was planned. words: of its BitString. most: how many to look at.
    """
    n_head = words + 7  # words of all headers
    there = buf[lead : lead + 8 * n_head].view(np.uint64)
    ttl = i64(buf[lead + TTL_AT]) + (1 if port != 0 else 0)
    every = there
    if seg & 7 == 0 and most > 0:  # one view for all: making it costs more than a comparison
        every = buf[lead : lead + most * seg + 8 * n_head].view(np.uint64)
    n = 0
    while n < most:
        at = lead + (n + 1) * seg
        if seg & 7 == 0:
            here = every[(n + 1) * (seg >> 3) :]
        else:
            here = buf[at : at + 8 * n_head].view(np.uint64)
        if i64(buf[at + TTL_AT]) != ttl or not is_alike(there, here, words):
            break
        if port != 0:
            buf[at + TTL_AT] = ttl - 1
        n += 1
    return n


@kernel
def is_alike(there: U64, here: U64, words: int) -> bool:
    """Headers agree, as words of bytes as they stand, but for what may differ in a run."""
    unlike = (there[0] ^ here[0]) & _BUT_TTL
    for i in range(1, words + 2):  # BIER, BitString, inner IPv4's first four bytes
        unlike |= there[i] ^ here[i]
    unlike |= (there[words + 2] ^ here[words + 2]) & _BUT_ID
    unlike |= there[words + 3] ^ here[words + 3]  # inner addresses
    unlike |= (there[words + 4] ^ here[words + 4]) & _UDP_PORTS
    unlike |= (there[words + 5] ^ here[words + 5]) & _BUT_PSN
    unlike |= there[words + 6] ^ here[words + 6]  # block, round, first TTL, stride
    return unlike == ZERO


@kernel
def plan_alike(plan: Plan, k: int, n_more: int) -> None:
    """Plan the packets behind ``k`` as ``k`` itself: same ports, same BitStrings."""
    if n_more == 0:
        return
    for j in range(k + 1, k + 1 + n_more):
        plan.kind[j] = plan.kind[k]
        plan.flow[j] = plan.flow[k]
        plan.words[j] = plan.words[k]
        plan.run[j] = k + 1 + n_more - j
    for nbr in range(plan.n.shape[0]):
        i = plan.n[nbr] - 1
        if i < 0 or plan.pkt[nbr, i] != k:
            continue
        dport, row = plan.dport[nbr, i], plan.row[nbr, i]
        for j in range(1, n_more + 1):
            plan.pkt[nbr, i + j] = k + j
            plan.dport[nbr, i + j] = dport
            plan.row[nbr, i + j] = row
        plan.n[nbr] += n_more


@kernel
def plan_packet(
    buf: U8,
    at: int,
    size: int,
    k: int,
    port: int,
    now_ps: int,
    node: Rows,
    bifts: Bifts,
    ports: Ports,
    fold: Fold,
    counters: Counters,
    plan: Plan,
    slot: int,
) -> int:
    """Plan packet ``k`` of a pass, ``size`` bytes at ``at``; the rest as in ``plan_pass``.

    Returns:
        The slot it armed, or ``slot``, armed before it: the next packet may need no search.
    """
    drops = counters.drops
    plan.kind[k], plan.flow[k], plan.clean[k] = CLASS_OPAQUE, NO_FLOW, 0
    table = check_bier(buf, at, size, bifts.ids, bifts.n_words)
    if table < 0:
        drops[-2 - table] += 1
        return slot
    words = bifts.n_words[table]
    plan.words[k] = words
    bits = plan.scratch[0]
    if read_bits(buf, at + BITS_AT, words, bits) == 0:
        drops[DROP_ZERO_BITSTRING] += 1
        return slot
    kind = classify(buf, at, size, words)
    plan.kind[k] = kind
    ttl = i64(buf[at + TTL_AT])
    if ttl == 0:
        drops[DROP_TTL_EXPIRED] += 1
        return slot
    if kind == CLASS_FOLD and is_for_slots(buf, at + BITS_AT + 8 * words + INNER_BYTES):
        return keep_here(plan, k, slot)
    if kind < CLASS_CONTROL:
        fan = at + BITS_AT + 8 * words + INNER_BYTES
        key = (read_u16(buf, at + 10) << 32) | read_u32(buf, fan + 4)
        plan.flow[k] = flow_index(counters, key, now_ps)
        if node[0]["folds"]:
            if kind != CLASS_FEEDBACK:
                slot = arm(buf, at, table, port, now_ps, node, bifts, fold, bits, slot)
            elif fold_in(buf, at, size, words, now_ps, node, fold, drops, plan.scratch):
                return slot
    if port != 0:
        ttl -= 1
        buf[at + TTL_AT] = ttl
    copies = walk(buf, at, table, bits, bifts, plan)
    is_end = port != 0 and node[0]["is_end"] != 0  # a host passes nothing on
    spread(buf, at, k, copies, ttl, is_end, ports, counters, plan)
    if kind != CLASS_DATA and kind != CLASS_REPAIR:
        plan.clean[k] = 0  # only DATA comes in runs
    return slot


@kernel
def walk(buf: U8, at: int, table: int, bits: U64, bifts: Bifts, plan: Plan) -> int:
    """Copies of a packet into ``plan.copy_*``, by the table its entropy picks; how many."""
    which = bifts.first[table] + (read_u32(buf, at + 4) & 0xFFFFF) % bifts.n_ecmp[table]
    return replicate(
        bits,
        bifts.n_words[table],
        bifts.nbr_of[which],
        bifts.f_bm[which],
        plan.copy_nbr,
        plan.copy_bits,
    )


@kernel
def keep_here(plan: Plan, k: int, slot: int) -> int:
    """Plan packet ``k`` for the node itself and nobody else; ``slot`` as it was."""
    plan.pkt[0, plan.n[0]] = k
    plan.row[0, plan.n[0]] = plan.n[0]
    plan.n[0] += 1
    return slot


@kernel
def fold_in(
    buf: U8,
    at: int,
    size: int,
    words: int,
    now_ps: int,
    node: Rows,
    fold: Fold,
    drops: I64,
    scratch: U64,
) -> bool:
    """Fold one FEEDBACK packet, or count why not; False when it travels on unfolded."""
    folded = fold_packet(buf, at, size, words, fold, scratch)
    if folded == PASS:
        return False
    if folded < 0:
        drops[-2 - folded] += 1
    elif is_complete(fold, folded - 2, fold.rows[folded - 2]["n_words"]):
        settle_once(fold, folded - 2)
        note_lag(node, now_ps - fold.rows[folded - 2]["armed_ps"], now_ps)
    return True


@kernel
def patch(buf: U8, first: int, seg: int, port: int, plan: Plan) -> None:
    """Write the BitStrings meant for ``port`` into the headers of its packets.

    Args:
        buf, first, seg: the block as given to ``plan_pass``. plan: its result.
    """
    i = 0
    while i < plan.n[port]:
        k = plan.pkt[port, i]
        at = first + k * seg + BITS_AT
        words = plan.words[k]
        write_bits(buf, at, words, plan.bits[port, plan.row[port, i]])
        repeat_words(buf, at, seg, plan.run[k], words)
        i += plan.run[k]
