"""The notebook in examples/ runs as it stands, and what it shows is what it printed."""

import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from fanfold.kernels.jit import JIT
from fanfold.schemes.catalog import CATALOG

NOTEBOOK = Path(__file__).parents[3] / "examples" / "study.ipynb"
CELLS = [c for c in json.loads(NOTEBOOK.read_text())["cells"] if c["cell_type"] == "code"]


def shown(cell):
    return "".join("".join(out["text"]) for out in cell["outputs"])


@pytest.mark.skipif(not JIT, reason="a study of 24 runs is for compiled code")
def test_every_cell_prints_what_it_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope = {}
    for cell in CELLS:
        told = io.StringIO()
        with redirect_stdout(told):
            exec("".join(cell["source"]), scope)
        assert told.getvalue() == shown(cell)


def test_no_scheme_is_missing():
    of_many = {scheme.name for scheme in CATALOG if "broadcast" in scheme.kinds}
    rows = {line.split()[1] for line in shown(CELLS[1]).splitlines()}
    assert of_many - rows <= {"chain", "halving-doubling"}
