"""A test that hangs ends, a skip is told with its reason, and runs set aside are bounded."""

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from limits import limited, logs_of
from skips import skipped
from tries import MOST_ASIDE, Tries

TESTS = Path(__file__).parents[1]
HANGS = """
import os
import pytest

@pytest.fixture
def pipe():
    ends = os.pipe()
    yield ends
    print("the fixture was cleared up")

def test_reads_for_ever(pipe):
    os.read(pipe[0], 1)

@pytest.fixture
def never():
    os.read(os.pipe()[0], 1)

def test_is_never_set_up(never):
    pass

def test_after_them_goes_on():
    pass

def test_is_left_out():
    pytest.skip("no such tool here: apt-get install tool")
"""


def test_a_test_that_waits_for_ever_fails_and_the_next_one_runs(tmp_path: Path) -> None:
    for name in ("conftest.py", "limits.py", "skips.py", "tries.py"):
        (tmp_path / name).write_text((TESTS / name).read_text())
    (tmp_path / "test_hangs.py").write_text(HANGS)
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rA", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "FANFOLD_TEST_LIMIT_S": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    said = done.stdout
    assert time.monotonic() - began < 50
    assert done.returncode == 1
    assert "1 failed, 1 passed, 1 skipped, 1 error" in said
    assert said.count("took longer than 1 s, its limit") >= 2
    assert "the fixture was cleared up" in said
    assert "(most recent call first)" in said  # where each thread stood
    assert "NOT RUN HERE, 1: no such tool here: apt-get install tool" in said


def test_what_is_quick_is_not_disturbed_and_no_clock_runs_on() -> None:
    with limited(0.2):
        pass
    time.sleep(0.3)
    with pytest.raises(pytest.fail.Exception, match="its limit"), limited(0.05):
        time.sleep(5)


def test_skips_are_told_by_reason_but_for_the_other_half_of_the_gate() -> None:
    reasons = ["Skipped: tshark is missing", "Skipped: a study is for compiled code"]
    reports = [
        SimpleNamespace(longrepr=("f.py", 1, reason)) for reason in (*reasons, reasons[0])
    ]
    assert skipped(reports) == {"tshark is missing": 2}


def test_runs_set_aside_are_bounded_from_both_sides() -> None:
    tries = Tries("runs")
    try:
        tries.check()
        assert tries.count(True)
        for _ in range(MOST_ASIDE):
            assert not tries.count(False)
        tries.check()
        tries.count(False)
        with pytest.raises(
            AssertionError, match=f"runs: {MOST_ASIDE + 1} of {MOST_ASIDE + 2} "
        ):
            tries.check()
    finally:
        Tries.every.remove(tries)


def test_the_last_lines_of_each_lab_are_shown(tmp_path: Path) -> None:
    (tmp_path / "labs" / "one").mkdir(parents=True)
    (tmp_path / "labs" / "one" / "lab.log").write_text("x" * 9000 + "\nthe end")
    assert logs_of(tmp_path).startswith("one:\nx")
    assert logs_of(tmp_path).endswith("the end")
    assert len(logs_of(tmp_path)) < 3100
