"""The manifest: canonical bytes, and nothing hostile gets through."""

import msgspec
import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from fanfold.errors import WireError, WireReason
from fanfold.push.manifest import (
    MAGIC,
    MAX_ENTRIES,
    Entry,
    Folder,
    Manifest,
    check,
    chunk_hash,
    decode,
    digest,
    encode,
    mtime_ns,
    n_chunks,
    pack_times,
    whole_digest,
)

ZERO = bytes(32)


def of(*entries: Entry, **changed: object) -> Manifest:
    total = sum(entry.size for entry in entries)
    chunks = ZERO * (-(-total // 12) if 0 < total < 1000 else 0)
    times = pack_times(range(len(entries)))
    head = (2, "model", "", False, 12, 4, 3, total)
    manifest = Manifest(*head, entries, (), chunks, times)
    return msgspec.structs.replace(manifest, **changed)


def file(path: str = "a", size: int = 5, mode: int = 0o644, digest: bytes = ZERO) -> Entry:
    return Entry(path, size, mode, digest)


def refused(manifest: Manifest) -> str:
    with pytest.raises(WireError) as caught:
        decode(encode(manifest))
    assert caught.value.header == "manifest"
    return str(caught.value.got)


def test_golden_bytes() -> None:
    # msgpack by hand: 9c array of 12; 02 version; a5 str; a3 str place; c3 is_exact; 0c
    # chunk_bytes; 04 stride; 03 n_psn; 0d total_bytes 13; 92 two entries; each 94: str, size,
    # cd 01a4 / cd 01ed mode, c4 20 hash; 92 two folders; each 92: str, cd 01c0 / cd 01ed mode;
    # c4 40 two chunk hashes; c4 20 four times: 1 ns, -1 ns, 2**32 ns, 0.
    data = (
        b"FANFOLDM\x9c\x02\xa5model\xa3x/m\xc3\x0c\x04\x03\x0d\x92"
        b"\x94\xa1a\x0c\xcd\x01\xa4\xc4\x20" + b"\x11" * 32 + b"\x94\xa4b/\xc3\xa9\x01"
        b"\xcd\x01\xed\xc4\x20" + b"\x22" * 32 + b"\x92"
        b"\x92\xa0\xcd\x01\xed\x92\xa1b\xcd\x01\xc0"
        b"\xc4\x40" + b"\x33" * 32 + b"\x44" * 32
    )
    times = (
        b"\0\0\0\0\0\0\0\x01\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0"
    )
    bare, data = data + b"\xc4\x00", data + b"\xc4\x20" + times
    entries = (file("a", 12, 0o644, b"\x11" * 32), file("b/é", 1, 0o755, b"\x22" * 32))
    folders = (Folder("", 0o755), Folder("b", 0o700))
    chunks = b"\x33" * 32 + b"\x44" * 32
    head = (2, "model", "x/m", True, 12, 4, 3, 13)
    manifest = Manifest(*head, entries, folders, chunks, times)
    assert encode(manifest) == data
    assert decode(data) == manifest
    assert [mtime_ns(manifest, i) for i in range(4)] == [1, -1, 2**32, 0]
    assert digest(manifest) == blake3(bare).digest() == whole_digest(manifest)
    assert n_chunks(manifest) == 2
    assert chunk_hash(manifest, 1) == b"\x44" * 32


def test_whole_of_one_file_is_the_file() -> None:
    assert whole_digest(of(file("a", 5, 0o644, b"\x07" * 32))) == b"\x07" * 32


def test_chunk_count_is_exact_where_a_float_is_not() -> None:
    manifest = Manifest(2, "m", "", False, 3, 3, 1, 2**60 + 1, (), (), b"", b"")
    assert n_chunks(manifest) == (2**60 + 1 + 2) // 3


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../up",
        "a/../../b",
        "..",
        ".",
        "a/./b",
        "a//b",
        "a/",
        "/",
        "",
        "a\0b",
        "a\\..\\b",
        "C:\\x",
        ".fanfold/x",
        ".FanFold",
        "a/..",
    ],
)
def test_paths_that_leave_the_target_are_refused(path: str) -> None:
    assert refused(of(file(path))).startswith("path ")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "a\0", "n" * 256])
def test_bad_names_of_a_push_are_refused(name: str) -> None:
    assert refused(of(file(), name=name)).startswith("name ")


@pytest.mark.parametrize(
    "name", ["n" * 255, "é" * 127, "...", "..a", "-rf", "a b", ".fanfolds"]
)
def test_odd_but_harmless_names_pass(name: str) -> None:
    manifest = of(file(name), name=name)
    assert decode(encode(manifest)) == manifest


def test_longest_name_path_and_depth() -> None:
    check(of(file("/".join(["n" * 255] * 16)[:4095])))
    check(of(file("/".join("a" * 64))))
    assert refused(of(file("n" * 256))).startswith("path ")
    assert refused(of(file("é" * 128))).startswith("path ")
    assert refused(of(file("/".join("a" * 65)))).startswith("path ")
    assert refused(of(file("/".join(["n" * 255] * 16) + "/n"))).startswith("path ")


@pytest.mark.parametrize(
    "paths",
    [
        ("a", "a"),
        ("a", "a/b"),
        ("a/b/c", "z", "a/b"),
        ("a", "a!", "a/b"),  # '!' sorts before '/'
        ("a", "a\x01", "a/b"),
    ],
)
def test_duplicates_and_files_that_are_folders_are_refused(paths: tuple[str, ...]) -> None:
    assert refused(of(*map(file, paths))).startswith("path ")


def test_neighbours_that_only_look_alike_pass() -> None:
    check(of(*map(file, ("a", "ab", "a-b", "A", "b/a", "b/ab", "b-a"))))


@pytest.mark.parametrize(
    ("manifest", "field"),
    [
        (of(file(), total_bytes=6), "total_bytes"),
        (of(file(), total_bytes=0, chunks=b""), "total_bytes"),
        (of(file(size=0), chunks=ZERO), "chunks"),
        (of(file(), place="../x"), "place"),
        (of(file(), place=".fanfold"), "place"),
        (of(file(), is_exact=True), "is_exact"),
        (of(file(), times=b""), "times"),
        (of(file(), times=bytes(7)), "times"),
        (of(file(), times=bytes(16)), "times"),
        (of(file(), folders=(Folder("", 0o755),), times=bytes(16)), "path"),
        (of(file(), folders=(Folder("b", 0o1755),), times=bytes(16)), "mode"),
        (of(file(), folders=(Folder("a", 0o755),), times=bytes(16)), "path"),
        (of(file(), folders=(Folder("a/b", 0o755),), times=bytes(16)), "path"),
        (of(file(), folders=(Folder("b", 0), Folder("b", 0)), times=bytes(24)), "path"),
        (of(file(), place="m"), "folders"),
        (of(file("b/c"), place="m", folders=(Folder("", 0),), times=bytes(16)), "folders"),
        (of(), "entries"),
        (of(file("a", 2**62 - 1), file("b", 2), chunks=b""), "total_bytes"),
        (of(file("a", -1), file("b", 6)), "size"),
        (of(file("a", 2**62 + 1), file("b", -(2**62)), chunks=ZERO), "size"),
        (of(file(), chunks=b""), "chunks"),
        (of(file(), chunks=ZERO + b"x"), "chunks"),
        (of(file(), chunks=ZERO * 2), "chunks"),
        (of(file(mode=0o1777)), "mode"),
        (of(file(mode=0o4755)), "mode"),
        (of(file(mode=-1)), "mode"),
        (of(file(digest=b"short")), "blake3"),
        (of(file(), stride=0, n_psn=0, chunk_bytes=0), "stride"),
        (of(file(), stride=-4, n_psn=-3), "stride"),
        (of(file(), n_psn=0, chunk_bytes=0), "n_psn"),
        (of(file(), chunk_bytes=13), "chunk_bytes"),
        (of(file(), chunk_bytes=2**24 + 1, stride=2**24 + 1, n_psn=1), "chunk_bytes"),
    ],
)
def test_bad_numbers_are_refused(manifest: Manifest, field: str) -> None:
    assert refused(manifest).startswith(field + " ")


def test_largest_chunk_passes() -> None:
    check(of(file(), chunk_bytes=2**24, stride=2**24, n_psn=1))


def test_other_version_is_refused_as_version() -> None:
    with pytest.raises(WireError) as caught:
        decode(encode(of(file(), version=1)))
    assert caught.value.reason is WireReason.BAD_VERSION


def test_too_many_entries_are_refused_before_they_are_built() -> None:
    data = encode(of(file()))
    at = data.index(b"\x91\x94\xa1")
    count = (MAX_ENTRIES + 1).to_bytes(4)
    with pytest.raises(WireError, match="1000000"):
        decode(data[:at] + b"\xdd" + count + data[at + 1 :])


def test_a_second_spelling_is_refused() -> None:
    data = encode(of(file()))
    assert data[8:10] == b"\x9c\x02"
    with pytest.raises(WireError, match="canonical"):
        decode(data[:9] + b"\xcc\x02" + data[10:])


def test_trailing_bytes_and_extra_fields_are_refused() -> None:
    data = encode(of(file()))
    longer = MAGIC + b"\x9d" + data[9:] + b"\x00"
    for bad in (data + b"\x00", longer, b"fanfoldm" + data[8:]):
        with pytest.raises(WireError):
            decode(bad)


def test_text_that_is_not_utf8_is_refused() -> None:
    data = encode(of(file("ab")))
    with pytest.raises(WireError):
        decode(data.replace(b"\xa2ab", b"\xa2\xff\xfe"))


def test_lone_surrogate_is_refused() -> None:
    with pytest.raises(WireError):
        check(of(file("a\ud800")))


def test_cut_at_every_length_is_refused() -> None:
    data = encode(of(file("a", 5), file("b/c", 9, 0o755)))
    for n in range(len(data)):
        with pytest.raises(WireError):
            decode(data[:n])


FUZZ = settings(derandomize=True, max_examples=300, deadline=None)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.binary() | st.text(),
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=9,
)
NUMBERS = st.sampled_from([-1, 0, 1, 2, 3, 4, 5, 12, 13, 0o644, 0o755, 2**62, 2**63])
NAMES = st.sampled_from(["a", "a/b", "b", "..", "", "/", "c\0", "d\\"]) | st.text()
HASHES = st.sampled_from([b"", ZERO, ZERO * 2]) | st.binary()
ENTRIES = st.lists(st.tuples(NAMES, NUMBERS, NUMBERS, HASHES), max_size=4)
FOLDERS = st.lists(st.tuples(NAMES, NUMBERS), max_size=3)
TIMES = st.integers(0, 7).map(lambda n: bytes(8 * n)) | st.binary()
SIZES = (NUMBERS, NUMBERS, NUMBERS, NUMBERS)
NEARLY = st.tuples(
    NUMBERS, NAMES, NAMES, st.booleans(), *SIZES, ENTRIES, FOLDERS, HASHES, TIMES
)


def decodes_or_refuses(data: bytes) -> None:
    try:
        manifest = decode(data)
    except WireError:
        return
    assert encode(manifest) == data
    for entry in manifest.entries:
        assert not {"", ".", ".."} & set(entry.path.split("/"))


@FUZZ
@given(st.binary(max_size=400))
def test_any_bytes_decode_or_are_refused(data: bytes) -> None:
    decodes_or_refuses(data)
    decodes_or_refuses(MAGIC + data)


@FUZZ
@given(VALUES)
def test_any_msgpack_decodes_or_is_refused(value: object) -> None:
    decodes_or_refuses(MAGIC + msgspec.msgpack.encode(value))


@FUZZ
@given(NEARLY)
def test_nearly_a_manifest_decodes_or_is_refused(value: tuple[object, ...]) -> None:
    decodes_or_refuses(MAGIC + msgspec.msgpack.encode(value))


@FUZZ
@given(st.integers(0, 10**6), st.integers(0, 255), st.integers(0, 10**6))
def test_flipped_bytes_decode_or_are_refused(at: int, value: int, other: int) -> None:
    data = bytearray(encode(of(file("a", 5), file("b/c", 9, 0o755), file("b/d", 0))))
    data[at % len(data)] = value
    data[other % len(data)] ^= 1
    decodes_or_refuses(bytes(data))


def test_deep_nesting_is_refused() -> None:
    for head in (b"\x9c\x02", b"\x9c", b""):
        with pytest.raises(WireError):
            decode(MAGIC + head + b"\x91" * 100_000)
