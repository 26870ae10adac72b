"""What the README tells a reader to type exists."""

import re
import shlex
from pathlib import Path

import click
import pytest
from tree import ROOT, texts
from typer.main import get_command

from fanfold.topo.fabric import load_fabric

MAIN = ROOT / "src/fanfold/cli/main.py"
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
VERB = re.compile(r"(?:^|[\s`/])fanfold ([a-z][a-z-]*)", re.MULTILINE)
LINE = re.compile(r"^fanfold ([a-z].*)$", re.MULTILINE)
TARGET = re.compile(r"(?:^|[\s`])make ([a-z]+)", re.MULTILINE)
PAGES = ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")

needs_main = pytest.mark.skipif(not MAIN.exists(), reason="the command line has no entry yet")


def code_of(page: str) -> str:
    return "\n".join(CODE.findall(texts()[page]))


def cli() -> click.Command:
    from fanfold.cli.main import app, command  # noqa: PLC0415 - skipped where there is none

    command()

    return get_command(app)


def test_make_targets_exist() -> None:
    known = set(re.findall(r"^([a-z]+):", texts()["Makefile"], re.MULTILINE))
    named = {target for page in PAGES for target in TARGET.findall(code_of(page))}
    assert {"demo", "test", "bench", "lint"} <= known
    assert {"demo", "test"} <= named <= known


def test_files_that_pages_name_exist() -> None:
    for page in PAGES:
        for name in re.findall(r"\]\(([^)#:]+)\)", texts()[page]):
            assert (ROOT / name).exists(), f"{page}: {name}"


def test_fabric_of_the_readme_loads(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", texts()["README.md"], re.DOTALL)
    (tmp_path / "rack.toml").write_text(text)
    assert load_fabric(tmp_path / "rack.toml").by_bfr_id.keys() == {1, 2}


@needs_main
def test_verbs_exist() -> None:
    known = getattr(cli(), "commands", {})
    named = {verb for page in PAGES for verb in VERB.findall(code_of(page))}
    assert named
    assert named <= known.keys()


@needs_main
def test_verbs_are_all_in_the_readme() -> None:
    assert getattr(cli(), "commands", {}).keys() <= set(VERB.findall(code_of("README.md")))


@needs_main
def test_options_exist() -> None:
    for line in LINE.findall(code_of("README.md")):
        words = shlex.split(line, comments=True)
        command = cli()
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        known = {
            name for param in command.params for name in (*param.opts, *param.secondary_opts)
        }
        named = {word for word in words if word.startswith("-")}
        assert named <= known, line
