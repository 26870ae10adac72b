"""Schemes at once, in processes beside this one: the same runs, and what becomes of faults."""

import os
import signal
import time
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace
from test_run import SMALL, files_of

from fanfold import run_beside
from fanfold.errors import CheckFailed, ConfigError
from fanfold.results.store import Store
from fanfold.run import run_scenario
from fanfold.run_beside import Tell
from fanfold.scenario.fidelity import Choice

THREE = replace(SMALL, schemes=("unicast", "direct", "fanfold"))
CHOICE = Choice("packet", 1, "", 0, 0)


def test_runs_beside_one_another_are_the_same(tmp_path: Path) -> None:
    alone, beside = Store(tmp_path / "a"), Store(tmp_path / "b")
    told: list[str] = []
    first = run_scenario(THREE, alone)
    second = run_scenario(THREE, beside, jobs=2, progress=lambda name, *_: told.append(name))
    assert files_of(alone) == files_of(beside)
    assert [(r.scheme, r.run_id, r.n_hops) for r in first] == [
        (r.scheme, r.run_id, r.n_hops) for r in second
    ]
    assert second[1].refusal == first[1].refusal != ""
    assert all(run.wall_ps == 0 for run in run_scenario(THREE, beside, jobs=2))


def test_a_fault_of_the_scenario_is_told_as_of_one_process(tmp_path: Path) -> None:
    for wrong in (
        replace(THREE, topology="star:hosts=two"),
        replace(THREE, schemes=("direct", "parameter-server")),
        replace(THREE, settings=replace(THREE.settings, queue_bytes=1)),
    ):
        words = []
        for jobs in (1, 2):
            with pytest.raises(ConfigError) as caught:
                run_scenario(wrong, Store(tmp_path), jobs=jobs)
            words.append(str(caught.value))
        assert words[0] == words[1]


def late_refusal(name: str, tell: Tell | None) -> str:
    if name != "c":
        time.sleep(0.3 if name == "a" else 0)
        raise ConfigError(name, "1", "none")
    return name


def test_the_first_refusal_by_name_is_told_first_though_a_later_one_ends_before_it() -> None:
    for _ in range(5):
        told = list(run_beside.run_beside("abc", 3, late_refusal, None))
        assert [name for name, got in told if isinstance(got, ConfigError)] == ["a", "b"]
        assert next(name for name, _ in told) == "c"


def die(name: str, tell: Tell | None) -> str:
    if name == "b":
        os.kill(os.getpid(), signal.SIGKILL)
    return name


def stumble(name: str, tell: Tell | None) -> str:
    if name == "b":
        raise KeyError("a wrong index")
    return name


def count(name: str, tell: Tell | None) -> int:
    assert tell is not None
    tell(name, CHOICE, {"n_hops": 7})
    return os.getpid()


def test_a_process_that_dies_is_named_and_no_success() -> None:
    with pytest.raises(CheckFailed, match="b: its process died"):
        list(run_beside.run_beside("abc", 2, die, None))


def test_a_fault_of_ours_comes_with_its_trace() -> None:
    with pytest.raises(RuntimeError, match=r"b: (.|\n)*in stumble(.|\n)*a wrong index"):
        list(run_beside.run_beside("abc", 2, stumble, None))


def test_runs_go_to_so_many_processes_and_tell_how_far_they_are() -> None:
    told: list[tuple[str, int]] = []
    found = dict(
        run_beside.run_beside(
            "abcdef", 2, count, lambda name, choice, at: told.append((name, at["n_hops"]))
        )
    )
    assert sorted(found) == list("abcdef")
    assert 1 <= len(set(found.values())) <= 2
    assert os.getpid() not in found.values()
    assert sorted(told) == [(name, 7) for name in "abcdef"]


def test_where_memory_is_short_one_runs_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_beside, "free_bytes", lambda: run_beside.ROOM_BYTES - 1)
    busy = []
    names: list[str] = []
    for name, (began, ended) in run_beside.run_beside("abcd", 4, span, None):
        busy.append((began, ended))
        names.append(name)
    assert names == list("abcd")
    assert all(a[1] <= b[0] for a, b in pairwise(busy))


def span(name: str, tell: Tell | None) -> tuple[float, float]:
    began = time.monotonic()
    time.sleep(0.05)
    return began, time.monotonic()
