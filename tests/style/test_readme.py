"""What the README and the pages of docs/ tell a reader to type exists."""

import re
import shlex
from pathlib import Path

import click
from tree import ROOT, texts
from typer.main import get_command

from fanfold.cli.main import app, command
from fanfold.topo.fabric import load_fabric

CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
VERB = re.compile(r"(?:^|[\s`/])fanfold ([a-z][a-z-]*)", re.MULTILINE)
LINE = re.compile(r"^(?:\$ |`| {4})?fanfold ([a-z][^`]*?)`?$", re.MULTILINE)
INDENTED = re.compile(r"^ {4}fanfold .*$", re.MULTILINE)
TARGET = re.compile(r"(?:^|[\s`])make ([a-z]+)", re.MULTILINE)
PAGES = ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")
DOCS = tuple(name for name in texts() if re.fullmatch(r"docs/.*\.md", name))


def code_of(page: str) -> str:
    text = texts()[page]
    return "\n".join(CODE.findall(text) + INDENTED.findall(text))


def cli() -> click.Command:
    command()
    return get_command(app)


def test_make_targets_exist() -> None:
    known = set(re.findall(r"^([a-z]+):", texts()["Makefile"], re.MULTILINE))
    named = {target for page in PAGES for target in TARGET.findall(code_of(page))}
    assert {"demo", "test", "bench", "lint"} <= known
    assert {"demo", "test"} <= named <= known


def test_files_that_pages_name_exist() -> None:
    assert len(DOCS) > len(PAGES)
    for page in PAGES + DOCS:
        for name in re.findall(r"\]\(([^)#:]+)\)", texts()[page]):
            assert ((ROOT / page).parent / name).exists(), f"{page}: {name}"


def test_fabric_of_the_readme_loads(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", texts()["README.md"], re.DOTALL)
    (tmp_path / "rack.toml").write_text(text)
    assert load_fabric(tmp_path / "rack.toml").by_bfr_id.keys() == {1, 2}


def test_verbs_exist() -> None:
    known = getattr(cli(), "commands", {})
    named = {verb for page in PAGES + DOCS for verb in VERB.findall(code_of(page))}
    assert named
    assert named <= known.keys()


def test_verbs_are_all_in_the_readme() -> None:
    assert getattr(cli(), "commands", {}).keys() <= set(VERB.findall(code_of("README.md")))


def test_options_exist() -> None:
    lines = [line for page in ("README.md", *DOCS) for line in LINE.findall(code_of(page))]
    assert len(lines) > len(LINE.findall(code_of("README.md")))
    for line in lines:
        words = shlex.split(line, comments=True)
        command = cli()
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        known = {
            name for param in command.params for name in (*param.opts, *param.secondary_opts)
        }
        named = {word for word in words if word.startswith("-")}
        assert named <= known, line
