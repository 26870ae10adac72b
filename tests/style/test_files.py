"""Sizes, names and words that the house style rules out."""

import ast
import re
from pathlib import PurePosixPath

import pytest
from tree import modules, texts

MAX_LINES = 500
MAX_FUNCTION_LINES = 60
VAGUE = re.compile(r"^_?(utils?|common|helpers?|misc|base|managers?)$|_(utils?|helpers?)$")
LONG_FUNCTIONS: dict[str, str] = {}
"""path::name -> why it may be longer."""

STANDARD_TEXT = "LICENSE"
TESTS = "tests/"
"""Tests may name absolute paths that exist on every machine."""
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX|HA" r"CK)\b")
WHO_WROTE_IT = re.compile(r"generated" r" (by|with)|co-" r"authored", re.IGNORECASE)
OF_A_MACHINE = re.compile(r"(?<![\w.}])/(?:home|Users|work|workspace)/")
OF_ANY_MACHINE = re.compile(r"(?<![\w.}])/(?:root|tmp)/")
URL = re.compile(r"https?://([^/\s:)\"'>]+)")
CITED_HOSTS = {
    *("www.apache.org", "keepachangelog.com", "semver.org", "www.rfc-editor.org"),
    "graphml.graphdrawing.org",  # namespace of GraphML
    "www.w3.org",  # namespace of SVG
}


def own_texts() -> dict[str, str]:
    return {name: text for name, text in texts().items() if name != STANDARD_TEXT}


def test_no_file_is_long() -> None:
    sizes = {name: len(text.splitlines()) for name, text in own_texts().items()}
    assert {name: n for name, n in sizes.items() if n > MAX_LINES} == {}


def test_no_function_is_long() -> None:
    long = set()
    for name, module in modules().items():
        for node in ast.walk(module):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                n_lines = (node.end_lineno or 0) - node.lineno + 1
                if n_lines > MAX_FUNCTION_LINES:
                    long.add(f"{name}::{node.name}")
    assert long == LONG_FUNCTIONS.keys()


def test_a_file_is_named_for_a_noun() -> None:
    parts = {(part, name) for name in modules() for part in PurePosixPath(name).parts}
    assert [name for part, name in parts if VAGUE.search(part.removesuffix(".py"))] == []


@pytest.mark.parametrize(
    ("pattern", "unless"),
    [(UNFINISHED, ""), (WHO_WROTE_IT, ""), (OF_A_MACHINE, ""), (OF_ANY_MACHINE, TESTS)],
    ids=["unfinished", "who_wrote_it", "of_a_machine", "of_any_machine"],
)
def test_no_leftovers(pattern: re.Pattern[str], unless: str) -> None:
    found = [
        f"{name}:{n}: {line.strip()}"
        for name, text in own_texts().items()
        if not (unless and name.startswith(unless))
        for n, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


def test_links_lead_to_sources_and_nowhere_else() -> None:
    hosts = {host: name for name, text in texts().items() for host in URL.findall(text)}
    assert {host: name for host, name in hosts.items() if host not in CITED_HOSTS} == {}


def test_every_module_says_what_it_is() -> None:
    silent = [n for n, m in modules("src/").items() if m.body and not ast.get_docstring(m)]
    assert silent == []


def test_only_the_console_of_commands_prints_tables() -> None:
    """Another one would cut numbers where the screen is narrow."""
    made = {
        name
        for name, text in texts().items()
        if name.startswith("src/") and re.search(r"rich\.console|rich\.print\b", text)
    }
    assert made == {"src/fanfold/cli/console.py"}
