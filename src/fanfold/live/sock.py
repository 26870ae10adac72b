"""One UDP socket and its system calls, on arrays whose addresses never change.

Blocks of up to 64 KB of equal-size packets: UDP_GRO in, UDP_SEGMENT out, packet by packet where
the kernel offers neither (ADR 0005).
"""

from typing import NamedTuple

import numpy as np

from fanfold.kernels.codes import DROP_SEND_FAILED
from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.layout import UNDERLAY_BYTES
from fanfold.kernels.octets import copy_octets
from fanfold.kernels.state import I64, U8, U64, Counters, Plan
from fanfold.live.syscalls import (
    MSG_DONTWAIT,
    SOL_UDP,
    UDP_GRO,
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
EMPTY_PS = 15  # when nothing waited last
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
def count_sent(counters: Counters, port: int, kind: int, flow: int, size: int) -> None:
    """One packet of ``size`` bytes left through ``port``."""
    counters.tx[port, kind, 0] += 1
    counters.tx[port, kind, 1] += size + UNDERLAY_BYTES
    if flow >= 0:
        counters.flow_tx[flow, port, kind, 0] += 1
        counters.flow_tx[flow, port, kind, 1] += size + UNDERLAY_BYTES


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
    port: int,
    lo: int,
    hi: int,
    first: int,
    seg: int,
    n: int,
    plan: Plan,
    counters: Counters,
) -> None:
    """Send copies ``lo`` to ``hi`` that a plan has for ``port`` to the address aimed at."""
    starts = plan.pkt[port]
    base = np.uint64(buf.ctypes.data)
    if sock.ints[GSO] != 0:
        n_iov = 0
        i = lo
        while i < hi:
            at = first + starts[i] * seg
            n_pkts = min(plan.run[starts[i]], hi - i)
            size = np.uint64(min(n_pkts * seg, n - at))
            if i > lo and starts[i] == starts[i - 1] + 1:
                sock.iov_out[2 * n_iov - 1] += size
            else:
                sock.iov_out[2 * n_iov] = base + np.uint64(at)
                sock.iov_out[2 * n_iov + 1] = size
                n_iov += 1
            i += n_pkts
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
def wait_for(sock: Sock, time_ps: int) -> bool:
    """Sleep until the socket is readable or time is over; True when somebody else calls."""
    time_ps = min(time_ps, MAX_SLEEP_PS)
    sock.spec[0] = time_ps // 1_000_000_000_000
    sock.spec[1] = time_ps % 1_000_000_000_000 // 1000
    sock.mem[0] = sock.ints[FD] | (POLLIN << 32)
    sock.mem[1] = sock.ints[WAKE_FD] | (POLLIN << 32)
    n = ppoll(np.uint64(sock.mem.ctypes.data), 2, np.uint64(sock.spec.ctypes.data))
    return n < 0 or (sock.mem[1] >> 48) != 0
