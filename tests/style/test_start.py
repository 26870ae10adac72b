"""What a verb loads before it begins: no library that it does not use.

Imports at the heads of modules are followed through the sources, none of them is run; what a
function imports is loaded where it is called. The light commands are started as well.
"""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache

import pytest
from tree import ROOT, modules

from fanfold.cli.main import command
from fanfold.cli.verbs import VERBS

HEAVY = frozenset(
    {
        *(
            "altair",
            "blake3",
            "cryptography",
            "distributed",
            "duckdb",
            "google",
            "jinja2",
            "loky",
            "numba",
        ),
        *("numpy", "pydantic", "rustworkx", "safetensors", "submitit", "torch", "vl_convert"),
        *("asyncio", "concurrent", "http", "multiprocessing"),
    }
)
"""Libraries that take long to load, and such parts of Python's own."""
NODE = frozenset({"blake3", "concurrent", "numba", "numpy", "rustworkx"})
RUNS = frozenset({"blake3", "numba", "numpy"})
MAY_LOAD: dict[str, frozenset[str]] = {
    **dict.fromkeys(("bitstring", "decode", "dissector", "lab", "top", "topo"), frozenset()),
    **dict.fromkeys(("bfr", "demo", "receive"), NODE),
    **dict.fromkeys(("compare", "explain", "gap", "sim-bench", "study"), RUNS),
    **dict.fromkeys(("failures", "planes"), RUNS),
    "instances": frozenset({"numba", "numpy"}),
    "clean": frozenset({"blake3", "numpy"}),
    **dict.fromkeys(("fabric", "keys"), frozenset()),
    "encodings": frozenset({"numba", "numpy"}),
    "peers": NODE,
    "push": NODE - {"concurrent"},
    "reduce-bench": NODE - {"blake3"},
    "report": frozenset({"blake3", "numpy"}),
    **dict.fromkeys(("litmus", "trees", "workload"), frozenset({"numpy"})),
    "vat": frozenset({"numpy", "rustworkx"}),
}
LIGHT = (
    "--help",
    "--version",
    "decode 00",
    "bitstring 1",
    "topo",
    "lab status",
    "dissector",
    "keys --help",
)
"""Command lines that are started, to see what they load to their end."""
WATCH = """
import sys
from fanfold.cli.main import run
code = run(sys.argv[1:])
print(code, *sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""


@cache
def sources() -> dict[str, ast.Module]:
    """Modules by their dotted name."""
    found = {
        name.removeprefix("src/").removesuffix(".py"): m for name, m in modules("src/").items()
    }
    return {name.replace("/", ".").removesuffix(".__init__"): m for name, m in found.items()}


def at_import(nodes: list[ast.stmt]) -> Iterator[str]:
    """Names that are imported when a module is, what only type checkers see left out."""
    for node in nodes:
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield module
                yield from (f"{module}.{each.name}" for each in names)
            case ast.If() if "TYPE_CHECKING" in ast.unparse(node.test):
                yield from at_import(node.orelse)
            case ast.If():
                yield from at_import(node.body + node.orelse)
            case ast.Try() | ast.With() | ast.ClassDef():
                yield from at_import(node.body)
            case _:
                pass


def loaded_by(first: str) -> set[str]:
    """Top-level packages that are imported with a module."""
    todo, seen, found = [first], set[str](), set[str]()
    while todo:
        parts = todo.pop().split(".")
        found.add(parts[0])
        for i in range(1, len(parts) + 1):
            name = ".".join(parts[:i])
            if name in sources() and name not in seen:
                seen.add(name)
                todo += at_import(sources()[name].body)
    return found


def test_no_verb_loads_at_its_head_what_it_does_not_use() -> None:
    loads = {verb.name: loaded_by(verb.module) & HEAVY for verb in VERBS}
    more = {name: found - MAY_LOAD[name] for name, found in loads.items()}
    assert {name: found for name, found in more.items() if found} == {}
    less = {name: allowed - loads[name] for name, allowed in MAY_LOAD.items()}
    assert {name: left for name, left in less.items() if left} == {}  # the table is no wish
    assert loaded_by("fanfold.cli.main") & HEAVY == set()
    assert loaded_by("fanfold") & (HEAVY | {"typer", "rich", "msgspec"}) == set()


@pytest.mark.parametrize("line", LIGHT)
def test_a_light_command_loads_nothing_heavy_to_its_end(line: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WATCH, *line.split()],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    code, *names = done.stderr.splitlines()[-1].split()
    assert int(code) == (2 if line.startswith("decode") else 0)
    assert set(names) & (HEAVY - {"pydantic"}) == set()  # which typer 0.29 loads by itself


def test_help_says_of_each_verb_what_its_own_help_says() -> None:
    whole = command().commands
    told = {name: " ".join(verb.help.split("\n\n")[0].split()) for name, verb in whole.items()}
    assert told == {verb.name: verb.help for verb in VERBS}
