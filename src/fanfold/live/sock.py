"""One UDP socket and its system calls, on arrays whose addresses never change.

Blocks of up to 64 KB of equal-size packets: UDP_GRO in, UDP_SEGMENT out, packet by packet where
the kernel offers neither (ADR 0005).
"""

from typing import NamedTuple

import numpy as np

from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.octets import copy_octets
from fanfold.kernels.state import I64, U8, U64, Rows
from fanfold.live.link_table import LinkTable
from fanfold.live.syscalls import (
    MSG_DONTWAIT,
    SO_TIMESTAMPNS,
    SOL_SOCKET,
    SOL_UDP,
    UDP_GRO,
    monotonic_ps,
    realtime_ns,
    recvmsg,
)

BUF_BYTES = 1 << 17
OPENED_AT = 1 << 16
"""Where in ``buf`` packets go whose trailers are taken off; what one call brings ends below."""
SEND_BYTES = 65_400  # payload of one send, below the 65,507 of UDP over IPv4
GSO_PKTS = 64  # UDP_MAX_SEGMENTS of older kernels

MOST_AGE_PS = 10_000_000_000_000
"""No packet waits longer for its process; the wall clock was set, rather."""

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
TAPPING = 12  # bytes kept of each packet, 0: none is captured
HELD_DUE = 13
WAKE_FD = 14
WAITING = 15  # ports whose queue holds something
ROOM_CAME = 16  # a queue that somebody waits for is empty
CAME_NS = 17  # when the block came, of CLOCK_REALTIME; 0 where nobody asked for that
EMPTY_PS = 18  # when nothing waited last
BASE = 19  # where the block in hand begins in ``buf``
CHANNELS = 20  # rows of ``channels`` that may be in use
CURSOR = 21  # which of them is looked at next; past the last: the socket
BELL_FD = 22  # eventfd that neighbours write to
RUNS_IN = 23  # blocks that came by rings,
RUNS_OUT = 24  # that left by them,
BROKEN = 25  # and rings that held what no neighbour writes
LATER = 26  # 1: the loop wakes neighbours when it has done what it can
STIR = 27  # whether traffic is to be noted (life.py)
STIRRED = 28  # 1: there was some, and Python is to look
KEYED = 29  # 1: some port's link has keys
LINKS = 30  # rows of ``links`` that may be in use
AES_AT = 31  # address of EVP_EncryptUpdate, 0: no link has keys
REST_AT = 32  # what of the block that came is still to be looked at (trailers.py),
REST_END = 33
REST_SEG = 34  # as it came
BARE = 35  # 1: the block in hand came without trailers where there are to be some
CAME_AT = (
    36  # where the block in hand stands as it came, trailers between its packets; -1: nowhere
)
N_INTS = 37

EXIT_ROW = np.dtype(
    [
        ("fd", np.int64),
        ("head", np.int64),  # of the oldest run in the queue
        ("used", np.int64),  # bytes of the queue
        ("wanted", np.int64),  # somebody holds back until it is empty
        ("full_ps", np.int64),  # when it dropped last, 0 = not lately
        ("drained_ps", np.int64),  # when it was empty after that, 0 = not yet
        ("full", np.int64),  # packets dropped because it was full,
        ("too_large", np.int64),  # because a link had become too small for them,
        ("refused", np.int64),  # because the kernel refused them,
        ("shut", np.int64),  # 1: nothing passes this port, by hand
        ("shut_out", np.int64),  # packets dropped for that
        ("keys", np.int64),  # 0 no keys, 1 where the neighbour has them, 2 nothing without
        ("no_key", np.int64),  # packets dropped because there was none
        ("tokens", np.int64),  # handshakes that may come now from the neighbour's node,
        ("token_ps", np.int64),  # of this time,
        ("push_tokens", np.int64),  # and from other UDP ports of its address
    ]
)
"""What a port's packets leave by (exits.py)."""

CHANNEL_ROW = np.dtype(
    [
        ("state", np.int64),
        ("port", np.int64),  # of this node
        ("addr", np.int64),  # of the neighbour
        ("dport", np.int64),  # UDP port that packets for it are sent to
        ("out_at", np.int64),  # where in ``buf`` is the page of the ring that it reads,
        ("out_data", np.int64),
        ("in_at", np.int64),  # and of the one that it writes
        ("in_data", np.int64),
        ("origin", np.int64),  # what ``head`` was when the ring was begun anew
        ("head", np.int64),  # bytes ever written,
        ("tail", np.int64),  # and read
        ("held", np.int64),  # bytes of the block in hand
        ("owed", np.int64),  # bytes written since the neighbour was woken last
        ("conn", np.int64),  # Unix socket to the neighbour: it lives
        ("bell", np.int64),  # eventfd that wakes it
    ]
)
"""A neighbour on this machine and the two rings shared with it (rings.py)."""

TAP_HEAD = 24  # i64 time, u16 kept, u16 size, u8 port, u8 way, u16 peer port, u32 peer, pad
HELLO_ROOM = 64

TAP_IN = 1
TAP_OUT = 2


class Sock(NamedTuple):
    """One socket and the memory its calls use; addresses of the arrays never change."""

    ints: I64  # (N_INTS,)
    buf: U8  # BUF_BYTES for the block from the socket, then the memory shared with neighbours
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
    exits: Rows  # (P,) of EXIT_ROW, row 0 unused
    rings: U8  # (P, QUEUE_BYTES): what waits for a port
    polls: I64  # (P + C + 3,) struct pollfd
    error: I64  # (1,)
    channels: Rows  # (C,) of CHANNEL_ROW
    bell: I64  # (1,) what is written to a bell and read from it
    heard: I64  # (P,) when something came last, 0 = never
    hellos: U8  # (P, HELLO_ROOM): bytes of the last HELLO of a port, then these
    links: LinkTable


@kernel
def now(sock: Sock) -> int:
    """Picoseconds since this node started."""
    return monotonic_ps(sock.spec) - sock.ints[START_PS]


@kernel
def receive(sock: Sock) -> int:
    """Next block into ``sock.buf``: bytes, or -1 when none waits.

    Sets BASE, SEG, PEER_ADDR and CAME_NS.
    """
    sock.iov_in[1] = np.uint64(BUF_BYTES)
    sock.msg_in[1] = np.uint64(16)
    sock.msg_in[5] = np.uint64(64)
    n = recvmsg(sock.ints[FD], np.uint64(sock.msg_in.ctypes.data), MSG_DONTWAIT)
    if n < 0:
        return -1
    sock.ints[BASE] = 0
    sock.ints[SEG] = max(n, 1)
    sock.ints[CAME_NS] = 0
    n_words = i64(sock.msg_in[5]) >> 3
    ctl = sock.ctl_in.view(np.int64)
    at = 0
    while at + 2 < n_words:  # struct cmsghdr: length, level and type, then the data
        if ctl[at + 1] == SOL_UDP | (UDP_GRO << 32):
            sock.ints[SEG] = max(ctl[at + 2] & 0xFFFF, 1)
        elif ctl[at + 1] == SOL_SOCKET | (SO_TIMESTAMPNS << 32) and at + 3 < n_words:
            sock.ints[CAME_NS] = ctl[at + 2] * 1_000_000_000 + ctl[at + 3]
        at += max((ctl[at] + 7) >> 3, 1)
    a = sock.name_in
    sock.ints[PEER_ADDR] = (i64(a[4]) << 24) | (i64(a[5]) << 16) | (i64(a[6]) << 8) | i64(a[7])
    return n


@kernel
def came_at(sock: Sock, when: int) -> int:
    """When the block in hand came, at most ``when``, which is now."""
    if sock.ints[CAME_NS] == 0:
        return when
    age_ps = (realtime_ns(sock.spec) - sock.ints[CAME_NS]) * 1000
    return when - min(max(age_ps, 0), MOST_AGE_PS)


@kernel
def tap_packets(
    sock: Sock, buf: U8, at: int, n: int, seg: int, port: int, way: int, dport: int, addr: int
) -> None:
    """Copy packets into the capture buffer; what does not fit is counted as lost."""
    when = now(sock)
    end = at + n
    while at < end:
        size = min(seg, end - at)
        kept = min(size, sock.ints[TAPPING])
        used = sock.ints[TAP_USED]
        if used + TAP_HEAD + kept > sock.tap.shape[0]:
            sock.ints[TAP_LOST] += 1
        else:
            head = sock.tap[used : used + TAP_HEAD].view(np.int64)
            head[0] = when
            head[1] = kept | (size << 16) | (port << 32) | (way << 40) | (dport << 48)
            head[2] = addr
            copy_octets(sock.tap, used + TAP_HEAD, buf, at, kept)
            sock.ints[TAP_USED] = used + TAP_HEAD + ((kept + 7) & ~7)
        at += seg


@kernel
def aim(sock: Sock, addr: int, dport: int) -> None:
    """Set the destination of the next send."""
    a = sock.name_out
    a[2], a[3] = dport >> 8, dport & 0xFF
    a[4], a[5], a[6], a[7] = addr >> 24, (addr >> 16) & 0xFF, (addr >> 8) & 0xFF, addr & 0xFF
