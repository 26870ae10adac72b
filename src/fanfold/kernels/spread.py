"""Copies of one packet into the plan of a pass: what goes out of which port."""

import numpy as np

from fanfold.kernels.codes import (
    CLASS_CONTROL,
    CLASS_FEEDBACK,
    CLASS_FOLD,
    DROP_FOREIGN_PORT,
    DROP_NOT_MINE,
    DROP_NULL_NBR,
    DROP_TTL_EXPIRED,
    DROP_TURNED_BACK,
)
from fanfold.kernels.jit import kernel
from fanfold.kernels.layout import BIER_PORT, BITS_AT, IP_BYTES
from fanfold.kernels.octets import ZERO, read_u16
from fanfold.kernels.state import U8, U64, Counters, Plan, Ports, Rows
from fanfold.kernels.tables import NULL_NBR
from fanfold.kernels.vouch import FIRST_PORT


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
    port: int,
    node: Rows,
    ports: Ports,
    counters: Counters,
    plan: Plan,
) -> None:
    """Enter the copies of packet ``k``, ``plan.copy_*[:n_copies]``, into the plan.

    Nothing goes back out of ``port``, where it came in, and a host passes nothing on.
    """
    is_end = port != 0 and node[0]["is_end"] != 0
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
        if nbr != 0 and nbr == port:
            counters.drops[DROP_TURNED_BACK] += 1
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
        dport = BIER_PORT
        if nbr != 0:
            is_last_hop = is_only(plan.bits[nbr, i], words, ports.bfr_id[nbr])
            dport = last_hop_port(buf, at, words, plan.kind[k], is_last_hop)
            if not is_ours(dport):
                counters.drops[DROP_FOREIGN_PORT] += 1
                plan.clean[k] = 0
                continue
        plan.dport[nbr, i] = dport
        plan.n[nbr] = i + 1


@kernel
def is_ours(dport: int) -> bool:
    """A UDP port that a node, a push or a group may have at a host."""
    return dport == BIER_PORT or dport >= FIRST_PORT


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
