"""Each verb shows two examples, and each of them is a command that parses."""

import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from fanfold.cli.examples import EXAMPLES
from fanfold.cli.main import command, run


def verbs(verb: Any, path: str = "") -> Iterator[str]:
    below = getattr(verb, "commands", None)
    if below is None:
        yield path
        return
    for name, each in below.items():
        yield from verbs(each, f"{path} {name}".strip())


def test_every_verb_has_examples_and_no_other_word() -> None:
    assert set(verbs(command())) == EXAMPLES.keys()


@pytest.mark.parametrize("path", ["", "lab"])
def test_what_is_above_verbs_explains_itself(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*path.split(), "--help"]) == 0
    shown, err = capsys.readouterr()
    assert ("Usage:" in shown, err) == (True, "")


@pytest.mark.parametrize("path", EXAMPLES)
def test_help_shows_them_and_they_parse(
    path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run([*path.split(), "--help"]) == 0
    shown, err = capsys.readouterr()
    assert ("Usage:" in shown, err) == (True, "")
    for line in EXAMPLES[path]:
        assert f"fanfold {line}" in shown
        words = shlex.split(line)
        verb = command(words)
        for name in path.split():
            assert words.pop(0) == name
            verb = verb.commands[name]
        if words != ["--help"]:
            verb.make_context(path, words)  # options, arguments and their kinds
