"""Rows are kept, runs go on after a stop, verdicts say what the numbers say."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

import fanfold
from fanfold import extras
from fanfold.errors import CheckFailed, ConfigError, EnvironmentLack
from fanfold.live.memory import cores
from fanfold.schemes.catalog import CATALOG as SCHEMES
from fanfold.study import clusters, workers
from fanfold.study.api import asks_of
from fanfold.study.ask import StudyRequest
from fanfold.study.catalog import CATALOG
from fanfold.study.clusters import on_cluster
from fanfold.study.engine import run_study
from fanfold.study.keep import Shelf
from fanfold.study.result import Row, Study
from fanfold.study.summary import build_study
from fanfold.study.sweep import STUDIED, schemes_of, tasks_of
from fanfold.study.task import StudyTask, task_id
from fanfold.study.verdict import sentences
from fanfold.study.workers import Got, here

SMALL = {"topology": "star:hosts=4", "gpus": "4", "size": "20kB"}
ASK = StudyRequest("model-push", SMALL, ("unicast", "fanfold", "pim-sm"))


def made(folder: Path, ask: StudyRequest = ASK) -> Study:
    return run_study(ask, Shelf(folder), "as asked", submit=here(1))


def test_a_study_of_four_hosts(tmp_path: Path) -> None:
    study = made(tmp_path)
    unicast, ours, pim = (row.values for row in study.rows)
    assert [row.fidelity for row in study.rows] == ["packet"] * 3
    assert unicast["source_bytes"] == 3 * (20_000 + 5 * 64)  # five packets to each of three
    assert ours["time_all_ps"] < unicast["time_all_ps"]
    assert ours["saved_bytes"] == unicast["busiest_bytes"] - ours["busiest_bytes"] > 0
    assert ours["setup_ps"] == 0 < pim["setup_ps"] < pim["time_all_ps"]
    assert pim["control_msgs"] > 0
    assert unicast["idle_gpu_ps"] >= 3 * unicast["time_p50_ps"]
    assert study.baseline == "unicast"
    assert any("choose fanfold" in line for line in study.verdict)


def test_keys_of_links_make_packets_of_fans_a_trailer_longer(tmp_path: Path) -> None:
    by_keys = (("link_keys", ("off", "required")),)
    study = made(tmp_path, StudyRequest("model-push", SMALL, ("unicast", "fanfold"), by_keys))
    copies, fan, keyed_copies, keyed = (row.values for row in study.rows)
    assert keyed["source_bytes"] - fan["source_bytes"] == 5 * 24  # the packets of 20 kB
    assert keyed["time_all_ps"] > fan["time_all_ps"]
    assert keyed_copies["source_bytes"] == copies["source_bytes"]


def test_without_unicast_the_first_scheme_is_what_others_are_held_against() -> None:
    ask = StudyRequest("model-push", SMALL, ("ring", "bier", "fanfold", "pim-sm"))
    refused, *others = (Row(name, {}, values={"busiest_bytes": 9}) for name in ask.schemes)
    refused = msgspec.structs.replace(refused, values={}, refusal="cannot")
    assert build_study(ask, tasks_of(ask), [refused, *others], "").baseline == "bier"


def test_every_scheme_of_a_study_is_in_the_catalog() -> None:
    named = {*STUDIED, *(name for kind in CATALOG for name in kind.schemes)}
    assert named <= {scheme.name for scheme in SCHEMES}
    assert schemes_of(["all"]) == STUDIED


def test_the_shelf_gives_back_what_was_put(tmp_path: Path) -> None:
    study, shelf = made(tmp_path), Shelf(tmp_path)
    assert shelf.study() == study
    name = (tmp_path / "studies" / "last").read_text()
    assert shelf.study(name[:6]) == study
    for row in study.rows:
        assert (tmp_path / row.run_id / "links.parquet").is_file()
    with pytest.raises(ConfigError, match="STUDY"):
        shelf.study("none")


def test_what_was_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    ran: list[str] = []

    def stopping(tasks: Sequence[StudyTask], folder: Path) -> Iterator[Got]:
        yield from itertools.islice(here(1)(tasks, folder), 2)
        raise KeyboardInterrupt

    def counting(tasks: Sequence[StudyTask], folder: Path) -> Iterator[Got]:
        ran.extend(task.scheme for task in tasks)
        yield from here(1)(tasks, folder)

    with pytest.raises(KeyboardInterrupt):
        run_study(ASK, Shelf(tmp_path), "", submit=stopping)
    study = run_study(ASK, Shelf(tmp_path), "", submit=counting)
    assert ran == ["pim-sm"]
    assert len(study.rows) == 3
    run_study(ASK, Shelf(tmp_path), "", submit=counting, use_cache=False)
    assert ran == ["pim-sm", "unicast", "fanfold", "pim-sm"]


def test_what_was_stopped_can_be_reported(tmp_path: Path) -> None:
    def one(tasks: Sequence[StudyTask], folder: Path) -> Iterator[Got]:
        yield 0, workers.work(tasks[0], str(folder))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(ASK, Shelf(tmp_path), "x", submit=one)
    study = Shelf(tmp_path).study()
    assert [bool(row.values) for row in study.rows] == [True, False, False]
    assert all("interrupted" in row.refusal for row in study.rows[1:])


def test_a_row_that_was_cut_short_is_made_again(tmp_path: Path) -> None:
    study = made(tmp_path)
    file = tmp_path / "tasks" / f"{task_id(tasks_of(ASK)[0])}.json"
    whole = file.read_bytes()
    file.write_bytes(whole[:-9])
    assert made(tmp_path) == study
    assert file.read_bytes() == whole


def test_a_task_that_gives_nothing_is_said(tmp_path: Path) -> None:
    def one(tasks: Sequence[StudyTask], folder: Path) -> Iterator[Got]:
        yield from itertools.islice(here(1)(tasks, folder), 1)

    with pytest.raises(CheckFailed, match="2 of 3"):
        run_study(ASK, Shelf(tmp_path), "", submit=one)


def test_a_folder_of_another_form_is_refused(tmp_path: Path) -> None:
    (tmp_path / "format.json").write_text('{"format": 99}')
    with pytest.raises(ConfigError, match="format 99"):
        made(tmp_path)


def test_the_same_from_a_program(tmp_path: Path) -> None:
    ask_for: Any = fanfold.study
    study = ask_for(
        "model-push",
        schemes=["unicast", "fanfold"],
        out=tmp_path,
        jobs=1,
        topology="star:hosts=4",
        gpus=4,
        sweep={"size": ["4kB", "20kB"]},
    )
    assert study.keys == ("size",)
    assert [row.point["size"] for row in study.rows] == ["4kB", "4kB", "20kB", "20kB"]
    assert "of 2 points" in study.verdict[-1]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # submitit leaves its logs open
def test_submitit_runs_the_same_tasks(tmp_path: Path) -> None:
    ask = msgspec.structs.replace(ASK, schemes=("unicast", "fanfold"))
    handed = run_study(ask, Shelf(tmp_path / "a"), "", submit=on_cluster("debug"))
    assert handed.rows == made(tmp_path / "b", ask).rows


def test_slurm_needs_its_module_and_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters.shutil, "which", lambda _: None)
    with pytest.raises(EnvironmentLack, match="sbatch"):
        on_cluster("slurm")
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(EnvironmentLack, match=r"\[slurm\]"):
        on_cluster("local")
    with pytest.raises(ConfigError, match="--submit"):
        on_cluster("pbs")
    with pytest.raises(ConfigError, match="--jobs"):
        here(0)
    assert cores() >= 1


@pytest.mark.parametrize(
    ("given", "sweep", "field"),
    [
        ({"gpus": "4"}, (("gpus", ("8",)),), "--sweep"),
        ({}, (("gpus", ("8", "8")),), "--sweep"),
        ({}, (("gpus", ("8",)), ("gpus", ("4",))), "--sweep"),
        ({}, (("skew", ("8",)),), "--sweep"),
        ({"topology": "star:hosts=4"}, (("rate", ("1Gbps",)),), "--sweep"),
        ({"gpus": "1"}, (), "gpus"),
        ({"loss": "2"}, (), "loss"),
        ({"model": "llama3-71b"}, (), "model"),
        ({}, (("fidelity", ("exact",)),), "fidelity"),
    ],
)
def test_a_wrong_request_is_refused_before_anything_runs(
    given: dict[str, str], sweep: tuple[tuple[str, tuple[str, ...]], ...], field: str
) -> None:
    with pytest.raises(ConfigError) as told:
        asks_of(
            "model-push", given, schemes=("fanfold",), sweep=sweep, seed=1, prices=(0, 0, 0)
        )
    assert told.value.field == field


def test_the_nearest_name_is_told() -> None:
    with pytest.raises(ConfigError, match="llama3-70b"):
        asks_of(
            "model-push",
            {"model": "llama3-71b"},
            schemes=("all",),
            sweep=(),
            seed=1,
            prices=(0, 0, 0),
        )
    with pytest.raises(ConfigError, match="moe-dispatch"):
        asks_of("moe-dispach", {}, schemes=("all",), sweep=(), seed=1, prices=(0, 0, 0))
    with pytest.raises(ConfigError, match="--schemes"):
        schemes_of(["fanfald"])


def test_a_fabric_that_is_too_small_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="star:hosts=3 with 3 hosts"):
        made(
            tmp_path,
            StudyRequest("model-push", SMALL | {"topology": "star:hosts=3"}, ("unicast",)),
        )


def test_what_a_scheme_cannot_do_is_a_row(tmp_path: Path) -> None:
    given = {"topology": "star:hosts=3", "gpus": "3", "size": "9kB"}
    study = made(tmp_path, StudyRequest("model-push", given, ("unicast", "direct")))
    assert study.rows[1].values == {}
    assert "workload.kind" in study.rows[1].refusal


def test_a_row_without_packets_says_that_loss_is_not_in_it(tmp_path: Path) -> None:
    given = SMALL | {"loss": "1%"}
    lossy = made(
        tmp_path, StudyRequest("model-push", given | {"fidelity": "flow"}, ("unicast",))
    )
    assert "no loss in it" in lossy.rows[0].note
    exact = made(tmp_path, StudyRequest("model-push", given, ("unicast", "fanfold")))
    assert [row.note for row in exact.rows] == ["", ""]


def row(scheme: str, **values: int) -> Row:
    return Row(scheme, {}, values=values)


def verdict(*rows: Row) -> tuple[str, ...]:
    return sentences(
        Study(
            *("model-push", "", "", 1, "", "m", "t", 4, ()),
            metrics=("time_all_ps", "busiest_bytes"),
            baseline="unicast",
            rows=rows,
            verdict=(),
            defaults=(),
        )
    )


def test_a_verdict_says_by_how_much_and_where_ours_loses() -> None:
    told = verdict(
        row("unicast", time_all_ps=1000, busiest_bytes=900),
        row("ring", time_all_ps=100, busiest_bytes=50),
        row("bier", time_all_ps=2000, busiest_bytes=100),
        row("fanfold", time_all_ps=200, busiest_bytes=100),
    )
    assert told == (
        "choose ring: time to all 100 ps, 10.0 x sooner than unicast, 18.0 x less bytes on the"
        " busiest link.",
        "fanfold loses time to all to ring (200 ps against 100 ps); bytes on the busiest link"
        " to ring (100 B against 50 B).",
        "bier (2.00 x) takes longer than unicast.",
    )


def test_those_within_a_part_in_a_hundred_are_equal() -> None:
    told = verdict(
        row("unicast", time_all_ps=1000, busiest_bytes=995),
        row("ring", time_all_ps=1001, busiest_bytes=1000),
        row("fanfold", time_all_ps=1000, busiest_bytes=1000),
        row("bier", time_all_ps=1020, busiest_bytes=1000),
    )
    assert told[0].startswith(
        "choose fanfold (as good within 1 %: unicast, ring): time to all 1 ns"
    )
    assert not any("fanfold loses" in line for line in told)


@pytest.mark.parametrize(
    ("kind", "values", "has_model"),
    [
        ("model-push", {}, True),
        ("model-push", {"size": "1MB"}, False),
        ("inter-dc", {}, False),
        ("checkpoint", {"size": "1MB"}, False),
        ("cold-start", {"size": "1MB"}, True),  # its first layer is the model's
    ],
)
def test_a_study_of_a_size_is_not_headed_by_a_model(
    kind: str, values: dict[str, str], has_model: bool
) -> None:
    (ask,) = asks_of(kind, values, schemes=("unicast",), sweep=(), seed=1, prices=(0, 0, 0))
    task = tasks_of(ask)[0]
    rows = [Row("unicast", {}, values={"time_all_ps": 1})]
    study = build_study(ask, [task], rows, "")
    assert bool(study.model) == has_model
    assert (task.values["model"] in study.title) == has_model
    assert ("model" in {row.name for row in study.defaults}) == has_model
    if not has_model:
        assert task.values["size"] in study.title
