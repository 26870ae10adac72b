"""One pass of a BFR over a block of packets: check, arm or fold, replicate, plan the copies.

A block is up to 64 KB of packets of ``seg`` bytes each, the last may be shorter, as UDP_GRO
delivers it. Nothing is sent here: the plan says which packets go to which port with which
BitString, ``patch`` writes those BitStrings into the headers just before a send.
"""

import numpy as np

from fanfold.kernels.arm import arm
from fanfold.kernels.codes import (
    CLASS_CONTROL,
    CLASS_DATA,
    CLASS_FEEDBACK,
    CLASS_FOLD,
    CLASS_OPAQUE,
    CLASS_REPAIR,
    DROP_BAD_CHECKSUM,
    DROP_BAD_FEEDBACK,
    DROP_TTL_EXPIRED,
    DROP_WRONG_PORT,
    DROP_WRONG_TENANT,
    DROP_ZERO_BITSTRING,
    OF_LINK,
)
from fanfold.kernels.feedback import is_feedback_sound
from fanfold.kernels.fold_in import fold_word
from fanfold.kernels.frame import check_bier, classify, is_for_slots, is_inner_sound
from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.layout import (
    BITS_AT,
    FLAG_POLL,
    HANDSHAKE,
    INNER_BYTES,
    LINK_BYTES,
    LINK_WORD,
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
from fanfold.kernels.shares import (
    admit,
    charge,
    check_tenant,
    flow_index,
    group_of,
    is_same_tenant,
    n_within,
)
from fanfold.kernels.slots import (
    NO_SLOT,
)
from fanfold.kernels.spread import spread
from fanfold.kernels.state import (
    I64,
    MAX_PKTS,
    U8,
    U64,
    Counters,
    Fold,
    Plan,
    Ports,
    Rows,
)
from fanfold.kernels.tables import Bifts
from fanfold.kernels.vat import Vats, is_from_root
from fanfold.kernels.vouch import (
    MAX_TTL,
    check_bfir,
    heard_behind,
    is_host,
)

TTL_AT = 3
NO_FLOW = -1

# What packets of one run agree in, by words of their headers; the rest they agree in whole.
_BUT_TTL = word_of(b"\xff\xff\xff\x00\xff\xff\xff\xff")
_BUT_ID = word_of(b"\x00\x00\xff\xff\xff\xff\x00\x00")  # IPv4 identification, checksum
_UDP_PORTS = word_of(b"\xff\xff\xff\xff\x00\x00\x00\x00")
_BUT_PSN = word_of(bytes((0xFF, 0xFF & ~FLAG_POLL, 0xFF, 0, 0xFF, 0xFF, 0xFF, 0xFF)))


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
    vats: Vats,
) -> int:
    """Plan up to MAX_PKTS packets of a block.

    Args:
        buf: the block. first: byte offset of the first packet. n: bytes of the block.
        seg: bytes of every packet but the last. port: where it came from, 0 = imposed here.
        now_ps: time. node, bifts, ports: this BFR. fold, counters: updated. plan: overwritten.
        vats: whose results a host may send.

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
            buf, at, size, k, port, now_ps, node, bifts, ports, fold, counters, plan, vats, slot
        )
        n_more = 0
        if plan.clean[k] != 0:
            most = min((n - at) // seg, MAX_PKTS - k) - 1
            shares, bift_id = fold.store.shares, read_u32(buf, at) >> 12
            if port > 0:
                most = n_within(shares, bift_id, seg, most, now_ps)
            n_more = count_alike(buf, at, seg, plan.words[k], port, most)
            plan_alike(plan, k, n_more)
            if port > 0:
                charge(shares, bift_id, seg, n_more, now_ps)
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
    vats: Vats,
    slot: int,
) -> int:
    """Plan packet ``k`` of a pass, ``size`` bytes at ``at``; the rest as in ``plan_pass``.

    Returns:
        The slot it armed, or ``slot``, armed before it: the next packet may need no search.
    """
    drops = counters.drops
    plan.kind[k], plan.flow[k], plan.clean[k] = CLASS_OPAQUE, NO_FLOW, 0
    table = check_tenant(bifts, check_bier(buf, at, size, bifts.ids, bifts.n_words), port)
    if table < 0:
        return set_aside(buf, at, size, k, port, table, drops, plan, slot)
    words = bifts.n_words[table]
    plan.words[k] = words
    bits = plan.scratch[0]
    if read_bits(buf, at + BITS_AT, words, bits) == 0:
        drops[DROP_ZERO_BITSTRING] += 1
        return slot
    kind = classify(buf, at, size, words)
    plan.kind[k] = kind
    if buf[at + TTL_AT] == 0:
        drops[DROP_TTL_EXPIRED] += 1
        return slot
    fan = at + BITS_AT + 8 * words + INNER_BYTES
    refused = check_source(buf, at, size, fan, table, kind, port, bifts, ports, vats, bits)
    if refused == 0 and port > 0:
        refused = admit(fold.store.shares, bifts.ids[table], bits, words, size, now_ps)
    if refused != 0:
        drops[refused] += 1
        return slot
    if kind == CLASS_FOLD and is_for_slots(buf, fan):
        return keep_here(plan, k, slot)
    if kind < CLASS_CONTROL:
        key = (read_u16(buf, at + 10) << 32) | read_u32(buf, fan + 4)
        plan.flow[k] = flow_index(counters, fold.store.shares, bifts.ids[table], key, now_ps)
    folds = kind < CLASS_CONTROL and node[0]["folds"] != 0
    if folds and kind != CLASS_FEEDBACK:
        slot = arm(buf, at, table, port, now_ps, node, bifts, fold, bits, slot)
    elif folds and fold_word(buf, at, words, port, now_ps, node, bifts, fold, plan.scratch):
        return slot
    ttl = grow_old(buf, at, kind, port)
    copies = walk(buf, at, table, bits, bifts, plan)
    spread(buf, at, k, copies, ttl, port, node, ports, counters, plan)
    if kind != CLASS_DATA and kind != CLASS_REPAIR:
        plan.clean[k] = 0  # only DATA comes in runs
    return slot


@kernel
def set_aside(
    buf: U8,
    at: int,
    size: int,
    k: int,
    port: int,
    table: int,
    drops: I64,
    plan: Plan,
    slot: int,
) -> int:
    """Keep what a neighbour says to this node only, drop what else is no BIER; ``slot``."""
    is_link = size >= LINK_BYTES and read_u32(buf, at) == LINK_WORD
    if is_link and port == 0:  # ranks at a node's own address say nothing but handshakes
        is_link = size > LINK_BYTES and i64(buf[at + LINK_BYTES]) == HANDSHAKE
    if is_link:
        plan.kind[k] = OF_LINK
        return keep_here(plan, k, slot)
    drops[-2 - table] += 1
    return slot


@kernel
def grow_old(buf: U8, at: int, kind: int, port: int) -> int:
    """TTL that a packet goes on with: one hop less, and bounded for fanfold's own."""
    ttl = i64(buf[at + TTL_AT])
    if kind != CLASS_OPAQUE:
        ttl = min(ttl, MAX_TTL)
    if port != 0:
        ttl -= 1
        buf[at + TTL_AT] = ttl
    return ttl


@kernel
def check_source(
    buf: U8,
    at: int,
    size: int,
    fan: int,
    table: int,
    kind: int,
    port: int,
    bifts: Bifts,
    ports: Ports,
    vats: Vats,
    bits: U64,
) -> int:
    """0 where a packet may come in by ``port`` and is sound so far, else a drop code."""
    if kind == CLASS_OPAQUE or (kind == CLASS_FOLD and is_for_slots(buf, fan)):
        return 0  # nobody's word, or looked at where it is taken in
    if kind == CLASS_FEEDBACK:
        n_words = bifts.n_words[table]
        if not is_inner_sound(buf, at, size, n_words):
            return DROP_BAD_CHECKSUM
        if not is_feedback_sound(buf, fan, size - (fan - at)):
            return DROP_BAD_FEEDBACK
        told = read_u32(buf, fan + 16) >> 12
        if bifts.may.shape[0] > 0 and not is_same_tenant(bifts.ids[table], told):
            return DROP_WRONG_TENANT
        known = heard_behind(buf, fan, size - (fan - at), bifts, port)
        return 0 if known else DROP_WRONG_PORT
    if kind != CLASS_FOLD:
        return check_bfir(bifts, table, port, read_u16(buf, at + 10))
    if is_host(bifts, ports, port):
        group = group_of(buf, at, fan)
        if not is_from_root(vats, group, bits, bifts.n_words[table], port):
            return DROP_WRONG_PORT
    return 0


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
