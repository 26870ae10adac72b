"""Planted faults still fit the code: `make plants` can plant each of them."""

import os
import subprocess
import sys

from plants import load_plants
from tree import ROOT, texts

PLANTS = load_plants()


def test_old_text_stands_exactly_once() -> None:
    counts = {(p.file, p.old): texts().get(p.file, "").count(p.old) for p in PLANTS}
    assert {key: n for key, n in counts.items() if n != 1} == {}


def test_each_row_changes_something_and_none_is_there_twice() -> None:
    assert all(p.old != p.new for p in PLANTS)
    assert len(set(PLANTS)) == len(PLANTS)


def test_tests_that_must_turn_red_exist() -> None:
    files = sorted({p.test.partition("::")[0] for p in PLANTS})
    collect = ["--collect-only", "-o", "addopts=-q", "-p", "no:cacheprovider", *files]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *collect],
        cwd=ROOT,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    ids = set(done.stdout.split("\n"))
    ids |= {test.partition("[")[0] for test in ids}
    assert sorted({p.test for p in PLANTS} - ids) == []
