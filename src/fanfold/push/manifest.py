"""The manifest of a push: its files as one stream, and the BLAKE3 of every chunk of it.

    bytes    field
    0-7      MAGIC
    8-       one msgpack array, the fields of Manifest in order; an entry is an array in it

The stream is the concatenation of the entries in their order. Chunk i is the stream bytes
from i * chunk_bytes on, chunk_bytes long or up to the end, and may span several files. A push
of nothing but empty files and folders has no chunk.

The encoding is canonical: a value has one encoding, and decode refuses every other spelling of
it. The digest is that of the encoding without the times: the same files pushed again, or from
another host that has a copy, are the same push. docs/wire/manifest.md is the page.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Annotated

import msgspec
from blake3 import blake3

from fanfold.errors import WireError, WireReason
from fanfold.seals.primitives import TAG_BYTES

MAGIC = b"FANFOLDM"
VERSION = 2
HASH_BYTES = 32
TIME_BYTES = 8
MODE_BITS = 0o777  # what of a mode travels
STAGING_DIR = ".fanfold"  # the receiver's own folder below its root; no entry may lie in it

PLAIN_PATH = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9_.-]*/){0,60}[A-Za-z0-9_-][A-Za-z0-9_.-]*")
"""Most paths; what it matches, up to the length of one name, is safe for certain."""
PLAIN_LINES = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9_.-]*[/\n])*")
"""Many such paths at once, of any depth, each with a line feed behind it."""
AT_ONCE = 4096
RULE = re.compile(r"[A-Za-z0-9_-]{1,63}=[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
DOTS = frozenset({b".", b".."})

MAX_MANIFEST_BYTES = 1 << 28  # chunks of 700 GB in packets of 1.5 KB, of 4 TB in jumbo ones
MAX_ENTRIES = 1_000_000
MAX_NAME_BYTES = 255
MAX_PATH_BYTES = 4095
MAX_DEPTH = 64
MAX_CHUNK_BYTES = 1 << 24  # a receiver holds a few chunks in memory
MAX_TOTAL_BYTES = 1 << 62


class Entry(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """One file: path relative to the place, '/' between names; mode is its permission bits."""

    path: str
    size: int
    mode: int
    blake3: bytes


class Folder(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False
):
    """One folder: path relative to the place, empty for the folder that is pushed itself."""

    path: str
    mode: int


class Manifest(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What is pushed. A chunk is n_psn packets of stride bytes; chunks holds their hashes.

    chunk_bytes: in a sealed push TAG_BYTES less than its packets hold.
    place: the folder below the receiver's root that is replaced as a whole; empty: each file
        is put below the root by itself.
    is_exact: what the folder held before and is not in here goes with the old folder.
    times: mtime of each entry, then of each folder, nanoseconds since 1970, 8 bytes each,
        big-endian with a sign.
    only_through: a label, KEY=VALUE, that every node on its way has; empty: any node. Where it
        is empty it is not there.
    """

    version: int
    name: str
    place: str
    is_exact: bool
    chunk_bytes: int
    stride: int
    n_psn: int
    total_bytes: int
    entries: Annotated[tuple[Entry, ...], msgspec.Meta(max_length=MAX_ENTRIES)]
    folders: Annotated[tuple[Folder, ...], msgspec.Meta(max_length=MAX_ENTRIES)]
    chunks: bytes
    times: bytes
    only_through: str = ""


def encode(manifest: Manifest) -> bytes:
    """Encode to the canonical bytes."""
    if manifest.only_through:
        return MAGIC + msgspec.msgpack.encode(manifest)
    return MAGIC + msgspec.msgpack.encode(msgspec.structs.astuple(manifest)[:-1])


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
    """BLAKE3 of the canonical bytes without the times: the name of this push."""
    return blake3(encode(msgspec.structs.replace(manifest, times=b""))).digest()


def mtime_ns(manifest: Manifest, i: int) -> int:
    """When entry i, or folder i - len(entries), changed last at the source."""
    at = i * TIME_BYTES
    return int.from_bytes(manifest.times[at : at + TIME_BYTES], signed=True)


def pack_times(times_ns: Iterable[int]) -> bytes:
    """Times as a manifest has them."""
    return b"".join(ns.to_bytes(TIME_BYTES, signed=True) for ns in times_ns)


def whole_digest(manifest: Manifest, key: bytes = b"") -> bytes:
    """Return what both ends report for the whole: a single file's BLAKE3, else the digest.

    Args:
        key: the digest, where it is known.
    """
    if len(manifest.entries) == 1:
        return manifest.entries[0].blake3
    return key or digest(manifest)


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
    entries = manifest.entries
    for at in range(0, len(entries), AT_ONCE):
        _check_paths([entry.path for entry in entries[at : at + AT_ONCE]])
    _check_entries(entries)
    for folder in manifest.folders:
        _check_folder(folder, manifest.place)
    _check_tree(manifest)


def is_safe_name(name: str) -> bool:
    """Whether the name is one harmless path segment of 1 to 255 bytes in UTF-8."""
    return "/" not in name and _are_safe_names(name)


def is_safe_path(path: str) -> bool:
    """Whether the path stays below the folder it is applied to, and out of STAGING_DIR."""
    if PLAIN_PATH.fullmatch(path) and len(path) <= MAX_NAME_BYTES:
        return True
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


def _check_numbers(m: Manifest) -> None:
    _require(is_safe_name(m.name), "name", m.name[:MAX_NAME_BYTES])
    is_rule = not m.only_through or RULE.fullmatch(m.only_through)
    _require(bool(is_rule), "only_through", m.only_through[:MAX_NAME_BYTES])
    _require(m.stride >= 1, "stride", m.stride)
    _require(m.n_psn >= 1, "n_psn", m.n_psn)
    full_bytes = m.stride * m.n_psn
    is_chunk = m.chunk_bytes in (full_bytes, full_bytes - TAG_BYTES)
    is_chunk = is_chunk and m.chunk_bytes >= 1 and full_bytes <= MAX_CHUNK_BYTES
    _require(is_chunk, "chunk_bytes", m.chunk_bytes)
    _require(not m.place or is_safe_path(m.place), "place", m.place[:MAX_NAME_BYTES])
    _require(bool(m.place) or not m.is_exact, "is_exact", m.is_exact)
    n_all = len(m.entries) + len(m.folders)
    _require(1 <= n_all <= MAX_ENTRIES, "entries", n_all)
    _require(len(m.times) == TIME_BYTES * n_all, "times", len(m.times))
    _require(0 <= m.total_bytes <= MAX_TOTAL_BYTES, "total_bytes", m.total_bytes)
    _require(len(m.chunks) == HASH_BYTES * n_chunks(m), "chunks", len(m.chunks))
    is_sum = m.total_bytes == sum(entry.size for entry in m.entries)
    _require(is_sum, "total_bytes", m.total_bytes)


def _check_paths(paths: list[str]) -> None:
    """Look at many paths at once, and at each where one is unusual."""
    text = "\n".join(paths) + "\n"
    is_plain = PLAIN_LINES.fullmatch(text) and text.count("\n") == len(paths)
    if not is_plain or max(map(len, paths)) > MAX_NAME_BYTES:
        for path in paths:
            _require(is_safe_path(path), "path", path[:MAX_NAME_BYTES])


def _check_entries(entries: tuple[Entry, ...]) -> None:
    sizes, modes = [entry.size for entry in entries], [entry.mode for entry in entries]
    for field, numbers, most in (("size", sizes, MAX_TOTAL_BYTES), ("mode", modes, MODE_BITS)):
        for worst in (min(numbers, default=0), max(numbers, default=0)):
            _require(0 <= worst <= most, field, worst)
    for bad in [entry.blake3 for entry in entries if len(entry.blake3) != HASH_BYTES]:
        _require(is_good=False, field="blake3", got=bad)


def _check_folder(folder: Folder, place: str) -> None:
    is_good = is_safe_path(folder.path) or (bool(place) and not folder.path)
    _require(is_good, "path", folder.path[:MAX_NAME_BYTES])
    _require(0 <= folder.mode <= MODE_BITS, "mode", folder.mode)


def _check_tree(manifest: Manifest) -> None:
    """No two of one path, nothing below a file, nothing too deep."""
    files = {entry.path for entry in manifest.entries}
    folders = {folder.path for folder in manifest.folders}
    n_all = len(manifest.entries) + len(manifest.folders)
    if len(files) + len(folders) < n_all or not files.isdisjoint(folders):
        paths = [entry.path for entry in manifest.entries]
        twice = Counter(paths + [folder.path for folder in manifest.folders]).most_common(1)
        _require(is_good=False, field="path", got=twice[0][0][:MAX_NAME_BYTES])
    holders = {path.rpartition("/")[0] for path in files | folders}  # of files, then of those
    known: set[str] = set()
    while holders := holders - known:
        known |= holders
        for path in holders:
            _require(path.count("/") + 2 <= MAX_DEPTH, "path", path[:MAX_NAME_BYTES])
        holders = {path.rpartition("/")[0] for path in holders}
    for path in sorted(known & files):
        _require(is_good=False, field="path", got=path[:MAX_NAME_BYTES])
    if manifest.place:  # each folder of it is made anew, with a mode of its own
        for path in sorted((known | {""}) - folders):
            _require(is_good=False, field="folders", got=path[:MAX_NAME_BYTES])


def _require(is_good: bool, field: str, got: object) -> None:
    if not is_good:
        raise WireError("manifest", WireReason.BAD_FIELD, f"{field} {got!r}")
