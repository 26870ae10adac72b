"""A folder arrives as a whole: old or new to every reader, with its modes, nothing lost."""

import errno
import os
import stat
import subprocess
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from fanfold.push import new_folder, small_files, staging, swap
from fanfold.push.remove import VISIT_BYTES
from fanfold.push.source import SourceReader, Wish, build_manifest
from fanfold.push.store import Incoming, ReportError, Store, StoreError

Plant = Callable[..., Path]
Checked = Callable[[Incoming], Incoming]
Landed = Callable[[Path], dict[str, bytes]]
Send = Callable[..., None]

OLD = {"a": b"old a", "d/b": b"old b", "d/gone": b"gone", "own/note": b"mine"}
NEW = {"a": b"new a", "d/b": b"new b!", "d/e/f": b"deep"}
PUSHED = Wish("model")
EXACT = Wish("model", is_exact=True)


@pytest.fixture(autouse=True, params=["packed", "apart"])
def _are_packed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "apart":
        monkeypatch.setattr(staging, "SMALL_BYTES", 0)


def modes(top: Path) -> dict[str, tuple[int, int]]:
    """Permission bits and mtime of all below a folder, and of itself."""
    paths = [top, *top.rglob("*")]
    infos = {str(path.relative_to(top)): path.lstat() for path in paths}
    return {path: (stat.S_IMODE(i.st_mode), i.st_mtime_ns) for path, i in infos.items()}


def test_two_folders_stand_side_by_side(
    plant: Plant, send: Send, landed: Landed, tmp_path: Path
) -> None:
    send(plant({"w": b"1"}, "modelA"), Wish())
    send(Path(f"{plant({'w': b'2'}, 'modelB')}/"), Wish())
    assert landed(tmp_path / "root") == {"modelA/w": b"1", "modelB/w": b"2"}
    assert sorted(path.name for path in (tmp_path / "root").iterdir()) == ["modelA", "modelB"]


@pytest.mark.parametrize("fsync", [False, True])
def test_files_that_the_push_does_not_name_stay_unless_it_is_exact(
    plant: Plant, send: Send, landed: Landed, tmp_path: Path, fsync: bool
) -> None:
    root = plant(OLD, "root/model").parent
    (root / "model/link").symlink_to("a")
    (root / "model/own").chmod(0o711)
    os.utime(root / "model/own", ns=(5, 5))
    note = (root / "model/own/note").stat()
    send(plant(NEW), fsync=fsync)
    assert landed(root / "model") == {
        **NEW,
        "d/gone": b"gone",
        "own/note": b"mine",
        "link": b"new a",
    }
    assert (root / "model/own/note").stat().st_ino == note.st_ino
    assert modes(root / "model/own")["."] == (0o711, 5)
    send(plant(NEW), EXACT, fsync=fsync)
    assert landed(root) == {f"model/{path}": data for path, data in NEW.items()}
    assert not (root / "model/own").exists()
    assert not (root / ".fanfold").exists()


def test_modes_and_times_are_kept_and_nothing_is_widened(
    plant: Plant, send: Send, tmp_path: Path
) -> None:
    source = plant({"key": b"1", "run": b"2", "d/e/f": b"3" * 100, "open": b"4", "none": b""})
    for path, mode in (("key", 0o600), ("run", 0o751), ("d/e/f", 0o400), ("none", 0)):
        (source / path).chmod(mode)
        os.utime(source / path, ns=(1, 1_234_567_890_123_456_789))
    (source / "empty").mkdir()
    for path, mode in (("d/e", 0o500), ("d", 0o700), ("empty", 0o1770), (".", 0o750)):
        os.utime(source / path, ns=(1, 77))
        (source / path).chmod(mode)
    seen: set[int] = set()
    is_over = threading.Event()
    root = tmp_path / "root"

    def watch() -> None:
        while not is_over.is_set():
            for path in ("model/key", "model", "model/d"):
                try:
                    seen.add(stat.S_IMODE((root / path).stat().st_mode))
                except FileNotFoundError:
                    continue

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        send(source)
        send(source, EXACT)
    finally:
        is_over.set()
        watcher.join()
    wanted = modes(source)
    wanted["empty"] = (0o770, wanted["empty"][1])  # sticky and set-id bits do not travel
    assert modes(root / "model") == wanted
    assert all(mode & 0o027 == 0 for mode in seen)
    (source / "key").write_bytes(b"new")
    send(source)  # over folders that nobody may write to
    assert (root / "model/key").read_bytes() == b"new"


def test_a_file_by_itself_keeps_mode_and_time(plant: Plant, send: Send, tmp_path: Path) -> None:
    source = plant({"key": b"1"})
    (source / "key").chmod(0o600)
    os.utime(source / "key", ns=(1, 99))
    send(source / "key", Wish())
    info = (tmp_path / "root/key").stat()
    assert (stat.S_IMODE(info.st_mode), info.st_mtime_ns) == (0o600, 99)


def test_empty_files_and_folders_arrive(
    plant: Plant, send: Send, landed: Landed, tmp_path: Path
) -> None:
    source = plant({"d/zero": b""})
    (source / "e/f").mkdir(parents=True)
    send(source)
    root = tmp_path / "root"
    assert landed(root) == {"model/d/zero": b""}
    assert (root / "model/e/f").is_dir()
    send(source / "d/zero", Wish())
    assert (root / "zero").read_bytes() == b""
    send(plant({}, "bare"), Wish())
    assert (root / "bare").is_dir()
    send(source, Wish("."))
    assert (root / "e/f").is_dir()
    assert (root / "d/zero").read_bytes() == b""


def test_what_is_in_place_is_linked_not_fetched(
    plant: Plant, checked: Checked, carry: Callable[..., list[int]], tmp_path: Path
) -> None:
    root = plant(NEW, "root/model").parent
    (root / "model/a").write_bytes(b"other")
    kept = (root / "model/d/b").stat().st_ino
    manifest, reader = build_manifest(plant(NEW), 5, 1, wish=PUSHED)
    incoming = checked(Store(root).open_push(manifest))
    assert carry(reader, incoming) == [0]
    incoming.finish()
    assert (root / "model/d/b").stat().st_ino == kept
    assert {p: (root / "model" / p).read_bytes() for p in NEW} == NEW


def test_a_push_that_is_there_already_exchanges_nothing(
    plant: Plant, send: Send, tmp_path: Path
) -> None:
    source = plant(NEW)
    send(source)
    there = (tmp_path / "root/model").stat().st_ino
    (source / "d").chmod(0o700)
    send(source, EXACT)
    assert (tmp_path / "root/model").stat().st_ino == there
    assert stat.S_IMODE((tmp_path / "root/model/d").stat().st_mode) == 0o700
    (tmp_path / "root/model/more").write_bytes(b"1")
    send(source)
    assert (tmp_path / "root/model").stat().st_ino == there
    send(source, EXACT)
    assert not (tmp_path / "root/model/more").exists()


def test_a_name_below_the_root(
    plant: Plant, send: Send, landed: Landed, tmp_path: Path
) -> None:
    send(plant(NEW), Wish("x/y/v1"))
    send(plant({"w": b"1"}, "other") / "w", Wish("x/y/w2"))
    assert landed(tmp_path / "root/x/y") == {f"v1/{p}": d for p, d in NEW.items()} | {
        "w2": b"1"
    }


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EINVAL])
def test_without_an_exchange_there_are_two_renames(
    plant: Plant,
    send: Send,
    landed: Landed,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
) -> None:
    monkeypatch.setattr(swap, "_renameat2", lambda *_: number)
    root = plant(OLD, "root/model").parent
    send(plant(NEW), EXACT)
    assert landed(root) == {f"model/{path}": data for path, data in NEW.items()}
    send(plant({"b": b"1"}, "fresh"), Wish())
    assert (root / "fresh/b").read_bytes() == b"1"


def test_without_links_files_are_copied(
    plant: Plant, send: Send, landed: Landed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object, **_options: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "injected")

    monkeypatch.setattr(os, "link", refuse)
    root = plant({**OLD, "d/e/f": b"deep"}, "root/model").parent
    (root / "model/link").symlink_to("a")
    (root / "model/own/note").chmod(0o640)
    send(plant(NEW))
    kept = {"d/gone": b"gone", "own/note": b"mine", "link": b"new a"}
    assert landed(root / "model") == NEW | kept
    assert (root / "model/link").is_symlink()
    assert stat.S_IMODE((root / "model/own/note").stat().st_mode) == 0o640


def test_a_file_put_into_the_old_folder_meanwhile_is_kept(
    plant: Plant, send: Send, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = plant(OLD, "root/model").parent
    real = new_folder.put_folder

    def late(*args: object) -> str:
        (root / "model/late").write_bytes(b"late")
        (root / "model/d/late").write_bytes(b"late")
        return real(*args)  # type: ignore[arg-type]  # as they came

    monkeypatch.setattr(new_folder, "put_folder", late)
    send(plant(NEW))
    assert (root / "model/late").read_bytes() == (root / "model/d/late").read_bytes() == b"late"
    assert (root / "model/a").read_bytes() == b"new a"


def test_links_and_files_in_the_way_are_refused_and_nothing_changes(
    plant: Plant, send: Send, landed: Landed, tmp_path: Path
) -> None:
    outside = plant({"precious": b"1"}, "outside")
    root = plant({}, "root")
    for at, code in (("model", ReportError.BAD_PATH), ("model/d", ReportError.BAD_PATH)):
        (root / at).parent.mkdir(exist_ok=True)
        (root / at).symlink_to(outside)
        with pytest.raises(StoreError) as caught:
            send(plant(NEW))
        assert caught.value.code is code
        (root / at).unlink()
    (root / "model/a").mkdir()
    with pytest.raises(StoreError) as caught:
        send(plant(NEW))
    assert caught.value.code is ReportError.COLLISION
    (root / "model/d").symlink_to(outside)
    send(plant(NEW), EXACT)  # all of it goes with the old folder
    assert landed(root / "model") == NEW
    assert landed(outside) == {"precious": b"1"}


def test_a_disk_in_the_old_folder_is_not_removed_with_it(
    plant: Plant, send: Send, tmp_path: Path, small_disk: Path
) -> None:
    root = plant(OLD, "root/model").parent
    (root / "model/my disk").mkdir()
    (small_disk / "w").write_bytes(b"precious")
    subprocess.run(["mount", "--bind", small_disk, root / "model/my disk"], check=True)
    try:
        for wish in (PUSHED, EXACT):
            with pytest.raises(StoreError, match=r"a disk is mounted at .*/my disk") as caught:
                send(plant(NEW), wish)
            assert caught.value.code is ReportError.COLLISION
            assert (root / "model/a").read_bytes() == b"old a"
    finally:
        subprocess.run(["umount", "--lazy", root / "model/my disk"], check=True)
    assert (small_disk / "w").read_bytes() == b"precious"


def test_missing_rights_are_said_and_leave_the_old_folder(
    plant: Plant,
    checked: Checked,
    carry: Callable[..., list[int]],
    open_dir: Path,
    as_nobody: Callable[[], AbstractContextManager[None]],
) -> None:
    manifest, reader = build_manifest(plant({"w": b"new"}), 10, 1, wish=PUSHED)
    with as_nobody():
        (open_dir / "root/model").mkdir(parents=True)
        (open_dir / "root/model").chmod(0o500)
        incoming = checked(Store(open_dir / "root").open_push(manifest))
        carry(reader, incoming)
        incoming.finish()
        assert (open_dir / "root/model/w").read_bytes() == b"new"
        (open_dir / "root/model/w").chmod(0o400)
        (open_dir / "root/model/w").unlink()
        incoming = checked(Store(open_dir / "root").open_push(manifest))
        carry(reader, incoming)
        (open_dir / "root").chmod(0o555)
        with pytest.raises(StoreError) as caught:
            incoming.finish()
        assert caught.value.code is ReportError.PERMISSION
        (open_dir / "root").chmod(0o755)
    assert list((open_dir / "root/model").iterdir()) == []


def test_steps_are_short_and_many(plant: Plant, checked: Checked, tmp_path: Path) -> None:
    files = {f"{n:04}": b"" for n in range(3000)}
    manifest, reader = build_manifest(plant(files), 10, 1, wish=PUSHED)
    incoming = checked(Store(tmp_path / "root").open_push(manifest))
    costs = list(incoming.finish_steps())
    assert len(costs) > 3000 // small_files.AT_ONCE
    assert sum(costs) > 3000 * VISIT_BYTES
    assert max(costs) <= 1 << 20
    assert isinstance(reader, SourceReader)
    manifest, _ = build_manifest(tmp_path / "src", 10, 1, wish=Wish("."))
    incoming = checked(Store(tmp_path / "root").open_push(manifest))
    assert len(list(incoming.finish_steps())) > 6000
