"""A first small comparison without JIT: the same bytes, and only where nothing is compiled."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from fanfold.cli import first_run
from fanfold.errors import ConfigError
from fanfold.kernels.jit import JIT
from fanfold.results.store import Store
from fanfold.run import run_scenario
from fanfold.scenario.scenario import Scenario, Workload

SMALL = Scenario(
    "star:hosts=4", schemes=("unicast", "fanfold"), workload=Workload("broadcast", 40_000)
)


def files_of(folder: Path) -> dict[str, bytes]:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


@pytest.fixture(autouse=True)
def nothing_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_run, "compile_too", lambda command: None)
    monkeypatch.setattr(first_run, "cache_dir", lambda package: tmp_path / package)


def test_interpreted_is_the_same_byte_for_byte(tmp_path: Path) -> None:
    runs = first_run.interpret(SMALL, Store(tmp_path / "a"), use_cache=False)
    told = run_scenario(SMALL, Store(tmp_path / "b"))
    assert [(run.scheme, run.run_id) for run in runs or ()] == [
        (run.scheme, run.run_id) for run in told
    ]
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b") != {}


def test_what_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    wrong = replace(SMALL, workload=Workload("all_gather", 9))
    with pytest.raises(ConfigError, match="n_bytes: got 9, allowed: a multiple of 4 ranks"):
        first_run.interpret(wrong, Store(tmp_path / "a"), use_cache=True)


def test_a_file_named_from_here_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[3] / "examples")
    small = replace(SMALL, topology="import:figure1.json")
    assert first_run.interpret(small, Store(tmp_path / "a"), use_cache=True) is not None


@pytest.mark.skipif(not JIT, reason="what is compiled first is compiled code")
def test_small_work_is_interpreted_until_the_loop_is_compiled(tmp_path: Path) -> None:
    assert first_run.is_fitting(SMALL)
    assert not first_run.is_fitting(replace(SMALL, workload=Workload("broadcast", 2**24)))
    assert not first_run.is_fitting(replace(SMALL, fidelity="flow"))
    (tmp_path / "sim").mkdir()
    (tmp_path / "sim" / "run.run-83.py311.1.nbc").touch()
    assert not first_run.is_fitting(SMALL)
