"""Folders of this user: who has none, or may not write there, is told what to set."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fanfold.errors import EnvironmentLack
from fanfold.folders import CACHE, STATE, cache_home, make_folder, state_home
from fanfold.live.lab import labs_home
from fanfold.results.store import results_home


@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize("is_named", [False, True])
def test_nobody_else_reads_the_state(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_named: bool, is_there: bool
) -> None:
    monkeypatch.delenv(STATE, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    if is_named:
        monkeypatch.setenv(STATE, str(tmp_path / "fanfold"))
    if is_there:
        labs_home().mkdir(parents=True, mode=0o755)
        state_home().chmod(0o755)
        labs_home().chmod(0o755)
    old = os.umask(0o022)
    try:
        for folder in (labs_home(), results_home()):
            make_folder(folder, STATE)
            assert folder.stat().st_mode & 0o777 == 0o700
        shared = tmp_path / "cache"
        make_folder(shared, CACHE)
    finally:
        os.umask(old)
    assert state_home().stat().st_mode & 0o777 == (0o755 if is_named else 0o700)
    assert shared.stat().st_mode & 0o777 == 0o755


def test_named_folders_go_before_the_standard_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/h")
    for name in (CACHE, STATE, "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert cache_home() == Path("/h/.cache/fanfold")
    assert state_home() == Path("/h/.local/state/fanfold")
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    monkeypatch.setenv("XDG_STATE_HOME", "/s")
    assert (cache_home(), state_home()) == (Path("/c/fanfold"), Path("/s/fanfold"))
    monkeypatch.setenv(CACHE, "/named/c")
    monkeypatch.setenv(STATE, "/named/s")
    assert (cache_home(), state_home()) == (Path("/named/c"), Path("/named/s"))
    assert labs_home() == Path("/named/s/labs")
    assert results_home() == Path("/named/s/results")


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    for name in (CACHE, STATE, "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for home, name in ((cache_home, CACHE), (state_home, STATE)):
        with pytest.raises(EnvironmentLack, match=f"no home folder here; set {name} to a"):
            home()


def test_a_folder_that_may_not_be_written_is_told(tmp_path: Path, monkeypatch: object) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(EnvironmentLack, match="Not a directory; set THIS to a folder"):
        make_folder(tmp_path / "file" / "below", "THIS")
    assert make_folder(tmp_path / "a" / "b", "THIS").is_dir()
    patch = pytest.MonkeyPatch()
    with patch.context() as patched:
        patched.setattr(os, "access", lambda *_: False)  # root may write everywhere
        with pytest.raises(EnvironmentLack, match="may not be written; set THIS"):
            make_folder(tmp_path, "THIS")


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("lab", "up", "--name", "none", "--hosts", "2"), (CACHE, STATE)),
        (("compare", "--topology", "star:hosts=3", "--workload", "broadcast:1kB"), (STATE,)),
        (("study", "model-push", "--topology", "star:hosts=3", "--gpus", "3"), (STATE,)),
    ],
    ids=["lab", "compare", "study"],
)
def test_a_verb_without_a_home_to_write_to_is_one_line_and_code_3(
    words: tuple[str, ...], names: tuple[str, ...]
) -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("FANFOLD", "XDG"))}
    command = [sys.executable, "-m", "fanfold", *words]
    env |= {"HOME": "/dev/null", "NUMBA_DISABLE_JIT": "0" if CACHE in names else "1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: /dev/null/")
    assert any(f"set {name} to a folder that you can write" in done.stderr for name in names)
