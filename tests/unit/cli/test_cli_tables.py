"""Tables for people: a pipe and a narrow screen cut no number, no name and no digest."""

import os
import pty
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.table import Table
from rich.text import Text

from fanfold.cli import console, lab, reduce_bench, sim_bench, tables
from fanfold.cli.console import SHORT, Screen, fit
from fanfold.cli.main import run
from fanfold.cli.sim_bench import Speed
from fanfold.group.bench import Line
from fanfold.group.expectation import Case
from fanfold.push.relayed import PassResult, RelayedResult, RelayResult
from fanfold.push.result import LinkResult, PushResult, ReceiverResult

TRACES = Path(__file__).parents[1] / "work" / "traces"
NET = ("--topology", "fat-tree:k=4")
SMALL = ("--topology", "star:hosts=4", "--gpus", "4", "--jobs", "1", "--sweep", "size=20kB")
VERBS = (
    ("bitstring", "1,3-5,300-390", "--bsl", "256"),
    ("encodings",),
    ("encodings", *NET, "--members", "7"),
    ("encodings", *NET, "--plan"),
    ("topo",),
    ("topo", "fat-tree:k=4"),
    ("trees",),
    ("trees", "pim-sm", "--topology", "star:hosts=4", "--fail", "hub0-h1@1s"),
    ("compare", *NET, "--workload", "broadcast:64kB", "--schemes", "unicast,pim-sm,fanfold"),
    ("workload",),
    ("workload", "training", "--model", "llama3-405b", "--gpus", "8192", "--tp", "8"),
    ("workload", "moe-dispatch", "--model", "deepseek-v3", "--gpus", "256"),
    ("workload", f"chakra:{TRACES}/step"),
    ("study", "allreduce", "--keys"),
    ("study", "model-push", *SMALL),
)


def a_line(name: str) -> Line:
    case = Case(name, "bfloat16", "sum", 268435456)
    return Line(case, 536_870_912, 12_345_678_901_234, 123456, False, 1_016_999, 9, 64, 3, True)


def a_push() -> PushResult:
    link = LinkResult("switch-of-rack-17", "host-of-rack-17", *[123_456_789_012] * 7)
    receiver = ReceiverResult("h1", "verified", "ab" * 32, 12345.678, "", True)
    numbers = {"packets": 10**9, "bytes": 10**12}
    fed = {"at_source": 10**7, "unfolded_equivalent": 10**10}
    return PushResult(
        *("model.safetensors", "h0", 7, 10**12, 10**6, 99.0, 98.0, 10**9),
        *([receiver], [link], fed, numbers, 10**12, {}, [], [], 1.0),
    )


def a_relayed_push() -> RelayedResult:
    push = {name: getattr(a_push(), name) for name in PushResult.__struct_fields__}
    one = PassResult(
        "host-of-rack-17", ["h1", "h2"], ["h1"], 12345.678, 123456.789, 0, "h2: no"
    )
    site = RelayResult("far-away-site", "host-of-rack-17", "400 Gbit/s from h0", [one])
    return RelayedResult(**push, relays=[site, RelayResult("other-site", "h9", "by name")])


PRINTED: dict[str, Callable[[], object]] = {
    "push": lambda: tables.show_push(a_push()),
    "push --relay": lambda: tables.show_push(a_relayed_push()),
    "reduce-bench": lambda: reduce_bench._show([a_line("reduce_scatter")], ["h1", "h2"]),
    "sim-bench": lambda: sim_bench._show([Speed("S4", *[10**11] * 7)]),
    "lab status": lambda: lab.show(
        {
            "lab": "x",
            "up": True,
            "log": "/labs/x/lab.log",
            "nodes": {
                "leaf17": {
                    "pid": 4194304,
                    "alive": True,
                    "status": {
                        "links": {"h1": {"tx": {"data": [10**12, 1]}, "rx": {}}},
                        "drops": {"unknown_bift": 10**11, "ttl": 7},
                    },
                }
            },
        }
    ),
}


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Every table that is printed, with what was written for it."""
    seen: list[tuple[Table, str]] = []
    real = Screen._print_table

    def spy(self: Screen, table: Table) -> None:
        capsys.readouterr()
        real(self, table)
        seen.append((table, capsys.readouterr().out))

    monkeypatch.setattr(Screen, "_print_table", spy)
    return seen


def plain(cell: Any) -> str:
    return cell.plain if isinstance(cell, Text) else Text.from_markup(str(cell)).plain


def cut(table: Table, text: str) -> list[str]:
    """What of a table does not stand in the text as a whole."""
    lines = text.splitlines()
    missing = []
    for column in table.columns:
        for cell in column.cells:
            for line in plain(cell).splitlines():
                is_whole = column.justify == "right" or len(line) <= SHORT
                parts = [line.strip()] if is_whole else line.split()
                missing += [p for p in parts if not any(p in each for each in lines)]
        words = plain(column.header).split()
        missing += [word for word in words if not any(word in each for each in lines)]
    return missing


@pytest.mark.parametrize("columns", ["40", ""], ids=["40 columns", "piped"])
@pytest.mark.parametrize("words", VERBS, ids=lambda words: " ".join(words[:2])[:30])
def test_no_table_of_a_verb_is_cut(
    words: tuple[str, ...], columns: str, shown: Any, monkeypatch: Any, tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("FANFOLD_STATE_DIR", str(tmp_path))
    assert run(list(words)) == 0
    assert shown
    for table, text in shown:
        assert table.row_count
        assert cut(table, text) == []
        assert "…" not in text


@pytest.mark.parametrize("columns", ["40", ""], ids=["40 columns", "piped"])
@pytest.mark.parametrize("name", PRINTED)
def test_no_table_of_what_ran_live_is_cut(
    name: str, columns: str, shown: Any, monkeypatch: Any
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    PRINTED[name]()
    assert shown
    for table, text in shown:
        assert cut(table, text) == []
        assert "…" not in text


def test_text_folds_at_blanks_as_far_as_the_screen_asks(monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    table = Table("what", "why")
    table.add_column("n", justify="right")
    table.add_row("a", "some words that say at length why it is as it is", "1,234,567 us")
    console.screen().print(table)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) == 50
    assert sum("1,234,567 us" in line for line in lines) == 1


def test_a_screen_wide_enough_folds_nothing() -> None:
    table = Table("what", "why")
    table.add_row("a", "some words that say at length why it is as it is")
    width = fit(table, 200)
    assert [column.width for column in table.columns] == [4, 48]
    assert width == 4 + 48 + 4 + 3
    assert fit(table, width) == width
    assert fit(table, width - 1) == width - 1


def test_a_dumb_terminal_of_80_columns_cuts_nothing() -> None:
    master, slave = pty.openpty()
    try:
        with os.fdopen(slave, "w") as file:
            screen = Screen(file=file, force_terminal=True, _environ={"TERM": "dumb"})
            table = Table(*["number"] * 10)
            for column in table.columns:
                column.justify = "right"
            table.add_row(*["123,456,789 us"] * 10)
            screen.print(table)
            file.flush()
            said = ""
            while said.count("us") < 10:
                said += os.read(master, 10_000).decode(errors="replace")
    finally:
        os.close(master)
    assert said.count("123,456,789 us") == 10


def test_words_without_a_screen_stand_on_one_line(monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    words = SimpleNamespace(text="word " * 100)
    console.screen().print(words.text)
    assert capsys.readouterr().out.count("\n") == 1
