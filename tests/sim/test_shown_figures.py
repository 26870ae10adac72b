"""Figures of pages are those that the simulator gives; `make figures` writes them anew."""

import re

import pytest
from figure_lines import (
    FILE,
    HOLE,
    ROOT,
    SLOTS,
    Figure,
    Runs,
    figures,
    filled,
    found_in,
    match_of,
    shown,
)

from fanfold.kernels.jit import JIT

CHEAP = [one for one in figures() if one.is_cheap]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("figures"))


def page_of(figure: Figure) -> str:
    return (ROOT / figure.page).read_text(encoding="utf-8")


def test_every_text_stands_once_on_its_page() -> None:
    found = figures()
    assert len(found) == FILE.read_text(encoding="utf-8").count("[[figure]]") > 15
    for one in found:
        match = match_of(one, page_of(one))
        assert len(match.groups()) == len(HOLE.findall(one.text)) > 0
        assert not re.search(r"[{}]", HOLE.sub("", one.text)), one.text
        # The front page shows what a reader types first; all else says its rate.
        typed = one.page == "README.md"
        assert all(typed or "rate=" in run or SLOTS.match(run) for run in one.runs)


@pytest.mark.skipif(not JIT, reason="runs of thousands of packets are for compiled code")
@pytest.mark.parametrize("one", CHEAP, ids=lambda one: one.text[:24])
def test_cheap_figures_are_what_runs_give(one: Figure, runs: Runs) -> None:
    """Red: ``python tests/figures.py texts`` writes them."""
    found = found_in(one, page_of(one), runs.rows_of)
    assert [each.shown for each in found] == [each.due for each in found]


def test_a_hole_is_filled_by_scheme_value_and_unit() -> None:
    rows = {
        "a": {"last_ps": 12_345_678_900, "n": 4},
        "b-c": {"last_ps": 2_500_000_000_000, "n": 5},
    }
    text = "{a last_ps us.1} us, | {most a|b-c n n} | {2:b-c last_ps s.2} s; {least a|b-c n n}$"
    one = Figure("p", text, ("x", "y"), is_cheap=False)
    page = "# Head\n9.9 us,\n | 1 | 7 s; 3$ 8 us"
    found = found_in(one, page, lambda _: rows)
    assert [each.due for each in found] == ["12,345.7", "5", "2.50", "4"]
    assert filled(page, found) == "# Head\n12,345.7 us,\n | 5 | 2.50 s; 4$ 8 us"
    for wrong in ("nothing", page + page):
        with pytest.raises(ValueError, match="times"):
            match_of(one, wrong)
    assert shown(4 * 2**20 * 8 * 10, "Gbps", 1) == "100.0"
