"""A folder that is exchanged: what readers see meanwhile, what a kill leaves."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fanfold.push import staging
from fanfold.push.source import Wish, build_manifest
from fanfold.push.store import Incoming, Store

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


@pytest.fixture
def watched() -> Iterator[Callable[[Callable[[], object]], list[object]]]:
    """Look at something again and again while a test runs; all that was seen."""
    is_over = threading.Event()
    threads: list[threading.Thread] = []

    def start(look: Callable[[], object]) -> list[object]:
        seen: list[object] = []

        def run() -> None:
            while not is_over.is_set():
                now = look()
                if not seen or seen[-1] != now:
                    seen.append(now)

        threads.append(threading.Thread(target=run, daemon=True))
        threads[-1].start()
        return seen

    yield start
    is_over.set()
    for thread in threads:
        thread.join()


def shards(folder: Path) -> tuple[int, bool, bool]:
    """Shards of a folder, then whether its index and its marker are there; in this order a
    marker that is seen was not there before the shards were counted, if it came last."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return 0, False, False
    try:
        marker = index = False
        for name, is_mark in (("STABLE", True), ("model.safetensors.index.json", False)):
            try:
                os.stat(name, dir_fd=fd)
            except FileNotFoundError:
                continue
            marker, index = marker or is_mark, index or not is_mark
        names = os.listdir(fd)  # noqa: PTH208 - of one open folder
        return sum(name.startswith("shard") for name in names), index, marker
    finally:
        os.close(fd)


@pytest.mark.parametrize("as_name", ["model", "."])
def test_a_marker_is_never_seen_before_the_shards(
    plant: Plant,
    send: Send,
    tmp_path: Path,
    watched: Callable[[Callable[[], object]], list[tuple[int, bool, bool]]],
    as_name: str,
) -> None:
    n = 1433
    files = {f"shard-{i:05}": b"%d" % i for i in range(n)}
    files |= {"STABLE": b"", "model.safetensors.index.json": b'{"weight_map": {}}'}
    files |= {"z/after": b"1"}
    root = plant({}, "root")
    seen = watched(lambda: shards(root / as_name))
    send(plant(files), Wish(as_name))
    assert shards(root / as_name) == (n, True, True)
    counts = [count for count, index, _ in seen if index]
    assert all(count == n for count in counts)
    assert all(index for _, index, marker in seen if marker)
    if as_name == "model":
        assert set(seen) <= {(0, False, False), (n, True, True)}


def test_a_reader_sees_the_old_folder_or_the_new_one(
    plant: Plant,
    send: Send,
    tmp_path: Path,
    watched: Callable[[Callable[[], object]], list[bytes]],
) -> None:
    versions = [{f"f{i}": b"v%d" % v * (i + 1) for i in range(40 + v)} for v in range(6)]
    root = plant(versions[0], "root/model").parent

    def look() -> object:
        """All of it through one open folder, as a loader that changes into it."""
        fd = os.open(root / "model", os.O_RDONLY | os.O_DIRECTORY)
        try:
            names = sorted(os.listdir(fd))  # noqa: PTH208 - of one open folder
            found = {}
            for name in names:
                file = os.open(name, os.O_RDONLY, dir_fd=fd)
                found[name] = os.read(file, 1000)
                os.close(file)
            return next((v for v, all_ in enumerate(versions) if all_ == found), found)
        except FileNotFoundError:
            return "old"  # it was opened before the exchange, and is being removed
        finally:
            os.close(fd)

    seen = watched(look)
    for files in versions[1:]:
        shutil.rmtree(tmp_path / "src", ignore_errors=True)
        send(plant(files), EXACT)
    assert all(isinstance(one, int) or one == "old" or is_part(one, versions) for one in seen)
    assert [one for one in seen if isinstance(one, int)] == sorted(
        {one for one in seen if isinstance(one, int)}
    )


def is_part(found: object, versions: list[dict[str, bytes]]) -> bool:
    """Files of one version only: an old folder that is opened while it is being removed."""
    assert isinstance(found, dict)
    return any(found.items() <= files.items() for files in versions)


# Killed by its own hand at the n-th call of a system function, in the midst of finish.
WRITER = """
import os, signal, sys
from pathlib import Path
from fanfold.push import staging, swap
from fanfold.push.source import Wish, build_manifest
from fanfold.push.store import Store
source, root, kept, name, left = *sys.argv[1:5], int(sys.argv[5])
if kept == "apart":
    staging.SMALL_BYTES = 0
manifest, reader = build_manifest(Path(source), 10, 1, wish=Wish("model"))
incoming = Store(Path(root)).open_push(manifest)
while not incoming.check_some(1 << 20):
    pass
buffer = bytearray(10)
for i in range(incoming.layout.n_chunks):
    if not incoming.has(i):
        size = reader.read_chunk(i, buffer)
        assert incoming.write_chunk(i, memoryview(buffer)[:size])
real = getattr(os, name)
def dying(*args, **options):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args, **options)
setattr(os, name, dying)
if name == "rename":
    swap._renameat2 = lambda *_: 38  # no such system call: two renames
incoming.finish()
"""


@pytest.mark.parametrize(
    "death",
    [
        ("mkdir", 0),
        ("mkdir", 1),
        ("fchmod", 2),
        ("link", 0),
        ("symlink", 0),
        ("rename", 0),
        ("rename", 1),
        ("unlink", 1),
        ("rmdir", 0),
    ],
)
def test_killed_while_the_folder_is_put_in_place(
    plant: Plant,
    checked: Checked,
    carry: Callable[..., list[int]],
    landed: Landed,
    tmp_path: Path,
    death: tuple[str, int],
) -> None:
    source, root = plant(NEW), plant(OLD, "root/model").parent
    kept = "packed" if staging.SMALL_BYTES else "apart"
    command = [sys.executable, "-c", WRITER, source, root, kept, death[0], str(death[1])]
    done = subprocess.run(command, check=False, capture_output=True, timeout=60)
    assert done.returncode == -9, done.stderr
    if death == ("rename", 1):  # the one moment without any: whoever cleans up puts it back
        assert not (root / "model").exists()
        Store(root).sweep(2**62, 0)
        assert landed(root) == {f"model/{path}": data for path, data in OLD.items()}
        return
    assert landed(root / "model") in (OLD, {**OLD, **NEW})
    manifest, reader = build_manifest(source, 10, 1, wish=PUSHED)
    incoming = checked(Store(root).open_push(manifest))
    assert carry(reader, incoming) == []  # nothing is fetched again
    incoming.finish()
    assert landed(root) == {f"model/{path}": data for path, data in {**OLD, **NEW}.items()}
    assert not (root / ".fanfold").exists()


def test_bytes_that_somebody_reads_are_never_written_to(
    plant: Plant, checked: Checked, carry: Callable[..., list[int]], tmp_path: Path
) -> None:
    """A finish that was killed after the exchange leaves second names of visible files."""
    source, root = plant({"a": b"x" * 100}), tmp_path / "root"
    manifest, reader = build_manifest(source, 10, 1, wish=PUSHED)
    store = Store(root)
    with store.open_push(manifest) as incoming:
        carry(reader, incoming)
        (folder,) = (root / ".fanfold").iterdir()
    name = "small" if staging.SMALL_BYTES else "0"
    (root / "model").mkdir()
    os.link(folder / name, root / "model/a")
    (root / "model/a").write_bytes(b"y" * 100)  # the same file, changed in place
    incoming = checked(store.open_push(manifest))
    assert len(carry(reader, incoming)) == 10
    assert (root / "model/a").read_bytes() == b"y" * 100
    incoming.finish()
    assert (root / "model/a").read_bytes() == b"x" * 100
