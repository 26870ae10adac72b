"""`fanfold litmus`: its tables, and what it says when runs and orders differ."""

import json

import pytest

from fanfold.cli.main import run
from fanfold.core import memory_order
from fanfold.core.memory_order import Mode
from fanfold.errors import CheckFailed
from fanfold.sim import memory_table
from fanfold.sim.memory_table import build_table


def test_json_has_each_program_and_each_cost(capsys) -> None:
    assert run(["litmus", "--runs", "2000", "--seed", "3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["runs"], told["seed"]) == (2000, 3)
    assert [(row["test"], row["homes"]) for row in told["litmus"]][:2] == [
        ("MP", "one home"),
        ("MP", "two homes"),
    ]
    assert len(told["litmus"]) == 12
    for row in told["litmus"]:
        assert {mode for mode, n in row["seen"].items() if n} <= set(row["allowed"])
        assert row["fenced"] == 0
    assert len(told["costs"]) == 3 * len(Mode)


def test_a_table_says_never_only_where_it_is_forbidden(capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert run(["litmus", "--runs", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (line,) = (line for line in lines if line.split()[:1] == ["CoWW"])
    assert line.split()[-5:] in (["0", *["never"] * 4], ["1", *["never"] * 4])


def test_what_a_mode_forbids_and_comes_ends_it(monkeypatch) -> None:
    monkeypatch.setattr(
        memory_table,
        "outcomes",
        lambda litmus, mode, homes, **more: memory_order.outcomes(
            litmus, Mode.STRONG, homes, **more
        ),
    )
    with pytest.raises(CheckFailed, match="MP: spray forbids"):
        build_table(200)


@pytest.mark.parametrize("runs", ["0", "10000001"])
def test_runs_are_bounded(runs, capsys) -> None:
    assert run(["litmus", "--runs", runs]) == 2
    assert "--runs" in capsys.readouterr().err
