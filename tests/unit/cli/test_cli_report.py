"""`fanfold report` as an operator types it."""

import json
from pathlib import Path
from typing import Any

import pytest
import report_world as world

from fanfold import extras
from fanfold.cli.main import run
from fanfold.results.store import Store

BASE = ("--topology", world.FABRIC, "--workload", "broadcast:40kB")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "fanfold" / "results"


def told(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_a_comparison_becomes_a_page_beside_it(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compare", *BASE, "--schemes", "unicast,fanfold", "--json"]) == 0
    ids = {row["scheme"]: row["run_id"] for row in told(capsys)["runs"]}
    assert run(["report", ids["fanfold"][:8], "--no-gap", "--json"]) == 0
    value = told(capsys)
    page = Path(value["page"])
    assert page == home / "reports" / ids["fanfold"] / "report.html"
    text = page.read_text(encoding="utf-8")
    assert ids["unicast"] in text
    assert "Five requirements" not in text
    assert all(Path(name).is_file() for name in value["figures"])
    assert value["verdict"][0].startswith("Choose ")


def test_the_command_of_a_comparison_makes_the_same_runs(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--gpus", "6", "--order", "spread", "--loss", "1%", "--seed", "7")
    assert run(["compare", *BASE, *flags, "--schemes", "bier,fanfold", "--json"]) == 0
    first = told(capsys)["runs"]
    words = report_of(home, first[0]["run_id"]).split()
    assert words[:2] == ["fanfold", "compare"]
    assert run([*words[1:], "--json"]) == 0
    again = told(capsys)["runs"]
    assert {row["run_id"] for row in again} == {row["run_id"] for row in first}
    assert all(row["is_cached"] for row in again)


def report_of(home: Path, run_id: str) -> str:
    from fanfold.report.comparison import comparison_of  # noqa: PLC0415 - as the command does

    return comparison_of(Store(home), run_id).command


def test_a_missing_library_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    assert run(["report", "--last"]) == 3
    said = capsys.readouterr().err
    assert "no module altair, vl_convert, jinja2" in said
    assert f"; {extras.install('report')}" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "RUN: got 'nothing', allowed: a study or a run, or --last"),
        (("abc", "--last"), "RUN: got 'abc and --last'"),
        (("--last",), "none yet; fanfold study makes one"),
        (("abc",), "none yet; fanfold study makes one"),
    ],
)
def test_bad_input_is_one_line_and_exit_two(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["report", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_an_unknown_run_names_the_nearest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = world.make_comparison(Store(tmp_path / "here"))
    near = "x" + runs["bier"][1:]
    assert run(["report", near, "--from", str(tmp_path / "here")]) == 2
    assert runs["bier"] in capsys.readouterr().err


def test_figures_of_an_earlier_page_do_not_stay_beside_the_new_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compare", *BASE, "--schemes", "unicast,fanfold"]) == 0
    folder = tmp_path / "out"
    again = ["report", "--last", "--no-gap", "--json", "--out", str(folder)]
    assert run(again) == 0
    capsys.readouterr()
    page = folder / "report.html"
    page.write_text(page.read_text(encoding="utf-8") + '{"gone": {}}', encoding="utf-8")
    for name in ("gone.svg", "gone.png", "mine.svg"):
        (folder / "figures" / name).touch()
    assert run(again) == 0
    written = {Path(name).name for name in told(capsys)["figures"]}
    assert {file.name for file in (folder / "figures").iterdir()} == written | {"mine.svg"}
