"""The sender's disk: hash every chunk once, then read chunks by number.

Every read is followed by a look at the file: a push of bytes that changed on the way would fail
at every receiver, so it fails here, and names the file.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from blake3 import blake3

from fanfold.core.flight import Shape
from fanfold.errors import ConfigError, MisuseError
from fanfold.live.outbox import Fan, Read
from fanfold.push.fds import FdCache, read_full
from fanfold.push.layout import Layout
from fanfold.push.manifest import (
    MAX_CHUNK_BYTES,
    MAX_MANIFEST_BYTES,
    VERSION,
    Entry,
    Folder,
    Manifest,
    check,
    encode,
    is_safe_path,
    pack_times,
)
from fanfold.push.scan import Scan, SourceFile, SourceFolders, scan
from fanfold.push.tensor_files import Flaw, Offsets
from fanfold.seals.primitives import TAG_BYTES
from fanfold.seals.trust import Seals

Progress = Callable[[int, int], None]  # bytes done, bytes in all


class SourceChangedError(ConfigError):
    """A file changed after it was listed; nobody can say what should arrive."""

    def __init__(self, full_path: str) -> None:
        super().__init__(full_path, "changed during the push", "a file that nobody writes to")


ROOT = "."


class Wish(NamedTuple):
    """How a file or directory is to arrive.

    as_name: what it is called at the receivers; empty: its own name; ROOT: what a directory
        holds goes below the receiver's root, each file by itself.
    is_exact: what a directory of that name holds there already, and has no twin here, goes.
    follow: folders that symbolic links may end in, beside the directory itself.
    is_strict: models with flaws are refused. seals: what it is signed with, None: it is open.
    only_through: a label that every node on its way has, KEY=VALUE.
    """

    as_name: str = ""
    is_exact: bool = False
    follow: tuple[Path, ...] = ()
    is_strict: bool = False
    seals: Seals | None = None
    only_through: str = ""

    @property
    def tag_bytes(self) -> int:
        """Bytes of each block that its seal takes."""
        return TAG_BYTES if self.seals is not None and self.seals.is_sealed else 0


BY_ITSELF = Wish(ROOT)


def build_manifest(
    path: Path,
    stride: int,
    n_psn: int,
    progress: Progress | None = None,
    wish: Wish = BY_ITSELF,
) -> tuple[Manifest, "SourceReader"]:
    """Hash a file or a directory, reading every byte once.

    Args:
        path: file or directory.
        stride: payload bytes of a packet.
        n_psn: packets of a block; one chunk is one block.
        progress: called after each chunk.
        wish: how it is to arrive.

    Raises:
        ConfigError: what scan refuses, an impossible chunk, or a push that is too large.
        SourceChangedError: a file changed meanwhile.
    """
    tag_bytes = wish.tag_bytes
    if stride < 1 or n_psn < 1 or not tag_bytes < stride * n_psn <= MAX_CHUNK_BYTES:
        raise ConfigError("chunk_bytes", f"{stride} * {n_psn}", f"1 to {MAX_CHUNK_BYTES}")
    found = scan(path, wish.follow)
    _refuse_flawed(path, found.flaws if wish.is_strict else ())
    name, place, source = _placed(found, wish)
    reader = SourceReader(source, stride * n_psn - tag_bytes)
    try:
        chunks, hashes = _hashed(reader, progress)
        files, folders = source.files, source.folders
        times = [file.identity.mtime_ns for file in files] + [f.mtime_ns for f in folders]
        rows = zip(files, hashes, strict=True)
        manifest = Manifest(
            version=VERSION,
            name=name,
            place=place,
            is_exact=wish.is_exact,
            chunk_bytes=stride * n_psn - tag_bytes,
            stride=stride,
            n_psn=n_psn,
            total_bytes=reader.layout.total_bytes,
            entries=tuple(Entry(f.path, f.identity.size, f.mode, h) for f, h in rows),
            folders=tuple(Folder(f.path, f.mode) for f in folders),
            chunks=chunks,
            times=pack_times(times),
            only_through=wish.only_through,
        )
        _refuse_large(path, manifest)
    except BaseException:
        reader.close()
        raise
    check(manifest)
    return manifest, reader


class SourceReader:
    """Reads the chunks of a scanned source by number, with at most 64 files open."""

    def __init__(self, source: Scan, chunk_bytes: int) -> None:
        self.source = source
        self.layout = Layout((file.identity.size for file in source.files), chunk_bytes)
        self._fds = FdCache(self._open)
        self._folders = SourceFolders()

    @property
    def tensors(self) -> dict[str, Offsets]:
        """For each safetensors file: tensor name -> (first, past the last) stream byte."""
        return self.source.tensors

    @property
    def ignored(self) -> tuple[str, ...]:
        """Paths that were left out: a receiver's own folder."""
        return self.source.ignored

    @property
    def flaws(self) -> tuple[Flaw, ...]:
        """Files of a model that do not hold what they say."""
        return self.source.flaws

    def read_chunk(self, i: int, out: memoryview | bytearray) -> int:
        """Read chunk i into the start of `out`; return its bytes.

        Raises:
            SourceChangedError: the file changed since it was listed.
        """
        size = self.layout.chunk_size(i)
        if not 0 < size <= len(out):
            raise MisuseError(f"read_chunk {i} into {len(out)} bytes (chunk has {size})")
        view = memoryview(out)
        files, folders = self.source.files, self._folders
        for entry, offset, n_bytes, at in self.layout.pieces(i):
            file, part = files[entry], view[at : at + n_bytes]
            if n_bytes < file.identity.size:
                self._require_read(file, self._fds.fd(entry), part, offset)
                continue
            fd = folders.open(file.full_path)  # wanted for this chunk alone
            try:
                self._require_read(file, fd, part, 0)
            finally:
                os.close(fd)
        return size

    def close(self) -> None:
        """Close the files."""
        self._fds.close()
        self._folders.close()

    def _open(self, entry: int) -> int:
        return self._folders.open(self.source.files[entry].full_path)

    def _require_read(self, file: SourceFile, fd: int, view: memoryview, offset: int) -> None:
        n, size = os.preadv(fd, [view], offset), len(view)
        if n < size:
            n = read_full(fd, view, offset)
        info = os.fstat(fd)
        found = (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns)
        if n != size or found != file.identity:
            raise SourceChangedError(file.full_path)


def _placed(found: Scan, wish: Wish) -> tuple[str, str, Scan]:
    """Name of the push, the folder that it replaces as a whole, and what is in it."""
    name = wish.as_name
    if wish.is_exact and (not found.is_folder or name == ROOT):
        what = "a file" if not found.is_folder else f"--as {ROOT}"
        raise ConfigError("--delete", what, "a folder that arrives under a name of its own")
    if not found.files and not found.folders[1:] and name == ROOT:
        raise ConfigError(found.name, "empty directory", "one that arrives under a name")
    if name == ROOT or not name:
        place = found.name if found.is_folder and not name else ""
        folders = found.folders if place else found.folders[1:]
        return found.name, place, found._replace(folders=folders)
    if not is_safe_path(name):
        raise ConfigError("--as", name, f"{ROOT}, or a path below the receiver's root")
    last = name.rpartition("/")[2]
    if found.is_folder:
        return last, name, found
    return last, "", found._replace(files=(found.files[0]._replace(path=name),))


def _refuse_flawed(path: Path, flaws: Iterable[Flaw]) -> None:
    for flaw in flaws:
        raise ConfigError(str(path), f"{flaw.path}: {flaw.what}", "no such flaw with --strict")


def _hashed(reader: SourceReader, progress: Progress | None) -> tuple[bytes, list[bytes]]:
    """BLAKE3 of each chunk, and of each file."""
    layout = reader.layout
    files = reader.source.files
    digests = [blake3().digest()] * len(files)
    hasher = blake3()
    chunks = bytearray()
    buffer = memoryview(bytearray(min(layout.chunk_bytes, layout.total_bytes)))
    done = 0
    for i in range(layout.n_chunks):
        view = buffer[: reader.read_chunk(i, buffer)]
        chunks += blake3(view).digest()
        for entry, offset, size, at in layout.pieces(i):
            part = view[at : at + size]
            if size == files[entry].identity.size:
                digests[entry] = blake3(part).digest()
                continue
            if offset == 0:
                hasher = blake3()
            hasher.update(part)
            digests[entry] = hasher.digest()
        done += len(view)
        if progress:
            progress(done, layout.total_bytes)
    return bytes(chunks), digests


def _refuse_large(path: Path, manifest: Manifest) -> None:
    n_bytes = len(encode(manifest))
    if n_bytes > MAX_MANIFEST_BYTES:
        raise ConfigError(str(path), n_bytes, f"a manifest of {MAX_MANIFEST_BYTES} bytes")


def warnings_of(reader: SourceReader) -> list[str]:
    """What is odd about a source, and no reason to refuse it."""
    flaws = [f"{x.path}: {x.what}; pushed as it is (--strict refuses)" for x in reader.flaws]
    left_out = [f"{path} is left out, a receiver's own folder" for path in reader.ignored]
    return flaws + left_out


def fan_of_bytes(whole: bytes, shape: Shape) -> Fan:
    """Bytes at hand as a fan that an outbox sends."""

    def read(block: int, room: memoryview) -> int:
        part = whole[block * shape.block_bytes : (block + 1) * shape.block_bytes]
        room[: len(part)] = part
        return len(part)

    return Fan(shape.stride, shape.n_psn, shape.last_n_psn, read)


def fan_of(read: Read, shape: Shape) -> Fan:
    """What is read block by block as a fan that an outbox sends."""
    return Fan(shape.stride, shape.n_psn, shape.last_n_psn, read)
