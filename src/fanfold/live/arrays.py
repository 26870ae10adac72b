"""Arrays on their way through a node: taken in, passed on, sent up, fanned out (ADR 0023).

Packets of equal size for one port leave in one ``sendmsg``, straight from the slots: an array
is copied once, into its slot.
"""

import numpy as np

from fanfold.kernels.absorb import (
    FLAG_EMPTY,
    FLAG_PARTIAL,
    SCOPE_ALL,
    SCOPE_ONLY,
    fold_at,
    has_room,
)
from fanfold.kernels.codes import (
    CLASS_FOLD,
    DROP_FOREIGN_PORT,
    DROP_NULL_NBR,
    DROP_TURNED_BACK,
)
from fanfold.kernels.frame import check_bier, classify, seal_bare, seal_inner
from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.layout import BIER_PORT, BITS_AT, FOLD_BYTES, IP_BYTES
from fanfold.kernels.octets import ZERO, copy_octets, read_u16, read_u32, write_bits
from fanfold.kernels.replicate import bit, replicate
from fanfold.kernels.spread import is_only, is_ours
from fanfold.kernels.state import U8, Counters, Plan, Ports, Rows
from fanfold.kernels.tables import NULL_NBR, Bifts
from fanfold.kernels.vat import (
    DO_PASS,
    DO_REPLY,
    DO_RESULT,
    DO_SPREAD,
    DO_UP,
    OPEN,
    Vats,
    flush_slot,
)
from fanfold.kernels.vat_packet import expire_arrays, take_fold
from fanfold.live.exits import FULL, KEPT, aim, count_sent, send_iov
from fanfold.live.rings import channel_to, put
from fanfold.live.sock import (
    BUF_BYTES,
    END,
    GSO,
    GSO_PKTS,
    NEXT,
    PORT,
    SEG,
    TAP_OUT,
    TAPPING,
    Sock,
    tap_packets,
)
from fanfold.live.trailers_out import send_room, trailer_of


@kernel
def fold_pass(
    sock: Sock,
    first: int,
    when: int,
    row: Rows,
    bifts: Bifts,
    ports: Ports,
    counters: Counters,
    plan: Plan,
    vats: Vats,
) -> None:
    """Take in the FOLD packets of the pass in hand, and send what they set off."""
    seg, is_near = sock.ints[SEG], first >= BUF_BYTES
    for i in range(plan.n[0]):
        k = plan.pkt[0, i]
        if plan.kind[k] != CLASS_FOLD:
            continue
        at = first + k * seg
        take_fold(
            sock.buf,
            at,
            min(seg, sock.ints[END] - at),
            plan.words[k],
            sock.ints[PORT],
            when,
            row,
            bifts,
            ports,
            vats,
            counters.drops,
            plan.scratch,
            is_near,
        )
        if not has_room(vats):
            send_todo(sock, bifts, ports, counters, plan, vats)
    send_todo(sock, bifts, ports, counters, plan, vats)


@kernel
def end_arrays(
    sock: Sock,
    when: int,
    rest_ps: int,
    row: Rows,
    bifts: Bifts,
    ports: Ports,
    counters: Counters,
    plan: Plan,
    vats: Vats,
) -> None:
    """Send up, partial, arrays that have waited too long, at most once in ``rest_ps``."""
    if vats.clock[0] <= when:
        vats.clock[0] = max(expire_arrays(vats, row, when), when + rest_ps)
        send_todo(sock, bifts, ports, counters, plan, vats)


@kernel
def send_todo(
    sock: Sock, bifts: Bifts, ports: Ports, counters: Counters, plan: Plan, vats: Vats
) -> None:
    """Do all that is noted, runs of a kind in one call."""
    i = 0
    while i < vats.n_todo[0]:
        what = vats.todo[i, 0]
        j = run_end(sock, vats, i)
        if what == DO_UP or what == DO_PASS:
            send_straight(sock, i, j, ports, counters, vats)
        elif what == DO_RESULT:
            fan_results(sock, i, j, bifts, ports, counters, plan, vats)
        elif what == DO_REPLY:
            send_small(sock, vats.small[i], vats.todo[i, 3], vats.todo[i, 2], ports, counters)
        else:
            fan_small(sock, i, bifts, ports, counters, plan, vats)
        i = j
    vats.n_todo[0] = 0


@kernel
def run_end(sock: Sock, vats: Vats, i: int) -> int:
    """Past the last thing to do that goes with the one at ``i``: same kind, port and size."""
    todo = vats.todo
    j = i + 1
    if todo[i, 0] == DO_REPLY or todo[i, 0] == DO_SPREAD:
        return j
    size, room = todo[i, 3] + trailer_of(sock), send_room(sock)
    while j < vats.n_todo[0] and j - i < GSO_PKTS and (j - i + 1) * size <= room:
        if todo[j, 0] != todo[i, 0] or todo[j, 2] != todo[i, 2] or todo[j, 3] != todo[i, 3]:
            break
        if todo[i, 0] == DO_RESULT and not is_same_fan(vats, i, j):
            break
        j += 1
    return j


@kernel
def is_same_fan(vats: Vats, i: int, j: int) -> bool:
    """Two results go to the same ranks in the same scope, along the same table."""
    a, b = vats.todo[i, 1], vats.todo[j, 1]
    if vats.slots[a]["vat"] != vats.slots[b]["vat"] or a == b:
        return False
    n_words = vats.rows[vats.slots[a]["vat"]]["n_words"]
    for w in range(n_words):
        if vats.todo_bits[i, w] != vats.todo_bits[j, w]:
            return False
    fan = fold_at(n_words)
    if (vats.room[a, fan + 2] ^ vats.room[b, fan + 2]) & FLAG_PARTIAL != 0:
        return False
    for k in range(fan + 16, fan + 19):
        if vats.room[a, k] != vats.room[b, k]:
            return False
    return bool(vats.slots[a]["n_codes"] == vats.slots[b]["n_codes"])


@kernel
def send_straight(
    sock: Sock, i: int, j: int, ports: Ports, counters: Counters, vats: Vats
) -> None:
    """Send arrays of slots, or packets of the block in hand, out of one port."""
    port, size = vats.todo[i, 2], vats.todo[i, 3]
    if sock.ints[TAPPING] != 0:
        seal_straight(sock, i, j, vats)
        for k in range(i, j):
            tap_one(sock, vats, k, ports)
    for k in range(i, j):
        base, which = np.uint64(sock.buf.ctypes.data), vats.todo[k, 1]
        if vats.todo[k, 0] == DO_UP:
            base, which = np.uint64(vats.room[which].ctypes.data), 0
        sock.iov_out[2 * (k - i)] = base + np.uint64(which)
        sock.iov_out[2 * (k - i) + 1] = np.uint64(size)
    if not put_many(sock, j - i, size, port, BIER_PORT, counters):
        seal_straight(sock, i, j, vats)
        send_many(sock, j - i, size, port, BIER_PORT, ports, counters)
    for k in range(i, j):
        if vats.todo[k, 0] == DO_UP and vats.slots[vats.todo[k, 1]]["state"] == OPEN:
            flush_slot(vats, vats.todo[k, 1])


@kernel
def seal_straight(sock: Sock, i: int, j: int, vats: Vats) -> None:
    """Write checksums of what goes straight on and has none."""
    for k in range(i, j):
        which, size = vats.todo[k, 1], vats.todo[k, 3]
        if vats.todo[k, 0] == DO_UP:
            seal_bare(vats.room[which], 0, size, size, words_of(vats.room[which], 0))
        else:
            seal_bare(sock.buf, which, size, size, words_of(sock.buf, which))


@kernel
def tap_one(sock: Sock, vats: Vats, k: int, ports: Ports) -> None:
    """Capture a packet that goes straight on."""
    which, port, size = vats.todo[k, 1], vats.todo[k, 2], vats.todo[k, 3]
    addr = ports.addr[port]
    if vats.todo[k, 0] == DO_UP:
        tap_packets(sock, vats.room[which], 0, size, size, port, TAP_OUT, BIER_PORT, addr)
    else:
        tap_packets(sock, sock.buf, which, size, size, port, TAP_OUT, BIER_PORT, addr)


@kernel
def put_many(sock: Sock, n: int, size: int, port: int, dport: int, counters: Counters) -> bool:
    """Put ``n`` packets, one to an entry of ``iov_out``, into a neighbour's ring; count them.

    False where none takes them.
    """
    c = channel_to(sock, port, dport)
    if c < 0 or not put(sock, c, n, size):
        return False
    for _ in range(n):
        count_sent(counters, port, CLASS_FOLD, -1, size)
    return True


@kernel
def send_many(
    sock: Sock, n: int, size: int, port: int, dport: int, ports: Ports, counters: Counters
) -> None:
    """Send ``n`` sealed packets of ``size`` bytes, one an entry of ``iov_out``; count them."""
    aim(sock, ports.addr[port], dport)
    if sock.ints[GSO] != 0:
        code = send_iov(sock, port, n, n, size)
        if code <= KEPT:
            for _ in range(n):
                count_sent(counters, port, CLASS_FOLD, -1, size)
        if code <= FULL or n == 1:
            return
    for k in range(n):
        sock.iov_out[0] = sock.iov_out[2 * k]
        sock.iov_out[1] = sock.iov_out[2 * k + 1]
        if send_iov(sock, port, 1, 1, size) <= KEPT:
            count_sent(counters, port, CLASS_FOLD, -1, size)


@kernel
def send_small(
    sock: Sock, packet: U8, size: int, port: int, ports: Ports, counters: Counters
) -> None:
    """Send one packet without an array out of a port, to the group's port at a host."""
    n_words = words_of(packet, 0)
    dport = BIER_PORT
    if ports.bfr_id[port] != 0:
        dport = group_port(packet, n_words)
    if not is_ours(dport):
        counters.drops[DROP_FOREIGN_PORT] += 1
        return
    sock.iov_out[0] = np.uint64(packet.ctypes.data)
    sock.iov_out[1] = np.uint64(size)
    if sock.ints[TAPPING] != 0:
        tap_packets(sock, packet, 0, size, size, port, TAP_OUT, dport, ports.addr[port])
    if not put_many(sock, 1, size, port, dport, counters):
        send_many(sock, 1, size, port, dport, ports, counters)


@kernel
def words_of(packet: U8, at: int) -> int:
    """Words of the BitString of the packet at ``at``; its BIFT-id was found sound before."""
    bsl = i64(packet[at]) >> 4
    return 1 << (bsl - 1)


@kernel
def group_port(packet: U8, n_words: int) -> int:
    """Port of a group at its hosts: the inner source port on the way down."""
    return read_u16(packet, BITS_AT + 8 * n_words + IP_BYTES)


@kernel
def fan_copies(packet: U8, n_words: int, bifts: Bifts, plan: Plan) -> int:
    """Copies of ``plan.scratch[0]`` (consumed) into ``plan.copy_*``; how many."""
    bift_id = read_u32(packet, 0) >> 12
    for t in range(bifts.ids.shape[0]):
        if bifts.ids[t] == bift_id:
            which = bifts.first[t] + (read_u32(packet, 4) & 0xFFFFF) % bifts.n_ecmp[t]
            return replicate(
                plan.scratch[0],
                n_words,
                bifts.nbr_of[which],
                bifts.f_bm[which],
                plan.copy_nbr,
                plan.copy_bits,
            )
    return 0


@kernel
def fan_small(
    sock: Sock,
    i: int,
    bifts: Bifts,
    ports: Ports,
    counters: Counters,
    plan: Plan,
    vats: Vats,
) -> None:
    """Fan one packet without an array out."""
    packet, size = vats.small[i], vats.todo[i, 3]
    n_words = words_of(packet, 0)
    for w in range(n_words):
        plan.scratch[0, w] = vats.todo_bits[i, w]
    for c in range(fan_copies(packet, n_words, bifts, plan)):
        port = plan.copy_nbr[c]
        if port == NULL_NBR:
            counters.drops[DROP_NULL_NBR] += 1
        elif port > 0 and port == vats.todo[i, 2]:
            counters.drops[DROP_TURNED_BACK] += 1
        elif port > 0 or ports.bfr_id[0] != 0:
            write_bits(packet, BITS_AT, n_words, plan.copy_bits[c])
            send_small(sock, packet, size, port, ports, counters)


@kernel
def fan_results(
    sock: Sock,
    i: int,
    j: int,
    bifts: Bifts,
    ports: Ports,
    counters: Counters,
    plan: Plan,
    vats: Vats,
) -> None:
    """Fan results ``i`` to ``j`` out: arrays to whom they are meant for, to others headers."""
    s = vats.todo[i, 1]
    packet = vats.room[s]
    n_words = words_of(packet, 0)
    fan = fold_at(n_words)
    scope, only = packet[fan + 18], read_u16(packet, fan + 16)
    if vats.slots[s]["n_bytes"] == 0:
        scope = SCOPE_ALL
    for part in range(2):
        some = ZERO
        for w in range(n_words):
            named = ZERO
            if scope != SCOPE_ALL and (only - 1) % (64 * n_words) // 64 == w:
                named = bit((only - 1) % 64)
            if scope == SCOPE_ALL or (scope == SCOPE_ONLY) != (part == 0):
                named = ~named
            mine = vats.todo_bits[i, w] & named
            plan.scratch[0, w] = mine if part == 0 or scope != SCOPE_ALL else ZERO
            some |= plan.scratch[0, w]
        if some != ZERO:
            fan_part(sock, i, j, part, bifts, ports, counters, plan, vats)


@kernel
def fan_part(
    sock: Sock,
    i: int,
    j: int,
    part: int,
    bifts: Bifts,
    ports: Ports,
    counters: Counters,
    plan: Plan,
    vats: Vats,
) -> None:
    """Fan results out to ``plan.scratch[0]``; part 1: their headers only."""
    n_words = words_of(vats.room[vats.todo[i, 1]], 0)
    head = fold_at(n_words) + FOLD_BYTES
    size = vats.todo[i, 3]
    if part == 1:
        n_bits = 0
        if vats.room[vats.todo[i, 1], head - FOLD_BYTES + 2] & FLAG_PARTIAL != 0:
            n_bits = 8 * n_words
        head += vats.slots[vats.todo[i, 1]]["n_codes"] + n_bits
        for k in range(i, j):
            packet = vats.room[vats.todo[k, 1]]
            write_empty(sock.out, (k - i) * head, packet, size, n_words, head, n_bits)
        size = head
    n_copies = fan_copies(vats.room[vats.todo[i, 1]], n_words, bifts, plan)
    for c in range(n_copies):
        port = plan.copy_nbr[c]
        if port == NULL_NBR:
            counters.drops[DROP_NULL_NBR] += j - i
            continue
        if port == 0 and ports.bfr_id[0] == 0:
            continue  # a BFR has no rank
        dport = BIER_PORT
        if is_only(plan.copy_bits[c], n_words, ports.bfr_id[port]):
            dport = group_port(vats.room[vats.todo[i, 1]], n_words)
        if not is_ours(dport):
            counters.drops[DROP_FOREIGN_PORT] += j - i
            continue
        for k in range(i, j):
            packet, at = vats.room[vats.todo[k, 1]], 0
            if part == 1:
                packet, at = sock.out, (k - i) * head
            write_bits(packet, at + BITS_AT, n_words, plan.copy_bits[c])
            sock.iov_out[2 * (k - i)] = np.uint64(packet.ctypes.data) + np.uint64(at)
            sock.iov_out[2 * (k - i) + 1] = np.uint64(size)
            if sock.ints[TAPPING] != 0:
                seal_bare(packet, at, size, size, n_words)
                tap_packets(
                    sock, packet, at, size, size, port, TAP_OUT, dport, ports.addr[port]
                )
        if not put_many(sock, j - i, size, port, dport, counters):
            if part == 0:
                seal_results(i, j, size, vats)
            send_many(sock, j - i, size, port, dport, ports, counters)


@kernel
def seal_results(i: int, j: int, size: int, vats: Vats) -> None:
    """Write checksums of results that have none."""
    for k in range(i, j):
        packet = vats.room[vats.todo[k, 1]]
        seal_bare(packet, 0, size, size, words_of(packet, 0))


@kernel
def write_empty(
    out: U8, at: int, packet: U8, size: int, n_words: int, head: int, n_bits: int
) -> None:
    """A result of ``size`` bytes without its words: ``head`` bytes, the last its P-BM."""
    fan = fold_at(n_words)
    copy_octets(out, at, packet, 0, head - n_bits)
    copy_octets(out, at + head - n_bits, packet, size - n_bits, n_bits)
    out[at + fan + 2] |= FLAG_EMPTY
    seal_inner(out, at, head, n_words)


@kernel
def seal_run(
    buf: U8, first: int, seg: int, n: int, port: int, lo: int, hi: int, plan: Plan
) -> None:
    """Write checksums of arrays from a neighbour's memory that go on by a socket."""
    for i in range(lo, hi):
        k = plan.pkt[port, i]
        at = first + k * seg
        if plan.kind[k] == CLASS_FOLD:
            seal_bare(buf, at, min(seg, n - at), seg, plan.words[k])


@kernel
def seal_came(sock: Sock, bifts: Bifts) -> None:
    """Write checksums of the arrays of a block from a neighbour's memory: it is captured."""
    at, seg, end = sock.ints[NEXT], sock.ints[SEG], sock.ints[END]
    while at < end:
        size = min(seg, end - at)
        t = check_bier(sock.buf, at, size, bifts.ids, bifts.n_words)
        if t >= 0 and classify(sock.buf, at, size, bifts.n_words[t]) == CLASS_FOLD:
            seal_bare(sock.buf, at, size, size, bifts.n_words[t])
        at += seg
