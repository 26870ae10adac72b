"""The table of five requirements: words, the numbers that make them, and their limits."""

from collections.abc import Iterator

from fanfold.report.amounts import format_value, label_of
from fanfold.report.page import Code, Section, Table
from fanfold.report.tables import Cell as Text
from fanfold.report.tables import Grid
from fanfold.study.gap_table import Cell, Gap, cell_of

REQUIREMENTS = ("interactivity", "reliability", "dynamics", "sparseness", "simplicity")


def gap_section(gap: Gap) -> Section:
    """Words first, then what decides, then where they differ from the draft's."""
    intro = [
        "Five requirements of draft-zhang-rtgwg-multicast-requirements-gaps-aidc, measured on "
        f"{gap.topology} with {gap.n_receivers:,} receivers, a sparse group of "
        f"{gap.n_members}, seed {gap.seed}. "
        "Every scheme is held against the same limits; the worst number makes the word.",
    ]
    grids = [
        Table(_words(gap)),
        Table(_limits(gap), is_folded=True),
        Table(_numbers(gap), is_folded=True),
    ]
    differing = _differences(gap)
    if differing.rows:
        grids.insert(1, Table(differing))
    code = [Code("The same, with variants and worked examples", gap.command)]
    return Section("gap", "Five requirements", intro=intro, grids=grids, code=code)


def _words(gap: Gap) -> Grid:
    head = (("scheme", ""), *((name, "") for name in REQUIREMENTS))
    lines = tuple(
        (Text(scheme), *(_word(cell_of(gap, name, scheme)) for name in REQUIREMENTS))
        for scheme in gap.schemes
    )
    return Grid("Words, and the number that decides each", head, lines, is_words=True)


def _word(cell: Cell) -> Text:
    deciding = [n for n in cell.numbers if n.word == cell.word] or list(cell.numbers[:1])
    first = deciding[0]
    under = f"{label_of(first.metric)}: {format_value(first.metric, first.value)}"
    return Text(cell.word, under, cell.word)


def _differences(gap: Gap) -> Grid:
    lines = tuple(
        (
            Text(cell.scheme, cell.requirement),
            Text(cell.word, tone=cell.word),
            Text(cell.draft_word, tone=cell.draft_word),
            Text(cell.why),
        )
        for cell in _cells(gap)
        if cell.draft_word and cell.draft_word != cell.word
    )
    head = (("scheme", ""), ("measured", ""), ("in the draft", ""), ("why", ""))
    return Grid("Where the draft says otherwise", head, lines, is_words=True)


def _limits(gap: Gap) -> Grid:
    lines = tuple(
        (
            Text(label_of(limit.metric), limit.metric),
            Text(format_value(limit.metric, limit.good)),
            Text(format_value(limit.metric, limit.moderate)),
            Text(limit.why),
        )
        for limit in gap.limits
    )
    head = (("number", ""), ("Good to", ""), ("Moderate to", ""), ("why there", ""))
    return Grid("Limits", head, lines, is_words=True)


def _numbers(gap: Gap) -> Grid:
    metrics = list(dict.fromkeys(n.metric for cell in _cells(gap) for n in cell.numbers))
    held = {(c.scheme, n.metric): n for c in _cells(gap) for n in c.numbers}
    lines = []
    for metric in metrics:
        cells = [Text(label_of(metric), metric)]
        for scheme in gap.schemes:
            number = held.get((scheme, metric))
            text = "-" if number is None else format_value(metric, number.value)
            cells.append(Text(text, number.word if number else ""))
        lines.append(tuple(cells))
    head = (("number", ""), *((scheme, "") for scheme in gap.schemes))
    return Grid("Every number behind the words", head, tuple(lines))


def _cells(gap: Gap) -> Iterator[Cell]:
    return (cell for cell in gap.cells if cell.scheme in gap.schemes)
