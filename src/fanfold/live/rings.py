"""Links by shared memory between processes of one machine: rings of blocks (ADR 0040).

A channel is two rings, one each way, each written by one process and read by one. A ring is a
page of words in three lines (bytes ever written, and how many were when it began anew; bytes
ever read; the reader sleeps) and RING_BYTES of entries: a line with the block's bytes and those
of its packets, then the block as ``recvmsg`` with UDP_GRO would have brought it. The reader
works on it where it stands, and gives the room back with its next look. A writer that finds all
read begins anew, at the ring's begin: what is little stays in the processor's cache.

What a neighbour writes is believed no more than a datagram: of its words and of each entry's
head only what lies inside the ring is taken; else the channel is broken and the socket is left.
"""

import numpy as np

from fanfold.kernels.jit import fence, i64, kernel, load_word, store_word
from fanfold.live.sock import (
    BASE,
    BELL_FD,
    BROKEN,
    CAME_NS,
    CHANNELS,
    CURSOR,
    FD,
    LATER,
    PEER_ADDR,
    RUNS_IN,
    RUNS_OUT,
    SEG,
    WAITING,
    WAKE_FD,
    Sock,
    receive,
)
from fanfold.live.syscalls import copy_memory, ppoll, read_fd, write_fd

PAGE = 4096
RING_BYTES = 4 << 20
"""A power of two, and more than a window of a group has under way."""
CHANNEL_BYTES = 2 * (PAGE + RING_BYTES)
BELL_BYTES = 128 << 10
"""A neighbour that sleeps is woken for so much, or when this process has nothing else to do."""
LINE = 64
MOST_BYTES = 1 << 16
"""Of a block."""
SKIP = -1
"""In place of a size: the next entry is at the ring's begin."""

# Words of a ring's page.
HEAD_AT = 0
ORIGIN_AT = 8
TAIL_AT = 64
ASLEEP_AT = 128

# States of a channel.
NONE = 0
LIVE = 1
OFFERED = 2
"""Read from, and not yet written to: the neighbour has not said that it reads."""
LEFT = 3
"""The neighbour has ended: what it wrote before is read, then the channel is dead."""
DEAD = 4

POLLIN = 1
POLLOUT = 4
MAX_SLEEP_PS = 250_000_000_000


@kernel
def place(sock: Sock, at: int) -> np.uint64:
    """Address of an offset of ``buf``."""
    return np.uint64(sock.buf.ctypes.data) + np.uint64(at)


@kernel
def entry_bytes(n: int) -> int:
    """Room that a block of ``n`` bytes takes in a ring."""
    return LINE + ((n + LINE - 1) & ~(LINE - 1))


@kernel
def is_read(row: np.void) -> bool:
    """A channel's ring may hold something for this process."""
    return bool(row["state"] >= LIVE and row["state"] <= LEFT)


@kernel
def channel_to(sock: Sock, port: int, dport: int) -> int:
    """Channel to whom packets out of ``port`` to a UDP port reach, or -1."""
    for c in range(sock.ints[CHANNELS]):
        row = sock.channels[c]
        if row["state"] == LIVE and row["port"] == port and row["dport"] == dport:
            return c
    return -1


@kernel
def give_up(sock: Sock, c: int) -> None:
    """A neighbour wrote what none writes: use the channel no more."""
    sock.channels[c]["state"] = DEAD
    sock.ints[BROKEN] += 1


@kernel
def take(sock: Sock, c: int) -> int:
    """Next block of a channel: bytes, or -1 when none waits; the one before it is given back.

    Sets BASE, SEG, PEER_ADDR and CAME_NS.
    """
    row = sock.channels[c]
    if row["held"] != 0:
        row["tail"] += row["held"]
        row["held"] = 0
        store_word(place(sock, row["in_at"] + TAIL_AT), row["tail"])
    for _ in range(2):
        used = load_word(place(sock, row["in_at"] + HEAD_AT)) - row["tail"]
        if used == 0:
            if row["state"] == LEFT:
                row["state"] = DEAD
            return -1
        origin = load_word(place(sock, row["in_at"] + ORIGIN_AT))
        at = (row["tail"] - origin) & (RING_BYTES - 1)
        if used < 0 or used > RING_BYTES or (used | at) % LINE != 0:
            break
        word = load_word(place(sock, row["in_data"] + at))
        if word == SKIP:
            if RING_BYTES - at > used:
                break
            row["tail"] += RING_BYTES - at
            store_word(place(sock, row["in_at"] + TAIL_AT), row["tail"])
            continue
        n, seg = word & 0xFFFFFFFF, word >> 32
        need = entry_bytes(n)
        if n == 0 or n > MOST_BYTES or seg <= 0 or need > used or at + need > RING_BYTES:
            break
        row["held"] = need
        sock.ints[BASE], sock.ints[SEG] = row["in_data"] + at + LINE, seg
        sock.ints[PEER_ADDR], sock.ints[CAME_NS] = row["addr"], 0
        sock.ints[RUNS_IN] += 1
        return i64(n)
    give_up(sock, c)
    return -1


@kernel
def reserve(sock: Sock, c: int, n: int) -> int:
    """Where in ``buf`` a block of up to ``n`` bytes for a channel may be written, or -1."""
    row = sock.channels[c]
    need = entry_bytes(n)
    used = row["head"] - load_word(place(sock, row["out_at"] + TAIL_AT))
    if used < 0 or used > RING_BYTES:
        give_up(sock, c)
        return -1
    if used == 0:  # nobody looks at anything: start at the begin
        row["origin"] = row["head"]
        store_word(place(sock, row["out_at"] + ORIGIN_AT), row["origin"])
    at = (row["head"] - row["origin"]) & (RING_BYTES - 1)
    if at + need > RING_BYTES:
        rest = RING_BYTES - at
        if used + rest + need > RING_BYTES:
            return -1
        store_word(place(sock, row["out_data"] + at), SKIP)
        row["head"] += rest
        at = 0
    elif used + need > RING_BYTES:
        return -1
    following: int = row["out_data"] + at + LINE
    return following


@kernel
def commit(sock: Sock, c: int, n: int, seg: int) -> None:
    """Let the neighbour have the block of ``n`` bytes that stands where ``reserve`` said."""
    row = sock.channels[c]
    at = (row["head"] - row["origin"]) & (RING_BYTES - 1)
    store_word(place(sock, row["out_data"] + at), n | (seg << 32))
    row["head"] += entry_bytes(n)
    store_word(place(sock, row["out_at"] + HEAD_AT), row["head"])
    sock.ints[RUNS_OUT] += 1
    row["owed"] += n
    if sock.ints[LATER] == 0 or row["owed"] >= BELL_BYTES:
        ring_bell(sock, c)


@kernel
def ring_bell(sock: Sock, c: int) -> None:
    """Wake the neighbour, if it sleeps."""
    row = sock.channels[c]
    row["owed"] = 0
    fence()  # either it is seen asleep here, or it sees the block before it sleeps
    if load_word(place(sock, row["out_at"] + ASLEEP_AT)) != 0:
        store_word(place(sock, row["out_at"] + ASLEEP_AT), 0)
        sock.bell[0] = 1
        write_fd(row["bell"], np.uint64(sock.bell.ctypes.data), 8)


@kernel
def ring_owed(sock: Sock) -> None:
    """Wake all neighbours that were not woken yet for what was written to them."""
    for c in range(sock.ints[CHANNELS]):
        if sock.channels[c]["owed"] != 0:
            ring_bell(sock, c)


@kernel
def put(sock: Sock, c: int, n_iov: int, seg: int) -> bool:
    """Copy the iovecs into a channel as one block; False where it has no room."""
    n = 0
    for i in range(n_iov):
        n += i64(sock.iov_out[2 * i + 1])
    if n > MOST_BYTES:
        return False
    at = reserve(sock, c, n)
    if at < 0:
        return False
    for i in range(n_iov):
        size = i64(sock.iov_out[2 * i + 1])
        copy_memory(place(sock, at), sock.iov_out[2 * i], size)
        at += size
    commit(sock, c, n, seg)
    return True


@kernel
def next_in(sock: Sock) -> int:
    """Next block from any neighbour, in turn by rings and by the socket; -1 when none waits.

    Sets BASE, SEG, PEER_ADDR and CAME_NS.
    """
    n_channels = sock.ints[CHANNELS]
    for _ in range(n_channels + 1):
        c = sock.ints[CURSOR]
        sock.ints[CURSOR] = c + 1 if c < n_channels else 0
        n = -1
        if c >= n_channels:
            n = receive(sock)
        elif is_read(sock.channels[c]):
            n = take(sock, c)
        if n >= 0:
            return n
    return -1


@kernel
def lie_down(sock: Sock) -> bool:
    """Tell writers that this process sleeps from now on; False where something waits."""
    for c in range(sock.ints[CHANNELS]):
        row = sock.channels[c]
        if is_read(row):
            store_word(place(sock, row["in_at"] + ASLEEP_AT), 1)
    fence()
    for c in range(sock.ints[CHANNELS]):
        row = sock.channels[c]
        taken = row["tail"] + row["held"]
        if is_read(row) and load_word(place(sock, row["in_at"] + HEAD_AT)) != taken:
            return False
    return True


@kernel
def rise(sock: Sock) -> None:
    """Writers need not ring."""
    for c in range(sock.ints[CHANNELS]):
        row = sock.channels[c]
        if is_read(row):
            store_word(place(sock, row["in_at"] + ASLEEP_AT), 0)


@kernel
def poll_channels(sock: Sock, n_polls: int) -> int:
    """Add the bell and every neighbour's connection to what is waited for; how many it is."""
    sock.polls[n_polls] = (sock.ints[BELL_FD] & 0xFFFFFFFF) | (POLLIN << 32)
    n_polls += 1
    for c in range(sock.ints[CHANNELS]):
        row = sock.channels[c]
        if row["state"] == LIVE or row["state"] == OFFERED:
            events = POLLIN if row["state"] == OFFERED else 0  # its end is always told
            sock.polls[n_polls] = row["conn"] | (events << 32)
            n_polls += 1
    return n_polls


@kernel
def see_channels(sock: Sock, at: int) -> bool:
    """Read the bell and mark who has left; True where somebody answers an offer."""
    if sock.polls[at] >> 48 != 0:
        read_fd(sock.ints[BELL_FD], np.uint64(sock.bell.ctypes.data), 8)
    some = False
    for c in range(sock.ints[CHANNELS]):
        row = sock.channels[c]
        if row["state"] == LIVE or row["state"] == OFFERED:
            at += 1
            if sock.polls[at] >> 48 != 0 and row["state"] == LIVE:
                row["state"] = LEFT
            elif sock.polls[at] >> 48 != 0:
                some = True
    return some


@kernel
def has_dead(sock: Sock) -> bool:
    """A channel is to be given back."""
    for c in range(sock.ints[CHANNELS]):
        if sock.channels[c]["state"] == DEAD:
            return True
    return False


@kernel
def wait_for(sock: Sock, time_ps: int) -> bool:
    """Sleep until there is something to do or time is over; True when somebody else calls.

    To do: a packet is here, or a port with a queue takes more. Somebody calls too where a
    neighbour answers an offer, or a channel is to be given back.
    """
    polls = sock.polls
    polls[0] = sock.ints[FD] | (POLLIN << 32)
    polls[1] = sock.ints[WAKE_FD] | (POLLIN << 32)
    n_polls = 2
    has_channels = sock.ints[CHANNELS] > 0
    if has_channels:
        ring_owed(sock)
        if has_dead(sock):
            return True
        if not lie_down(sock):
            rise(sock)
            return False
        n_polls = poll_channels(sock, n_polls)
    if sock.ints[WAITING] > 0:
        for p in range(1, sock.exits.shape[0]):
            if sock.exits[p]["used"] > 0:
                polls[n_polls] = sock.exits[p]["fd"] | (POLLOUT << 32)
                n_polls += 1
    time_ps = min(time_ps, MAX_SLEEP_PS)
    sock.spec[0] = time_ps // 1_000_000_000_000
    sock.spec[1] = time_ps % 1_000_000_000_000 // 1000
    n = ppoll(np.uint64(polls.ctypes.data), n_polls, np.uint64(sock.spec.ctypes.data))
    if has_channels:
        rise(sock)
        if n > 0 and see_channels(sock, 2):
            return True
    return n < 0 or (polls[1] >> 48) != 0
