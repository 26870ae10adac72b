"""The arrows of pyproject.toml's import contract point down only."""

import os
import subprocess
import sys
import tomllib

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
