"""Plant faults, one by one, into a copy of the tree, and demand that a test turns red.

The rows are PLANTS of plants_laws.py: file, old text, faulty text, test that must fail.
A row whose test does not pass without the fault proves nothing, and is reported.

    python tests/style/plants.py [--only TEXT] [--jit] [--timeout SECONDS]
"""

import argparse
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

import pytest
from plants_laws import PLANTS

ROOT = Path(__file__).parents[2]
COPIED = (
    *("src", "tests", "docs", "bench", "examples", ".ci", "Makefile", "LICENSE"),
    *("pyproject.toml", "README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"),
    "GLOSSARY.md",
)
FORK = multiprocessing.get_context("fork")
LOADED = (
    *("blake3", "cryptography.x509", "hypothesis", "msgspec", "numba", "numpy", "rustworkx"),
    "safetensors",
)
"""What most tests import, loaded once for all forks."""
OPTIONS = ("-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
CRASHED = 70
RED = 1
"""Exit code of pytest for tests that failed; a typing slip or a lost test gives another."""


class Plant(NamedTuple):
    """One fault and the test that sees it."""

    file: str
    old: str
    new: str
    test: str


def load_plants() -> list[Plant]:
    """Rows of plants_laws.py beside this file."""
    return [Plant(*row) for row in PLANTS]


def copy_tree(target: Path) -> None:
    """Copy what tests look at."""
    skipped = shutil.ignore_patterns("__pycache__", "*.egg-info", ".hypothesis")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=skipped)
        elif source.exists():
            shutil.copy2(source, target / name)


class Bed:
    """A copy of the tree to plant in."""

    def __init__(self, tree: Path, timeout_s: int) -> None:
        self.tree = tree
        self.timeout_s = timeout_s
        self.env = {
            "PYTHONPATH": str(tree / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "FANFOLD_CACHE_DIR": str(tree / "cache"),
        }

    def pytest(self, *args: str, timeout_s: int) -> tuple[int, str]:
        """Exit code and output; -1 when it took too long.

        By a fork of this process, which has loaded the libraries and nothing of fanfold.
        """
        said = self.tree / "said.txt"
        child = FORK.Process(target=self._run, args=(args, said))
        child.start()
        child.join(timeout_s)
        if child.exitcode is None:
            child.kill()
            child.join()
            return -1, f"took over {timeout_s} s"
        return child.exitcode, said.read_text(encoding="utf-8", errors="replace")

    def _run(self, args: tuple[str, ...], said: Path) -> None:
        out = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.setsid()
        os.chdir(self.tree)
        os.environ.update(self.env)
        sys.path[:0] = ["", self.env["PYTHONPATH"]]
        sys.dont_write_bytecode = True
        code = CRASHED
        try:
            code = pytest.main([*OPTIONS, *args])
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            sys.stderr.flush()
            os._exit(code)

    def passing(self, ids: list[str]) -> set[str]:
        """Ids of tests that pass without a fault; also without their parameters."""
        _, said = self.pytest("-rA", *ids, timeout_s=self.timeout_s * 5)
        passed = re.findall(r"^PASSED (.+)$", said, re.MULTILINE)
        if not passed:
            print(said)
        return {*passed, *(test.partition("[")[0] for test in passed)}

    def verdict(self, plant: Plant) -> str:
        """Empty when the test turned red, else what is wrong."""
        path = self.tree / plant.file
        sound = path.read_text(encoding="utf-8")
        if sound.count(plant.old) != 1:
            return f"old text stands {sound.count(plant.old)} times in the file"
        path.write_text(sound.replace(plant.old, plant.new), encoding="utf-8")
        try:
            code, said = self.pytest("-x", plant.test, timeout_s=self.timeout_s)
        finally:
            path.write_text(sound, encoding="utf-8")
        if code == RED:
            return ""
        return "stays green" if code == 0 else f"exit code {code}: {said[-600:]}"


def main() -> int:
    """Plant all rows, or those whose file or test holds --only."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="part of a file name or a test id")
    parser.add_argument("--jit", action="store_true", help="compile the kernels")
    parser.add_argument("--timeout", type=int, default=120, help="seconds for one test")
    parser.add_argument("--passed", action="store_true", help="all tests just passed: trust it")
    parser.add_argument("--jobs", type=int, default=2, help="copies of the tree at once")
    options = parser.parse_args()
    if not options.jit:
        os.environ["NUMBA_DISABLE_JIT"] = "1"
    for name in LOADED:
        import_module(name)
    plants = [p for p in load_plants() if options.only in f"{p.file} {p.test}"]
    n_bad = 0
    with tempfile.TemporaryDirectory(prefix="fanfold-plants-") as folder:
        beds = make_beds(Path(folder), options)
        ids = {plant.test for plant in plants}
        sound = ids if options.passed else passing(plants, beds)
        for plant, wrong in judge(plants, sound, beds):
            n_bad += bool(wrong)
            print(f"{'BAD' if wrong else 'red'}  {plant.file}  {plant.test}  {wrong}".rstrip())
    print(f"{len(plants) - n_bad} of {len(plants)} planted faults turned a test red")
    return int(n_bad > 0 or not plants)


def make_beds(folder: Path, options: argparse.Namespace) -> list[Bed]:
    """One copy of the tree for each job."""
    trees = [folder / f"tree{i}" for i in range(max(options.jobs, 1))]
    for tree in trees:
        copy_tree(tree)
    return [Bed(tree, options.timeout) for tree in trees]


def passing(plants: list[Plant], beds: list[Bed]) -> set[str]:
    """Tests that pass without a fault, a share of them in each bed."""
    ids = sorted({plant.test for plant in plants})
    n = min(len(beds), len(ids))
    shares = [ids[i::n] for i in range(n)]
    with ThreadPoolExecutor(len(beds)) as pool:
        found = pool.map(Bed.passing, beds[:n], shares)
        return set().union(*found)


def judge(
    plants: list[Plant], passing: set[str], beds: list[Bed]
) -> Iterator[tuple[Plant, str]]:
    """Each plant and what is wrong with it, in order; as many at once as there are beds."""
    free: SimpleQueue[Bed] = SimpleQueue()
    for bed in beds:
        free.put(bed)

    def verdict(plant: Plant) -> str:
        if plant.test not in passing:
            return "does not pass as it is"
        bed = free.get()
        try:
            return bed.verdict(plant)
        finally:
            free.put(bed)

    with ThreadPoolExecutor(len(beds)) as pool:
        yield from zip(plants, pool.map(verdict, plants), strict=True)


if __name__ == "__main__":
    raise SystemExit(main())
