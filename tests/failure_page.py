"""The table of docs/failures.md: rows of `fanfold failures`, as `make figures` writes them."""

from collections.abc import Sequence

from fanfold.study.failure_rows import KINDS
from fanfold.study.failure_table import NEVER_COMES, NOBODY, FailureRow, FailureTable
from fanfold.units import format_duration, format_size

PAGE = "docs/failures.md"
COLUMNS = (
    *("failure", "scheme", "detection", "gap", "packets lost", "receivers with a gap"),
    *("sent again elsewhere", "whole time (undisturbed)", "messages"),
)
HEAD = f"| {' | '.join(COLUMNS)} |"
WHAT = {
    "link": "link of an edge switch cut",
    "spine": "core that carries the data ended",
    "leaf": "edge switch ended",
}


def failure_rows(table: FailureTable) -> str:
    """A table of Markdown; schemes of one failure whose cells are alike share a row."""
    lines = [HEAD, f"|{'---|' * len(COLUMNS)}"]
    for kind in KINDS:
        rows = [row for row in table.rows if row.failure == kind]
        by_cells: dict[tuple[str, ...], list[FailureRow]] = {}
        for row in rows:
            by_cells.setdefault(_cells(row), []).append(row)
        for i, (cells, alike) in enumerate(by_cells.items()):
            names = ", ".join(f"`{row.scheme}`" for row in alike)
            first = "" if i else _title(kind, rows, table.n_receivers)
            lines.append(f"| {' | '.join([first, names, *cells])} |")
    return "\n".join(lines)


def put_rows(page: str, rows: str) -> str:
    """A page with its table exchanged."""
    at = page.index(HEAD)
    return page[:at] + rows + page[page.index("\n\n", at) :]


def _title(kind: str, rows: Sequence[FailureRow], n_receivers: int) -> str:
    most = max(row.behind for row in rows)
    cut_off = ", cut off" if all(row.cut_off == row.behind for row in rows) else ""
    return f"{WHAT[kind]}: {most:,} of {n_receivers:,} behind it{cut_off}"


def _cells(row: FailureRow) -> tuple[str, ...]:
    return (
        _time(row.detect_ps),
        _time(row.gap_ps),
        f"{row.lost_pkts:,}",
        f"{row.gap_receivers:,}",
        format_size(row.elsewhere_bytes),
        f"{_time(row.whole_ps)} ({_time(row.base_ps)})",
        f"{row.control:,}{' *' if row.by_definition else ''}",
    )


def _time(ps: int) -> str:
    words = {NEVER_COMES: "never", NOBODY: "none"}
    return words.get(ps) or format_duration(ps)
