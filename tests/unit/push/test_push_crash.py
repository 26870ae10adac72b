"""A receiver that is killed: final files are whole, and what was verified is not lost."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fanfold.push import staging
from fanfold.push.manifest import encode
from fanfold.push.source import build_manifest
from fanfold.push.store import Incoming, Store

Plant = Callable[..., Path]
Content = Callable[[str, int], bytes]
Checked = Callable[[Incoming], Incoming]
Carry = Callable[..., list[int]]
Landed = Callable[[Path], dict[str, bytes]]

# Takes every chunk from a file of the whole stream; tells each chunk, then finishes.
WRITER = """
import sys
from pathlib import Path
from fanfold.push import staging
from fanfold.push.manifest import decode
from fanfold.push.store import Store
if sys.argv[4] == "apart":
    staging.SMALL_BYTES = 0
manifest = decode(Path(sys.argv[1]).read_bytes())
stream = Path(sys.argv[2]).read_bytes()
incoming = Store(Path(sys.argv[3])).open_push(manifest)
while not incoming.check_some(1 << 20):
    pass
size = manifest.chunk_bytes
for i in range(incoming.layout.n_chunks):
    assert incoming.write_chunk(i, stream[i * size : (i + 1) * size])
    print(i, flush=True)
incoming.finish()
"""

# Dies at the n-th call of a system function by its own hand: no cleanup of any kind runs.
KILLER = """
import os, signal, sys
name, left = sys.argv[5], int(sys.argv[6])
real = getattr(os, name)
def dying(*args, **options):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args, **options)
setattr(os, name, dying)
"""


@pytest.fixture
def files(content: Content) -> dict[str, bytes]:
    return {f"d/{name}": content(name, 10_000) for name in "abcde"} | {"d/empty": b""}


@pytest.fixture(params=["packed", "apart"])
def kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How small files are staged."""
    if request.param == "apart":
        monkeypatch.setattr(staging, "SMALL_BYTES", 0)
    return str(request.param)


@pytest.fixture
def command(plant: Plant, files: dict[str, bytes], kept: str, tmp_path: Path) -> list[str]:
    manifest, reader = build_manifest(plant(files), 700, 1)
    reader.close()
    (tmp_path / "manifest").write_bytes(encode(manifest))
    (tmp_path / "stream").write_bytes(b"".join(files[e.path] for e in manifest.entries))
    names = ("manifest", "stream", "root")
    return [sys.executable, "-c", WRITER, *(str(tmp_path / name) for name in names), kept]


def test_killed_while_writing(
    plant: Plant,
    files: dict[str, bytes],
    command: list[str],
    checked: Checked,
    carry: Carry,
    landed: Landed,
    tmp_path: Path,
) -> None:
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout
        while writer.stdout.readline().strip() != "30":
            pass
        os.kill(writer.pid, signal.SIGKILL)
    assert writer.returncode == -signal.SIGKILL
    manifest, reader = build_manifest(plant(files), 700, 1)
    incoming = checked(Store(tmp_path / "root").open_push(manifest))
    assert incoming.n_have >= 31
    carry(reader, incoming)
    incoming.finish()
    assert landed(tmp_path / "root") == files


@pytest.mark.parametrize(
    "death",
    [
        ("pwrite", 40),
        ("ftruncate", 0),
        ("utime", 3),
        ("mkdir", 2),
        ("mkdir", 3),
        ("replace", 0),
        ("replace", 3),
        ("unlink", 0),
        ("rmdir", 0),
    ],
)
def test_killed_at_a_system_call(
    plant: Plant,
    files: dict[str, bytes],
    command: list[str],
    checked: Checked,
    carry: Carry,
    landed: Landed,
    tmp_path: Path,
    death: tuple[str, int],
) -> None:
    old = {path: b"old " + path.encode() for path in files}
    root = plant(old, "root")
    command[2] = KILLER + WRITER
    if death[0] == "mkdir":
        (root / "d").rename(tmp_path / "away")
        old = {}
    done = subprocess.run(
        [*command, death[0], str(death[1])], check=False, capture_output=True, timeout=60
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    for path, data in landed(root).items():
        assert path.startswith(".fanfold/") or data in {old.get(path), files[path]}
    manifest, reader = build_manifest(plant(files), 700, 1)
    incoming = checked(Store(root).open_push(manifest))
    told = len(done.stdout.split())
    assert incoming.n_have >= told
    carry(reader, incoming)
    incoming.finish()
    assert landed(root) == files
    assert not (root / ".fanfold").exists()
