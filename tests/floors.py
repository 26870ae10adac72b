"""Coverage of each package of src against its floor: `python tests/floors.py [DATA]`.

Lines and branches that the tests without JIT reach, in percent. A floor is raised with the
package and never lowered for a change that lost tests. live/ and torch/ run in processes of
their own: what live tests reach there is not counted.
"""

import json
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from coverage import Coverage

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "fanfold"
TOP = "fanfold"
"""Modules that are in no package."""


def floors() -> dict[str, int]:
    """Percent by package, of pyproject.toml."""
    found: dict[str, int] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"][
        "fanfold"
    ]["coverage"]
    return found


def package_of(path: Path) -> str:
    """Folder below src/fanfold of a source file."""
    parts = path.relative_to(SRC).parts
    return parts[0] if len(parts) > 1 else TOP


def measured(data: Path) -> dict[str, float]:
    """Percent by package of a coverage file, over all sources."""
    coverage = Coverage(data_file=str(data), config_file=str(ROOT / "pyproject.toml"))
    coverage.load()
    with TemporaryDirectory() as folder:
        coverage.json_report(outfile=f"{folder}/report.json")
        report = json.loads(Path(folder, "report.json").read_text())["files"]
    found = {Path(ROOT, name).resolve(): file["summary"] for name, file in report.items()}
    due, done = Counter[str](), Counter[str]()
    for path in sorted(SRC.rglob("*.py")):
        name, file = package_of(path), found.get(path)
        if file is None:  # nothing ever imported it
            due[name] += len(coverage.analysis2(str(path))[1])
            continue
        due[name] += file["num_statements"] + file["num_branches"]
        done[name] += file["covered_lines"] + file["covered_branches"]
    return {name: 100 * done[name] / n for name, n in due.items() if n}


def faults(found: Mapping[str, float], least: Mapping[str, int]) -> Iterable[str]:
    """Packages below their floor, without one, or that are no more."""
    for name in sorted({*found, *least}):
        if name not in least:
            yield f"{name}: {found[name]:.1f} %, and no floor in pyproject.toml"
        elif name not in found:
            yield f"{name}: a floor, and no such package"
        elif found[name] < least[name]:
            yield f"{name}: {found[name]:.1f} %, its floor is {least[name]}"


def main() -> int:
    """Print each package's coverage; 1 where one is below its floor."""
    found = measured(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / ".coverage")
    least = floors()
    for name, percent in sorted(found.items()):
        sys.stdout.write(f"{name:>10} {percent:6.1f} %  floor {least.get(name, '?')}\n")
    wrong = list(faults(found, least))
    for line in wrong:
        sys.stderr.write(f"coverage: {line}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
