"""The tree below a receiver's root, reached name by name so that no link can lead outside.

Every folder is opened relative to its parent with O_NOFOLLOW, and files are opened and renamed
relative to such a folder: whoever swaps a name for a symbolic link meanwhile gets an error.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from fanfold.errors import ExitCode, FanfoldError
from fanfold.push.fds import FdCache
from fanfold.wire.report import ReportError

DIR_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
FILE_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK  # never waits for a pipe
DIR_MODE = 0o755


class StoreError(FanfoldError):
    """The receiver's disk refuses: the code for the report, and the words for the operator."""

    exit_code = ExitCode.PARTIAL

    def __init__(self, code: ReportError, message: str) -> None:
        super().__init__(message)
        self.code = code


CODES = {
    errno.ENOSPC: ReportError.DISK_FULL,
    errno.EDQUOT: ReportError.DISK_FULL,
    errno.EEXIST: ReportError.COLLISION,
    errno.EISDIR: ReportError.COLLISION,
    errno.ENOTDIR: ReportError.COLLISION,
    errno.ENOTEMPTY: ReportError.COLLISION,
    errno.ENXIO: ReportError.COLLISION,
    errno.EXDEV: ReportError.COLLISION,
    errno.EACCES: ReportError.PERMISSION,
    errno.EPERM: ReportError.PERMISSION,
    errno.EROFS: ReportError.PERMISSION,
    errno.ELOOP: ReportError.BAD_PATH,
    errno.ENAMETOOLONG: ReportError.BAD_PATH,
    errno.EFBIG: ReportError.TOO_LARGE,
}


@contextmanager
def reported(what: str) -> Iterator[None]:
    """Turn an error of the system into a StoreError that says what was being done."""
    try:
        yield
    except OSError as error:
        raise refusal(what, error) from error


def refusal(what: str, error: OSError) -> StoreError:
    """An error of the system as one that says what was being done."""
    return StoreError(CODES.get(error.errno or 0, ReportError.IO), f"{what}: {error.strerror}")


class Target:
    """The places of files below a folder; keeps the folders it used last open."""

    def __init__(self, root_fd: int) -> None:
        self.root_fd = root_fd
        self._dirs = FdCache(self._open_parent)
        self._prepared: str | None = None

    def at(self, path: str) -> tuple[int, str]:
        """Folder that holds the path, open until the next call, and the name in it."""
        parent, _, name = path.rpartition("/")
        return self._dirs.fd(parent), name

    def open_file(self, path: str) -> int | None:
        """Open what stands in the file's place; None when nothing does or it is unreadable.

        Raises:
            StoreError: a directory, a special file or a symbolic link is in the way.
        """
        with reported(path):
            try:
                parent_fd, name = self.at(path)
                return open_regular(name, os.O_RDONLY, parent_fd, path)
            except FileNotFoundError:
                return None
            except PermissionError:
                parent_fd, name = self.at(path)
                info = os.stat(name, dir_fd=parent_fd, follow_symlinks=False)
                _refuse_unfit(info.st_mode, path)
                return None

    def open_folder(self, path: str) -> int | None:
        """Open a folder, the root itself when the path is empty; None when there is none.

        Raises:
            StoreError: a file or a symbolic link is in the way.
        """
        with reported(path):
            try:
                return self._walk(path, DIR_MODE, None)
            except FileNotFoundError:
                return None

    def make(self, folder: str, mode: int = DIR_MODE) -> list[str]:
        """Make a folder and those above it; paths of those that were not there."""
        made: list[str] = []
        with reported(folder):
            fd = self._walk(folder, mode, made)
            device = os.fstat(fd).st_dev
            os.close(fd)
            if device != os.fstat(self.root_fd).st_dev:
                raise OSError(errno.EXDEV, "the folder is a disk of its own, unlike the root")
        return made

    def prepare(self, path: str) -> list[str]:
        """Make the folders above a file, see that it can be renamed into its place.

        Returns:
            The folders that were made.
        """
        folder = path.rpartition("/")[0]
        made = self.make(folder) if folder != self._prepared else []
        self._prepared = folder
        fd = self.open_file(path)
        if fd is not None:
            os.close(fd)
        return made

    def replace(self, from_dir_fd: int, from_name: str, path: str) -> None:
        """Rename a file into its final place: the old file or the new one, never a part."""
        with reported(path):
            dir_fd, name = self.at(path)
            os.replace(from_name, name, src_dir_fd=from_dir_fd, dst_dir_fd=dir_fd)

    def close(self) -> None:
        """Close the folders; the target can be used again."""
        self._dirs.close()
        self._prepared = None

    def _open_parent(self, folder: str) -> int:
        return self._walk(folder, DIR_MODE, None)

    def _walk(self, folder: str, mode: int, made: list[str] | None) -> int:
        """Open a folder from the root on, making what is absent where ``made`` is given."""
        fd = os.dup(self.root_fd)
        path = ""
        for name in folder.split("/") if folder else ():
            path = f"{path}/{name}" if path else name
            try:
                if made is not None and make_dir(name, mode, fd):
                    made.append(path)
                below = open_dir(name, fd, folder)
            finally:
                os.close(fd)
            fd = below
        return fd


def make_dir(name: str, mode: int, dir_fd: int) -> bool:
    """Make a folder unless the name is taken; return whether it was made."""
    try:
        os.mkdir(name, mode, dir_fd=dir_fd)
    except FileExistsError:
        return False
    return True


def names_in(dir_fd: int) -> list[str]:
    """List an open folder."""
    with os.scandir(dir_fd) as children:
        return [child.name for child in children]


def open_dir(name: str, dir_fd: int, path: str) -> int:
    """Open a folder, not through a symbolic link; path is for the message."""
    try:
        return os.open(name, DIR_FLAGS, dir_fd=dir_fd)
    except NotADirectoryError:
        info = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
        if stat.S_ISLNK(info.st_mode):
            raise StoreError(
                ReportError.BAD_PATH, f"{path}: {name} is a symbolic link"
            ) from None
        raise


def open_regular(name: str, flags: int, dir_fd: int, path: str) -> int:
    """Open a regular file, not through a symbolic link; path is for the message."""
    fd = os.open(name, flags | FILE_FLAGS, 0o600, dir_fd=dir_fd)
    try:
        _refuse_unfit(os.fstat(fd).st_mode, path)
    except StoreError:
        os.close(fd)
        raise
    return fd


def _refuse_unfit(mode: int, path: str) -> None:
    if stat.S_ISLNK(mode):
        raise StoreError(ReportError.BAD_PATH, f"{path}: a symbolic link is in its place")
    if not stat.S_ISREG(mode):
        what = "directory" if stat.S_ISDIR(mode) else "special file"
        raise StoreError(ReportError.COLLISION, f"{path}: a {what} is in its place")
