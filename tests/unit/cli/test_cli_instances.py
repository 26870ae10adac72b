"""`fanfold instances`: its table, its JSON, and what it refuses."""

import json

import pytest

from fanfold.cli.main import run

SHORT = ("instances", "--topology", "wan:sites=2,hosts=2,rate=25Gbps", "--time", "20s")


def test_json_has_a_row_for_each_policy(capsys) -> None:
    assert run([*SHORT, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [row["policy"] for row in told["rows"]] == [
        *("nearest", "least-loaded", "least-loaded-sticky"),
        *("cats-no-context", "cats", "cats-sticky"),
    ]
    assert (told["users"], told["hosts"]) == (["h0", "h2"], ["h1", "h3"])
    assert told["asked"]["demand"]["window_ps"] == 20 * 10**12
    assert 0 < told["load_ppm"] < 10**6
    row = told["rows"][0]
    assert row["moved_bytes"] == row["moved"] * 500_000_000


def test_a_loss_has_two_columns_more(capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run([*SHORT, "--policies", "cats", "--fail", "h1@8s"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("99 % before" in line and "99 % after" in line for line in lines)
    assert [line.split()[0] for line in lines if " % " in line and "s " in line][-1] == "cats"
    assert run([*SHORT, "--policies", "cats"]) == 0
    assert "99 % before" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--fail", "h1"], "--fail: got 'h1', allowed: an instance and a time"),
        (["--policies", "best"], "--policies: got 'best', allowed: all, nearest"),
        (["--instances", "2"], "--instances: got 2, allowed: 1 to 1: a site has 2 hosts"),
        (["--time", "0s"], "--time: got '0s', allowed: more than 0s"),
        (["--context", "x"], "--context: got 'x'"),
        (["--sessions", "0"], "--sessions: got '0'"),
        (["--time", "1us"], "--sessions: got 'none begins'"),
    ],
)
def test_a_wrong_value_is_one_line(capsys, flags, said) -> None:
    assert run([*SHORT, *flags]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
