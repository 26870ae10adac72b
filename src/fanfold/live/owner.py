"""Whose process is at the other end of a TCP connection, where that is on this machine.

The kernel is asked for that one connection (sock_diag(7)): a table of all connections, as
/proc/net/tcp is, costs 10 ms wherever there is much memory, and nodes are asked many at once.
"""

import errno
import socket
import struct
from contextlib import closing
from pathlib import Path

TABLE = Path("/proc/self/net/tcp")
ESTABLISHED = 1
HUNG_UP = -1
"""Nobody's: the kernel names no owner of a connection that was closed."""
SOCK_DIAG, BY_FAMILY, REQUEST, ERROR = 4, 20, 1, 2
HEADER = struct.Struct("=IHHII")
ASKED = struct.Struct("=BBBBI")
ENDS = struct.Struct("!HH4s12x4s12x")
ANY_COOKIE = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
CREDENTIALS = struct.Struct("=iII")
"""Process, user, group: struct ucred, unix(7)."""
ANSWER_BYTES = 4096
UID_AT = HEADER.size + 4 + ENDS.size + len(ANY_COOKIE) + 12
WAIT_S = 1.0

Name = tuple[str, int]


def local_owner(sock: socket.socket) -> int | None:
    """User id of the caller's process, HUNG_UP, or None when it is on another machine."""
    here, there = sock.getsockname(), sock.getpeername()
    try:
        found = _ask_kernel(there, here)
    except OSError:  # no sock_diag in this kernel
        found = _search_table(there, here)
    if found is None:
        return None
    state, owner = found
    return owner if state == ESTABLISHED else HUNG_UP


def unix_owner(sock: socket.socket) -> int:
    """User id of the process at the other end of a Unix socket, when it connected."""
    size = CREDENTIALS.size
    told = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    _, owner, _ = CREDENTIALS.unpack(told)
    return int(owner)


def _ask_kernel(own: Name, other: Name) -> tuple[int, int] | None:
    """State and user id of the socket with these two ends; None where there is none here."""
    ends = ENDS.pack(own[1], other[1], socket.inet_aton(own[0]), socket.inet_aton(other[0]))
    body = ASKED.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF) + ends + ANY_COOKIE
    head = HEADER.pack(HEADER.size + len(body), BY_FAMILY, REQUEST, 1, 0)
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
    with closing(socket.socket(socket.AF_NETLINK, kind, SOCK_DIAG)) as kernel:
        kernel.settimeout(WAIT_S)
        kernel.send(head + body)
        told = kernel.recv(ANSWER_BYTES)
    _, what, _, _, _ = HEADER.unpack_from(told)
    if what == ERROR:
        (code,) = struct.unpack_from("=i", told, HEADER.size)
        if -code == errno.ENOENT:
            return None
        raise OSError(-code, "sock_diag")
    (owner,) = struct.unpack_from("=I", told, UID_AT)
    return told[HEADER.size + 1], owner


def _search_table(own: Name, other: Name) -> tuple[int, int] | None:
    """As ``_ask_kernel``, from the table of all connections."""
    ends = [_place(own), _place(other)]
    with TABLE.open() as rows:
        for row in rows:
            fields = row.split()
            if fields[1:3] == ends:
                return int(fields[3], 16), int(fields[7])
    return None


def _place(name: Name) -> str:
    """Address and port as the kernel's table has them: the address in the machine's order."""
    (address,) = struct.unpack("=I", socket.inet_aton(name[0]))
    return f"{address:08X}:{name[1]:04X}"
