"""The ceiling of a forwarder: the same system calls, and nothing done to a header.

One ``recvmsg`` with UDP_GRO, then one ``sendmsg`` with UDP_SEGMENT for each destination. It has
its own arrays and loop: what ``fanfold.live.pump`` does beside its calls is not in here.
"""

import socket
import struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.kernels.jit import kernel
from fanfold.live.syscalls import (
    MSG_DONTWAIT,
    SOL_UDP,
    UDP_GRO,
    UDP_SEGMENT,
    recvmsg,
    sendmsg,
)

U64 = NDArray[np.uint64]
U8 = NDArray[np.uint8]
I64 = NDArray[np.int64]
BUF_BYTES = 1 << 17


class Relay(NamedTuple):
    """One socket, its buffer, and a msghdr for each destination."""

    fd: I64  # (1,)
    buf: U8
    msg_in: U64  # struct msghdr as seven words
    iov_in: U64
    ctl_in: U8
    msg_out: U64  # (D, 7)
    iov_out: U64  # (2,), shared: every copy is the same bytes
    ctl_out: U8
    names: U8  # (D, 16), struct sockaddr_in
    counts: I64  # blocks, packets, bytes received; sends refused


def build_relay(sock: socket.socket, destinations: list[tuple[str, int]]) -> Relay:
    """Arrays for one socket; addresses of arrays are written into the headers once."""
    n = len(destinations)
    relay = Relay(
        fd=np.array([sock.fileno()], np.int64),
        buf=np.zeros(BUF_BYTES, np.uint8),
        msg_in=np.zeros(7, np.uint64),
        iov_in=np.zeros(2, np.uint64),
        ctl_in=np.zeros(64, np.uint8),
        msg_out=np.zeros((n, 7), np.uint64),
        iov_out=np.zeros(2, np.uint64),
        ctl_out=np.zeros(24, np.uint8),
        names=np.zeros((n, 16), np.uint8),
        counts=np.zeros(4, np.int64),
    )
    relay.ctl_out[:16] = np.frombuffer(struct.pack("=QII", 18, SOL_UDP, UDP_SEGMENT), np.uint8)
    relay.iov_in[:] = relay.buf.ctypes.data, BUF_BYTES
    relay.iov_out[0] = relay.buf.ctypes.data
    relay.msg_in[:6] = 0, 0, relay.iov_in.ctypes.data, 1, relay.ctl_in.ctypes.data, 64
    for i, (address, port) in enumerate(destinations):
        name = struct.pack("=H", socket.AF_INET) + struct.pack("!H", port)
        name += socket.inet_aton(address) + bytes(8)
        relay.names[i] = np.frombuffer(name, np.uint8)
        relay.msg_out[i] = (
            relay.names[i].ctypes.data,
            16,
            relay.iov_out.ctypes.data,
            1,
            relay.ctl_out.ctypes.data,
            24,
            0,
        )
    return relay


@kernel
def forward(relay: Relay, turns: int) -> int:
    """Relay up to ``turns`` blocks; returns how many waited."""
    for turn in range(turns):
        relay.msg_in[5] = np.uint64(64)
        n = recvmsg(relay.fd[0], np.uint64(relay.msg_in.ctypes.data), MSG_DONTWAIT)
        if n < 0:
            return turn
        seg = n
        ctl = relay.ctl_in
        if relay.msg_in[5] >= np.uint64(20) and ctl[8] == SOL_UDP and ctl[12] == UDP_GRO:
            seg = np.int64(ctl[16]) | (np.int64(ctl[17]) << 8)
        n_pkts = (n + seg - 1) // seg
        relay.counts[0] += 1
        relay.counts[1] += n_pkts
        relay.counts[2] += n
        relay.iov_out[1] = np.uint64(n)
        relay.ctl_out[16], relay.ctl_out[17] = seg & 0xFF, seg >> 8
        base = np.uint64(relay.msg_out.ctypes.data)
        for d in range(relay.msg_out.shape[0]):
            relay.msg_out[d, 5] = np.uint64(24 if n_pkts > 1 else 0)
            if sendmsg(relay.fd[0], base + np.uint64(56 * d), 0) < 0:
                relay.counts[3] += 1
    return turns
