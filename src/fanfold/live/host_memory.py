"""Memory that the ranks of a group at one host share: made by one, opened by the others.

Rank 0 makes a memfd, sealed so that no access to it can fault, and hands it to whoever asks at
an abstract Unix socket named for the host and the group: so all are in one network namespace,
and of one user, which is checked. A rank that is here holds a lock on its byte of the memfd, by
a description of its own; the kernel drops the lock when the process ends, however it ends.
"""

import fcntl
import mmap
import os
import socket
import struct
import threading
from contextlib import suppress

import numpy as np

from fanfold.errors import EnvironmentLack
from fanfold.kernels.state import U8
from fanfold.live.channels import CLOEXEC, SEALS, is_own_user

LOCK = struct.Struct("@hhqqi4x")
"""``struct flock`` of Linux on 64-bit machines: type, whence, start, length, pid."""
ANSWER_S = 1.0
BACKLOG = 1024


class HostMemory:
    """One rank's end of the memory; ``mem`` is empty until it is there.

    Raises:
        EnvironmentLack: another group of this number is at the host.
    """

    def __init__(self, address: str, group: int, rank: int, n_bytes: int) -> None:
        self._name = f"\0fanfold-host-{address}:{group}"
        self._rank, self._n_bytes = rank, n_bytes
        self._fd = -1
        self.mem: U8 = np.zeros(0, np.uint8)
        self._listener: socket.socket | None = None
        self._is_locked = False
        if rank == 0:
            self._make()

    def join(self) -> bool:
        """Have the memory, where rank 0 is there; False: it is not."""
        if self._fd >= 0:
            return True
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as conn:
            conn.settimeout(ANSWER_S)
            fds: list[int] = []
            with suppress(OSError):
                conn.connect(self._name)
                if is_own_user(conn):
                    _, fds, _, _ = socket.recv_fds(conn, 1, 1, CLOEXEC)
            is_sound = len(fds) == 1 and self._is_memory(fds[0])
            if is_sound:
                self._open(fds[0])
            for fd in fds:
                os.close(fd)
        return is_sound

    def is_alive(self, rank: int) -> bool:
        """A rank that has been here has not ended."""
        asked = LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, rank, 1, 0)
        found = fcntl.fcntl(self._fd, fcntl.F_OFD_GETLK, asked)
        return bool(LOCK.unpack(found)[0] != fcntl.F_UNLCK)

    def lock(self) -> None:
        """Be here, from now on."""
        if not self._is_locked:
            own = LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, self._rank, 1, 0)
            fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, own)
            self._is_locked = True

    def close(self) -> None:
        """Be here no more."""
        if self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)  # ends the wait of its thread
            self._listener.close()
            self._listener = None
        self.mem = np.zeros(0, np.uint8)
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _make(self) -> None:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            listener.bind(self._name)
        except OSError as error:
            listener.close()
            raise EnvironmentLack(
                f"abstract socket {self._name[1:]}: {error.strerror}; see `ss -xl`,"
                " end the other group or take another number"
            ) from error
        listener.listen(BACKLOG)
        memory = os.memfd_create("fanfold-host", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(memory, self._n_bytes)
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, SEALS)
        self._open(memory)
        self._listener = listener
        threading.Thread(target=_hand_out, args=(listener, memory), daemon=True).start()

    def _open(self, memory: int) -> None:
        """Map it; the lock is of a description that no other rank has."""
        self._fd = os.open(f"/proc/self/fd/{memory}", os.O_RDWR | os.O_CLOEXEC)
        self.mem = np.frombuffer(mmap.mmap(self._fd, self._n_bytes), np.uint8)

    def _is_memory(self, fd: int) -> bool:
        try:
            has = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
        except OSError:
            return False
        return has & SEALS == SEALS and os.fstat(fd).st_size == self._n_bytes


def _hand_out(listener: socket.socket, memory: int) -> None:
    """Give the memory to each caller of this user, until the listener is closed."""
    while True:
        try:
            conn, _ = listener.accept()
        except OSError:
            break
        with conn, suppress(OSError):
            if is_own_user(conn):
                socket.send_fds(conn, [b"m"], [memory])
    os.close(memory)
