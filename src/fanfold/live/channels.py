"""Channels of shared memory to neighbours on this machine: offered, taken, given back.

Who offers makes the memory (a sealed memfd: nobody can make it smaller) and connects to the
other's control socket, an abstract Unix socket named for the UDP address that it hears on; so
both are in one network namespace, and of one user, which is checked. The connection stays: its
end is the neighbour's end. What is in the rings when one of them ends is lost, as what was in
its socket.
"""

import fcntl
import mmap
import os
import select
import socket
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fanfold.kernels.state import U8, Rows
from fanfold.live import rings
from fanfold.live import sock as s
from fanfold.live.syscalls import NO_RESERVE, map_over
from fanfold.wire.inner import address_of

HELLO = struct.Struct("=8sQII")
"""Magic with a version, bytes of the memory, address and UDP port of who offers."""
MAGIC = b"fanfold1"
TAKEN = b"taken"
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
CLOEXEC = 0x40000000  # MSG_CMSG_CLOEXEC
WAIT_S = 0.3
"""For a caller's offer, at the control socket."""
_CREDENTIALS = struct.Struct("=iII")


class Offer(NamedTuple):
    """A connection, with what belongs to it.

    addr, dport: what the neighbour hears on. memory, bell: descriptors, -1 where there is
    none. is_ours: this process made it.
    """

    conn: socket.socket
    memory: int
    bell: int
    addr: int
    dport: int
    is_ours: bool

    def refuse(self) -> None:
        """Give all back; the neighbour sees the end of the connection."""
        self.conn.close()
        for fd in (self.memory, self.bell):
            if fd >= 0:
                os.close(fd)


def build_room(n_channels: int) -> U8:
    """Memory for the block from the socket, and addresses for so many channels behind it."""
    n = s.BUF_BYTES + n_channels * rings.CHANNEL_BYTES
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE
    return np.frombuffer(mmap.mmap(-1, n, flags=flags), np.uint8)


def build_rows(n_channels: int) -> Rows:
    """Channels of which none is in use."""
    return np.zeros(n_channels, s.CHANNEL_ROW)


def socket_name(address: str, port: int) -> str:
    """Name of the control socket of who hears on a UDP address."""
    return f"\0fanfold-ring-{address}:{port}"


def is_own_user(conn: socket.socket) -> bool:
    """The process at the other end is of this process's user."""
    raw = conn.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(raw)[1] == os.geteuid())


def is_near(address: str) -> bool:
    """A loopback address: no link of a network is in between."""
    return address.startswith("127.")


def is_over(conn: socket.socket) -> bool:
    """The other end of a connection is closed."""
    poll = select.poll()
    poll.register(conn, 0)
    return bool(poll.poll(0))


class Channels:
    """Rows of ``io.channels`` with their connections; for the thread that runs the loop."""

    def __init__(self, io: s.Sock) -> None:
        self._io = io
        self._offers: dict[int, Offer] = {}
        self.bell = -1
        if len(io.channels):
            self.bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        io.ints[s.BELL_FD] = self.bell

    def __len__(self) -> int:
        return len(self._offers)

    def find(self, addr: int, dport: int) -> int:
        """Row of the channel to who hears on a UDP address and has not left, or -1."""
        for row, offer in self._offers.items():
            is_here = self._io.channels[row]["state"] < rings.LEFT
            if is_here and (offer.addr, offer.dport) == (addr, dport):
                return row
        return -1

    def offer(self, address: str, dport: int, own: tuple[str, int], port: int) -> bool:
        """Offer a channel to who hears on a UDP address, behind a port; False: nobody is there.

        It is read from now on, and written to when the neighbour has said that it reads.
        own: what this process hears on.
        """
        made = make_offer(address, dport)
        row = self._begin(made, port) if made is not None else -1
        if made is None or row < 0:
            return False
        hello = HELLO.pack(MAGIC, rings.CHANNEL_BYTES, address_of(own[0]), own[1])
        with suppress(OSError):
            socket.send_fds(made.conn, [hello], [made.memory, self.bell])
            self._io.channels[row]["state"] = rings.OFFERED
            self._settle(row)
            return True
        self._give_back(row)
        return False

    def take(self, offer: Offer, port: int) -> bool:
        """Begin to use an offer behind a port, in place of an older one whose end is over.

        False where it is refused: one is in use, there is no row left, or no memory.
        """
        self.sweep()
        old = self.find(offer.addr, offer.dport)
        if old >= 0 and is_over(self._offers[old].conn):
            self._io.channels[old]["state"] = rings.LEFT
        row = self._begin(offer, port)
        if row < 0:
            return False
        self._io.channels[row]["state"] = rings.LIVE
        self._settle(row)
        with suppress(OSError):  # it left meanwhile: its end is seen
            socket.send_fds(offer.conn, [TAKEN], [self.bell])
        return True

    def _begin(self, offer: Offer, port: int) -> int:
        """Row of an offer that is mapped and not in use yet; -1: it is refused."""
        rows = self._io.channels
        row = next((r for r in range(len(rows)) if r not in self._offers), -1)
        is_there = self.find(offer.addr, offer.dport) >= 0
        if is_there or row < 0 or not self._map(row, offer.memory):
            offer.refuse()
            return -1
        self._offers[row] = offer
        self._fill(row, offer, port)
        return row

    def _settle(self, row: int) -> None:
        """What is mapped stays without its descriptor."""
        os.close(self._offers[row].memory)
        self._offers[row] = self._offers[row]._replace(memory=-1)

    def wait(self, seconds: float) -> None:
        """Wait until all offers of this process are answered, or so long."""
        until = time.monotonic() + seconds
        for row in list(self._offers):
            if self._io.channels[row]["state"] == rings.OFFERED:
                poll = select.poll()
                poll.register(self._offers[row].conn, select.POLLIN)
                poll.poll(max(until - time.monotonic(), 0) * 1000)
        self.sweep()

    def _map(self, row: int, memory: int) -> bool:
        try:
            map_over(self._address(row), rings.CHANNEL_BYTES, memory)
        except OSError:
            return False
        return True

    def _address(self, row: int) -> int:
        return int(self._io.buf.ctypes.data) + self._offset(row)

    def _offset(self, row: int) -> int:
        return s.BUF_BYTES + row * rings.CHANNEL_BYTES

    def _fill(self, row: int, offer: Offer, port: int) -> None:
        at = self._offset(row)
        first = (at, at + 2 * rings.PAGE)
        second = (at + rings.PAGE, at + 2 * rings.PAGE + rings.RING_BYTES)
        out, came = (first, second) if offer.is_ours else (second, first)
        channel = self._io.channels[row]
        channel["port"], channel["addr"], channel["dport"] = port, offer.addr, offer.dport
        channel["out_at"], channel["out_data"] = out
        channel["in_at"], channel["in_data"] = came
        channel["origin"] = channel["head"] = channel["tail"] = channel["held"] = 0
        channel["owed"] = 0
        channel["conn"], channel["bell"] = offer.conn.fileno(), offer.bell
        ints = self._io.ints
        ints[s.CHANNELS] = max(int(ints[s.CHANNELS]), row + 1)

    def sweep(self) -> None:
        """Begin to write where an offer was answered; give back what is over or was broken."""
        for row, offer in list(self._offers.items()):
            channel = self._io.channels[row]
            if channel["state"] == rings.OFFERED:
                self._hear(row, offer)
            elif channel["state"] == rings.DEAD:
                self._give_back(row)

    def _hear(self, row: int, offer: Offer) -> None:
        """Whether an offer is taken by now, or refused."""
        fds: list[int] = []
        try:
            answer, fds, _, _ = socket.recv_fds(offer.conn, len(TAKEN), 1, CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            answer = b""
        if answer == TAKEN and len(fds) == 1 and is_bell(fds[0]):
            self._offers[row] = offer._replace(bell=fds[0])
            self._io.channels[row]["bell"] = fds[0]
            self._io.channels[row]["state"] = rings.LIVE
            return
        for fd in fds:
            os.close(fd)
        self._give_back(row)

    def leave(self, port: int) -> None:
        """Give back all channels of a port."""
        for row in list(self._offers):
            if self._io.channels[row]["port"] == port:
                self._give_back(row)

    def _give_back(self, row: int) -> None:
        """The block in hand, if it stood there, is lost."""
        ints = self._io.ints
        self._io.channels[row]["state"] = rings.NONE
        if ints[s.BASE] >= s.BUF_BYTES:
            ints[s.NEXT] = ints[s.END] = 0
        map_over(self._address(row), rings.CHANNEL_BYTES, -1)
        self._offers.pop(row).refuse()
        ints[s.CHANNELS] = max(self._offers, default=-1) + 1

    def close(self) -> None:
        """Give back everything."""
        for row in list(self._offers):
            self._give_back(row)
        if self.bell >= 0:
            os.close(self.bell)
            self.bell = self._io.ints[s.BELL_FD] = -1


def make_offer(address: str, port: int) -> Offer | None:
    """Connection to who hears on a UDP address, with memory for a channel; it is not told yet.

    None where there is no control socket, or it is another user's.
    """
    conn = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    conn.setblocking(False)
    try:
        conn.connect(socket_name(address, port))
        if is_own_user(conn):
            return Offer(conn, make_memory(), -1, address_of(address), port, is_ours=True)
    except OSError:  # nobody is there, or too many wait
        pass
    conn.close()
    return None


def make_memory() -> int:
    """Descriptor of memory for one channel."""
    memory = os.memfd_create("fanfold-ring", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(memory, rings.CHANNEL_BYTES)
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, SEALS)
    except OSError:
        os.close(memory)
        raise
    return memory


def hear_offer(conn: socket.socket) -> Offer | None:
    """What a caller offers; None, and the connection ends, where it is odd."""
    fds: list[int] = []
    with suppress(OSError, struct.error):
        if is_own_user(conn):
            conn.settimeout(WAIT_S)
            hello, fds, _, _ = socket.recv_fds(conn, HELLO.size + 1, 2, CLOEXEC)
            magic, n, addr, dport = HELLO.unpack(hello)
            is_known = len(fds) == 2 and (magic, n) == (MAGIC, rings.CHANNEL_BYTES)
            if is_known and is_memory(fds[0]) and is_bell(fds[1]):
                conn.settimeout(0)
                return Offer(conn, fds[0], fds[1], addr, dport, is_ours=False)
    conn.close()
    for fd in fds:
        os.close(fd)
    return None


def is_memory(fd: int) -> bool:
    """A descriptor of memory that stays as large as a channel: no access to it can fault."""
    try:
        has = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    except OSError:
        return False
    return has & SEALS == SEALS and os.fstat(fd).st_size == rings.CHANNEL_BYTES


def is_bell(fd: int) -> bool:
    """An eventfd: writing to it does not wait where it is set not to."""
    with suppress(OSError):
        what = Path(f"/proc/self/fd/{fd}").readlink()
        return "eventfd" in str(what) and not os.get_blocking(fd)
    return False
