"""A receiver's private folder for one push: root/.fanfold/DIGEST.

    lock     held with flock while the push is open; a killed process lets go of it. Its mtime
             is when the push was open last
    small    the bytes of all small files, each where it stands in the stream; sparse
    N        entry N, when it is not small; sparse, in full size
    new      the folder that is to be, while it is put together (push/new_folder.py)
    old      the folder that was, while it is removed
    place    a link that says whose place both are about

No name of the manifest is used here but in new and old. A file of its own for each small entry
would cost more than its bytes: thousands of them arrive in one chunk.
"""

import fcntl
import os
import stat
from bisect import bisect_right
from collections.abc import Container, Iterator
from contextlib import ExitStack, suppress

import numpy as np

from fanfold.push.fds import FdCache, is_hole, read_full, write_full
from fanfold.push.layout import Layout, Piece
from fanfold.push.manifest import STAGING_DIR, Entry
from fanfold.push.remove import remove_steps
from fanfold.push.target import (
    StoreError,
    Target,
    make_dir,
    names_in,
    open_dir,
    open_regular,
    reported,
)
from fanfold.wire.report import ReportError

PRIVATE_DIR_MODE = 0o700
LOCK, PACK = "lock", "small"
NEW, OLD, PLACE = "new", "old", "place"
DISK_BLOCK_BYTES = 512  # unit of st_blocks
MAX_LOCK_TRIES = 100
SMALL_BYTES = 16_384
"""Files below this are packed: a chunk of larger ones opens 40 files at most."""
IN_PACK = -1
AHEAD_BYTES = 1 << 20
HOLE_BYTES = 4096
"""Shorter runs of zeros are written: no file system has smaller holes."""


class PushOpenError(StoreError):
    """The same push is open already, here or in another process."""


class Folder:
    """One folder below STAGING_DIR, locked as long as it is open; owns its descriptors."""

    def __init__(self, name: str, root_fd: int, dir_fd: int, lock_fd: int) -> None:
        self.name = name
        self.dir_fd = dir_fd
        self.root_fd = root_fd
        self._lock_fd = lock_fd

    def n_free_bytes(self) -> int:
        """Free bytes of the disk, for a user without privileges."""
        with reported(STAGING_DIR):
            info = os.statvfs(self.dir_fd)
        return info.f_bavail * info.f_frsize

    def block_bytes(self) -> int:
        """What the smallest file takes."""
        with reported(STAGING_DIR):
            return os.statvfs(self.dir_fd).f_frsize

    def usage(self) -> tuple[int, int]:
        """Bytes of disk that all in it takes, and when it was open last, wall clock in ns."""
        n_bytes = sum(info.st_blocks * DISK_BLOCK_BYTES for info in _infos(self.dir_fd))
        return n_bytes, os.fstat(self._lock_fd).st_mtime_ns

    def restore_steps(self) -> Iterator[int]:
        """Undo what a killed exchange of folders left: an old folder gets its place back."""
        with reported(f"{STAGING_DIR}/{self.name}"):
            names = names_in(self.dir_fd)
            if OLD in names and PLACE in names:
                self._put_back(os.readlink(PLACE, dir_fd=self.dir_fd))
            for name in {NEW, OLD, PLACE} & set(names):
                with suppress(FileNotFoundError):
                    yield from remove_steps(self.dir_fd, name)

    def _put_back(self, place: str) -> None:
        target = Target(self.root_fd)
        try:
            parent_fd, name = target.at(place)
            try:
                os.stat(name, dir_fd=parent_fd, follow_symlinks=False)
            except FileNotFoundError:  # killed between two renames
                os.rename(OLD, name, src_dir_fd=self.dir_fd, dst_dir_fd=parent_fd)
        finally:
            target.close()

    def is_empty(self) -> bool:
        """Nothing but the lock is here."""
        return names_in(self.dir_fd) == [LOCK]

    def touch(self) -> None:
        """Note that a push had it open just now."""
        with suppress(OSError):
            os.utime(self._lock_fd)

    def close(self) -> None:
        """Let go of the lock, keep the files."""
        for fd in (self.dir_fd, self.root_fd, self._lock_fd):
            os.close(fd)

    def remove(self) -> None:
        """Remove the folder with its files; it stays locked until closed."""
        for _ in self.remove_steps():
            pass

    def remove_steps(self) -> Iterator[int]:
        """Do the same file by file."""
        yield from self.restore_steps()
        with reported(f"{STAGING_DIR}/{self.name}"):
            for name in names_in(self.dir_fd):
                if name != LOCK:
                    yield from remove_steps(self.dir_fd, name)
            os.unlink(LOCK, dir_fd=self.dir_fd)
        # Another push may be about to lock this folder, or has its own beside it.
        with suppress(OSError):
            os.rmdir(f"{STAGING_DIR}/{self.name}", dir_fd=self.root_fd)
            os.rmdir(STAGING_DIR, dir_fd=self.root_fd)


class Staging:
    """The unfinished files of one push; each is made sparse, in full size, at its first use."""

    def __init__(self, folder: Folder, entries: tuple[Entry, ...], layout: Layout) -> None:
        self.folder = folder
        self.layout = layout
        self._entries = entries
        self._fds = FdCache(self._open)
        self._big = [k for k, entry in enumerate(entries) if entry.size >= SMALL_BYTES]
        self._big_starts = [layout.start_of(k) for k in self._big]
        ends = zip(self._big, self._big_starts, strict=True)
        self._big_ends = [start + entries[k].size for k, start in ends]
        with reported(f"{STAGING_DIR}/{folder.name}"):
            names = names_in(folder.dir_fd)
        self._present = {int(n) for n in names if n.isdecimal()}
        self._present |= {IN_PACK} if PACK in names else set()

    @property
    def is_used(self) -> bool:
        """Whether any file is here."""
        return bool(self._present)

    def is_small(self, entry: int) -> bool:
        """Whether the entry is packed."""
        return self._entries[entry].size < SMALL_BYTES

    def has(self, entry: int) -> bool:
        """Whether a file for the entry's bytes is here."""
        return (IN_PACK if self.is_small(entry) else entry) in self._present

    def fd(self, entry: int) -> int:
        """Return the file of an entry that is not small, open for reading and writing."""
        return self._fds.fd(entry)

    def place_of(self, i: int, piece: Piece) -> tuple[int, int]:
        """File and offset where a piece of chunk i stands."""
        if self.is_small(piece.entry):
            return self._fds.fd(IN_PACK), i * self.layout.chunk_bytes + piece.at
        return self._fds.fd(piece.entry), piece.offset

    def write(self, i: int, view: memoryview, but: Container[int]) -> None:
        """Write chunk i; what is all zeros stays a hole where it is one.

        Args:
            but: entries that are not small and not wanted.
        """
        for entry, start, size in self._runs(i):
            if entry in but:
                continue
            at = start - i * self.layout.chunk_bytes
            is_packed = entry == IN_PACK
            path = PACK if is_packed else self._entries[entry].path
            with reported(path):
                fd = self._fds.fd(entry)
                offset = start if is_packed else start - self.layout.start_of(entry)
                part = view[at : at + size]
                if not (is_zero(part) and is_hole(fd, offset, size)):
                    write_full(fd, part, offset)

    def read_pack(self, start: int, at_least: int) -> memoryview:
        """What the pack holds from a stream byte on, some more than is asked for."""
        if not at_least:
            return memoryview(b"")
        room = memoryview(bytearray(min(AHEAD_BYTES, self.layout.total_bytes - start)))
        n = read_full(self._fds.fd(IN_PACK), room, start)
        if n < at_least:
            raise StoreError(ReportError.IO, f"{STAGING_DIR}/{self.folder.name}: cut short")
        return room[:n]

    def remove_small(self) -> None:
        """Remove small files of their own: they are of a finish that was killed."""
        for entry in [k for k in self._present if k != IN_PACK and self.is_small(k)]:
            os.unlink(str(entry), dir_fd=self.folder.dir_fd)
            self._present.discard(entry)

    def close_files(self) -> None:
        """Close the files, keep the lock."""
        self._fds.close()

    def _runs(self, i: int) -> Iterator[tuple[int, int, int]]:
        """Chunk i as (entry or IN_PACK, first stream byte, bytes)."""
        position = i * self.layout.chunk_bytes
        end = position + self.layout.chunk_size(i)
        k = bisect_right(self._big_ends, position)
        while position < end:
            start = self._big_starts[k] if k < len(self._big) else end
            if start <= position:
                entry, stop = self._big[k], min(end, self._big_ends[k])
                k += 1
            else:
                entry, stop = IN_PACK, min(end, start)
            yield entry, position, stop - position
            position = stop

    def _open(self, entry: int) -> int:
        is_packed = entry == IN_PACK
        name = PACK if is_packed else str(entry)
        path = PACK if is_packed else self._entries[entry].path
        size = self.layout.total_bytes if is_packed else self._entries[entry].size
        fd = self._open_own(name, path)
        self._present.add(entry)
        try:
            if os.fstat(fd).st_size != size:
                os.ftruncate(fd, size)
        except OSError:
            os.close(fd)
            raise
        return fd

    def _open_own(self, name: str, path: str) -> int:
        """Open a file that has no other name: a finish that was killed leaves second names."""
        flags, dir_fd = os.O_RDWR | os.O_CREAT, self.folder.dir_fd
        try:
            fd = open_regular(name, flags, dir_fd, path)
        except PermissionError:  # it has its final mode already
            os.chmod(name, 0o600, dir_fd=dir_fd)
            fd = open_regular(name, flags, dir_fd, path)
        if os.fstat(fd).st_nlink == 1:
            return fd
        os.close(fd)
        os.unlink(name, dir_fd=dir_fd)
        return open_regular(name, flags, dir_fd, path)


def is_zero(view: memoryview) -> bool:
    """All zeros, and enough of them for a hole."""
    size = len(view)
    if size < HOLE_BYTES or view[0] or view[size // 2] or view[-1]:
        return False
    return not np.frombuffer(view, np.uint8).any()


def _infos(dir_fd: int) -> Iterator[os.stat_result]:
    with os.scandir(dir_fd) as children:
        found = list(children)
    for child in found:
        info = child.stat(follow_symlinks=False)
        yield info
        if stat.S_ISDIR(info.st_mode):
            with suppress(OSError):
                below = os.open(child.name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=dir_fd)
                try:
                    yield from _infos(below)
                finally:
                    os.close(below)


def lock_folder(root_fd: int, name: str) -> Folder:
    """Make and lock a folder below STAGING_DIR.

    Raises:
        StoreError: COLLISION when it is locked already, or what the system says.
    """
    with reported(f"{STAGING_DIR}/{name}"):
        for _ in range(MAX_LOCK_TRIES):
            # A push that ends beside this one removes folders that are empty.
            with suppress(FileNotFoundError):
                return _try_lock(root_fd, name)
    raise StoreError(ReportError.IO, f"{STAGING_DIR}/{name}: removed again and again")


def _try_lock(root_fd: int, name: str) -> Folder:
    with ExitStack() as opened:

        def own(fd: int) -> int:
            opened.callback(os.close, fd)
            return fd

        base_fd = _open_private(STAGING_DIR, root_fd)
        try:
            dir_fd = own(_open_private(name, base_fd))
        finally:
            os.close(base_fd)
        lock_fd = own(open_regular(LOCK, os.O_RDWR | os.O_CREAT, dir_fd, LOCK))
        _lock(lock_fd, name)
        # The lock is worth nothing when its file was removed between opening and locking.
        if os.stat(LOCK, dir_fd=dir_fd).st_ino != os.fstat(lock_fd).st_ino:
            raise FileNotFoundError
        folder = Folder(name, own(os.dup(root_fd)), dir_fd, lock_fd)
        opened.pop_all()
    return folder


def _lock(lock_fd: int, name: str) -> None:
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise PushOpenError(ReportError.COLLISION, f"push {name} is open already") from None


def _open_private(name: str, dir_fd: int) -> int:
    make_dir(name, PRIVATE_DIR_MODE, dir_fd)
    fd = open_dir(name, dir_fd, name)
    info = os.fstat(fd)
    if info.st_uid != os.geteuid():
        os.close(fd)
        raise StoreError(ReportError.PERMISSION, f"{name} belongs to user {info.st_uid}")
    if stat.S_IMODE(info.st_mode) != PRIVATE_DIR_MODE:
        os.fchmod(fd, PRIVATE_DIR_MODE)
    return fd
