"""Packets past the queues of ports, from Python: what neighbours say, and handshakes."""

import socket

import numpy as np

from fanfold.kernels.state import I64
from fanfold.live import sock as s
from fanfold.live.trailers import REQUIRED
from fanfold.live.trailers_out import seal_one
from fanfold.wire.inner import address_text


class Beside:
    """The socket of a process and whom it reaches by each port.

    Args:
        addr: (P,) neighbours by port, the node's own first. drops: counted by reason.
    """

    def __init__(self, sock: socket.socket, io: s.Sock, addr: I64, drops: I64) -> None:
        self.sock, self.io, self.addr, self.drops = sock, io, addr, drops
        self._room = np.zeros(1 << 16, np.uint8)

    def send(self, packet: bytes, port: int, dport: int) -> bool:
        """Send one packet past the queue of a port; False where it is lost."""
        if self.io.exits[port]["shut"]:
            self.io.exits[port]["shut_out"] += 1
            return False
        if self.io.exits[port]["keys"]:
            packet = self._sealed(packet, port, dport)
        return bool(packet) and self.send_openly(packet, port, dport)

    def send_openly(self, packet: bytes, port: int, dport: int) -> bool:
        """Send one packet as it is, past the queue of a port; False where it is lost."""
        addr = address_text(int(self.addr[port]))
        try:
            self.sock.sendto(packet, socket.MSG_DONTWAIT, (addr, dport))
        except OSError:  # what is said once is said again
            return False
        return True

    def _sealed(self, packet: bytes, port: int, dport: int) -> bytes:
        """A packet with its trailer; empty where nothing may leave without one."""
        one = np.frombuffer(packet, np.uint8)  # of one type, that which warm.py loads
        n = int(seal_one(self.io, port, dport, one, self._room))
        if n == 0 and self.io.exits[port]["keys"] == REQUIRED:
            return b""  # what is said before there is a key is said again
        return self._room[:n].tobytes() if n else packet
