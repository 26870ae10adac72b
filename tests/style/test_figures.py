"""Measured figures of these pages stand in bench/figures.toml, and equal."""

import re
import subprocess

import pytest
from shown_figures import backed, figures_of, rows_of
from tree import ROOT, texts

PAGES = (
    "README.md",
    "docs/comparing.md",
    "docs/numbers.md",
    "docs/peers.md",
    "bench/README.md",
)
WHAT_IS_MEASURED = ("bench/README.md: Measurements", "docs/peers.md: Beside other tools")
"""Tables of what a part or a peer does, without results."""
FACTS = {"page", "heading", "command", "of", "date", "machine", "rows"}


def shown() -> dict[tuple[str, str], tuple[str, ...]]:
    rows = [row for page in PAGES for row in rows_of(page, texts()[page])]
    return {(table, row): found for table, row, found in rows if table not in WHAT_IS_MEASURED}


def test_every_figure_of_a_table_is_in_the_file_and_equal() -> None:
    known, _ = backed(ROOT / "bench" / "figures.toml")
    assert len(known) > 20
    assert shown() == known


def test_each_table_says_what_was_run_where_and_on_which_commit() -> None:
    _, tables = backed(ROOT / "bench" / "figures.toml")
    for table in tables:
        assert table.keys() - {"note"} == FACTS
        assert re.fullmatch("[0-9a-f]{7}", table["of"])
        assert all(table[fact] for fact in FACTS)
        if table["command"].startswith("bench/run.py"):
            assert table["command"].split()[2] in texts()["bench/README.md"]


def test_commits_of_figures_are_of_this_history() -> None:
    _, tables = backed(ROOT / "bench" / "figures.toml")
    for of in {table["of"] for table in tables}:
        words = ["git", "-C", str(ROOT), "merge-base", "--is-ancestor", of, "HEAD"]
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            pytest.skip("no git here")
        if "not a git repository" in done.stderr or "shallow" in done.stderr:
            pytest.skip("not a clone")
        assert done.returncode == 0, (of, done.stderr)


def test_figures_are_found_with_their_units_and_no_others() -> None:
    text = "**1,962,000 packets/s**, 0.84 of `run --n 7` at h3, k=8; 4.1 s ([why](a/0035.md))"
    assert figures_of(text) == ("1,962,000 packets/s", "0.84", "4.1 s")
    page = "# A\n| what | in 3 |\n|---|---|\n| one 1 | 2 ms |\n| two | none |\n"
    assert list(rows_of("p", page)) == [("p: A", "one 1", ("2 ms",))]
