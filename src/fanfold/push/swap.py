"""What Linux does and Python has no name for: two names exchanged, a disk flushed."""

import ctypes
import errno
import os

RENAME_EXCHANGE = 2
WAIT_WRITE_WAIT = 7
NOT_HERE = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM})
"""A kernel or a file system that has no such thing."""

_libc = ctypes.CDLL(None, use_errno=True)


def put_folder(from_fd: int, from_name: str, to_fd: int, to_name: str, old_name: str) -> str:
    """Give a folder a name that another folder may have; whoever looks sees one of the two.

    Where names cannot be exchanged, the old one goes first: for the moment between two renames
    there is none.

    Args:
        old_name: where the old folder goes then, in the first folder.

    Returns:
        Name of the old folder in ``from_fd``, empty when there was none.
    """
    code = _renameat2(from_fd, from_name, to_fd, to_name, RENAME_EXCHANGE)
    if code == 0:
        return from_name
    if code not in {errno.ENOENT, *NOT_HERE}:
        raise OSError(code, os.strerror(code))
    try:
        os.rename(to_name, old_name, src_dir_fd=to_fd, dst_dir_fd=from_fd)
    except FileNotFoundError:
        old_name = ""
    os.rename(from_name, to_name, src_dir_fd=from_fd, dst_dir_fd=to_fd)
    return old_name


def flush_disk(fd: int) -> None:
    """Wait until all that was written to the file system of ``fd`` survives a power cut."""
    try:
        syncfs = _libc.syncfs
    except AttributeError:  # no glibc, no musl
        os.sync()
        return
    if syncfs(fd):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def flush_range(fd: int, offset: int, n_bytes: int) -> None:
    """Wait until some bytes of a file are on their way out of memory; does nothing elsewhere.

    They survive nothing by this alone: it makes ``flush_disk`` short.
    """
    try:
        call = _libc.sync_file_range
    except AttributeError:
        return
    call(fd, ctypes.c_int64(offset), ctypes.c_int64(n_bytes), ctypes.c_uint(WAIT_WRITE_WAIT))


def _renameat2(from_fd: int, from_name: str, to_fd: int, to_name: str, flags: int) -> int:
    """0, or errno."""
    try:
        call = _libc.renameat2
    except AttributeError:
        return errno.ENOSYS
    old, new = os.fsencode(from_name), os.fsencode(to_name)
    return ctypes.get_errno() if call(from_fd, old, to_fd, new, ctypes.c_uint(flags)) else 0
