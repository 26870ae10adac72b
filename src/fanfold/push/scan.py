"""What the operator points at, listed: a file, or every file and folder below a directory.

Refused by name: special files, unreadable ones, names that no receiver would accept, and
symbolic links that lead out (push/links.py). A receiver's own folder (STAGING_DIR) at the top
is left out, and said so (Scan.ignored). Entries stand in the order of their names: the files of
a folder, then what lies in the folders below it.
"""

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from fanfold.errors import ConfigError
from fanfold.push.links import Links
from fanfold.push.manifest import (
    MAX_ENTRIES,
    MODE_BITS,
    STAGING_DIR,
    is_safe_name,
    is_safe_path,
)
from fanfold.push.tensor_files import INDEX, TENSORS, Flaw, Offsets, index_flaw, tensor_index

SAFE_PATHS = "names in UTF-8 without backslash, at most 64 deep and 4095 bytes in all"


class Identity(NamedTuple):
    """A file stays the same while none of these changes."""

    device: int
    inode: int
    size: int
    mtime_ns: int


class SourceFile(NamedTuple):
    """One file to push: path relative to the scanned directory, full path, mode to give it."""

    path: str
    full_path: str
    mode: int
    identity: Identity


class SourceFolder(NamedTuple):
    """One folder to make: path relative to the scanned directory, itself as empty path."""

    path: str
    mode: int
    mtime_ns: int


class Scan(NamedTuple):
    """The files in stream order, and the folders.

    tensors: for each safetensors file, tensor name -> (first, past the last) stream byte.
    ignored: paths left out, relative to the scanned directory.
    flaws: files of a model that do not hold what they say.
    """

    name: str
    is_folder: bool
    files: tuple[SourceFile, ...]
    folders: tuple[SourceFolder, ...]
    tensors: dict[str, Offsets]
    ignored: tuple[str, ...]
    flaws: tuple[Flaw, ...]


def scan(path: Path, follow: Iterable[Path] = ()) -> Scan:
    """List a file or a directory; a link that is named itself leads where it leads.

    Args:
        follow: folders that links may end in beside the directory itself.

    Raises:
        ConfigError: names the path at fault.
    """
    top = os.path.abspath(path)  # noqa: PTH100 - Path.absolute keeps '..', resolve follows links
    name = os.path.basename(top)  # noqa: PTH119 - a string, as scandir gives below
    info = _stat(top)
    if not is_safe_name(name):
        raise ConfigError(top, name, "a name without backslash, in UTF-8")
    if stat.S_ISDIR(info.st_mode):
        walk = _Walk(os.path.realpath(top), follow)
        walk.run()
        files, folders, ignored = walk.files, walk.folders, walk.ignored
    else:
        real = os.path.realpath(top)
        files, folders, ignored = [_source_file(name, top, real, info)], [], []
    tensors, flaws = _tensors(files)
    is_folder = stat.S_ISDIR(info.st_mode)
    return Scan(
        name, is_folder, tuple(files), tuple(folders), tensors, tuple(ignored), tuple(flaws)
    )


def identity_of(fd: int) -> Identity:
    """Identity of an open file."""
    return _identity(os.fstat(fd))


def _identity(info: os.stat_result) -> Identity:
    return Identity(info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns)


SOURCE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


def open_source(full_path: str, name: str = "", dir_fd: int | None = None) -> int:
    """Open for reading, never through a symbolic link, never waiting for a pipe.

    Args:
        name, dir_fd: the file's name in a folder that is open; its path is for the message.
    """
    try:
        return os.open(name or full_path, SOURCE_FLAGS, dir_fd=dir_fd)
    except OSError as error:
        raise ConfigError(full_path, error.strerror, "a readable regular file") from error


class SourceFolders:
    """Opens files by their full paths; keeps the folder of the last one open."""

    def __init__(self) -> None:
        self._path, self._fd = "", -1

    def open(self, full_path: str) -> int:
        """As ``open_source``; the caller closes it."""
        folder, _, name = full_path.rpartition("/")
        if folder != self._path:
            self.close()
            try:
                self._fd = os.open(folder or "/", os.O_PATH | os.O_DIRECTORY)
            except OSError:
                return open_source(full_path)  # says what is wrong
            self._path = folder
        return open_source(full_path, name, self._fd)

    def close(self) -> None:
        """Close the folder."""
        if self._fd >= 0:
            os.close(self._fd)
        self._path, self._fd = "", -1


class _Below(NamedTuple):
    """A folder still to be listed; chain: real paths of it and of the folders that hold it."""

    real: str
    prefix: str
    chain: tuple[str, ...]


class _Walk:
    """All that lies below one folder."""

    def __init__(self, top: str, follow: Iterable[Path]) -> None:
        self.files: list[SourceFile] = []
        self.folders: list[SourceFolder] = []
        self.ignored: list[str] = []
        self._top = top
        self._links = Links(top, follow)

    def run(self) -> None:
        """List it all."""
        below = [_Below(self._top, "", (self._top,))]
        while below:
            folder = below.pop()
            info = _stat(folder.real)
            mode = stat.S_IMODE(info.st_mode) & MODE_BITS
            path = folder.prefix.rstrip("/")
            self.folders.append(SourceFolder(path, mode, info.st_mtime_ns))
            below += reversed(self._list(folder))
            n_all = len(self.files) + len(self.folders)
            if n_all > MAX_ENTRIES:
                raise ConfigError(self._top, n_all, f"at most {MAX_ENTRIES} files and folders")

    def _list(self, folder: _Below) -> list[_Below]:
        """Take a folder's files; return the folders in it."""
        found = []
        for child in sorted(_children(folder.real), key=lambda child: child.name):
            path = f"{folder.prefix}{child.name}"
            if path == STAGING_DIR:
                self.ignored.append(path + "/")
                continue
            real, info = child.path, _info(child)
            if stat.S_ISREG(info.st_mode):
                self.files.append(_source_file(path, real, real, info))
                continue
            if stat.S_ISLNK(info.st_mode):
                real = self._links.end_of(child.path)
                info = _stat(real)
            if not stat.S_ISDIR(info.st_mode):
                self.files.append(_source_file(path, child.path, real, info))
                continue
            if not is_safe_path(path):
                raise ConfigError(child.path, path, SAFE_PATHS)
            if real in folder.chain:
                allowed = "links to folders that do not hold them"
                raise ConfigError(child.path, f"symbolic link to {real}", allowed)
            found.append(_Below(real, path + "/", (*folder.chain, real)))
        return found


def _children(folder: str) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as children:
            return list(children)
    except OSError as error:
        raise ConfigError(folder, error.strerror, "a readable directory") from error


def _info(child: "os.DirEntry[str]") -> os.stat_result:
    try:
        return child.stat(follow_symlinks=False)
    except OSError as error:
        raise ConfigError(child.path, error.strerror, "a file or a directory") from error


def _stat(full_path: str) -> os.stat_result:
    try:
        return os.stat(full_path)  # noqa: PTH116 - a string, as scandir gives
    except OSError as error:
        raise ConfigError(full_path, error.strerror, "a file or a directory") from error


def _source_file(path: str, named: str, real: str, info: os.stat_result) -> SourceFile:
    """named: as the operator sees it; real: where it is read, behind links."""
    if not stat.S_ISREG(info.st_mode):
        raise ConfigError(named, "special file", "a regular file or a directory")
    if not is_safe_path(path):
        raise ConfigError(named, path, SAFE_PATHS)
    mode = stat.S_IMODE(info.st_mode) & MODE_BITS
    return SourceFile(path, real, mode, _identity(info))


def _tensors(files: list[SourceFile]) -> tuple[dict[str, Offsets], list[Flaw]]:
    tensors: dict[str, Offsets] = {}
    flaws: list[Flaw] = []
    paths: set[str] = set()
    start = 0
    for file in files:
        if file.path.endswith(TENSORS):
            os.close(open_source(file.full_path))  # unreadable: said as of any other file
            found = tensor_index(file.full_path, start)
            if isinstance(found, str):
                flaws.append(Flaw(file.path, f"not a valid safetensors file: {found}"))
            else:
                tensors[file.path] = found
        elif file.path.endswith(INDEX):
            os.close(open_source(file.full_path))
            paths = paths or {other.path for other in files}
            what = index_flaw(file.full_path, file.path, paths)
            flaws += [Flaw(file.path, what)] if what else []
        start += file.identity.size
    return tensors, flaws
