"""The receiver's disk: what arrives is what was sent, and nothing is fetched twice."""

import os
import shutil
import stat
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from blake3 import blake3

from fanfold.errors import MisuseError
from fanfold.push import staging as staging_module
from fanfold.push.layout import Layout
from fanfold.push.manifest import digest
from fanfold.push.source import build_manifest
from fanfold.push.store import Incoming, ReportError, Store, StoreError

Files = dict[str, bytes]
Plant = Callable[..., Path]
Content = Callable[[str, int], bytes]
Checked = Callable[[Incoming], Incoming]
Carry = Callable[..., list[int]]
Landed = Callable[[Path], Files]


@pytest.fixture(autouse=True, params=["packed", "apart"])
def _are_packed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of these tests are small; both ways of keeping them are seen."""
    if request.param == "apart":
        monkeypatch.setattr(staging_module, "SMALL_BYTES", 0)


def staged_file(root: Path, index: int, offset: int = 0) -> tuple[Path, int]:
    """File and offset where bytes of an entry are staged; ``offset``: of it in the stream."""
    packs = list((root / ".fanfold").glob("*/small"))
    if packs:
        return packs[0], offset
    (apart,) = (root / ".fanfold").glob(f"*/{index}")
    return apart, 0


TREE = {"b": 7, "a/z": 1, "a/y/x": 200, "a/empty": 0, "é/ü 🎉": 50, "c/-rf": 40, "z": 0}


@pytest.fixture
def tree(content: Content) -> Files:
    return {path: content(path, size) for path, size in TREE.items()}


@pytest.mark.parametrize("size", [1, 39, 40, 41, 80, 1000])
@pytest.mark.parametrize("fsync", [False, True])
def test_a_file_arrives(
    plant: Plant,
    content: Content,
    checked: Checked,
    carry: Carry,
    landed: Landed,
    tmp_path: Path,
    size: int,
    fsync: bool,
) -> None:
    data = content("one", size)
    manifest, reader = build_manifest(plant({"w": data}) / "w", 10, 4)
    incoming = checked(Store(tmp_path / "new/root", fsync=fsync).open_push(manifest))
    assert not incoming.is_complete
    assert carry(reader, incoming) == list(range(-(-size // 40)))
    assert incoming.is_complete
    assert incoming.finish() == blake3(data).digest()
    assert landed(tmp_path / "new") == {"root/w": data}
    assert [path.name for path in (tmp_path / "new/root").iterdir()] == ["w"]


@pytest.mark.parametrize("chunk", [1, 3, 40, 1000])
def test_a_tree_arrives_in_any_order(
    plant: Plant,
    tree: Files,
    checked: Checked,
    carry: Carry,
    landed: Landed,
    tmp_path: Path,
    chunk: int,
) -> None:
    source = plant(tree)
    (source / "c/-rf").chmod(0o755)
    manifest, reader = build_manifest(source, chunk, 1)
    incoming = checked(Store(tmp_path / "root").open_push(manifest))
    carry(reader, incoming, list(reversed(range(reader.layout.n_chunks))))
    assert incoming.finish() == digest(manifest)
    assert landed(tmp_path / "root") == tree
    modes = {p: stat.S_IMODE((tmp_path / "root" / p).stat().st_mode) for p in tree}
    assert modes == {p: 0o755 if p == "c/-rf" else 0o644 for p in tree}
    assert not (tmp_path / "root/.fanfold").exists()


def test_have_is_most_significant_bit_first(plant: Plant, carry: Carry, tmp_path: Path) -> None:
    manifest, reader = build_manifest(plant({"w": bytes(range(10))}), 1, 1)
    with Store(tmp_path / "root").open_push(manifest) as incoming:
        carry(reader, incoming, [0, 6, 9])
        assert incoming.have == bytes([0b1000_0010, 0b0100_0000])
        assert incoming.n_have == 3
        carry(reader, incoming, [6])
        assert incoming.n_have == 3


def test_wrong_bytes_are_not_written(plant: Plant, carry: Carry, tmp_path: Path) -> None:
    manifest, reader = build_manifest(plant({"w": bytes(100)}), 10, 4)
    with Store(tmp_path / "root").open_push(manifest) as incoming:
        assert not incoming.write_chunk(0, bytes(39) + b"\x01")
        assert not incoming.write_chunk(0, bytes(39))
        assert not incoming.write_chunk(0, bytes(41))
        assert not incoming.write_chunk(2, bytes(40))
        assert not incoming.write_chunk(3, b"")
        assert not incoming.write_chunk(-1, bytes(40))
        assert not list((tmp_path / "root/.fanfold").glob("*/[0-9]*"))
        assert incoming.have == b"\0"
        with pytest.raises(MisuseError, match="lacks 3 chunks"):
            incoming.finish()
        carry(reader, incoming)
        assert incoming.write_chunk(0, bytes(39) + b"\x01")  # not looked at again
        incoming.finish()


def test_interrupted_push_resumes(
    plant: Plant, tree: Files, checked: Checked, carry: Carry, landed: Landed, tmp_path: Path
) -> None:
    manifest, reader = build_manifest(plant(tree), 10, 1)
    store = Store(tmp_path / "root")
    with store.open_push(manifest) as incoming:
        carry(reader, incoming, range(0, reader.layout.n_chunks, 2))
    incoming = checked(store.open_push(manifest))
    assert carry(reader, incoming) == list(range(1, reader.layout.n_chunks, 2))
    incoming.finish()
    assert landed(tmp_path / "root") == tree


def test_damaged_staged_chunk_is_asked_for_again(
    plant: Plant,
    content: Content,
    checked: Checked,
    carry: Carry,
    landed: Landed,
    tmp_path: Path,
) -> None:
    files = {"w": content("w", 400)}
    manifest, reader = build_manifest(plant(files), 10, 4)
    store = Store(tmp_path / "root")
    with store.open_push(manifest) as incoming:
        carry(reader, incoming)
    staged, _ = staged_file(tmp_path / "root", 0)
    damaged = bytearray(files["w"])
    damaged[95] ^= 1
    staged.write_bytes(damaged)
    incoming = checked(store.open_push(manifest))
    assert carry(reader, incoming) == [2]
    incoming.finish()
    assert landed(tmp_path / "root") == files


def test_chunks_of_zeros_are_taken_as_data(
    plant: Plant, checked: Checked, carry: Carry, landed: Landed, tmp_path: Path
) -> None:
    manifest, reader = build_manifest(plant({"w": bytes(50_000)}), 10_000, 1)
    store = Store(tmp_path / "root")
    with store.open_push(manifest) as incoming:
        carry(reader, incoming, [4])
        staged = next((tmp_path / "root/.fanfold").glob("*/0"))
        assert staged.stat().st_size == 50_000
        assert staged.stat().st_blocks == 0
    incoming = checked(store.open_push(manifest))
    assert incoming.has(4)
    assert carry(reader, incoming) == []  # a receiver knows zeros by their hash
    incoming.finish()
    assert landed(tmp_path / "root") == {"w": bytes(50_000)}
    assert (tmp_path / "root/w").stat().st_blocks == 0


def test_files_in_place_are_not_fetched_nor_touched(
    plant: Plant, tree: Files, checked: Checked, carry: Carry, landed: Landed, tmp_path: Path
) -> None:
    root = plant(tree, "root")
    (root / "b").write_bytes(b"changed")
    (root / "z").unlink()
    source = plant(tree)
    shutil.copystat(source / "a/y/x", root / "a/y/x")
    kept = (root / "a/y/x").stat()
    manifest, reader = build_manifest(source, 10, 1)
    incoming = checked(Store(root).open_push(manifest))
    assert carry(reader, incoming) == [0]
    incoming.finish()
    assert landed(root) == tree
    now = (root / "a/y/x").stat()
    assert (now.st_ino, now.st_mtime_ns) == (kept.st_ino, kept.st_mtime_ns)


def test_complete_push_needs_nothing_but_the_mode(
    plant: Plant, checked: Checked, tmp_path: Path
) -> None:
    source = plant({"run": b"#!"})
    (source / "run").chmod(0o755)
    manifest, _ = build_manifest(source, 10, 1)
    root = plant({"run": b"#!"}, "root")
    incoming = checked(Store(root).open_push(manifest))
    assert incoming.is_complete
    incoming.finish()
    assert stat.S_IMODE((root / "run").stat().st_mode) == 0o755


def test_chunks_of_an_older_version_are_reused(
    plant: Plant,
    content: Content,
    checked: Checked,
    carry: Carry,
    landed: Landed,
    tmp_path: Path,
) -> None:
    new = content("w", 400)
    old = bytearray(new)
    old[95] ^= 1
    root = plant({"w": bytes(old) + b"longer"}, "root")
    manifest, reader = build_manifest(plant({"w": new}), 10, 4)
    incoming = checked(Store(root).open_push(manifest))
    assert (root / "w").read_bytes() == old + b"longer"
    assert carry(reader, incoming) == [2]
    incoming.finish()
    assert landed(root) == {"w": new}


def test_a_chunk_is_put_together_from_staging_and_final_files(
    plant: Plant,
    content: Content,
    checked: Checked,
    carry: Carry,
    landed: Landed,
    tmp_path: Path,
) -> None:
    files = {name: content(name, 15) for name in "abc"}
    manifest, reader = build_manifest(plant(files), 45, 1)
    store = Store(tmp_path / "root")
    with store.open_push(manifest) as incoming:
        carry(reader, incoming)
    staged, at = staged_file(tmp_path / "root", 1, 15)  # as if killed in the midst of renaming
    kept = bytearray(staged.read_bytes())
    (tmp_path / "root/b").write_bytes(kept[at : at + 15])
    kept[at : at + 15] = bytes(15)
    staged.write_bytes(kept)
    incoming = checked(store.open_push(manifest))
    assert carry(reader, incoming) == []
    incoming.finish()
    assert landed(tmp_path / "root") == files


def test_stale_staging_does_not_hide_the_final_file(
    plant: Plant, content: Content, checked: Checked, carry: Carry, tmp_path: Path
) -> None:
    new = content("w", 80)
    manifest, reader = build_manifest(plant({"w": new}), 10, 4)
    root = plant({"w": new[:40] + bytes(40) + b"x"}, "root")
    store = Store(root)
    with store.open_push(manifest) as incoming:
        carry(reader, incoming, [1])
    assert carry(reader, checked(store.open_push(manifest))) == []


def test_check_takes_small_steps_and_tells_progress(
    plant: Plant, content: Content, tmp_path: Path
) -> None:
    files = {"a": content("a", 400), "b": b""}
    manifest, _ = build_manifest(plant(files), 10, 4)
    root = plant({"a": bytes(400)}, "root")
    told: list[int] = []
    totals = set()

    def progress(done: int, total: int) -> None:
        told.append(done)
        totals.add(total)

    with Store(root).open_push(manifest, progress) as incoming:
        n_steps = 1
        while not incoming.check_some(1):
            n_steps += 1
        assert incoming.check_some(1)
    assert n_steps >= 20
    assert told == sorted(told)
    assert told[-1] == 800
    assert totals == {800}


def test_chunks_may_arrive_while_the_check_runs(
    plant: Plant, tree: Files, carry: Carry, landed: Landed, tmp_path: Path
) -> None:
    root = plant({"a/y/x": tree["a/y/x"]}, "root")
    manifest, reader = build_manifest(plant(tree), 10, 1)
    incoming = Store(root).open_push(manifest)
    for i in range(reader.layout.n_chunks):
        incoming.check_some(1)
        carry(reader, incoming, [i])
    assert incoming.n_have == reader.layout.n_chunks
    while not incoming.check_some(1):
        pass
    assert incoming.n_have == reader.layout.n_chunks
    incoming.finish()
    assert landed(root) == tree


def test_layout_skips_empty_files() -> None:
    layout = Layout([0, 1, 0, 4, 0], 2)
    assert [[tuple(piece) for piece in layout.pieces(i)] for i in range(4)] == [
        [(1, 0, 1, 0), (3, 0, 1, 1)],
        [(3, 1, 2, 0)],
        [(3, 3, 1, 0)],
        [],
    ]
    assert Layout([0, 0], 10).n_chunks == 0


def test_memory_does_not_grow_with_the_file(
    plant: Plant, checked: Checked, carry: Carry, tmp_path: Path
) -> None:
    source = plant({})
    with (source / "w").open("wb") as file:
        file.truncate(64 << 20)
    tracemalloc.start()
    manifest, reader = build_manifest(source, 1 << 12, 1 << 6)
    store = Store(tmp_path / "root")
    with store.open_push(manifest) as incoming:
        carry(reader, incoming, range(200))
    incoming = checked(store.open_push(manifest))
    carry(reader, incoming)
    incoming.finish()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20


def test_many_files_with_64_open(
    plant: Plant, checked: Checked, carry: Carry, landed: Landed, tmp_path: Path
) -> None:
    files = {f"{n % 70}/{n:03}": bytes([n]) * 3 for n in range(200)}
    manifest, reader = build_manifest(plant(files), 10, 1)
    fds = Path("/proc/self/fd")
    before = sum(1 for _ in fds.iterdir())
    incoming = checked(Store(tmp_path / "root").open_push(manifest))
    carry(reader, incoming)
    assert sum(1 for _ in fds.iterdir()) - before <= 64 + 4
    incoming.finish()
    assert landed(tmp_path / "root") == files
    assert sum(1 for _ in fds.iterdir()) == before


def test_no_reader_ever_sees_half_a_file(
    plant: Plant, content: Content, checked: Checked, carry: Carry, tmp_path: Path
) -> None:
    old = {name: content("old" + name, 500_000) for name in "abc"}
    new = {name: content("new" + name, 600_000) for name in "abc"}
    root = plant(old, "root")
    manifest, reader = build_manifest(plant(new), 70_000, 1)
    torn: set[str] = set()
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.is_set():
            torn.update(n for n in new if (root / n).read_bytes() not in {old[n], new[n]})

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        incoming = checked(Store(root).open_push(manifest))
        carry(reader, incoming)
        with (root / "a").open("rb") as opened_before:
            incoming.finish()
            assert opened_before.read() == old["a"]
    finally:
        is_over.set()
        watcher.join()
    assert torn == set()
    assert {name: (root / name).read_bytes() for name in new} == new


def test_different_pushes_to_one_root_at_once(
    plant: Plant,
    content: Content,
    checked: Checked,
    carry: Carry,
    landed: Landed,
    tmp_path: Path,
) -> None:
    one = {"d/same": content("1", 300), "d/one": b"1"}
    other = {"d/same": content("2", 300), "d/other": b"2"}
    manifest, reader = build_manifest(plant(one, "s1"), 10, 4)
    other_manifest, other_reader = build_manifest(plant(other, "s2"), 10, 4)
    store = Store(tmp_path / "root")
    incoming = checked(store.open_push(manifest))
    other_incoming = checked(store.open_push(other_manifest))
    carry(reader, incoming)
    carry(other_reader, other_incoming)
    incoming.finish()
    assert landed(tmp_path / "root").items() >= one.items()
    other_incoming.finish()
    assert landed(tmp_path / "root") == one | other


def test_same_push_twice_at_once_is_refused(
    plant: Plant, checked: Checked, carry: Carry, tmp_path: Path
) -> None:
    manifest, reader = build_manifest(plant({"w": b"data"}), 10, 4)
    store = Store(tmp_path / "root")
    with store.open_push(manifest) as incoming:
        with pytest.raises(StoreError, match="open already") as caught:
            store.open_push(manifest)
        assert caught.value.code is ReportError.COLLISION
        carry(reader, incoming)
    checked(store.open_push(manifest)).finish()


def test_sweep_removes_old_leftovers_that_nobody_has_open(
    plant: Plant, carry: Carry, tmp_path: Path
) -> None:
    store = Store(tmp_path / "root")
    assert store.sweep(0, 0) == []
    manifest, reader = build_manifest(plant({"w": bytes(5000)}, "s1"), 1000, 1)
    with store.open_push(manifest) as incoming:
        carry(reader, incoming)
        (staged,) = (tmp_path / "root/.fanfold").iterdir()
        (staged / "7").write_bytes(bytes(5000))  # zeros that came are no bytes of the disk
    name = digest(manifest).hex()
    staged = tmp_path / "root/.fanfold" / name
    for file in staged.iterdir():
        os.utime(file, ns=(0, 10**9))
    day_ns = 86_400 * 10**9
    assert store.sweep(10**9 + 3 * day_ns - 1, 3) == []
    (leftover,) = store.sweep(10**9 + 3 * day_ns, 3, is_dry=True)
    assert (leftover.digest, leftover.newest_ns) == (name, 10**9)
    assert leftover.n_bytes >= 5000
    with store.open_push(manifest):
        assert store.sweep(10**9 + 3 * day_ns, 3) == []
    assert staged.exists()
    assert store.sweep(10**9 + 3 * day_ns, 3) == []  # it was open just now
    os.utime(staged / "lock", ns=(0, 10**9))
    assert store.sweep(10**9 + 3 * day_ns, 3) == [leftover]
    assert not (tmp_path / "root/.fanfold").exists()


def test_discard_removes_what_was_staged(plant: Plant, carry: Carry, tmp_path: Path) -> None:
    manifest, reader = build_manifest(plant({"w": bytes(100)}), 10, 4)
    incoming = Store(tmp_path / "root").open_push(manifest)
    carry(reader, incoming, [0])
    incoming.discard()
    assert list((tmp_path / "root").iterdir()) == []
    for call in (incoming.finish, incoming.discard, lambda: incoming.write_chunk(0, bytes(40))):
        with pytest.raises(StoreError) as caught:
            call()
        assert caught.value.code is ReportError.CLOSED
