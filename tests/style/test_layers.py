"""Imports point down as pyproject.toml has it, and in no circle.

Imports in functions and those that type checkers alone see count as well.
"""

import ast
import os
import subprocess
import sys
import tomllib
from collections.abc import Collection, Mapping

import rustworkx as rx
from tree import ROOT, modules

LINT = (
    "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"
)
UNLAYERED = {"__init__"}


def test_imports_point_down() -> None:
    env = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", LINT]
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 kept, 0 broken" in done.stdout


def test_every_package_has_a_layer() -> None:
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = table["tool"]["importlinter"]["contracts"][0]["layers"]
    listed = {name.strip(" ()") for layer in layers for name in layer.split("|")}
    found = {name.split("/")[2].removesuffix(".py") for name in modules("src/fanfold/")}
    assert found - UNLAYERED <= listed


def imported(tree: ast.Module, known: Collection[str]) -> set[str]:
    """Modules that one names, or takes something from."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            full = {f"{node.module}.{each.name}" for each in node.names}
            found |= {name if name in known else str(node.module) for name in full}
    return found


def circles(sources: Mapping[str, ast.Module]) -> list[set[str]]:
    """Modules that import one another, by their dotted names."""
    graph = rx.PyDiGraph()
    numbers = {name: graph.add_node(name) for name in sources}
    for name, tree in sources.items():
        for other in imported(tree, sources) & sources.keys() - {name}:
            graph.add_edge(numbers[name], numbers[other], None)
    found = rx.strongly_connected_components(graph)
    return [{graph[i] for i in part} for part in found if len(part) > 1]


def test_no_modules_import_one_another() -> None:
    paths = {name[4:-3].removesuffix("/__init__"): m for name, m in modules("src/").items()}
    sources = {path.replace("/", "."): tree for path, tree in paths.items()}
    assert len(sources) > 600
    assert circles(sources) == []
    typed = "if TYPE_CHECKING:\n    from a import X"
    assert circles({"a": ast.parse("import b"), "b": ast.parse(typed)}) == [{"a", "b"}]
