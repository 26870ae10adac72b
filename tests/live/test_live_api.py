"""A program pushes to a lab of its own, from an import to the bytes on the other side."""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import fanfold
from fanfold.live.lab import Lab

pytestmark = pytest.mark.live


@pytest.fixture
def state() -> Iterator[str]:
    """A folder with a short path: a socket's has 107 bytes."""
    with TemporaryDirectory(prefix="fanfold-") as folder:
        yield folder


def test_a_program_pushes_to_a_lab_of_its_own(
    tmp_path: Path, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FANFOLD_STATE_DIR", state)
    (tmp_path / "model.bin").write_bytes(os.urandom(300_000))
    model = tmp_path / "model.bin"
    whole: set[str] = set()

    def tell(name: str, done: int, total: int) -> None:
        whole.update([name] if done == total else [])

    with fanfold.lab(leaves=1, spines=0, hosts=2, name="api") as lab:
        assert lab.hosts == ("h0", "h1", "h2")
        result = fanfold.push(model, lab=lab.name, name="a/b", on_progress=tell)
        assert [r.state for r in result.receivers] == ["verified", "verified"]
        assert whole == {"hash", "h1", "h2"}
        for host in ("h1", "h2"):
            assert (lab.received(host) / "a/b").read_bytes() == model.read_bytes()
        again = pytest.raises(fanfold.ConfigError, match="name: got 'api', allowed: a lab that")
        with again, fanfold.lab(name="api"):
            pass
        assert lab.status()["up"]  # the refused one ended nothing
        lab.restart("h1")
        result = fanfold.push(model, to="h1", lab=lab.name, name="a/b")
        assert result.data_seconds == 0.0  # h1 had it all
    assert not Lab("api").folder.exists()


def test_a_program_seals_what_it_pushes(
    tmp_path: Path, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FANFOLD_STATE_DIR", state)
    (tmp_path / "model.bin").write_bytes(os.urandom(300_000))
    with fanfold.lab(leaves=1, spines=0, hosts=2, name="api-keys", keys=True) as lab:
        result = fanfold.push(tmp_path / "model.bin", lab=lab.name, seal=True)
        assert [r.state for r in result.receivers] == ["verified", "verified"]
        with pytest.raises(fanfold.PushFailed, match="h1: refused: the manifest is not signed"):
            fanfold.push(tmp_path / "model.bin", lab=lab.name, patience="2s")
        with pytest.raises(fanfold.ConfigError, match=r"keys: got .*none without"):
            fanfold.push(tmp_path / "model.bin", lab=lab.name, keys=tmp_path)
