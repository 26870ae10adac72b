"""Trailers of links with keys, written behind packets that leave (docs/wire/link-keys.md).

AES makes the masks of a whole call at once. Nothing here enters Python.
"""

import numpy as np

from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.layout import MAX_PSN, TRAILER_BYTES
from fanfold.kernels.octets import copy_octets
from fanfold.kernels.state import U8
from fanfold.live.link_tags import OUT, hash_packet, make_pads, place, set_nonce, write_tail
from fanfold.live.sock import CAME_AT, END, KEYED, LINKS, OPENED_AT, SEG, SEND_BYTES, Sock
from fanfold.live.syscalls import copy_memory

UDP_BYTES = 65_500
"""Payload of one send with trailers."""


@kernel
def trailer_of(sock: Sock) -> int:
    """Octets that a packet may grow by when it leaves."""
    return TRAILER_BYTES if sock.ints[KEYED] != 0 else 0


@kernel
def send_room(sock: Sock) -> int:
    """Octets of one send, trailers included."""
    return UDP_BYTES if sock.ints[KEYED] != 0 else SEND_BYTES


@kernel
def find_link(sock: Sock, port: int, dport: int) -> int:
    """Row of the session that is spoken by to a UDP port behind a port, or -1."""
    for r in range(sock.ints[LINKS]):
        row = sock.links.rows[r]
        if row["sends"] != 0 and row["port"] == port and row["dport"] == dport:
            return r
    return -1


@kernel
def seal_iov(sock: Sock, link: int, n_iov: int, seg: int) -> int:
    """Put a trailer behind each packet of the iovecs; how many iovecs, 0: it cannot be.

    Packets of the block in hand that came with trailers leave from where they came, so that
    the kernel copies runs, not packets. ``unseal_iov`` gives the iovecs back as they were.
    """
    table, iov = sock.links, sock.iov_out
    if seg < 1:
        return 0  # an empty packet is none
    as_came = came_so(sock, n_iov, seg)
    for i in range(2 * n_iov):
        table.plain[i] = iov[i]
    row = table.rows[link]
    n = 0
    for i in range(n_iov):
        left = i64(table.plain[2 * i + 1])
        while left > 0 and n < MAX_PSN:
            set_nonce(table, n, row["sent"] + 1 + n, min(seg, left))
            left -= seg
            n += 1
    if not make_pads(sock, row["cipher_out"], n):
        return 0
    n = k = 0
    for i in range(n_iov):
        at, left = table.plain[2 * i], i64(table.plain[2 * i + 1])
        n_pkts = min((left + seg - 1) // seg, MAX_PSN - k)
        if as_came:
            iov[2 * n] = seal_run_as_came(sock, link, k, at, left, seg)
            iov[2 * n + 1] = np.uint64(left + TRAILER_BYTES * n_pkts)
            n += 1
        else:
            seal_run_apart(sock, link, k, at, left, seg)
            n += 2 * n_pkts
        k += n_pkts
    row["sent"] += k
    return n


@kernel
def came_so(sock: Sock, n_iov: int, seg: int) -> bool:
    """The iovecs are packets of the block in hand, which came with trailers and was sound."""
    ints, iov = sock.ints, sock.iov_out
    if ints[CAME_AT] < 0 or seg != ints[SEG]:
        return False
    base = place(sock, OPENED_AT)
    for i in range(n_iov):
        if iov[2 * i] < base:
            return False
        at = OPENED_AT + i64(iov[2 * i] - base)
        if at >= ints[END] or (at - OPENED_AT) % seg != 0:
            return False
    return True


@kernel
def seal_run_as_came(
    sock: Sock, link: int, k: int, at: np.uint64, size: int, seg: int
) -> np.uint64:
    """Seal packets, the k-th mask on, where they came; where that is.

    Payloads are there. What is covered is copied: headers are others by now.
    """
    i = i64(at - place(sock, OPENED_AT)) // seg
    start = place(sock, sock.ints[CAME_AT] + i * (seg + TRAILER_BYTES))
    tails = np.uint64(sock.links.tails.ctypes.data)
    to, left = start, size
    while left > 0:
        n = min(seg, left)
        covered = seal_packet(sock, link, k, at, n)
        copy_memory(to, at, covered)
        copy_memory(to + np.uint64(n), tails + np.uint64(TRAILER_BYTES * k), TRAILER_BYTES)
        at += np.uint64(n)
        to += np.uint64(n + TRAILER_BYTES)
        left -= n
        k += 1
    return start


@kernel
def seal_run_apart(sock: Sock, link: int, k: int, at: np.uint64, size: int, seg: int) -> None:
    """Seal packets, the k-th mask on, by iovecs of their own and of their trailers."""
    iov = sock.iov_out
    tails = np.uint64(sock.links.tails.ctypes.data)
    left = size
    while left > 0 and k < MAX_PSN:
        n = min(seg, left)
        seal_packet(sock, link, k, at, n)
        iov[4 * k], iov[4 * k + 1] = at, np.uint64(n)
        iov[4 * k + 2] = tails + np.uint64(TRAILER_BYTES * k)
        iov[4 * k + 3] = np.uint64(TRAILER_BYTES)
        at += np.uint64(n)
        left -= n
        k += 1


@kernel
def seal_packet(sock: Sock, link: int, k: int, at: np.uint64, size: int) -> int:
    """Write the k-th trailer, of the packet at an address; how much of that it covers."""
    table = sock.links
    row = table.rows[link]
    covered = hash_packet(table, table.first[link, OUT], table.later[link, OUT], at, size)
    write_tail(table, k, row["peer_id"], row["sent"] + 1 + k)
    return covered


@kernel
def unseal_iov(sock: Sock, n_iov: int) -> None:
    """Let the iovecs be what they were before ``seal_iov``."""
    for i in range(2 * n_iov):
        sock.iov_out[i] = sock.links.plain[i]


@kernel
def seal_one(sock: Sock, port: int, dport: int, packet: U8, out: U8) -> int:
    """Write one packet and its trailer into ``out``; octets, 0: there is no key. For Python."""
    link = find_link(sock, port, dport)
    n: int = packet.shape[0]
    if link < 0:
        return 0
    sock.iov_out[0], sock.iov_out[1] = np.uint64(packet.ctypes.data), np.uint64(n)
    if seal_iov(sock, link, 1, n) == 0:
        return 0
    copy_octets(out, 0, packet, 0, n)
    tail = sock.links.tails[0:3].view(np.uint8)
    copy_octets(out, n, tail, 0, TRAILER_BYTES)
    return n + TRAILER_BYTES
