"""What the README and the pages of docs/ tell a reader to type exists."""

import posixpath
import re
import shlex
from pathlib import Path
from typing import Any

from tree import ROOT, texts

from fanfold.cli.main import command
from fanfold.topo.fabric_file import load_fabric

CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
VERB = re.compile(r"(?:^|[\s`/])fanfold ([a-z][a-z-]*)", re.MULTILINE)
LINE = re.compile(r"^(?:\$ |`| {4})?fanfold ([a-z][^`]*?)`?$", re.MULTILINE)
INDENTED = re.compile(r"^ {4}fanfold .*$", re.MULTILINE)
TARGET = re.compile(r"(?:^|[\s`])make ([a-z]+)", re.MULTILINE)
MAX_LINES = 120
PAGES = ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")
DOCS = tuple(name for name in texts() if re.fullmatch(r"docs/.*\.md", name))


def code_of(page: str) -> str:
    text = texts()[page]
    return "\n".join(CODE.findall(text) + INDENTED.findall(text))


def cli() -> Any:
    return command()


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


def test_the_fabric_of_the_page_loads(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", texts()["docs/pushing.md"], re.DOTALL)
    (tmp_path / "rack.toml").write_text(text)
    assert load_fabric(tmp_path / "rack.toml").by_bfr_id.keys() == {1, 2}


def test_verbs_exist() -> None:
    known = getattr(cli(), "commands", {})
    named = {verb for page in PAGES + DOCS for verb in VERB.findall(code_of(page))}
    assert named
    assert named <= known.keys()


def test_verbs_are_all_on_the_page_of_commands() -> None:
    known = getattr(cli(), "commands", {}).keys()
    assert known <= set(VERB.findall(code_of("docs/commands.md")))


def test_the_readme_is_short_and_every_page_is_reached_from_it() -> None:
    assert len(texts()["README.md"].splitlines()) <= MAX_LINES
    todo, seen = ["README.md"], set[str]()
    while todo:
        page = todo.pop()
        if page not in seen and page in texts():
            seen.add(page)
            folder = posixpath.dirname(page)
            links = re.findall(r"\]\(([^)#:]+)[^)]*\)", texts()[page])
            todo += [posixpath.normpath(posixpath.join(folder, link)) for link in links]
    known = {name for name in DOCS if "/adr/" not in name}
    assert known - seen == set()


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
