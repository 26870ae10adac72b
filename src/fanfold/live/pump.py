"""The compiled socket loop: blocks in, kernels over their headers, blocks out (ADR 0005).

One ``recvmsg`` with UDP_GRO brings up to 64 KB of equal-size packets, one ``sendmsg`` with
UDP_SEGMENT for each neighbour sends them on. Python is entered when a block leaves something
for a role: never for each packet.
"""

from typing import NamedTuple

import numpy as np

from fanfold.kernels.codes import (
    CLASS_FEEDBACK,
    DROP_SEND_FAILED,
    DROP_SOCKET_FULL,
    DROP_UNKNOWN_PEER,
)
from fanfold.kernels.collect import Collect, collect_pass, next_report
from fanfold.kernels.feedback import write_feedback
from fanfold.kernels.forward import patch, plan_pass
from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.layout import BIER_PORT, MAX_PSN, UNDERLAY_BYTES
from fanfold.kernels.mishap import Mishaps, impair, release
from fanfold.kernels.octets import copy_octets
from fanfold.kernels.slots import expire
from fanfold.kernels.state import I64, U8, U64, Counters, Fold, Plan, Ports, Rows
from fanfold.kernels.tables import Bifts
from fanfold.live.syscalls import (
    MSG_DONTWAIT,
    SO_MEMINFO,
    SOL_SOCKET,
    SOL_UDP,
    UDP_GRO,
    getsockopt,
    monotonic_ps,
    ppoll,
    recvmsg,
    sendmsg,
)

BUF_BYTES = 1 << 17
SEND_BYTES = 65_400  # payload of one send, below the 65,507 of UDP over IPv4
GSO_PKTS = 64  # UDP_MAX_SEGMENTS of older kernels

POLLIN = 1
MAX_SLEEP_PS = 250_000_000_000

IDLE = 0
LOCAL = 1
EVENTS = 2
BUSY = 3

# Words of Sock.ints.
FD = 0
GSO = 1
FIRST = 2  # where the pass in hand starts
NEXT = 3  # where the next pass starts
END = 4
SEG = 5
PORT = 6
PEER_ADDR = 7
DROPS_SEEN = 8
START_PS = 9
TAP_USED = 10
TAP_LOST = 11
TAPPING = 12
HELD_DUE = 13
WAKE_FD = 14
N_INTS = 16

TAP_HEAD = 24  # i64 time, i32 size, u8 port, u8 direction, u16 peer port, u32 peer address, pad
TAP_IN = 1
TAP_OUT = 2


class Sock(NamedTuple):
    """One socket and the memory its calls use; addresses of the arrays never change."""

    ints: I64  # (N_INTS,)
    buf: U8  # block being received or looked at
    out: U8  # feedback being written
    msg_in: U64  # struct msghdr as seven words
    msg_out: U64
    iov_in: U64
    iov_out: U64  # (2 * (MAX_PKTS + 2),)
    name_in: U8  # struct sockaddr_in
    name_out: U8
    ctl_in: U8
    ctl_out: U8
    spec: I64  # struct timespec; then scratch
    mem: I64  # SO_MEMINFO words as pairs, its length word behind
    found: I64
    tap: U8  # captured packets, waiting to be written


class Node(NamedTuple):
    """Everything a node's loop works on."""

    row: Rows
    bifts: Bifts
    ports: Ports
    fold: Fold
    counters: Counters
    plan: Plan
    collect: Collect
    mishaps: Mishaps


@kernel
def now(sock: Sock) -> int:
    """Picoseconds since this node started."""
    return monotonic_ps(sock.spec) - sock.ints[START_PS]


@kernel
def receive(sock: Sock) -> int:
    """Next block into ``sock.buf``: bytes, or -1 when none waits. Sets SEG and PEER_ADDR."""
    sock.iov_in[1] = np.uint64(BUF_BYTES)
    sock.msg_in[1] = np.uint64(16)
    sock.msg_in[5] = np.uint64(64)
    n = recvmsg(sock.ints[FD], np.uint64(sock.msg_in.ctypes.data), MSG_DONTWAIT)
    if n < 0:
        return -1
    sock.ints[SEG] = max(n, 1)
    ctl = sock.ctl_in
    if sock.msg_in[5] >= np.uint64(20):
        level = i64(ctl[8]) | (i64(ctl[9]) << 8)
        kind = i64(ctl[12]) | (i64(ctl[13]) << 8)
        if level == SOL_UDP and kind == UDP_GRO:
            sock.ints[SEG] = max(i64(ctl[16]) | (i64(ctl[17]) << 8), 1)
    a = sock.name_in
    sock.ints[PEER_ADDR] = (i64(a[4]) << 24) | (i64(a[5]) << 16) | (i64(a[6]) << 8) | i64(a[7])
    return n


@kernel
def port_of(ports: Ports, addr: int) -> int:
    """Port of a neighbour's address, or -1."""
    for p in range(1, ports.addr.shape[0]):
        if ports.addr[p] == addr:
            return p
    return -1


@kernel
def measure_queue(sock: Sock, node: Node) -> None:
    """Fill of the receive queue into ``queue``; 255 when the socket dropped since last time."""
    sock.mem[8] = 36
    mem = np.uint64(sock.mem.ctypes.data)
    fd = sock.ints[FD]
    if getsockopt(fd, SOL_SOCKET, SO_MEMINFO, mem, mem + np.uint64(64)) < 0:
        return
    used = sock.mem[0] & 0xFFFFFFFF
    room = max(sock.mem[0] >> 32, 1)
    drops = sock.mem[4] & 0xFFFFFFFF
    fill = min(used * 255 // room, 254)
    if drops != sock.ints[DROPS_SEEN]:
        node.counters.drops[DROP_SOCKET_FULL] += (drops - sock.ints[DROPS_SEEN]) & 0xFFFFFFFF
        sock.ints[DROPS_SEEN] = drops
        fill = 255
    node.row[0]["queue"] = max(fill, node.row[0]["queue"] - 8)


@kernel
def tap_packets(
    sock: Sock, buf: U8, at: int, n: int, seg: int, port: int, way: int, dport: int, addr: int
) -> None:
    """Copy packets into the capture buffer; what does not fit is counted as lost."""
    when = now(sock)
    end = at + n
    while at < end:
        size = min(seg, end - at)
        used = sock.ints[TAP_USED]
        if used + TAP_HEAD + size > sock.tap.shape[0]:
            sock.ints[TAP_LOST] += 1
        else:
            head = sock.tap[used : used + TAP_HEAD].view(np.int64)
            head[0] = when
            head[1] = size | (port << 32) | (way << 40) | (dport << 48)
            head[2] = addr
            copy_octets(sock.tap, used + TAP_HEAD, buf, at, size)
            sock.ints[TAP_USED] = used + TAP_HEAD + ((size + 7) & ~7)
        at += seg


@kernel
def aim(sock: Sock, addr: int, dport: int) -> None:
    """Set the destination of the next send."""
    a = sock.name_out
    a[2], a[3] = dport >> 8, dport & 0xFF
    a[4], a[5], a[6], a[7] = addr >> 24, (addr >> 16) & 0xFF, (addr >> 8) & 0xFF, addr & 0xFF


@kernel
def send_iov(sock: Sock, n_iov: int, n_pkts: int, seg: int) -> bool:
    """Send the iovecs as ``n_pkts`` packets of ``seg`` bytes; False when the kernel refused."""
    sock.msg_out[3] = np.uint64(n_iov)
    if n_pkts > 1:
        sock.ctl_out[16], sock.ctl_out[17] = seg & 0xFF, seg >> 8
        sock.msg_out[4] = np.uint64(sock.ctl_out.ctypes.data)
        sock.msg_out[5] = np.uint64(24)
    else:
        sock.msg_out[4] = np.uint64(0)
        sock.msg_out[5] = np.uint64(0)
    return sendmsg(sock.ints[FD], np.uint64(sock.msg_out.ctypes.data), 0) >= 0


@kernel
def send_run(
    sock: Sock,
    buf: U8,
    starts: I64,
    lo: int,
    hi: int,
    first: int,
    seg: int,
    n: int,
    counters: Counters,
) -> None:
    """Send packets ``starts[lo:hi]`` of a block to the address aimed at."""
    base = np.uint64(buf.ctypes.data)
    if sock.ints[GSO] != 0:
        n_iov = 0
        for i in range(lo, hi):
            at = first + starts[i] * seg
            size = min(seg, n - at)
            if i > lo and starts[i] == starts[i - 1] + 1:
                sock.iov_out[2 * n_iov - 1] += np.uint64(size)
            else:
                sock.iov_out[2 * n_iov] = base + np.uint64(at)
                sock.iov_out[2 * n_iov + 1] = np.uint64(size)
                n_iov += 1
        if send_iov(sock, n_iov, hi - lo, seg):
            return
        if hi - lo == 1:
            counters.drops[DROP_SEND_FAILED] += 1
            return
    for i in range(lo, hi):  # no segmentation offload here, or this send was refused
        at = first + starts[i] * seg
        sock.iov_out[0] = base + np.uint64(at)
        sock.iov_out[1] = np.uint64(min(seg, n - at))
        if not send_iov(sock, 1, 1, seg):
            counters.drops[DROP_SEND_FAILED] += 1


@kernel
def count_sent(counters: Counters, port: int, kind: int, flow: int, size: int) -> None:
    """One packet of ``size`` bytes left through ``port``."""
    counters.tx[port, kind, 0] += 1
    counters.tx[port, kind, 1] += size + UNDERLAY_BYTES
    if flow >= 0:
        counters.flow_tx[flow, port, kind, 0] += 1
        counters.flow_tx[flow, port, kind, 1] += size + UNDERLAY_BYTES


@kernel
def count_run(
    counters: Counters, port: int, plan: Plan, lo: int, hi: int, seg: int, n: int
) -> None:
    """Count copies ``lo`` to ``hi`` of a port, once for each run of one class and flow.

    n: bytes of the block from the first packet on.
    """
    i = lo
    while i < hi:
        k = plan.pkt[port, i]
        kind, flow = plan.kind[k], plan.flow[k]
        n_pkts = 0
        n_bytes = 0
        while i < hi and plan.kind[plan.pkt[port, i]] == kind:
            if plan.flow[plan.pkt[port, i]] != flow:
                break
            n_pkts += 1
            n_bytes += min(seg, n - plan.pkt[port, i] * seg) + UNDERLAY_BYTES
            i += 1
        counters.tx[port, kind, 0] += n_pkts
        counters.tx[port, kind, 1] += n_bytes
        if flow >= 0:
            counters.flow_tx[flow, port, kind, 0] += n_pkts
            counters.flow_tx[flow, port, kind, 1] += n_bytes


@kernel
def send_plan(sock: Sock, buf: U8, first: int, seg: int, n: int, node: Node) -> None:
    """Send every planned copy, one call for each run of packets to one port."""
    plan = node.plan
    for port in range(1, plan.n.shape[0]):
        total = plan.n[port]
        if total == 0:
            continue
        patch(buf, first, seg, port, plan)
        lo = 0
        while lo < total:
            hi = lo
            size = 0
            while (
                hi < total
                and hi - lo < GSO_PKTS
                and plan.dport[port, hi] == plan.dport[port, lo]
            ):
                step = min(seg, n - first - plan.pkt[port, hi] * seg)
                if hi > lo and size + step > SEND_BYTES:
                    break
                size += step
                k = plan.pkt[port, hi]
                if sock.ints[TAPPING] != 0:
                    at = first + k * seg
                    tap_packets(
                        sock,
                        buf,
                        at,
                        step,
                        seg,
                        port,
                        TAP_OUT,
                        plan.dport[port, lo],
                        node.ports.addr[port],
                    )
                hi += 1
            count_run(node.counters, port, plan, lo, hi, seg, n - first)
            aim(sock, node.ports.addr[port], plan.dport[port, lo])
            send_run(sock, buf, plan.pkt[port], lo, hi, first, seg, n, node.counters)
            lo = hi


@kernel
def send_ready(sock: Sock, node: Node) -> None:
    """Send up the word of every slot that is complete or past its deadline, and free it."""
    fold = node.fold
    for i in range(fold.ready[0]):
        slot = fold.ready[1 + i]
        row = fold.rows[slot]
        port = row["port"]
        if node.row[0]["queue"] > row["queue"]:
            row["queue"] = node.row[0]["queue"]
        psn = 0
        while psn < MAX_PSN:
            coded = write_feedback(
                fold, slot, node.row[0]["addr"], node.row[0]["mtu"], psn, sock.out
            )
            size = coded // 128
            psn = coded % 128
            send_up(sock, node, port, row["bfir_id"], row["flow_port"], row["flow"], size)
        row["armed"] = 0
    fold.ready[0] = 0


@kernel
def send_up(
    sock: Sock, node: Node, port: int, bfir_id: int, flow_port: int, flow: int, size: int
) -> None:
    """Send the FEEDBACK in ``sock.out`` toward the BFIR through ``port``."""
    dport = flow_port if node.ports.bfr_id[port] == bfir_id else BIER_PORT
    aim(sock, node.ports.addr[port], dport)
    sock.iov_out[0] = np.uint64(sock.out.ctypes.data)
    sock.iov_out[1] = np.uint64(size)
    if sock.ints[TAPPING] != 0:
        tap_packets(sock, sock.out, 0, size, size, port, TAP_OUT, dport, node.ports.addr[port])
    if send_iov(sock, 1, 1, size):
        key = (bfir_id << 32) | flow
        count_sent(node.counters, port, CLASS_FEEDBACK, flow_row(node.counters, key), size)
    else:
        node.counters.drops[DROP_SEND_FAILED] += 1


@kernel
def flow_row(counters: Counters, key: int) -> int:
    """Row of a flow that is already counted, or -1."""
    for f in range(counters.flow_key.shape[0]):
        if counters.flow_key[f] == key:
            return f
    return -1


@kernel
def next_block(sock: Sock, node: Node, when: int) -> bool:
    """Bring the next block into hand: a held one that is due, else one from the socket."""
    ints = sock.ints
    if node.mishaps.n_held[0] > 0 and ints[HELD_DUE] <= when:
        n = release(sock.buf, when, node.mishaps, sock.found)
        ints[HELD_DUE] = sock.found[2]
        if n > 0:
            ints[SEG], ints[PORT] = sock.found[1], sock.found[0]
            ints[NEXT], ints[END] = 0, n
            return True
    n = receive(sock)
    if n < 0:
        return False
    ints[NEXT], ints[END] = 0, n
    ints[PORT] = port_of(node.ports, ints[PEER_ADDR])
    if ints[PORT] < 0:
        node.counters.drops[DROP_UNKNOWN_PEER] += (n + ints[SEG] - 1) // ints[SEG]
        ints[END] = 0
        return True
    if node.mishaps.ports[ints[PORT]]["active"] != 0:
        ints[END] = impair(
            sock.buf, n, ints[SEG], ints[PORT], when, node.mishaps, node.counters.drops
        )
        if node.mishaps.n_held[0] > 0:
            ints[HELD_DUE] = min(ints[HELD_DUE], when)
    if sock.ints[TAPPING] != 0 and ints[END] > 0:
        tap_packets(
            sock,
            sock.buf,
            0,
            ints[END],
            ints[SEG],
            ints[PORT],
            TAP_IN,
            BIER_PORT,
            ints[PEER_ADDR],
        )
    return True


@kernel
def count_received(sock: Sock, node: Node, first: int) -> None:
    """Count the packets of the pass in hand by port and class."""
    seg = sock.ints[SEG]
    rx = node.counters.rx[sock.ints[PORT]]
    k = 0
    at = first
    while at < min(sock.ints[NEXT], sock.ints[END]):
        size = min(seg, sock.ints[END] - at)
        rx[node.plan.kind[k], 0] += 1
        rx[node.plan.kind[k], 1] += size + UNDERLAY_BYTES
        at += seg
        k += 1


@kernel
def pump(sock: Sock, node: Node, turns: int) -> int:
    """Work until nothing waits, a role is needed, or ``turns`` blocks are done.

    Returns:
        IDLE: nothing waits. LOCAL: packets for this node stand in the block in hand, listed by
        the plan's port 0. EVENTS: blocks of a followed flow need attention. BUSY: more waits.
    """
    ints = sock.ints
    when = now(sock)
    measure_queue(sock, node)
    for _ in range(turns):
        if ints[NEXT] >= ints[END] and not next_block(sock, node, when):
            if node.row[0]["next_ps"] <= when:
                node.row[0]["next_ps"] = expire(node.fold, when)
                send_ready(sock, node)
            return EVENTS if node.collect.n_events[0] > 0 else IDLE
        if ints[NEXT] >= ints[END]:
            continue
        first = ints[NEXT]
        ints[FIRST] = first
        ints[NEXT] = plan_pass(
            sock.buf,
            first,
            ints[END],
            ints[SEG],
            ints[PORT],
            when,
            node.row,
            node.bifts,
            node.ports,
            node.fold,
            node.counters,
            node.plan,
        )
        count_received(sock, node, first)
        send_plan(sock, sock.buf, first, ints[SEG], ints[END], node)
        if node.fold.ready[0] > 0:
            send_ready(sock, node)
        if node.plan.n[0] > 0:
            collect_pass(
                sock.buf,
                first,
                ints[SEG],
                ints[END],
                when,
                node.plan,
                node.collect,
                node.counters.drops,
            )
            if has_other(node.plan) or node.collect.n_events[0] > 0:
                return LOCAL
        if ints[TAPPING] != 0 and ints[TAP_USED] * 2 > sock.tap.shape[0]:
            return BUSY
        when = now(sock)
    if node.row[0]["next_ps"] <= when:
        node.row[0]["next_ps"] = expire(node.fold, when)
        send_ready(sock, node)
    return BUSY


@kernel
def serve(sock: Sock, node: Node, turns: int, until_ps: int) -> int:
    """Pump and wait, pump and wait, until a role is needed or ``until_ps`` has come.

    Entering compiled code costs as much as forwarding a block, so a BFR stays in here.

    Returns:
        LOCAL, EVENTS or BUSY as ``pump``; IDLE at ``until_ps``, when gaps are to be reported,
        when the wake-up descriptor is readable or a signal came.
    """
    while True:
        code = pump(sock, node, turns)
        when = now(sock)
        if code == LOCAL or code == EVENTS or sock.ints[TAPPING] != 0 or when >= until_ps:
            return code
        if code == BUSY:
            continue
        report_ps = next_report(node.collect)
        until = min(until_ps, node.row[0]["next_ps"], sock.ints[HELD_DUE], report_ps)
        if until > when and wait_for(sock, until - when):
            return IDLE
        if report_ps <= now(sock):
            return IDLE


@kernel
def wait_for(sock: Sock, time_ps: int) -> bool:
    """Sleep until the socket is readable or time is over; True when somebody else calls."""
    time_ps = min(time_ps, MAX_SLEEP_PS)
    sock.spec[0] = time_ps // 1_000_000_000_000
    sock.spec[1] = time_ps % 1_000_000_000_000 // 1000
    sock.mem[0] = sock.ints[FD] | (POLLIN << 32)
    sock.mem[1] = sock.ints[WAKE_FD] | (POLLIN << 32)
    n = ppoll(np.uint64(sock.mem.ctypes.data), 2, np.uint64(sock.spec.ctypes.data))
    return n < 0 or (sock.mem[1] >> 48) != 0


@kernel
def has_other(plan: Plan) -> bool:
    """Something other than DATA is planned for the node itself."""
    for i in range(plan.n[0]):
        if plan.kind[plan.pkt[0, i]] >= CLASS_FEEDBACK:
            return True
    return False


@kernel
def transmit(sock: Sock, node: Node, buf: U8, n: int, seg: int) -> int:
    """Send a block of packets imposed here along this node's own BIFT.

    Returns:
        Packets that left, over all ports.
    """
    when = now(sock)
    at = 0
    sent = 0
    while at < n:
        following = plan_pass(
            buf,
            at,
            n,
            seg,
            0,
            when,
            node.row,
            node.bifts,
            node.ports,
            node.fold,
            node.counters,
            node.plan,
        )
        send_plan(sock, buf, at, seg, n, node)
        for port in range(1, node.plan.n.shape[0]):
            sent += node.plan.n[port]
        at = following
    return sent
