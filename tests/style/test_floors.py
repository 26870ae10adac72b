"""Coverage of every package has a floor, and a package below it turns the gate red."""

import re
from pathlib import Path

import floors
import pytest
from coverage import CoverageData
from tree import texts


def test_every_package_has_a_floor_and_nothing_else_has() -> None:
    packages = {floors.package_of(path) for path in floors.SRC.rglob("*.py")}
    assert floors.floors().keys() == packages
    assert {name for name, least in floors.floors().items() if not 50 < least <= 100} == set()


def test_the_gate_asks_for_it() -> None:
    (recipe,) = re.findall(r"^nojit:.*\n((?:\t.*\n)+)", texts()["Makefile"], re.MULTILINE)
    assert "--cov " in recipe
    assert recipe.splitlines()[-1].strip() == "$(BIN)/python tests/floors.py"


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"core": 90.0}, []),
        ({"core": 89.9}, ["core: 89.9 %, its floor is 90"]),
        ({"core": 95.0, "new": 99.0}, ["new: 99.0 %, and no floor in pyproject.toml"]),
        ({}, ["core: a floor, and no such package"]),
    ],
)
def test_what_is_too_low_or_unknown_is_said(found: dict[str, float], said: list[str]) -> None:
    assert list(floors.faults(found, {"core": 90})) == said


def test_a_file_that_no_test_imports_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "src"
    (source / "core").mkdir(parents=True)
    seen, unseen = source / "core" / "seen.py", source / "core" / "unseen.py"
    seen.write_text("a = 1\nb = 2\nc = 3\n")
    unseen.write_text("d = 4\n")
    data = CoverageData(str(tmp_path / "data"))
    data.add_arcs({str(seen): [(-1, 1), (1, 2), (2, 3), (3, -1)]})
    data.write()
    monkeypatch.setattr(floors, "SRC", source)
    assert floors.measured(tmp_path / "data") == {"core": 75.0}
