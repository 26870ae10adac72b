"""Two ends of a channel of shared memory in one process, without a control socket."""

import os
import socket

import numpy as np

from fanfold.live import channels as ch
from fanfold.live import rings as r
from fanfold.live import sock as s
from fanfold.live.ports import build_sock, open_socket
from fanfold.wire.inner import address_of

HERE = "127.0.0.1"
ADDR = address_of(HERE)


class End:
    """One process's side: a socket that hears nothing, and room for channels."""

    def __init__(self, n_channels: int = 2) -> None:
        self.sock = open_socket(HERE, 0, "test")
        self.io = build_sock(self.sock, 2, n_channels=n_channels)
        self.io.ints[s.WAKE_FD] = self.sock.fileno()
        self.channels = ch.Channels(self.io)

    def close(self) -> None:
        self.channels.close()
        self.sock.close()

    def send(self, data: bytes, seg: int, c: int = 0) -> bool:
        self.io.out[: len(data)] = np.frombuffer(data, np.uint8)
        self.io.iov_out[0], self.io.iov_out[1] = self.io.out.ctypes.data, len(data)
        return bool(r.put(self.io, c, 1, seg))

    def next(self) -> bytes | None:
        n = r.next_in(self.io)
        at = int(self.io.ints[s.BASE])
        return None if n < 0 else self.io.buf[at : at + n].tobytes()


class Pair:
    """Two ends with a channel between them, as a control socket would have it."""

    def __init__(self) -> None:
        self.a, self.b = End(), End()
        one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        one.setblocking(False)
        two.setblocking(False)
        memory, bell = ch.make_memory(), os.dup(self.b.channels.bell)
        made = ch.Offer(one, os.dup(memory), bell, ADDR, 7, is_ours=True)
        assert self.a.channels.take(made, 1)
        got = ch.Offer(two, memory, os.dup(self.a.channels.bell), ADDR, 9, is_ours=False)
        assert self.b.channels.take(got, 1)

    def close(self) -> None:
        self.a.close()
        self.b.close()

    def page_of(self, end: End) -> int:
        """Where in its memory is the ring that an end reads."""
        return int(end.io.channels[0]["in_at"])
