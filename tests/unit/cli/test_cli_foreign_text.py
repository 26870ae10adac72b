"""Names of files and hosts, and words of receivers, are shown and never obeyed."""

import io
import json

import pytest
from rich.progress import Progress
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from fanfold.cli import console, tables
from fanfold.cli.bars import Words
from fanfold.cli.console import (
    STEERS,
    Screen,
    print_json,
    printable,
    say,
    tell_error,
    tell_warning,
)
from fanfold.push.relayed import PassResult, RelayedResult, RelayResult
from fanfold.push.result import LinkResult, PushResult, ReceiverResult

BAD = [
    "step[/x].bin",
    "model[v1].bin",
    "[red]x[/red]",
    "[bold]",
    "[link=a.b]y[/link]",
    ":smile: :warning:",
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x9b31m",
    "a\rb\bc\x7f",
    "two\nlines\vthree\x85four\u2028five",
    "\u202egpj.exe\u202c",
    "\u2066x\u2069\u061c\u200e\u200f",
    "in\u200bvis\u2060ible\ufeff",
    "half \udc80 of one",
    "tab\tbed",
]


def a_push(text: str) -> PushResult:
    link = LinkResult(text, text, *[1] * 7)
    receiver = ReceiverResult(text, "failed", "ab" * 32, 1.0, f"io: {text}", True)
    fed = {"at_source": 1, "unfolded_equivalent": 1}
    relay = RelayResult(text, text, text, [PassResult(text, [text], [], 1.0, 2.0, 0, text)])
    return RelayedResult(
        *(text, text, 7, 10, 1, 1.0, 1.0, 10, [receiver], [link], fed),
        *({"packets": 0, "bytes": 0}, 10, {}, [text], [text], 1.0),
        unheard=[text],
        relays=[relay, RelayResult(text, text, text)],
    )


@pytest.mark.parametrize("text", BAD)
def test_a_push_shows_foreign_text_as_it_is(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tables.show_push(a_push(text))
    out = capsys.readouterr().out
    assert f"{printable(text)}: 10 B verified at 0 of 1 receivers" in out
    assert f"all who fell silent are behind: {printable(text)}" in out
    assert f"no counters from {printable(text)}:" in out
    cells = [printable(line) for line in text.split("\n")]
    assert all(cell.strip() in out for cell in cells)
    assert set(STEERS.findall(out)) <= {"\n"}


@pytest.mark.parametrize("text", BAD)
def test_every_way_to_print_is_safe(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(text, title=text, caption=text)
    table.add_row(text)
    table.add_row(Text(text))
    tree = Tree(text)
    tree.add(text)
    for one in (text, Text(text), table, tree, ["x", text]):
        console.screen().print(one)
        console.error_screen().print(one)
    tell_warning(text)
    tell_error(text)
    say(text)
    got = capsys.readouterr()
    for out in (got.out, got.err):
        assert set(STEERS.findall(out)) <= {"\n"}
        assert printable(text, "\n").split("\n")[0] in out
    assert got.err.splitlines()[-1] == f"error: {printable(' '.join(text.split()))}"
    assert got.out.splitlines()[-1] == printable(text)


@pytest.mark.parametrize("text", BAD)
def test_progress_shows_foreign_text_as_it_is(text: str) -> None:
    out = io.StringIO()
    screen = Screen(file=out, force_terminal=True, width=200, color_system=None)
    with Progress(Words("{task.description:>8}"), console=screen) as bars:
        task = bars.add_task(text, total=2)
        bars.update(task, completed=1)
    shown = Text.from_ansi(out.getvalue()).plain
    assert printable(text, "\n").split("\n")[0].strip() in shown
    assert set(STEERS.findall(shown)) <= {"\n", "\r"}


@pytest.mark.parametrize("text", BAD)
def test_json_is_the_same_value_and_steers_nothing(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if "\udc80" in text:
        text = text.replace("\udc80", "")  # no name that JSON can carry
    print_json({text: [text]})
    out = capsys.readouterr().out
    assert set(STEERS.findall(out)) == {"\n"}
    assert json.loads(out) == {text: [text]}


def test_what_is_ours_keeps_its_style() -> None:
    out = io.StringIO()
    screen = Screen(file=out, force_terminal=True, color_system="standard")
    screen.print(console.bold("a[b]"))
    assert out.getvalue() == "\x1b[1ma[b]\x1b[0m\n"


def test_ordinary_names_stay_as_they_are() -> None:
    for name in ("Größe.bin", "模型.safetensors", "مدل.bin", "👩‍🚀.txt", "a b", "x\\n"):
        assert printable(name) == name
