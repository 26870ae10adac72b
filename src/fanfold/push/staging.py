"""A receiver's private folder for one push: root/.fanfold/DIGEST, one file for each entry.

The files are named by the number of their entry, so no name of the manifest is used here. The
folder's lock file is held with flock while the push is open; a killed process lets go of it.
"""

import fcntl
import os
import stat
from contextlib import ExitStack, suppress

from fanfold.push.fds import FdCache
from fanfold.push.manifest import STAGING_DIR, Entry
from fanfold.push.target import (
    StoreError,
    make_dir,
    names_in,
    open_dir,
    open_regular,
    reported,
)
from fanfold.wire.report import ReportError

PRIVATE_DIR_MODE = 0o700
LOCK = "lock"
DISK_BLOCK_BYTES = 512  # unit of st_blocks
MAX_LOCK_TRIES = 100


class Folder:
    """One folder below STAGING_DIR, locked as long as it is open; owns its descriptors."""

    def __init__(self, name: str, root_fd: int, dir_fd: int, lock_fd: int) -> None:
        self.name = name
        self.dir_fd = dir_fd
        self.root_fd = root_fd
        self._lock_fd = lock_fd

    def n_free_bytes(self) -> int:
        """Free bytes of the disk, for a user without privileges."""
        info = os.statvfs(self.dir_fd)
        return info.f_bavail * info.f_frsize

    def usage(self) -> tuple[int, int]:
        """Bytes of disk the files take, and the newest change of one, wall clock in ns."""
        with os.scandir(self.dir_fd) as files:
            infos = [file.stat(follow_symlinks=False) for file in files]
        n_bytes = sum(info.st_blocks * DISK_BLOCK_BYTES for info in infos)
        return n_bytes, max(info.st_mtime_ns for info in infos)

    def close(self) -> None:
        """Let go of the lock, keep the files."""
        for fd in (self.dir_fd, self.root_fd, self._lock_fd):
            os.close(fd)

    def remove(self) -> None:
        """Remove the folder with its files; it stays locked until closed."""
        with reported(f"{STAGING_DIR}/{self.name}"):
            for name in names_in(self.dir_fd):
                if name != LOCK:
                    os.unlink(name, dir_fd=self.dir_fd)
            os.unlink(LOCK, dir_fd=self.dir_fd)
        # Another push may be about to lock this folder, or has its own beside it.
        with suppress(OSError):
            os.rmdir(f"{STAGING_DIR}/{self.name}", dir_fd=self.root_fd)
            os.rmdir(STAGING_DIR, dir_fd=self.root_fd)


class Staging:
    """The unfinished files of one push; each is made sparse, in full size, at its first use."""

    def __init__(self, folder: Folder, entries: tuple[Entry, ...]) -> None:
        self.folder = folder
        self._entries = entries
        self._fds = FdCache(self._open)
        with reported(f"{STAGING_DIR}/{folder.name}"):
            self._present = {int(n) for n in names_in(folder.dir_fd) if n.isdecimal()}

    def has(self, entry: int) -> bool:
        """Whether the entry has a file here."""
        return entry in self._present

    def fd(self, entry: int) -> int:
        """Return the entry's file, open for reading and writing."""
        return self._fds.fd(entry)

    def close_files(self) -> None:
        """Close the files, keep the lock."""
        self._fds.close()

    def _open(self, entry: int) -> int:
        what = self._entries[entry]
        fd = open_regular(str(entry), os.O_RDWR | os.O_CREAT, self.folder.dir_fd, what.path)
        self._present.add(entry)
        try:
            if os.fstat(fd).st_size != what.size:
                os.ftruncate(fd, what.size)
        except OSError:
            os.close(fd)
            raise
        return fd


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
        raise StoreError(ReportError.COLLISION, f"push {name} is open already") from None


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
