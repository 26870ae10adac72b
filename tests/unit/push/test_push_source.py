"""The sender's disk: what is listed, what is refused, and the chunks that are read."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
import numpy as np
import pytest
from blake3 import blake3
from safetensors.numpy import save_file

from fanfold.errors import ConfigError, MisuseError
from fanfold.push import scan as scan_module
from fanfold.push import source
from fanfold.push.manifest import Manifest, chunk_hash, decode, digest, encode
from fanfold.push.scan import scan
from fanfold.push.source import (
    BY_ITSELF,
    SourceChangedError,
    SourceReader,
    Wish,
    build_manifest,
)

Plant = Callable[..., Path]
Content = Callable[[str, int], bytes]


def stream_of(reader: SourceReader) -> bytes:
    buffer = bytearray(reader.layout.chunk_bytes)
    sizes = ((i, reader.read_chunk(i, buffer)) for i in range(reader.layout.n_chunks))
    return b"".join(bytes(buffer[:size]) for _, size in sizes)


def n_open_fds() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def fault(path: Path) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        build_manifest(path, 10, 4)
    return caught.value


@pytest.mark.parametrize("size", [1, 39, 40, 41, 80, 1000])
def test_a_file_is_one_entry(plant: Plant, content: Content, size: int) -> None:
    data = content("one", size)
    path = plant({"w.bin": data}) / "w.bin"
    manifest, reader = build_manifest(path, 10, 4)
    entry = manifest.entries[0]
    assert (manifest.name, manifest.stride, manifest.n_psn) == ("w.bin", 10, 4)
    assert (manifest.chunk_bytes, manifest.total_bytes) == (40, size)
    assert (entry.path, entry.size, entry.blake3) == ("w.bin", size, blake3(data).digest())
    pieces = [data[at : at + 40] for at in range(0, size, 40)]
    assert manifest.chunks == b"".join(blake3(piece).digest() for piece in pieces)
    assert stream_of(reader) == data
    assert decode(encode(manifest)) == manifest
    reader.close()


def test_a_tree_is_one_stream_in_order_of_names(plant: Plant, content: Content) -> None:
    sizes = {"b": 7, "a/z": 1, "a/y/x": 2, "a/empty": 0, "é/ü 🎉": 50, "A": 3, "c/-rf": 40}
    files = {path: content(path, size) for path, size in sizes.items()}
    manifest, reader = build_manifest(plant(files), 10, 4)
    paths = [entry.path for entry in manifest.entries]
    assert paths == ["A", "b", "a/empty", "a/z", "a/y/x", "c/-rf", "é/ü 🎉"]
    stream = b"".join(files[path] for path in paths)
    assert stream_of(reader) == stream
    assert [e.blake3 for e in manifest.entries] == [blake3(files[p]).digest() for p in paths]
    assert chunk_hash(manifest, 1) == blake3(stream[40:80]).digest()
    reader.close()


def test_same_tree_same_bytes(plant: Plant) -> None:
    one, reader = build_manifest(plant({"b": b"1", "a": b"2"}), 10, 4)
    other, other_reader = build_manifest(plant({"a": b"2", "b": b"1"}), 10, 4)
    assert one.times != other.times
    assert encode(one) == encode(msgspec.structs.replace(other, times=one.times))
    assert digest(one) == digest(other)
    reader.close()
    other_reader.close()


def test_a_chunk_spans_five_files(plant: Plant) -> None:
    files = {name: name.encode() * 3 for name in "abcdefg"}
    _, reader = build_manifest(plant(files), 15, 1)
    buffer = bytearray(20)
    assert reader.read_chunk(0, buffer) == 15
    assert buffer == b"aaabbbcccdddeee" + bytes(5)
    assert reader.read_chunk(1, buffer) == 6
    assert buffer[:6] == b"fffggg"
    reader.close()


def test_the_permission_bits_are_kept_and_no_others(plant: Plant) -> None:
    top = plant({"run": b"1", "text": b"2"})
    (top / "run").chmod(0o4710)
    (top / "text").chmod(0o666)
    files = scan(top).files
    assert [file.mode for file in files] == [0o710, 0o666]


def test_folders_are_listed_with_modes_and_a_receivers_own_is_left_out(plant: Plant) -> None:
    top = plant({"a": b"1", ".fanfold/left": b"2"})
    (top / "b/c").mkdir(parents=True)
    (top / "b/c").chmod(0o2711)
    os.utime(top / "b/c", ns=(0, -5))
    found = scan(top)
    assert [file.path for file in found.files] == ["a"]
    assert [folder.path for folder in found.folders] == ["", "b", "b/c"]
    assert found.folders[2][1:] == (0o711, -5)
    assert found.ignored == (".fanfold/",)


def test_every_byte_is_read_once(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    top = plant({"a": bytes(100), "b": bytes(55)})
    n_read = []

    read = os.preadv

    def count(fd: int, views: list[memoryview], offset: int) -> int:
        n_read.append(read(fd, views, offset))
        return n_read[-1]

    monkeypatch.setattr(os, "preadv", count)
    told: list[tuple[int, int]] = []
    _, reader = build_manifest(top, 10, 4, lambda done, total: told.append((done, total)))
    assert sum(n_read) == 155
    assert told == [(40, 155), (80, 155), (120, 155), (155, 155)]
    reader.close()


def test_at_most_64_files_are_open(plant: Plant) -> None:
    """Those that go on in the next chunk, and the folder of the last one."""
    files = {f"{n:03}": bytes([n]) * 15 for n in range(200)}
    before = n_open_fds()
    _, reader = build_manifest(plant(files), 10, 1)
    assert n_open_fds() - before == 64 + 1
    assert stream_of(reader) == b"".join(files.values())
    reader.close()
    assert n_open_fds() == before


def test_empty_files_and_folders_are_sources(plant: Plant) -> None:
    top = plant({"zero": b""})
    for path, wish in ((top / "zero", BY_ITSELF), (top, BY_ITSELF), (top, Wish())):
        manifest, reader = build_manifest(path, 10, 4, wish=wish)
        assert (manifest.total_bytes, manifest.chunks) == (0, b"")
        assert manifest.entries[0].blake3 == blake3(b"").digest()
        reader.close()
    bare = plant({}, "bare")
    manifest, reader = build_manifest(bare, 10, 4, wish=Wish())
    assert (manifest.entries, [f.path for f in manifest.folders]) == ((), [""])
    reader.close()
    assert fault(bare).got == "empty directory"  # of which nothing can arrive by itself
    assert "No such file" in str(fault(top / "absent"))


def test_special_files_are_refused_without_waiting(plant: Plant) -> None:
    top = plant({"a": b"1"})
    os.mkfifo(top / "pipe")
    assert (fault(top).field, fault(top).got) == (str(top / "pipe"), "special file")
    assert fault(Path("/dev/null")).got == "special file"


@pytest.mark.parametrize("name", [b"back\\slash", b"\xff\xfe", b"/".join([b"d"] * 65)])
def test_names_no_receiver_takes_are_refused(plant: Plant, name: bytes) -> None:
    top = plant({"a": b"1"})
    path = top / os.fsdecode(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"2")
    assert fault(top).field == str(path)


def test_unreadable_files_and_folders_are_named(
    open_dir: Path, as_nobody: Callable[[], AbstractContextManager[None]]
) -> None:
    (open_dir / "d").mkdir()
    (open_dir / "d/shut").write_bytes(b"1")
    (open_dir / "d/shut").chmod(0)
    with as_nobody():
        assert fault(open_dir).field == str(open_dir / "d/shut")
    (open_dir / "d/shut").chmod(0o644)
    (open_dir / "d").chmod(0)
    with as_nobody():
        assert fault(open_dir).field == str(open_dir / "d")
    (open_dir / "d").chmod(0o700)


@pytest.mark.parametrize(("stride", "n_psn"), [(0, 4), (4, 0), (-1, -1), (2**24 + 1, 1)])
def test_impossible_chunks_are_refused(plant: Plant, stride: int, n_psn: int) -> None:
    with pytest.raises(ConfigError, match="chunk_bytes"):
        build_manifest(plant({"a": b"1"}), stride, n_psn)


def touch_later(path: Path) -> None:
    info = path.stat()
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns + 1))


def truncate(path: Path) -> None:
    info = path.stat()
    os.truncate(path, info.st_size - 1)
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


def replace(path: Path) -> None:
    info = path.stat()
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    os.utime(other, ns=(info.st_atime_ns, info.st_mtime_ns))
    other.replace(path)


def append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"more")


@pytest.mark.parametrize("change", [touch_later, truncate, append])
def test_change_while_hashing_is_named(plant: Plant, change: Callable[[Path], None]) -> None:
    top = plant({"a": bytes(100), "b": bytes(100)})

    def disturb(done: int, _total: int) -> None:
        if done == 40:
            change(top / "b")

    with pytest.raises(SourceChangedError) as caught:
        build_manifest(top, 10, 4, disturb)
    assert caught.value.field == str(top / "b")


@pytest.mark.parametrize("change", [touch_later, truncate, append, replace])
def test_change_after_hashing_is_named(plant: Plant, change: Callable[[Path], None]) -> None:
    top = plant({"a": bytes(100)})
    _, reader = build_manifest(top, 10, 4)
    reader.close()  # else a replaced file would be read on through its open descriptor
    change(top / "a")
    with pytest.raises(SourceChangedError):
        reader.read_chunk(2, bytearray(40))
    reader.close()


def test_a_file_that_went_away_is_named(plant: Plant) -> None:
    top = plant({"a": bytes(100)})
    _, reader = build_manifest(top, 10, 4)
    reader.close()
    (top / "a").unlink()
    with pytest.raises(ConfigError, match="a: got 'No such file"):
        reader.read_chunk(0, bytearray(40))


@pytest.mark.parametrize("i", [-1, 3])
def test_no_such_chunk_is_misuse(plant: Plant, i: int) -> None:
    _, reader = build_manifest(plant({"a": bytes(100)}), 10, 4)
    with pytest.raises(MisuseError):
        reader.read_chunk(i, bytearray(40))
    with pytest.raises(MisuseError):
        reader.read_chunk(0, bytearray(39))
    reader.close()


def test_tensors_are_found_in_the_stream(plant: Plant) -> None:
    top = plant({"a.txt": b"before"})
    weights = {"w": np.arange(6, dtype=np.float32), "b": np.arange(3, dtype=np.int8)}
    save_file(weights, top / "m.safetensors", metadata={"format": "np"})
    manifest, reader = build_manifest(top, 10, 4)
    stream = stream_of(reader)
    assert list(reader.tensors) == ["m.safetensors"]
    found = reader.tensors["m.safetensors"]
    assert {name: stream[first:last] for name, (first, last) in found.items()} == {
        name: array.tobytes() for name, array in weights.items()
    }
    assert isinstance(manifest, Manifest)
    reader.close()


BAD_TENSORS = [b"", b"\x05", b"\xff" * 50, b"\x02" + bytes(7) + b"[]"]


def flaws_of(top: Path) -> list[tuple[str, str]]:
    """What is told of a source, which is refused by the same words where that is asked for."""
    _, reader = build_manifest(top, 10, 4)
    reader.close()
    with pytest.raises(ConfigError) as caught:
        build_manifest(top, 10, 4, wish=Wish(is_strict=True))
    assert caught.value.got == f"{reader.flaws[0].path}: {reader.flaws[0].what}"
    return [(flaw.path, flaw.what) for flaw in reader.flaws]


@pytest.mark.parametrize("data", BAD_TENSORS)
def test_bad_safetensors_are_told_and_refused_when_strict(plant: Plant, data: bytes) -> None:
    ((path, what),) = flaws_of(plant({"a": b"1", "d/bad.safetensors": data}))
    assert path == "d/bad.safetensors"
    assert what.startswith("not a valid safetensors file: ")


@pytest.mark.parametrize("change", [-1, 1])
def test_safetensors_that_end_elsewhere_are_told(plant: Plant, change: int) -> None:
    top = plant({})
    path = top / "m.safetensors"
    save_file({"w": np.arange(6, dtype=np.float32)}, path)
    assert build_manifest(top, 10, 4, wish=Wish(is_strict=True))[1].flaws == ()
    os.truncate(path, path.stat().st_size + change)
    ((name, _),) = flaws_of(top)
    assert name == "m.safetensors"


def test_an_index_that_names_a_missing_shard_is_told(plant: Plant) -> None:
    index = b'{"metadata": {}, "weight_map": {"w": "a-1.safetensors", "v": "a-2.safetensors"}}'
    top = plant({"m/model.safetensors.index.json": index})
    save_file({"w": np.arange(6, dtype=np.float32)}, top / "m/a-1.safetensors")
    name = "m/model.safetensors.index.json"
    assert flaws_of(top) == [(name, "names a-2.safetensors, which is missing")]
    save_file({"v": np.arange(6, dtype=np.float32)}, top / "m/a-2.safetensors")
    assert build_manifest(top, 10, 4, wish=Wish(is_strict=True))[1].flaws == ()
    (top / name).write_bytes(b"{}")
    ((_, what),) = flaws_of(top)
    assert what.startswith("not an index of shards: ")


def test_names_at_the_receivers(plant: Plant) -> None:
    top = plant({"a": b"1", "d/b": b"2"}, "model")

    def made(path: Path, wish: Wish) -> tuple[str, str, list[str], list[str]]:
        manifest, reader = build_manifest(path, 10, 4, wish=wish)
        reader.close()
        paths, folders = manifest.entries, manifest.folders
        names = ([entry.path for entry in paths], [folder.path for folder in folders])
        return manifest.name, manifest.place, *names

    whole = (["a", "d/b"], ["", "d"])
    assert made(top, Wish()) == ("model", "model", *whole)
    assert made(Path(f"{top}/"), Wish()) == ("model", "model", *whole)
    assert made(top, Wish("x/v2")) == ("v2", "x/v2", *whole)
    assert made(top, Wish(".")) == ("model", "", ["a", "d/b"], ["d"])
    assert made(top / "a", Wish()) == ("a", "", ["a"], [])
    assert made(top / "a", Wish("x/c")) == ("c", "", ["x/c"], [])
    for bad in ("../x", "/x", "a//b", ".fanfold/x", "x/"):
        with pytest.raises(ConfigError, match="--as"):
            made(top, Wish(bad))
    for path, wish in ((top / "a", Wish("", True)), (top, Wish(".", True))):
        with pytest.raises(ConfigError, match="--delete"):
            made(path, wish)


def test_too_many_files_and_too_large_a_manifest_are_refused(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = plant({"a": b"1", "b": b"2", "d/c": b"3"})
    monkeypatch.setattr(scan_module, "MAX_ENTRIES", 2)
    assert fault(top).allowed == "at most 2 files and folders"
    monkeypatch.undo()
    monkeypatch.setattr(source, "MAX_MANIFEST_BYTES", 100)
    assert fault(top).allowed == "a manifest of 100 bytes"


def test_bad_name_at_the_top_is_refused(plant: Plant) -> None:
    assert fault(plant({"a": b"1"}, "back\\slash")).got == "back\\slash"
    assert fault(Path("/")).got == ""


def test_a_relative_path_gives_the_name(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(plant({"a": b"1"}, "model"))
    manifest, reader = build_manifest(Path(), 10, 4)
    assert manifest.name == "model"
    assert reader.ignored == ()
    reader.close()
