"""The manifest of a push: its files as one stream, and the BLAKE3 of every chunk of it.

    bytes    field
    0-7      MAGIC
    8-       one msgpack array, the fields of Manifest in order; an entry is an array in it

The stream is the concatenation of the entries in their order. Chunk i is the stream bytes
from i * chunk_bytes on, chunk_bytes long or up to the end, and may span several files.

The encoding is canonical: a value has one encoding, and decode refuses every other spelling of
it. So BLAKE3(data) == digest(decode(data)), and a detached signature over the bytes or over the
digest can be added without a new layout.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Annotated

import msgspec
from blake3 import blake3

from fanfold.errors import WireError, WireReason

MAGIC = b"FANFOLDM"
VERSION = 1
HASH_BYTES = 32
MODES = (0o644, 0o755)
STAGING_DIR = ".fanfold"  # the receiver's own folder below its root; no entry may lie in it

DOTS = frozenset({b".", b".."})

MAX_MANIFEST_BYTES = 1 << 28  # chunks of 700 GB in packets of 1.5 KB, of 4 TB in jumbo ones
MAX_ENTRIES = 1_000_000
MAX_NAME_BYTES = 255
MAX_PATH_BYTES = 4095
MAX_DEPTH = 64
MAX_CHUNK_BYTES = 1 << 24  # a receiver holds a few chunks in memory
MAX_TOTAL_BYTES = 1 << 62


class Entry(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """One file: path relative to the target, '/' between names; mode is 0o644 or 0o755."""

    path: str
    size: int
    mode: int
    blake3: bytes


class Manifest(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What is pushed. A chunk is n_psn packets of stride bytes; chunks holds their hashes."""

    version: int
    name: str
    chunk_bytes: int
    stride: int
    n_psn: int
    total_bytes: int
    entries: Annotated[tuple[Entry, ...], msgspec.Meta(max_length=MAX_ENTRIES)]
    chunks: bytes


def encode(manifest: Manifest) -> bytes:
    """Encode to the canonical bytes."""
    return MAGIC + msgspec.msgpack.encode(manifest)


def decode(data: bytes) -> Manifest:
    """Decode bytes of a peer. Raises WireError, nothing else."""
    _require(len(data) <= MAX_MANIFEST_BYTES, "length", len(data))
    _require(data[: len(MAGIC)] == MAGIC, "magic", data[: len(MAGIC)])
    try:
        manifest = msgspec.msgpack.decode(memoryview(data)[len(MAGIC) :], type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WireError("manifest", WireReason.BAD_FIELD, error) from error
    check(manifest)
    _require(encode(manifest) == data, "encoding", "not canonical")
    return manifest


def digest(manifest: Manifest) -> bytes:
    """BLAKE3 of the canonical bytes: the name of this push."""
    return blake3(encode(manifest)).digest()


def whole_digest(manifest: Manifest) -> bytes:
    """Return what both ends report for the whole: a single file's BLAKE3, else the digest."""
    if len(manifest.entries) == 1:
        return manifest.entries[0].blake3
    return digest(manifest)


def n_chunks(manifest: Manifest) -> int:
    """Chunks of the stream, rounded up; the last may be short."""
    return -(-manifest.total_bytes // manifest.chunk_bytes)


def chunk_hash(manifest: Manifest, i: int) -> bytes:
    """BLAKE3 of chunk i."""
    return manifest.chunks[i * HASH_BYTES : (i + 1) * HASH_BYTES]


def check(manifest: Manifest) -> None:
    """Refuse what no honest sender makes. Raises WireError, nothing else."""
    if manifest.version != VERSION:
        raise WireError("manifest", WireReason.BAD_VERSION, manifest.version)
    _check_numbers(manifest)
    for entry in manifest.entries:
        _check_entry(entry)
    _check_tree(entry.path for entry in manifest.entries)


def is_safe_name(name: str) -> bool:
    """Whether the name is one harmless path segment of 1 to 255 bytes in UTF-8."""
    return "/" not in name and _are_safe_names(name)


def is_safe_path(path: str) -> bool:
    """Whether the path stays below the folder it is applied to, and out of STAGING_DIR."""
    first = path.partition("/")[0]
    return _are_safe_names(path) and first.lower() != STAGING_DIR  # a disk may fold case


def _are_safe_names(path: str) -> bool:
    raw = path.encode(errors="ignore")
    names = raw.split(b"/")
    return (
        len(raw) <= MAX_PATH_BYTES
        and len(names) <= MAX_DEPTH
        and raw.decode() == path  # else it holds a lone surrogate
        and b"\0" not in raw
        and b"\\" not in raw
        and all(0 < len(name) <= MAX_NAME_BYTES for name in names)
        and DOTS.isdisjoint(names)
    )


def _check_numbers(manifest: Manifest) -> None:
    m = manifest
    _require(is_safe_name(m.name), "name", m.name[:MAX_NAME_BYTES])
    _require(m.stride >= 1, "stride", m.stride)
    _require(m.n_psn >= 1, "n_psn", m.n_psn)
    is_chunk = m.chunk_bytes == m.stride * m.n_psn and m.chunk_bytes <= MAX_CHUNK_BYTES
    _require(is_chunk, "chunk_bytes", m.chunk_bytes)
    _require(1 <= len(m.entries) <= MAX_ENTRIES, "entries", len(m.entries))
    _require(1 <= m.total_bytes <= MAX_TOTAL_BYTES, "total_bytes", m.total_bytes)
    _require(len(m.chunks) == HASH_BYTES * n_chunks(m), "chunks", len(m.chunks))
    is_sum = m.total_bytes == sum(entry.size for entry in m.entries)
    _require(is_sum, "total_bytes", m.total_bytes)


def _check_entry(entry: Entry) -> None:
    _require(is_safe_path(entry.path), "path", entry.path[:MAX_NAME_BYTES])
    _require(0 <= entry.size <= MAX_TOTAL_BYTES, "size", entry.size)
    _require(entry.mode in MODES, "mode", entry.mode)
    _require(len(entry.blake3) == HASH_BYTES, "blake3", entry.blake3)


def _check_tree(paths: Iterable[str]) -> None:
    # With NUL, which no path holds, for '/', whatever lies below a path sorts right behind it.
    keys = sorted(path.replace("/", "\0") for path in paths)
    for one, other in pairwise(keys):
        is_apart = one != other and not other.startswith(one + "\0")
        _require(is_apart, "path", other.replace("\0", "/")[:MAX_NAME_BYTES])


def _require(is_good: bool, field: str, got: object) -> None:
    if not is_good:
        raise WireError("manifest", WireReason.BAD_FIELD, f"{field} {got!r}")
