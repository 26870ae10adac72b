"""fanfold clean: what it lists, removes and leaves."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fanfold.cli.main import run
from fanfold.push.source import build_manifest
from fanfold.push.store import Incoming, Store


@pytest.fixture
def half(tmp_path: Path) -> Callable[[str], Incoming]:
    """A push of which one chunk came, still open."""

    def make(name: str) -> Incoming:
        path = tmp_path / name
        path.write_bytes(name.encode() * 100)
        manifest, reader = build_manifest(path, 10, 4)
        incoming = Store(tmp_path / "root").open_push(manifest)
        buffer = bytearray(40)
        incoming.write_chunk(0, memoryview(buffer)[: reader.read_chunk(0, buffer)])
        reader.close()
        return incoming

    return make


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = run(["clean", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_halves_are_listed_then_removed_but_never_an_open_one(
    half: Callable[[str], Incoming], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "root"
    half("one").close()
    opened = half("two")
    staged = root / ".fanfold"
    assert len(list(staged.iterdir())) == 2
    code, out, _ = said(capsys, str(root), "--dry-run")
    assert code == 0
    assert "1 unfinished pushes would be removed" in out
    assert len(list(staged.iterdir())) == 2
    code, out, _ = said(capsys, str(root), "--json")
    told = json.loads(out)
    assert code == 0
    assert [set(row) for row in told["removed"]] == [
        {"folder", "digest", "bytes", "days", "error"}
    ]
    assert told["bytes"] == told["removed"][0]["bytes"] > 0
    assert not told["dry_run"]
    assert len(list(staged.iterdir())) == 1
    opened.close()
    assert "0 unfinished" in said(capsys, str(root), "--older", "1")[1]
    assert "1 unfinished pushes removed" in said(capsys, str(root))[1]
    assert not staged.exists()


@pytest.mark.parametrize(
    ("words", "named"),
    [((), "FOLDER"), (("/no/such",), "/no/such"), (("--lab", "none"), "--lab")],
)
def test_what_is_no_receivers_folder_is_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    named: str,
) -> None:
    monkeypatch.setenv("FANFOLD_STATE_DIR", str(tmp_path))
    code, _, err = said(capsys, *words)
    assert code == 2
    assert named in err
    assert len(err.splitlines()) == 1


def test_all_receivers_of_a_lab(
    half: Callable[[str], Incoming],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FANFOLD_STATE_DIR", str(tmp_path))
    half("one").close()
    (tmp_path / "labs/x/hosts").mkdir(parents=True)
    (tmp_path / "root").rename(tmp_path / "labs/x/hosts/h1")
    (tmp_path / "labs/x/hosts/h2").mkdir()
    assert "1 unfinished pushes removed" in said(capsys, "--lab", "x")[1]
    assert list((tmp_path / "labs/x/hosts/h1").iterdir()) == []
