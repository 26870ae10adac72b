"""docs/gap.md: the gap table as it was measured, and where it differs from the draft."""

from collections.abc import Iterator, Sequence

from fanfold.study.amount import amount
from fanfold.study.gap import REQUIREMENTS
from fanfold.study.gap_table import Cell, Gap, cell_of, differences

SPREAD = ("goodput_least_ppm", "goodput_ppm", "goodput_most_ppm")


def gap_page(gap: Gap) -> str:
    """The whole page."""
    return "\n".join(_lines(gap)) + "\n"


def difference_line(cell: Cell) -> str:
    """A row of the table of differences."""
    words = f"{cell.requirement} | {cell.word} | {cell.draft_word}"
    return f"| {cell.scheme} | {words} | why: {cell.why} |"


def _lines(gap: Gap) -> Iterator[str]:
    yield "# The gap table"
    yield ""
    yield "Written by `make figures` from what this printed:"
    yield ""
    yield f"    {gap.command}"
    yield ""
    yield "A row is a scheme in its best published form; `+plain` is its plain one. The worst"
    yield "number makes the word, by limits that were there before ([metrics](metrics.md))."
    yield ""
    names = (*gap.schemes, *(name for name, _, _ in gap.variants))
    yield from _table(("scheme", *REQUIREMENTS), [_words(gap, name) for name in names])
    yield ""
    yield "## Where the draft says otherwise"
    yield ""
    yield "| scheme | requirement | measured | in the draft | why |"
    yield "|---|---|---|---|---|"
    yield from (difference_line(cell) for cell in differences(gap))
    yield ""
    yield f"## Goodput with loss, {gap.n_seeds} seeds"
    yield ""
    yield from _table(("scheme", "worst", "median", "best"), [_spread(gap, n) for n in names])
    yield ""
    yield "## Numbers that no run gave"
    yield ""
    found: dict[tuple[str, str], list[str]] = {}
    for cell in gap.cells:
        for number in cell.numbers:
            if number.by:
                found.setdefault((number.metric, number.by), []).append(cell.scheme)
    lines = [(f"`{m}`", ", ".join(schemes), by) for (m, by), schemes in found.items()]
    yield from _table(("number", "of", "because"), lines)


def _words(gap: Gap, name: str) -> list[str]:
    return [name, *(cell_of(gap, requirement, name).word for requirement in REQUIREMENTS)]


def _spread(gap: Gap, name: str) -> list[str]:
    held = {n.metric: n.value for n in cell_of(gap, "reliability", name).numbers}
    return [name, *(amount(metric, held[metric]) for metric in SPREAD)]


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    yield from (f"| {' | '.join(line)} |" for line in lines)
