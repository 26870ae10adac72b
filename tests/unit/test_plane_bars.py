"""Bars of pushes over planes, from times worked out by hand."""

import importlib.util
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench" / "plane_bars.py"


@pytest.fixture(scope="module")
def plane_bars():
    spec = importlib.util.spec_from_file_location("plane_bars", BENCH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_is_left_after_a_cut_goes_by_three_planes(plane_bars):
    """12 s by one plane; after 1 s 8 of 12 parts are left, which three take in 8/3 s."""
    assert plane_bars.needed_s(12, 1) == pytest.approx(1 + 8 / 3)
    assert plane_bars.needed_s(12, 0) == pytest.approx(4)
    assert plane_bars.needed_s(12, 3) == plane_bars.needed_s(12, 9) == pytest.approx(3)


def test_each_bar_holds_up_to_its_number_and_no_further(plane_bars):
    needed = 1 + 8 / 3
    good = plane_bars.bars(12, 12 / 3.81, 12 / 3.31, (1.09 * needed, 1))
    assert [bar.holds for bar in good] == [True] * 3
    assert [bar.found for bar in good] == pytest.approx([3.81, 3.31, 1.09])
    bad = plane_bars.bars(12, 12 / 3.79, 12 / 3.29, (1.11 * needed, 1))
    assert [bar.holds for bar in bad] == [False] * 3
