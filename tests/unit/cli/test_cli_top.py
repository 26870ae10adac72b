"""What `fanfold top` prints of one interval, and what it refuses."""

import pytest

from fanfold.api.fabric_view import LinkView, NodeView, View
from fanfold.cli.console import screen
from fanfold.cli.main import run
from fanfold.cli.top import parts_of

LINKS = [
    LinkView("leaf1", "h1", 10.0, 8e6, 0.0, 0.0, {}),
    LinkView("leaf1", "h2", 99.0, 8e8, 1.0, 2.0, {"port_full": 3.0}),
    LinkView("leaf1", "spine1", 5.0, 4e5, 0.0, 0.0, {}, gray=0.01),
]
NODES = [
    NodeView("h1", "host", "silent"),
    NodeView("leaf1", "bfr", "up", 1100.0, 2.2, 500.0, 2.0, 10, 125.0, 3, ("spine1",), 4.0),
    NodeView("h2", "host", "up", up=1),
]
VIEW = View("rack", 1.0, NODES, LINKS, [], ["leaf1: spine1 is down"])


def shown(capsys: pytest.CaptureFixture[str], room: int = 0) -> list[str]:
    console = screen()
    for part in parts_of(VIEW, room):
        console.print(part)
    return capsys.readouterr().out.splitlines()


def test_what_is_wrong_comes_first_and_then_what_carries_most(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = shown(capsys)
    assert lines[0].startswith("rack: 2 of 3 nodes answer, 808.4 Mbit/s on all links")
    order = [line.split()[2] for line in lines if line.strip().startswith("leaf1 > ")]
    assert order == ["spine1", "h2", "h1"]
    gray = next(line for line in lines if "leaf1 > spine1" in line)
    assert gray.rstrip().endswith("1 %")
    assert "port_full 3" in next(line for line in lines if "leaf1 > h2" in line)
    nodes = [
        line.split()[0] for line in lines if line.strip().startswith(("h1 ", "h2 ", "leaf1  "))
    ]
    assert nodes == ["h1", "leaf1", "h2"]
    assert "3 up, spine1 down" in "\n".join(lines)
    assert lines[-2:] == ["events", "  leaf1: spine1 is down"]


def test_a_small_screen_shows_what_matters(capsys: pytest.CaptureFixture[str]) -> None:
    text = "\n".join(shown(capsys, room=3))
    assert "leaf1 > spine1" in text
    assert "leaf1 > h1" not in text
    assert "silent" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--interval", "1ms"], "--interval"),
        (["--interval", "x"], "--interval"),
        (["--from", "h0"], "--from"),
        (["--lab", "none-such"], "not up"),
        (["--config", "none-such.toml"], "none-such.toml"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["top", "--once", *words]) in (2, 3)
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert said in line
