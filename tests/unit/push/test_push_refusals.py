"""What a receiver refuses: hostile paths, links, a full disk, missing rights, collisions."""

import errno
import fcntl
import os
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
import pytest

from fanfold.errors import ExitCode
from fanfold.push import fds
from fanfold.push import staging as staging_module
from fanfold.push.manifest import Manifest
from fanfold.push.source import SourceReader, build_manifest
from fanfold.push.store import Incoming, ReportError, Store, StoreError

Plant = Callable[..., Path]
Content = Callable[[str, int], bytes]
Checked = Callable[[Incoming], Incoming]
Carry = Callable[..., list[int]]


def code_of(call: Callable[[], object]) -> ReportError:
    with pytest.raises(StoreError) as caught:
        call()
    assert caught.value.exit_code == ExitCode.PARTIAL
    return caught.value.code


def renamed(manifest: Manifest, path: str) -> Manifest:
    entry = msgspec.structs.replace(manifest.entries[0], path=path)
    return msgspec.structs.replace(manifest, entries=(entry,))


@pytest.fixture
def one(plant: Plant) -> tuple[Manifest, SourceReader]:
    return build_manifest(plant({"d/w": bytes(range(100))}), 10, 4)


@pytest.mark.parametrize(
    "path",
    [
        "/tmp/x",
        "../x",
        "d/../../x",
        "d/..",
        "./x",
        "d//x",
        "d/",
        "x\0y",
        "..\\x",
        ".fanfold/x",
        "",
        "n" * 256,
    ],
)
def test_hostile_paths_are_refused_before_anything_is_made(
    one: tuple[Manifest, SourceReader], tmp_path: Path, path: str
) -> None:
    store = Store(tmp_path / "root")
    assert code_of(lambda: store.open_push(renamed(one[0], path))) is ReportError.BAD_MANIFEST
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize("link_to", ["folder", "file", "nowhere"])
@pytest.mark.parametrize("at", ["d", "d/w", ".fanfold"])
def test_links_below_the_root_are_refused(
    one: tuple[Manifest, SourceReader],
    checked: Checked,
    tmp_path: Path,
    link_to: str,
    at: str,
) -> None:
    outside = tmp_path / "outside"
    (outside / "folder").mkdir(parents=True)
    (outside / "file").write_bytes(b"precious")
    root = tmp_path / "root"
    (root / at).parent.mkdir(parents=True)
    (root / at).symlink_to(outside / link_to)
    store = Store(root)
    assert code_of(lambda: checked(store.open_push(one[0]))) is ReportError.BAD_PATH
    assert sorted(path.name for path in outside.rglob("*")) == ["file", "folder"]
    assert (outside / "file").read_bytes() == b"precious"


@pytest.mark.parametrize("at", ["d", "d/w"])
def test_link_planted_after_the_check_leads_nowhere(
    one: tuple[Manifest, SourceReader],
    checked: Checked,
    carry: Carry,
    tmp_path: Path,
    at: str,
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "w").write_bytes(b"precious")
    root = tmp_path / "root"
    incoming = checked(Store(root).open_push(one[0]))
    carry(one[1], incoming)
    (root / at).parent.mkdir(exist_ok=True)
    (root / at).symlink_to(outside / "w" if at == "d/w" else outside)
    assert code_of(incoming.finish) is ReportError.BAD_PATH
    assert (outside / "w").read_bytes() == b"precious"
    (root / at).unlink()
    incoming = checked(Store(root).open_push(one[0]))
    assert incoming.is_complete
    incoming.finish()


@pytest.mark.parametrize("name", ["small", "0"])
def test_link_in_place_of_a_staged_file_is_refused(
    one: tuple[Manifest, SourceReader],
    carry: Carry,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    if name == "0":
        monkeypatch.setattr(staging_module, "SMALL_BYTES", 0)
    (tmp_path / "victim").write_bytes(b"precious")
    with Store(tmp_path / "root").open_push(one[0]) as incoming:
        (staging,) = (tmp_path / "root/.fanfold").iterdir()
        (staging / name).symlink_to(tmp_path / "victim")
        assert code_of(lambda: carry(one[1], incoming)) is ReportError.BAD_PATH
    assert (tmp_path / "victim").read_bytes() == b"precious"


def test_root_itself_may_be_a_link(
    one: tuple[Manifest, SourceReader], checked: Checked, carry: Carry, tmp_path: Path
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "root").symlink_to("real")
    incoming = checked(Store(tmp_path / "root").open_push(one[0]))
    carry(one[1], incoming)
    incoming.finish()
    assert (tmp_path / "real/d/w").read_bytes() == bytes(range(100))


@pytest.mark.parametrize("make", ["folder at the file", "file at the folder", "pipe"])
@pytest.mark.parametrize("is_late", [False, True])
def test_collisions_change_nothing(
    plant: Plant, checked: Checked, carry: Carry, tmp_path: Path, make: str, is_late: bool
) -> None:
    files = {"a": b"new", "d/w": bytes(range(100))}
    manifest, reader = build_manifest(plant(files), 10, 4)
    root = plant({"a": b"old"}, "root")

    def collide() -> None:
        if make == "file at the folder":
            (root / "d").write_bytes(b"")
        elif make == "pipe":
            (root / "d").mkdir()
            os.mkfifo(root / "d/w")
        else:
            (root / "d/w").mkdir(parents=True)

    incoming = Store(root).open_push(manifest)
    if is_late:
        carry(reader, checked(incoming))
    collide()
    call = incoming.finish if is_late else lambda: checked(incoming)
    assert code_of(call) is ReportError.COLLISION
    assert (root / "a").read_bytes() == b"old"


def test_root_that_is_a_file_is_a_collision(
    one: tuple[Manifest, SourceReader], tmp_path: Path
) -> None:
    (tmp_path / "root").write_bytes(b"")
    store = Store(tmp_path / "root")
    assert code_of(lambda: store.open_push(one[0])) is ReportError.COLLISION


def test_file_in_place_that_changes_later_is_a_collision(
    one: tuple[Manifest, SourceReader], checked: Checked, plant: Plant
) -> None:
    root = plant({"d/w": bytes(range(100))}, "root")
    store = Store(root, recheck=False)
    incoming = checked(store.open_push(one[0]))
    (root / "d/w").write_bytes(bytes(100))
    assert code_of(incoming.finish) is ReportError.COLLISION
    (root / "d/w").write_bytes(bytes(range(100)))
    incoming = checked(store.open_push(one[0]))
    (root / "d/w").unlink()
    assert code_of(incoming.finish) is ReportError.COLLISION


def test_full_disk_is_said_up_front(
    plant: Plant, content: Content, checked: Checked, small_disk: Path
) -> None:
    manifest, _ = build_manifest(plant({"w": content("w", 2 << 20)}), 1 << 10, 64)
    store = Store(small_disk)
    assert code_of(lambda: checked(store.open_push(manifest))) is ReportError.DISK_FULL


def test_disk_that_fills_up_meanwhile_and_is_freed_again(
    plant: Plant, content: Content, checked: Checked, carry: Carry, small_disk: Path
) -> None:
    data = content("w", 700_000)
    manifest, reader = build_manifest(plant({"w": data}), 1 << 10, 64)
    store = Store(small_disk / "root")
    with checked(store.open_push(manifest)) as incoming:
        carry(reader, incoming, [0])
        (small_disk / "hog").write_bytes(bytes(800_000))
        assert code_of(lambda: carry(reader, incoming)) is ReportError.DISK_FULL
        n_have = incoming.n_have
        assert 0 < n_have < reader.layout.n_chunks
        (small_disk / "hog").unlink()
        assert len(carry(reader, incoming)) == reader.layout.n_chunks - n_have
        incoming.finish()
    assert (small_disk / "root/w").read_bytes() == data


def test_room_counts_only_what_is_lacking(
    plant: Plant, content: Content, checked: Checked, carry: Carry, small_disk: Path
) -> None:
    files = {"a": content("a", 300_000), "w": content("w", 500_000)}
    manifest, reader = build_manifest(plant(files), 1 << 10, 64)
    store = Store(small_disk)
    with checked(store.open_push(manifest)) as incoming:
        carry(reader, incoming, range(8))
    incoming = checked(store.open_push(manifest))  # 0.8 MB do not fit a second time
    carry(reader, incoming)
    incoming.finish()
    checked(store.open_push(manifest)).finish()


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, ReportError.DISK_FULL),
        (errno.EDQUOT, ReportError.DISK_FULL),
        (errno.EFBIG, ReportError.TOO_LARGE),
        (errno.EROFS, ReportError.PERMISSION),
        (errno.EIO, ReportError.IO),
    ],
)
def test_errors_of_a_write_have_their_codes(
    one: tuple[Manifest, SourceReader],
    carry: Carry,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    code: ReportError,
) -> None:
    def fail(fd: int, view: memoryview, offset: int) -> None:
        raise OSError(number, "injected")

    with Store(tmp_path / "root").open_push(one[0]) as incoming:
        monkeypatch.setattr(staging_module, "write_full", fail)
        assert code_of(lambda: carry(one[1], incoming, [1])) is code
        assert incoming.n_have == 0
        monkeypatch.undo()
        carry(one[1], incoming)
        incoming.finish()


def test_short_writes_and_reads_are_continued(
    plant: Plant,
    content: Content,
    checked: Checked,
    carry: Carry,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write, read = os.pwrite, os.preadv
    monkeypatch.setattr(fds.os, "pwrite", lambda fd, view, at: write(fd, view[:7], at))
    monkeypatch.setattr(fds.os, "preadv", lambda fd, views, at: read(fd, [views[0][:9]], at))
    data = content("w", 100)
    manifest, reader = build_manifest(plant({"w": data}), 10, 4)
    incoming = checked(Store(tmp_path / "root").open_push(manifest))
    carry(reader, incoming)
    incoming.finish()
    assert (tmp_path / "root/w").read_bytes() == data


def test_read_only_disk_is_a_permission(
    one: tuple[Manifest, SourceReader], carry: Carry, small_disk: Path
) -> None:
    store = Store(small_disk)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert code_of(lambda: store.open_push(one[0])) is ReportError.PERMISSION


def test_other_disk_below_the_root_is_a_collision_before_the_flip(
    plant: Plant, checked: Checked, carry: Carry, small_disk: Path
) -> None:
    manifest, reader = build_manifest(plant({"a": b"1", "disk/w": b"2"}), 10, 4)
    incoming = checked(Store(small_disk.parent).open_push(manifest))
    carry(reader, incoming)
    assert code_of(incoming.finish) is ReportError.COLLISION
    assert not (small_disk.parent / "a").exists()


def test_missing_rights_are_a_permission(
    one: tuple[Manifest, SourceReader],
    checked: Checked,
    carry: Carry,
    open_dir: Path,
    as_nobody: Callable[[], AbstractContextManager[None]],
) -> None:
    with as_nobody():
        store = Store(open_dir / "root")
        incoming = checked(store.open_push(one[0]))
        carry(one[1], incoming)  # its file is open already
        (open_dir / "root").chmod(0o555)
    with as_nobody():
        assert code_of(incoming.finish) is ReportError.PERMISSION
        shut = Store(Path("/root/x"))
        assert code_of(lambda: shut.open_push(one[0])) is ReportError.PERMISSION
        (open_dir / "root").chmod(0o755)
        incoming = checked(store.open_push(one[0]))
        assert incoming.is_complete
        incoming.finish()


def test_unreadable_old_file_is_replaced(
    plant: Plant,
    checked: Checked,
    carry: Carry,
    open_dir: Path,
    as_nobody: Callable[[], AbstractContextManager[None]],
) -> None:
    manifest, reader = build_manifest(plant({"w": b"new"}), 10, 4)
    (open_dir / "w").write_bytes(b"old")
    (open_dir / "w").chmod(0)
    with as_nobody():
        incoming = checked(Store(open_dir).open_push(manifest))
        carry(reader, incoming)
        incoming.finish()
    assert (open_dir / "w").read_bytes() == b"new"


def test_staging_of_another_user_is_a_permission(
    one: tuple[Manifest, SourceReader],
    open_dir: Path,
    as_nobody: Callable[[], AbstractContextManager[None]],
) -> None:
    if os.geteuid():
        pytest.skip("a second user needs root")
    with as_nobody():
        (open_dir / ".fanfold").mkdir()
    store = Store(open_dir)
    assert code_of(lambda: store.open_push(one[0])) is ReportError.PERMISSION


def test_staging_is_private(one: tuple[Manifest, SourceReader], tmp_path: Path) -> None:
    (tmp_path / "root/.fanfold").mkdir(parents=True, mode=0o777)
    with Store(tmp_path / "root").open_push(one[0]) as incoming:
        assert incoming.write_chunk(0, bytes(range(40)))
        modes = {p.stat().st_mode & 0o77 for p in (tmp_path / "root/.fanfold").rglob("*")}
        assert modes | {(tmp_path / "root/.fanfold").stat().st_mode & 0o77} == {0}


def test_name_too_long_for_the_disk_is_a_bad_path(
    one: tuple[Manifest, SourceReader],
    carry: Carry,
    checked: Checked,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_args: object, **_options: object) -> None:
        raise OSError(errno.ENAMETOOLONG, "File name too long")

    incoming = checked(Store(tmp_path / "root").open_push(one[0]))
    carry(one[1], incoming)
    monkeypatch.setattr(os, "replace", refuse)
    assert code_of(incoming.finish) is ReportError.BAD_PATH


def test_longest_name_arrives(
    plant: Plant, carry: Carry, checked: Checked, tmp_path: Path
) -> None:
    path = f"{'d' * 255}/{'é' * 127}"
    manifest, reader = build_manifest(plant({path: b"1"}), 10, 4)
    incoming = checked(Store(tmp_path / "root").open_push(manifest))
    carry(reader, incoming)
    incoming.finish()
    assert (tmp_path / "root" / path).read_bytes() == b"1"


def test_quota_of_the_store(one: tuple[Manifest, SourceReader], tmp_path: Path) -> None:
    with Store(tmp_path / "root", max_bytes=100).open_push(one[0]):
        pass
    store = Store(tmp_path / "root", max_bytes=99)
    assert code_of(lambda: store.open_push(one[0])) is ReportError.TOO_LARGE


@pytest.mark.parametrize("is_stepped", [False, True])
def test_file_hash_that_does_not_fit_its_chunks_is_a_bad_manifest(
    one: tuple[Manifest, SourceReader],
    checked: Checked,
    carry: Carry,
    tmp_path: Path,
    is_stepped: bool,
) -> None:
    entry = msgspec.structs.replace(one[0].entries[0], blake3=bytes(32))
    manifest = msgspec.structs.replace(one[0], entries=(entry,))
    incoming = checked(Store(tmp_path / "root").open_push(manifest))
    carry(one[1], incoming)
    steps = incoming.finish_steps()
    call = incoming.finish if not is_stepped else lambda: sum(steps)
    assert code_of(call) is ReportError.BAD_MANIFEST
    assert not (tmp_path / "root/.fanfold").exists()  # no try will ever make it right
    assert code_of(incoming.finish) is ReportError.CLOSED
    assert not (tmp_path / "root/d").exists()


def test_lock_that_is_removed_meanwhile_is_taken_again(
    one: tuple[Manifest, SourceReader], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, n_left = fcntl.flock, [2]

    def remove_first(fd: int, flags: int) -> None:
        if n_left[0]:
            n_left[0] -= 1
            (staging,) = (tmp_path / "root/.fanfold").iterdir()
            (staging / "lock").unlink()
            staging.rmdir()
        real(fd, flags)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    store = Store(tmp_path / "root")
    with store.open_push(one[0]):
        assert code_of(lambda: store.open_push(one[0])) is ReportError.COLLISION
    n_left[0] = 10**6
    assert code_of(lambda: store.open_push(one[0])) is ReportError.IO


@pytest.mark.parametrize("function", ["scandir", "ftruncate", "utime", "statvfs"])
def test_failing_system_call_is_told_and_leaks_no_file(
    one: tuple[Manifest, SourceReader],
    checked: Checked,
    carry: Carry,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    function: str,
) -> None:
    def fail(*_args: object, **_options: object) -> None:
        raise OSError(errno.EIO, "injected")

    def push() -> None:
        with Store(tmp_path / "root").open_push(one[0]) as incoming:
            carry(one[1], checked(incoming))
            incoming.finish()

    carry(one[1], Store(tmp_path / "other").open_push(one[0]))  # the source is open from here
    before = sum(1 for _ in Path("/proc/self/fd").iterdir())
    monkeypatch.setattr(os, function, fail)
    code = code_of(push)
    monkeypatch.undo()
    assert code is ReportError.IO
    assert sum(1 for _ in Path("/proc/self/fd").iterdir()) == before


def test_sweep_tells_what_stops_it(
    one: tuple[Manifest, SourceReader],
    open_dir: Path,
    as_nobody: Callable[[], AbstractContextManager[None]],
) -> None:
    if os.geteuid():
        pytest.skip("a second user needs root")
    with as_nobody(), Store(open_dir).open_push(one[0]) as incoming:
        assert incoming.write_chunk(0, bytes(range(40)))
    assert code_of(lambda: Store(open_dir).sweep(2**62, 0)) is ReportError.PERMISSION
