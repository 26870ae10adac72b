"""Workers of clusters may die: what they kept stays, the rest is handed out again."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_study_engine import ASK, made

from fanfold import extras
from fanfold.errors import CheckFailed, ConfigError, EnvironmentLack
from fanfold.study import clusters
from fanfold.study.clusters import MAX_LOSSES, MISSES, on_cluster, work_many
from fanfold.study.engine import run_study
from fanfold.study.keep import Shelf
from fanfold.study.workers import here


class FakeJob:
    """A job of submitit's: works when it is looked for, or dies after so many tasks."""

    def __init__(self, job_id: str, tasks: list[Any], folder: str, lives: int | None) -> None:
        self.job_id, self.is_cancelled, self.got = job_id, False, []
        self.is_dead = lives is not None
        done = tasks if lives is None else tasks[:lives]
        self.got = work_many(done, folder)
        pickle = SimpleNamespace(exists=lambda: not self.is_dead)
        self.paths = SimpleNamespace(result_pickle=pickle)

    def _get_outcome_and_result(self) -> tuple[str, Any]:
        return "success", self.got

    def cancel(self) -> None:
        self.is_cancelled = True


class FakeSlurm:
    """Executor and queue; lives: tasks that a job does before it dies, None: all."""

    def __init__(self, lives: list[int | None]) -> None:
        self.lives, self.jobs, self.asked = lives, [], 0

    def update_parameters(self, **_: object) -> None: ...

    def map_array(self, fn: Any, parts: list[Any], folders: list[str]) -> list[FakeJob]:
        assert fn is work_many
        ids = (f"{7 + len(self.jobs)}_{n}" for n in range(len(parts)))
        lives = (self.lives.pop(0) if self.lives else None for _ in parts)
        rows = zip(ids, parts, folders, lives, strict=False)
        new = [FakeJob(*row) for row in rows]
        self.jobs += new
        return new

    def squeue(self, argv: list[str], **_: object) -> SimpleNamespace:
        assert argv[0] == "squeue"
        self.asked += 1
        text = "" if self.asked > 1 else "\n".join(job.job_id for job in self.jobs)
        return SimpleNamespace(returncode=0, stdout=text, stderr="")


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Any:
    def build(lives: list[int | None]) -> FakeSlurm:
        fake = FakeSlurm(lives)
        module = SimpleNamespace(AutoExecutor=lambda **_: fake, __spec__=object())
        monkeypatch.setitem(sys.modules, "submitit", module)
        monkeypatch.setattr(clusters.shutil, "which", lambda _: "/bin/sbatch")
        monkeypatch.setattr(clusters.subprocess, "run", fake.squeue)
        monkeypatch.setattr(clusters, "pause", lambda _: None)
        monkeypatch.setattr(clusters, "MAX_JOBS", 1)
        return fake

    return build


def test_a_job_that_is_lost_is_replaced_and_no_row_made_twice(
    slurm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    put_row = Shelf.put_row
    monkeypatch.setattr(
        Shelf, "put_row", lambda self, n, row: (written.append(n), put_row(self, n, row))
    )
    fake = slurm([1, 0, None])
    got = run_study(ASK, Shelf(tmp_path / "a"), "as asked", submit=on_cluster("slurm"))
    assert len(written) == len(set(written)) == 3
    assert len(fake.jobs) == 3
    assert fake.asked > MISSES
    assert got == made(tmp_path / "b")


def test_work_that_kills_every_worker_is_given_up(slurm: Any, tmp_path: Path) -> None:
    fake = slurm([1] + [0] * 9)
    with pytest.raises(CheckFailed, match="was lost"):
        run_study(ASK, Shelf(tmp_path), "x", submit=on_cluster("slurm"))
    assert len(fake.jobs) == 1 + MAX_LOSSES


def test_a_fault_of_a_point_comes_back_from_the_cluster(slurm: Any, tmp_path: Path) -> None:
    slurm([])
    ask = ASK.__class__("model-push", {"topology": "star:hosts=2", "gpus": "4"}, ("unicast",))
    with pytest.raises(ConfigError, match="hosts"):
        run_study(ask, Shelf(tmp_path), "x", submit=on_cluster("slurm"))


def test_without_a_cache_rows_are_made_anew(tmp_path: Path) -> None:
    study = made(tmp_path)
    names = [file.stem for file in (tmp_path / "tasks").glob("*.json")]
    for name in names:
        shelf = Shelf(tmp_path)
        row = shelf.row(name)
        assert row is not None
        shelf.put_row(name, row.__class__(row.scheme, row.point, refusal="stale"))
    again = run_study(ASK, Shelf(tmp_path), "as asked", submit=here(1), use_cache=False)
    assert again == study


@pytest.mark.parametrize("text", ["dask://", "dask://h", "dask://h:x", "dask://:1", "pbs"])
def test_a_cluster_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--submit"):
        on_cluster(text)


def test_dask_needs_its_module_and_its_scheduler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(*_: object, **__: object) -> None:
        raise OSError

    module = SimpleNamespace(Client=nobody, __spec__=object())
    with monkeypatch.context() as at:
        at.setattr(extras, "find_spec", lambda _: None)
        with pytest.raises(EnvironmentLack, match=r"\[dask\]"):
            on_cluster("dask://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "distributed", module)
    with pytest.raises(EnvironmentLack, match="no scheduler"):
        run_study(ASK, Shelf(tmp_path), "x", submit=on_cluster("dask://127.0.0.1:1"))
