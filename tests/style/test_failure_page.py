"""The table of docs/failures.md: how it is made of rows, and that it names every scheme."""

import msgspec
from failure_page import HEAD, PAGE, failure_rows, put_rows
from tree import texts

from fanfold.study.failure_rows import KINDS, SCHEMES
from fanfold.study.failure_table import NEVER_COMES, NOBODY, FailureRow, FailureTable
from fanfold.units import PS_PER_US

US = PS_PER_US
ONE = FailureRow(
    *("link", "link a-b", 9 * US, "bier", "none", 40 * US, 200 * US, 210 * US, 1_500),
    *(8, 8, 0, 5_428_000, 900 * US, 359 * US, 4, ""),
)


def table_of(*rows: FailureRow) -> FailureTable:
    return FailureTable("net", 1_023, 1 << 24, 1, {}, rows, "command")


def test_cells_are_those_that_the_command_prints() -> None:
    text = failure_rows(table_of(ONE))
    assert text.splitlines()[2] == (
        "| link of an edge switch cut: 8 of 1,023 behind it | `bier` | 40 us | 200 us | 1,500"
        " | 8 | 5.428 MB | 900 us (359 us) | 4 |"
    )


def test_schemes_that_fare_alike_share_a_row_and_who_is_cut_off_is_said() -> None:
    leaf = msgspec.structs.replace(
        ONE, failure="leaf", cut_off=8, gap_ps=NOBODY, whole_ps=NEVER_COMES, by_definition="so"
    )
    other = msgspec.structs.replace(leaf, scheme="bier-frr")
    late = msgspec.structs.replace(leaf, scheme="pim-sm", detect_ps=50 * US)
    lines = failure_rows(table_of(leaf, late, other)).splitlines()[2:]
    assert [line.split(" | ")[1] for line in lines] == ["`bier`, `bier-frr`", "`pim-sm`"]
    assert lines[0].startswith("| edge switch ended: 8 of 1,023 behind it, cut off |")
    assert "| none |" in lines[0]
    assert "| never (359 us) | 4 * |" in lines[0]


def test_the_page_has_every_scheme_for_every_failure_and_can_be_written_anew() -> None:
    page = texts()[PAGE]
    rows = page[page.index(HEAD) : page.index("\n\n", page.index(HEAD))].splitlines()[2:]
    found: list[list[str]] = []
    for line in rows:
        first, names = (cell.strip() for cell in line.strip("|").split("|")[:2])
        found += [[]] if first else []
        found[-1] += names.replace("`", "").split(", ")
    assert len(found) == len(KINDS)
    for names in found:
        assert len(names) == len(set(names))
        assert set(names) == {s.name for s in SCHEMES}
    again = put_rows(page, "\n".join([HEAD, "|---|"]))
    assert again.count("\n") == page.count("\n") - len(rows)
