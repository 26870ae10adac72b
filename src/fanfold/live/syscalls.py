"""The C library's socket calls, callable from kernels, and from Python when JIT is off.

msghdr, iovec and sockaddr_in are kept in numpy arrays whose addresses never change, as
``struct msghdr`` of Linux on 64-bit machines: name, namelen, iov, iovlen, control,
controllen, flags; seven 8-byte words.
"""

import ctypes
import mmap
import os
import platform
import signal

import numpy as np

from fanfold.kernels.jit import JIT, extern, kernel
from fanfold.kernels.state import I64

MSG_DONTWAIT = 0x40
SOL_SOCKET = 1
SO_MEMINFO = 55  # u32 x 9: rmem_alloc, rcvbuf, ..., drops last
SOL_UDP = 17
UDP_SEGMENT = 103
UDP_GRO = 104
SO_TIMESTAMPNS = 35
CLOCK_REALTIME = 0
CLOCK_MONOTONIC = 1
EAGAIN = 11
EMSGSIZE = 90
ENOBUFS = 105
PR_SET_PDEATHSIG = 1
MAP_FIXED = 0x10
NO_RESERVE = 0x4000
SYS_FUTEX = 202 if platform.machine() == "x86_64" else 98
FUTEX_WAIT = 0
FUTEX_WAKE = 1

NONE = np.uint64(0)

if JIT:
    _recvmsg = extern("recvmsg", "int64", "int32", "uint64", "int32")
    _sendmsg = extern("sendmsg", "int64", "int32", "uint64", "int32")
    _getsockopt = extern("getsockopt", "int32", "int32", "int32", "int32", "uint64", "uint64")
    _ppoll = extern("ppoll", "int32", "uint64", "uint64", "uint64", "uint64")
    _clock_gettime = extern("clock_gettime", "int32", "int32", "uint64")
    _bcopy = extern("bcopy", "int64", "uint64", "uint64", "uint64")
    _errno_place = extern("__errno_location", "uint64")
    _read = extern("read", "int64", "int32", "uint64", "uint64")
    _write = extern("write", "int64", "int32", "uint64", "uint64")
    _syscall = extern("syscall", "int64", *["int64"] * 3, *["uint64"] * 4)
else:
    _libc = ctypes.CDLL(None, use_errno=True)

    def _twin(name: str, result: type, *args: type) -> "ctypes._NamedFuncPointer":
        fn = getattr(_libc, name)
        fn.restype = result
        fn.argtypes = args
        return fn

    _i32, _u64, _i64 = ctypes.c_int32, ctypes.c_uint64, ctypes.c_int64
    _recvmsg = _twin("recvmsg", _i64, _i32, _u64, _i32)
    _sendmsg = _twin("sendmsg", _i64, _i32, _u64, _i32)
    _getsockopt = _twin("getsockopt", _i32, _i32, _i32, _i32, _u64, _u64)
    _ppoll = _twin("ppoll", _i32, _u64, _u64, _u64, _u64)
    _clock_gettime = _twin("clock_gettime", _i32, _i32, _u64)
    _bcopy = _twin("bcopy", _i64, _u64, _u64, _u64)
    _read = _twin("read", _i64, _i32, _u64, _u64)
    _write = _twin("write", _i64, _i32, _u64, _u64)
    _syscall = _twin("syscall", _i64, *[_i64] * 3, *[_u64] * 4)

    def _errno_place() -> int:
        _own_errno.value = ctypes.get_errno()  # a call through ctypes has put it there
        return ctypes.addressof(_own_errno)

    _own_errno = ctypes.c_int()


@kernel
def recvmsg(fd: int, msg: np.uint64, flags: int) -> int:
    """Bytes received, or -1."""
    return _recvmsg(fd, msg, flags)


@kernel
def sendmsg(fd: int, msg: np.uint64, flags: int) -> int:
    """Bytes sent, or -1."""
    return _sendmsg(fd, msg, flags)


@kernel
def getsockopt(fd: int, level: int, name: int, value: np.uint64, length: np.uint64) -> int:
    """0, or -1."""
    return _getsockopt(fd, level, name, value, length)


@kernel
def ppoll(fds: np.uint64, n_fds: int, timespec: np.uint64) -> int:
    """Descriptors that are ready, 0 when the time is over, -1 when a signal came."""
    return _ppoll(fds, np.uint64(n_fds), timespec, np.uint64(0))


@kernel
def read_fd(fd: int, to: np.uint64, n: int) -> int:
    """Bytes read, or -1."""
    return _read(fd, to, np.uint64(n))


@kernel
def write_fd(fd: int, source: np.uint64, n: int) -> int:
    """Bytes written, or -1."""
    return _write(fd, source, np.uint64(n))


@kernel
def sleep_at(address: np.uint64, value: int, timespec: np.uint64) -> int:
    """Sleep while the 32-bit word at an address of shared memory has a value; futex(2).

    Args:
        timespec: how long at most.

    Returns:
        0 when woken; -1 when time is over, the word is another, or a signal came.
    """
    word = np.int64(address)
    return _syscall(SYS_FUTEX, word, FUTEX_WAIT, np.uint64(value), timespec, NONE, NONE)


@kernel
def wake_at(address: np.uint64) -> int:
    """Wake who sleeps at an address; how many did."""
    word = np.int64(address)
    return _syscall(SYS_FUTEX, word, FUTEX_WAKE, np.uint64(1), NONE, NONE, NONE)


@kernel
def copy_memory(to: np.uint64, source: np.uint64, n: int) -> None:
    """Copy ``n`` bytes from one address to another."""
    _bcopy(source, to, np.uint64(n))


@kernel
def last_error(scratch: I64) -> int:
    """Errno of the call before, right after it; ``scratch`` is (1,)."""
    scratch[0] = 0
    copy_memory(np.uint64(scratch.ctypes.data), np.uint64(_errno_place()), 4)
    return scratch[0]


@kernel
def monotonic_ps(timespec: I64) -> int:
    """CLOCK_MONOTONIC in picoseconds; ``timespec`` is scratch, (2,)."""
    _clock_gettime(CLOCK_MONOTONIC, np.uint64(timespec.ctypes.data))
    return timespec[0] * 1_000_000_000_000 + timespec[1] * 1000


@kernel
def realtime_ns(timespec: I64) -> int:
    """CLOCK_REALTIME in nanoseconds; ``timespec`` is scratch, (2,)."""
    _clock_gettime(CLOCK_REALTIME, np.uint64(timespec.ctypes.data))
    return timespec[0] * 1_000_000_000 + timespec[1]


def map_over(address: int, n: int, fd: int) -> None:
    """Let ``n`` bytes at a page's address be those of a file; -1: fresh ones of nobody's.

    Raises:
        OSError: the kernel refuses; what was there stays.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    ]
    kind = mmap.MAP_SHARED if fd >= 0 else mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE
    access = mmap.PROT_READ | mmap.PROT_WRITE
    if libc.mmap(address, n, access, kind | MAP_FIXED, fd, 0) != address:
        raise OSError(ctypes.get_errno(), "mmap")


def end_with_parent(parent: int) -> None:
    """From here on this process is killed when the one that forked it ends, in any way.

    Args:
        parent: its pid; where it has ended already, no signal will come.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
