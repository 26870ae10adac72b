"""Options, their twins in the environment, and what a flag's refusal says."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fanfold.api.one_push import rate_cap
from fanfold.cli.main import command, run
from fanfold.errors import ConfigError


def verbs(verb: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, verb
    for name, below in getattr(verb, "commands", {}).items():
        yield from verbs(below, (*path, name))


def twin(path: tuple[str, ...], flag: str) -> str:
    return "_".join(("FANFOLD", *path, flag.removeprefix("--"))).upper().replace("-", "_")


def test_every_option_has_a_twin_named_as_the_option_is() -> None:
    n = 0
    for path, verb in verbs(command()):
        for option in verb.params:
            flags = [flag for flag in option.opts if flag.startswith("--")]
            if not flags or option.name == "help":
                continue
            by_parameter = twin(path, option.name)
            named = option.envvar or by_parameter
            assert named in [twin(path, flag) for flag in flags], (path, option.opts)
            n += 1
    assert n > 30


@pytest.mark.parametrize("name", ["FANFOLD_BITSTRING_JSON", "FANFOLD_BITSTRING_AS_JSON"])
def test_a_twin_works(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, "1")
    assert run(["bitstring", "1-3"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["ids"] == [1, 2, 3]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["lab", "up", "--config", "x.toml", "--leaves", "4"], "--leaves: got 4"),
        (["lab", "up", "--config", "x.toml", "--mtu", "1500"], "--mtu: got 1500"),
        (["workload", "training", "--skip-unknown"], "skip-unknown: got True"),
        (["workload", "sizes", "--ops-rate", "5"], "ops-rate: got 5"),
        (
            ["workload", "moe-dispatch", "--gate", "zipf", "--trace", "x.npz"],
            "gate: got 'zipf'",
        ),
    ],
)
def test_a_flag_that_would_change_nothing_is_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    assert f"{said}, allowed: none b" in capsys.readouterr().err


def test_a_flag_wins_over_its_twin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FANFOLD_PUSH_FROM", "h0")
    monkeypatch.setenv("FANFOLD_PUSH_LAB", "a/b")
    assert run(["push", "x", "--lab", "c/d"]) == 2
    assert "c/d" in capsys.readouterr().err


@pytest.mark.parametrize(
    "verb", [["push", "x", "--lab", "a/b"], ["lab", "up", "--name", "a/b"]]
)
def test_a_refusal_is_an_object_when_the_twin_of_json_asks_for_it(
    verb: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(verb) == 2
    assert capsys.readouterr().out == ""
    path = tuple(word for word in verb[:2] if word in ("push", "lab", "up"))
    monkeypatch.setenv(twin(path, "--json"), "true")
    assert run(verb) == 2
    assert json.loads(capsys.readouterr().out)["exit_code"] == 2


@pytest.mark.parametrize("text", ["0", "0bps", "fast", "-1Gbps", ""])
def test_a_rate_that_is_none_is_told_what_is_allowed(text: str) -> None:
    with pytest.raises(ConfigError, match="auto, or more than 0") as raised:
        rate_cap(text)
    assert "--rate" in str(raised.value)


def test_rates_that_work() -> None:
    assert (rate_cap("auto"), rate_cap("5Gbps"), rate_cap("1bps")) == (0, 5 * 10**9, 1)
