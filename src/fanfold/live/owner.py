"""Whose process is at the other end of a TCP connection, where that is on this machine."""

import socket
import struct
from pathlib import Path

TABLE = Path("/proc/self/net/tcp")
ESTABLISHED = "01"


HUNG_UP = -1
"""Nobody's: the kernel names no owner of a connection that was closed."""


def local_owner(sock: socket.socket) -> int | None:
    """User id of the caller's process, HUNG_UP, or None when it is on another machine."""
    here, there = _place(sock.getsockname()), _place(sock.getpeername())
    with TABLE.open() as rows:
        for row in rows:
            fields = row.split()
            if fields[1:3] == [there, here]:
                return int(fields[7]) if fields[3] == ESTABLISHED else HUNG_UP
    return None


def _place(name: tuple[str, int]) -> str:
    """Address and port as the kernel's table has them: the address in the machine's order."""
    (address,) = struct.unpack("=I", socket.inet_aton(name[0]))
    return f"{address:08X}:{name[1]:04X}"
