"""Ways out of a node: a socket for each port, a bounded queue behind it, no send that blocks.

Each port sends by a socket of its own, so a slow interface fills that socket's buffer and no
other's (ADR 0035). What the kernel does not take now waits in the port's queue, in the order
it came; what finds no room there is dropped and counted at the port.

A queue is a ring of runs. A run is what one ``sendmsg`` sends: RUN_HEAD bytes (struct
sockaddr_in, packets and bytes as one word, bytes of a packet), then its packets, padded.
"""

import numpy as np

from fanfold.kernels.codes import CLASS_FOLD, N_DROPS
from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.layout import TRAILER_BYTES, UNDERLAY_BYTES
from fanfold.kernels.octets import copy_octets
from fanfold.kernels.state import U8, Counters, Plan
from fanfold.live.rings import channel_to, put
from fanfold.live.sock import GSO, GSO_PKTS, ROOM_CAME, WAITING, Sock, now
from fanfold.live.syscalls import (
    EAGAIN,
    EMSGSIZE,
    ENOBUFS,
    MSG_DONTWAIT,
    copy_memory,
    last_error,
    sendmsg,
)
from fanfold.live.trailers_out import find_link, seal_iov, send_room, trailer_of, unseal_iov

RUN_HEAD = 32
QUEUE_BYTES = 256 << 10
"""Four runs of the largest size: what a neighbour sends in one go fits."""

OVERFLOWED = 255
LEAST_MARK_PS = 20_000_000_000

GONE = 0
KEPT = 1
FULL = 2
TOO_LARGE = 3
REFUSED = 4
BLOCKED = 5


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
def note_drops(counters: Counters, port: int) -> None:
    """What was dropped since the last note came in by ``port``; below 1: by none."""
    p = max(port, 0)
    for d in range(N_DROPS):
        n = counters.drops[d] - counters.drops_noted[d]
        if n != 0:
            counters.port_drops[p, d] += n
            counters.drops_noted[d] += n


@kernel
def flow_row(counters: Counters, key: int) -> int:
    """Row of a flow that is already counted, or -1."""
    for f in range(counters.flow_key.shape[0]):
        if counters.flow_key[f] == key:
            return f
    return -1


@kernel
def count_run(
    counters: Counters, port: int, plan: Plan, lo: int, hi: int, seg: int, n: int
) -> None:
    """Count copies ``lo`` to ``hi`` of a port, once for each run of packets alike.

    n: bytes of the block from the first packet on.
    """
    i = lo
    while i < hi:
        k = plan.pkt[port, i]
        kind, flow = plan.kind[k], plan.flow[k]
        n_pkts = min(plan.run[k], hi - i)
        n_bytes = min(n_pkts * seg, n - k * seg) + n_pkts * UNDERLAY_BYTES
        counters.tx[port, kind, 0] += n_pkts
        counters.tx[port, kind, 1] += n_bytes
        if flow >= 0:
            counters.flow_tx[flow, port, kind, 0] += n_pkts
            counters.flow_tx[flow, port, kind, 1] += n_bytes
        i += n_pkts


@kernel
def fill_of(sock: Sock, port: int) -> int:
    """How full a port's queue is, 0 to 254."""
    fill: int = sock.exits[port]["used"] * 254 // sock.rings.shape[1]
    return fill


@kernel
def pressure_at(sock: Sock, port: int, when: int) -> int:
    """What FEEDBACK from behind a port is to say of its queue: its fill, 255 when it dropped.

    That holds until the queue was empty and as long again: what still waits in the kernel, and
    the word of who lacks something, take about that time.
    """
    row = sock.exits[port]
    if row["full_ps"] != 0:
        took_ps = row["drained_ps"] - row["full_ps"]
        if row["drained_ps"] == 0 or when < row["drained_ps"] + took_ps + LEAST_MARK_PS:
            return OVERFLOWED
        row["full_ps"] = 0
    return fill_of(sock, port)


@kernel
def send_now(sock: Sock, port: int, n_iov: int, n_pkts: int, seg: int) -> int:
    """Give the iovecs to the kernel as ``n_pkts`` packets of ``seg`` bytes.

    Returns:
        GONE, BLOCKED, FULL, TOO_LARGE or REFUSED; nothing is counted.
    """
    sock.msg_out[3] = np.uint64(n_iov)
    if n_pkts > 1:
        sock.ctl_out[16], sock.ctl_out[17] = seg & 0xFF, seg >> 8
        sock.msg_out[4] = np.uint64(sock.ctl_out.ctypes.data)
        sock.msg_out[5] = np.uint64(24)
    else:
        sock.msg_out[4] = np.uint64(0)
        sock.msg_out[5] = np.uint64(0)
    fd = sock.exits[port]["fd"]
    if sendmsg(fd, np.uint64(sock.msg_out.ctypes.data), MSG_DONTWAIT) >= 0:
        return GONE
    error = last_error(sock.error)
    if error == EAGAIN:
        return BLOCKED
    if error == EMSGSIZE:
        return TOO_LARGE
    return FULL if error == ENOBUFS else REFUSED


@kernel
def count_lost(sock: Sock, port: int, code: int, n_pkts: int) -> None:
    """Packets for a port that went nowhere."""
    row = sock.exits[port]
    if code == FULL:
        row["full"] += n_pkts
        row["full_ps"], row["drained_ps"] = now(sock), 0
    elif code == TOO_LARGE:
        row["too_large"] += n_pkts
    elif code == REFUSED:
        row["refused"] += n_pkts


@kernel
def send_iov(sock: Sock, port: int, n_iov: int, n_pkts: int, seg: int) -> int:
    """Send the iovecs out of a port, behind what waits there.

    Returns:
        GONE or KEPT; FULL, as a port is that is shut; TOO_LARGE or REFUSED, which are counted
        unless more than one packet was refused: then each is to be tried by itself.
    """
    if sock.exits[port]["shut"] != 0:
        sock.exits[port]["shut_out"] += n_pkts
        return FULL
    if sock.exits[port]["keys"] != 0:
        return send_keyed(sock, port, n_iov, n_pkts, seg)
    return send_bare(sock, port, n_iov, n_pkts, seg)


@kernel
def send_keyed(sock: Sock, port: int, n_iov: int, n_pkts: int, seg: int) -> int:
    """``send_iov`` where the link has keys: each packet with a trailer, or not at all."""
    link = find_link(sock, port, (i64(sock.name_out[2]) << 8) | i64(sock.name_out[3]))
    if link < 0 and sock.exits[port]["keys"] == 1:
        return send_bare(sock, port, n_iov, n_pkts, seg)
    if link >= 0 and n_pkts > GSO_PKTS:
        return REFUSED
    n_sealed = seal_iov(sock, link, n_iov, seg) if link >= 0 else 0
    if n_sealed == 0:
        sock.exits[port]["no_key"] += n_pkts
        return FULL
    code = send_bare(sock, port, n_sealed, n_pkts, seg + TRAILER_BYTES)
    unseal_iov(sock, n_iov)
    return code


@kernel
def send_bare(sock: Sock, port: int, n_iov: int, n_pkts: int, seg: int) -> int:
    """``send_iov`` of what is to leave as it is."""
    code = BLOCKED
    if sock.exits[port]["used"] == 0:
        code = send_now(sock, port, n_iov, n_pkts, seg)
    if code == BLOCKED:
        code = keep(sock, port, n_iov, n_pkts, seg)
    if code == FULL or n_pkts == 1:
        count_lost(sock, port, code, n_pkts)
    return code


@kernel
def keep(sock: Sock, port: int, n_iov: int, n_pkts: int, seg: int) -> int:
    """Queue the iovecs at a port: KEPT, or FULL."""
    row, ring = sock.exits[port], sock.rings[port]
    room = ring.shape[0]
    size = 0
    for i in range(n_iov):
        size += i64(sock.iov_out[2 * i + 1])
    need = RUN_HEAD + ((size + RUN_HEAD - 1) & ~(RUN_HEAD - 1))
    if row["used"] + need > room:
        return FULL
    at = (row["head"] + row["used"]) % room
    copy_octets(ring, at, sock.name_out, 0, 16)
    head = ring[at + 16 : at + RUN_HEAD].view(np.int64)
    head[0], head[1] = size | (n_pkts << 32), seg
    at = (at + RUN_HEAD) % room
    for i in range(n_iov):
        at = copy_round(ring, at, sock.iov_out[2 * i], i64(sock.iov_out[2 * i + 1]))
    if row["used"] == 0:
        sock.ints[WAITING] += 1
    row["used"] += need
    return KEPT


@kernel
def copy_round(ring: U8, at: int, source: np.uint64, n: int) -> int:
    """Copy ``n`` bytes from an address to ``at`` in a ring; where the next ones go."""
    base = np.uint64(ring.ctypes.data)
    n_first = min(n, ring.shape[0] - at)
    copy_memory(base + np.uint64(at), source, n_first)
    if n > n_first:
        copy_memory(base, source + np.uint64(n_first), n - n_first)
    following: int = (at + n) % ring.shape[0]
    return following


@kernel
def point_at(sock: Sock, port: int, at: int, n: int) -> int:
    """Let the iovecs be ``n`` bytes of a port's queue; how many iovecs."""
    ring = sock.rings[port]
    base = np.uint64(ring.ctypes.data)
    at %= ring.shape[0]
    n_first = min(n, ring.shape[0] - at)
    sock.iov_out[0], sock.iov_out[1] = base + np.uint64(at), np.uint64(n_first)
    if n == n_first:
        return 1
    sock.iov_out[2], sock.iov_out[3] = base, np.uint64(n - n_first)
    return 2


@kernel
def drain(sock: Sock) -> None:
    """Send what waits, as far as the kernel takes it."""
    if sock.ints[WAITING] == 0:
        return
    for port in range(1, sock.exits.shape[0]):
        row = sock.exits[port]
        if row["used"] == 0:
            continue
        while row["used"] > 0 and send_oldest(sock, port):
            continue
        if row["used"] == 0:
            sock.ints[WAITING] -= 1
            if row["full_ps"] != 0 and row["drained_ps"] == 0:
                row["drained_ps"] = now(sock)
            if row["wanted"] != 0:
                row["wanted"] = 0
                sock.ints[ROOM_CAME] = 1


@kernel
def send_oldest(sock: Sock, port: int) -> bool:
    """Send the oldest run of a queue; False where the kernel takes none now."""
    row, ring = sock.exits[port], sock.rings[port]
    at = row["head"]
    copy_octets(sock.name_out, 0, ring, at, 16)
    head = ring[at + 16 : at + RUN_HEAD].view(np.int64)
    size, n_pkts, seg = head[0] & 0xFFFFFFFF, head[0] >> 32, head[1]
    at += RUN_HEAD
    code = send_now(sock, port, point_at(sock, port, at, size), n_pkts, seg)
    if code == BLOCKED:
        return False
    if code > FULL and n_pkts > 1:
        for k in range(n_pkts):
            n = min(seg, size - k * seg)
            one = send_now(sock, port, point_at(sock, port, at + k * seg, n), 1, n)
            count_lost(sock, port, FULL if one == BLOCKED else one, 1)
    else:
        count_lost(sock, port, code, n_pkts)
    need = RUN_HEAD + ((size + RUN_HEAD - 1) & ~(RUN_HEAD - 1))
    row["head"] = (row["head"] + need) % ring.shape[0]
    row["used"] -= need
    return True


@kernel
def send_packet(sock: Sock, port: int, packet: U8, n: int) -> bool:
    """Send one packet to the address aimed at; False when it went nowhere."""
    sock.iov_out[0] = np.uint64(packet.ctypes.data)
    sock.iov_out[1] = np.uint64(n)
    return send_iov(sock, port, 1, 1, n) <= KEPT


@kernel
def post(sock: Sock, port: int, addr: int, dport: int, packet: U8) -> bool:
    """Send one packet to an address; False when it went nowhere. For a caller in Python."""
    aim(sock, addr, dport)
    return send_packet(sock, port, packet, packet.shape[0])


@kernel
def send_end(sock: Sock, plan: Plan, port: int, lo: int, seg: int, n: int) -> int:
    """Past the last of a port's copies from ``lo`` on that go out in one call.

    n: bytes of the block from the first packet on.
    """
    more, room = trailer_of(sock), send_room(sock)
    hi = lo
    size = 0
    while hi < plan.n[port] and plan.dport[port, hi] == plan.dport[port, lo]:
        k = plan.pkt[port, hi]
        n_pkts = min(plan.run[k], GSO_PKTS - (hi - lo))
        n_pkts = min(n_pkts, (room - size) // (min(seg, n - k * seg) + more))
        if hi == lo:
            n_pkts = max(n_pkts, 1)  # a packet larger than a block goes alone
        elif n_pkts <= 0:
            break
        size += min(n_pkts * seg, n - k * seg) + n_pkts * more
        hi += n_pkts
    return hi


@kernel
def point_run(
    sock: Sock, buf: U8, port: int, lo: int, hi: int, first: int, seg: int, n: int, plan: Plan
) -> int:
    """Let the iovecs be copies ``lo`` to ``hi`` of a port; how many iovecs."""
    starts = plan.pkt[port]
    base = np.uint64(buf.ctypes.data)
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
    return n_iov


@kernel
def put_run(
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
) -> bool:
    """Put copies of results into a neighbour's ring and count them; False where none takes it.

    Only arrays travel by rings: what regulates a push is the fill of sockets.
    """
    if plan.kind[plan.pkt[port, lo]] != CLASS_FOLD:
        return False
    c = channel_to(sock, port, plan.dport[port, lo])
    if c < 0:
        return False
    n_iov = point_run(sock, buf, port, lo, hi, first, seg, n, plan)
    if not put(sock, c, n_iov, seg):
        return False
    count_run(counters, port, plan, lo, hi, seg, n - first)
    return True


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
) -> int:
    """Send copies ``lo`` to ``hi`` that a plan has for ``port`` to the address aimed at.

    What leaves, or waits for its port, is counted as sent.

    Returns:
        The worst that became of any: GONE, KEPT, FULL, TOO_LARGE or REFUSED.
    """
    starts = plan.pkt[port]
    base = np.uint64(buf.ctypes.data)
    if sock.ints[GSO] != 0:
        n_iov = point_run(sock, buf, port, lo, hi, first, seg, n, plan)
        code = send_iov(sock, port, n_iov, hi - lo, seg)
        if code <= KEPT:
            count_run(counters, port, plan, lo, hi, seg, n - first)
        if code <= FULL or hi - lo == 1:
            return code
    worst = GONE
    for i in range(lo, hi):  # no segmentation offload here, or this send was refused
        at = first + starts[i] * seg
        sock.iov_out[0] = base + np.uint64(at)
        sock.iov_out[1] = np.uint64(min(seg, n - at))
        code = send_iov(sock, port, 1, 1, seg)
        if code <= KEPT:
            count_run(counters, port, plan, i, i + 1, seg, n - first)
        worst = max(worst, code)
    return worst
