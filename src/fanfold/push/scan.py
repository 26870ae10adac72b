"""What the operator points at, listed: a file, or every file below a directory.

Refused by name: symbolic links, special files, unreadable files, and names that no receiver
would accept. Empty directories are left out, and a receiver's own folder (STAGING_DIR) at the
top; Scan.ignored lists both. Entries stand in the order of their names: the files of a folder,
then what lies in the folders below it.
"""

import os
import stat
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from safetensors import SafetensorError, safe_open

from fanfold.errors import ConfigError
from fanfold.push.manifest import MAX_ENTRIES, MODES, STAGING_DIR, is_safe_name, is_safe_path

AT_LEAST_ONE = "at least one byte"
LENGTH_BYTES = 8  # of a safetensors header: little endian, before the header itself

Offsets = dict[str, tuple[int, int]]


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


class Scan(NamedTuple):
    """The files in stream order.

    tensors: for each safetensors file, tensor name -> (first, past the last) stream byte.
    ignored: paths left out, relative to the scanned directory.
    """

    name: str
    files: tuple[SourceFile, ...]
    tensors: dict[str, Offsets]
    ignored: tuple[str, ...]


def scan(path: Path) -> Scan:
    """List a file or a directory. Raises ConfigError that names the path at fault."""
    top = os.path.abspath(path)  # noqa: PTH100 - Path.absolute keeps '..', resolve follows links
    mode = _lstat(top).st_mode
    name = os.path.basename(top)  # noqa: PTH119 - a string, as scandir gives below
    if not is_safe_name(name):
        raise ConfigError(top, name, "a name without backslash, in UTF-8")
    ignored: list[str] = []
    is_dir = stat.S_ISDIR(mode)
    files = _walk(top, ignored) if is_dir else [_source_file(name, top, mode)]
    if not any(file.identity.size for file in files):
        what = "empty directory" if is_dir else "empty file"
        raise ConfigError(top, what, AT_LEAST_ONE)
    return Scan(name, tuple(files), _tensors(files), tuple(ignored))


def identity_of(fd: int) -> Identity:
    """Identity of an open file."""
    info = os.fstat(fd)
    return Identity(info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns)


def open_source(full_path: str) -> int:
    """Open for reading, never through a symbolic link, never waiting for a pipe."""
    try:
        return os.open(full_path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise ConfigError(full_path, error.strerror, "a readable regular file") from error


def _walk(top: str, ignored: list[str]) -> list[SourceFile]:
    files: list[SourceFile] = []
    below = [(top, "")]
    while below:
        folder, prefix = below.pop()
        children = sorted(_list(folder), key=lambda child: child.name)
        if not children:
            ignored.append(prefix)
        folders = []
        for child in children:
            path = f"{prefix}{child.name}"
            if path == STAGING_DIR:
                ignored.append(path + "/")
            elif child.is_dir(follow_symlinks=False):
                folders.append((child.path, path + "/"))
            else:
                files.append(_source_file(path, child.path, _lstat(child.path).st_mode))
        below += reversed(folders)
        if len(files) > MAX_ENTRIES:
            raise ConfigError(top, len(files), f"at most {MAX_ENTRIES} files")
    return files


def _list(folder: str) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as children:
            return list(children)
    except OSError as error:
        raise ConfigError(folder, error.strerror, "a readable directory") from error


def _lstat(full_path: str) -> os.stat_result:
    try:
        return os.lstat(full_path)
    except OSError as error:
        raise ConfigError(full_path, error.strerror, "a file or a directory") from error


def _source_file(path: str, full_path: str, mode: int) -> SourceFile:
    if stat.S_ISLNK(mode):
        raise ConfigError(full_path, "symbolic link", "a regular file or a directory")
    if not stat.S_ISREG(mode):
        raise ConfigError(full_path, "special file", "a regular file or a directory")
    if not is_safe_path(path):
        allowed = "names in UTF-8 without backslash, at most 64 deep and 4095 bytes in all"
        raise ConfigError(full_path, path, allowed)
    fd = open_source(full_path)
    try:
        identity = identity_of(fd)
    finally:
        os.close(fd)
    return SourceFile(path, full_path, MODES[bool(mode & stat.S_IXUSR)], identity)


def _tensors(files: list[SourceFile]) -> dict[str, Offsets]:
    tensors = {}
    start = 0
    for file in files:
        if file.path.endswith(".safetensors"):
            tensors[file.path] = _tensor_index(file.full_path, start)
        start += file.identity.size
    return tensors


def _tensor_index(full_path: str, start: int) -> Offsets:
    """Validate the header with the safetensors package, then read the offsets it holds."""
    try:
        with safe_open(full_path, framework="numpy"):
            pass
    except SafetensorError as error:
        raise ConfigError(full_path, str(error), "a valid safetensors file") from error
    with Path(full_path).open("rb") as file:
        length = int.from_bytes(file.read(LENGTH_BYTES), "little")
        header = msgspec.json.decode(file.read(length), type=dict[str, Any])
    header.pop("__metadata__", None)
    data = start + LENGTH_BYTES + length
    offsets = {name: tensor["data_offsets"] for name, tensor in header.items()}
    return {name: (data + first, data + last) for name, (first, last) in offsets.items()}
