"""The sender's disk: hash every chunk once, then read chunks by number.

Every read is followed by a look at the file: a push of bytes that changed on the way would fail
at every receiver, so it fails here, and names the file.
"""

from collections.abc import Callable
from pathlib import Path

from blake3 import blake3

from fanfold.errors import ConfigError, MisuseError
from fanfold.push.fds import FdCache, read_full
from fanfold.push.layout import Layout, Piece
from fanfold.push.manifest import (
    MAX_CHUNK_BYTES,
    MAX_MANIFEST_BYTES,
    VERSION,
    Entry,
    Manifest,
    check,
    encode,
)
from fanfold.push.scan import Offsets, Scan, identity_of, open_source, scan

Progress = Callable[[int, int], None]  # bytes done, bytes in all


class SourceChangedError(ConfigError):
    """A file changed after it was listed; nobody can say what should arrive."""

    def __init__(self, full_path: str) -> None:
        super().__init__(full_path, "changed during the push", "a file that nobody writes to")


def build_manifest(
    path: Path, stride: int, n_psn: int, progress: Progress | None = None
) -> tuple[Manifest, "SourceReader"]:
    """Hash a file or a directory, reading every byte once.

    Args:
        path: file or directory.
        stride: payload bytes of a packet.
        n_psn: packets of a block; one chunk is one block.
        progress: called after each chunk.

    Raises:
        ConfigError: what scan refuses, an impossible chunk, or a push that is too large.
        SourceChangedError: a file changed meanwhile.
    """
    if stride < 1 or n_psn < 1 or stride * n_psn > MAX_CHUNK_BYTES:
        raise ConfigError("chunk_bytes", f"{stride} * {n_psn}", f"1 to {MAX_CHUNK_BYTES}")
    reader = SourceReader(scan(path), stride * n_psn)
    try:
        manifest = _hashed(reader, stride, n_psn, progress)
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

    @property
    def tensors(self) -> dict[str, Offsets]:
        """For each safetensors file: tensor name -> (first, past the last) stream byte."""
        return self.source.tensors

    @property
    def ignored(self) -> tuple[str, ...]:
        """Paths that were left out: empty directories, a receiver's own folder."""
        return self.source.ignored

    def read_chunk(self, i: int, out: memoryview | bytearray) -> int:
        """Read chunk i into the start of `out`; return its bytes.

        Raises:
            SourceChangedError: the file changed since it was listed.
        """
        size = self.layout.chunk_size(i)
        if not 0 < size <= len(out):
            raise MisuseError(f"read_chunk {i} into {len(out)} bytes (chunk has {size})")
        view = memoryview(out)
        for piece in self.layout.pieces(i):
            self._read(piece, view[piece.at : piece.at + piece.size])
        return size

    def close(self) -> None:
        """Close the files."""
        self._fds.close()

    def _open(self, entry: int) -> int:
        return open_source(self.source.files[entry].full_path)

    def _read(self, piece: Piece, view: memoryview) -> None:
        file = self.source.files[piece.entry]
        fd = self._fds.fd(piece.entry)
        n = read_full(fd, view, piece.offset)
        if n != piece.size or identity_of(fd) != file.identity:
            raise SourceChangedError(file.full_path)


def _hashed(
    reader: SourceReader, stride: int, n_psn: int, progress: Progress | None
) -> Manifest:
    layout = reader.layout
    hashers = _FileHashers(len(reader.source.files))
    chunks = bytearray()
    buffer = memoryview(bytearray(min(layout.chunk_bytes, layout.total_bytes)))
    done = 0
    for i in range(layout.n_chunks):
        view = buffer[: reader.read_chunk(i, buffer)]
        chunks += blake3(view).digest()
        for piece in layout.pieces(i):
            hashers.update(piece.entry, view[piece.at : piece.at + piece.size])
        done += len(view)
        if progress:
            progress(done, layout.total_bytes)
    hashes = hashers.digests()
    entries = tuple(
        Entry(file.path, file.identity.size, file.mode, digest)
        for file, digest in zip(reader.source.files, hashes, strict=True)
    )
    name = reader.source.name
    total = layout.total_bytes
    sizes = (layout.chunk_bytes, stride, n_psn, total)
    return Manifest(VERSION, name, *sizes, entries, bytes(chunks))


def _refuse_large(path: Path, manifest: Manifest) -> None:
    n_bytes = len(encode(manifest))
    if n_bytes > MAX_MANIFEST_BYTES:
        raise ConfigError(str(path), n_bytes, f"a manifest of {MAX_MANIFEST_BYTES} bytes")


class _FileHashers:
    """Hash of each file, fed in stream order, so one hasher is alive at a time."""

    def __init__(self, n_files: int) -> None:
        self._digests = [blake3().digest()] * n_files
        self._hasher = blake3()
        self._entry = 0

    def update(self, entry: int, view: memoryview) -> None:
        if entry != self._entry:
            self._close()
            self._hasher = blake3()
            self._entry = entry
        self._hasher.update(view)

    def digests(self) -> list[bytes]:
        self._close()
        return self._digests

    def _close(self) -> None:
        self._digests[self._entry] = self._hasher.digest()
