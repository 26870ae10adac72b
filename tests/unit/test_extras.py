"""What is not installed is one line, with the command that installs it."""

import sys
from importlib import metadata
from types import SimpleNamespace

import pytest

from fanfold import extras
from fanfold.cli.main import run
from fanfold.errors import EnvironmentLack


@pytest.mark.parametrize(
    ("told", "command"),
    [
        (None, "pip install 'fanfold[study]'"),  # of an index
        ('{"url": "git+ssh://x/y"}', "pip install 'fanfold[study]'"),
        ("{", "pip install 'fanfold[study]'"),
        (
            '{"url": "file:///opt/my%20fabric", "dir_info": {"editable": true}}',
            "pip install '/opt/my fabric[study]'",
        ),
    ],
)
def test_the_command_installs_from_where_fanfold_is_from(
    told: str | None, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = SimpleNamespace(read_text=lambda name: told)
    monkeypatch.setattr(metadata, "distribution", lambda name: found)
    assert extras.install("study") == command


def test_a_library_that_lacks_is_named() -> None:
    with pytest.raises(EnvironmentLack, match=r"^no module no_such.part here; pip install '"):
        extras.load("no_such.part", "study")
    with pytest.raises(EnvironmentLack, match=r"^--submit: no module no_such, nor_such here; "):
        extras.require(("no_such", "sys", "nor_such"), "slurm", "--submit")


@pytest.mark.parametrize(
    "line",
    [
        "compare --topology star:hosts=2 --workload broadcast:1B",
        "study all --gpus 16",
        "explain --last",
    ],
)
def test_a_verb_whose_extra_lacks_is_one_line_before_it_works(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path
) -> None:
    monkeypatch.setenv("FANFOLD_STATE_DIR", str(tmp_path))
    monkeypatch.setitem(sys.modules, "duckdb", None)
    find = extras.find_spec
    monkeypatch.setattr(extras, "find_spec", lambda n: None if n == "duckdb" else find(n))
    assert run(line.split()) == 3
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert f"no module duckdb here; {extras.install('study')}" in err
