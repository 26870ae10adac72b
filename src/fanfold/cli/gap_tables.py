"""The gap table for people: words, numbers beside their limits, why, worked examples."""

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from fanfold.cli.console import Screen, bold, printable, screen
from fanfold.study.amount import amount, format_value
from fanfold.study.gap import REQUIREMENTS
from fanfold.study.gap_table import Cell, Example, Gap, Limit, Number, cell_of
from fanfold.study.metric_catalog import metric_of
from fanfold.units import PPB_ONE

_COLOURS = {"Good": "green", "Moderate": "yellow", "Poor": "red"}


def show_gap(gap: Gap, *, numbers: bool) -> None:
    """Words, deciding numbers and limits; with numbers also all others and what was assumed."""
    console = screen()
    console.print(bold(_title(gap)))
    console.print(_words(gap, gap.schemes))
    if gap.variants:
        console.print(bold("variants"))
        console.print(_words(gap, [name for name, _, _ in gap.variants]))
    console.print(
        Text.assemble(
            bold("deciding numbers"),
            " and their limits; the worst one makes the word; *: no run gave it (--numbers)",
        )
    )
    console.print(_limits(gap, gap.schemes))
    console.print(bold("why not Good"))
    for line in _reasons(gap, gap.schemes):
        console.print(line)
    console.print(bold("goodput with loss, by seeds"))
    console.print(_spread(gap))
    if numbers:
        _show_numbers(console, gap)
    for example in gap.examples:
        _show_example(console, example)
    console.print()
    console.print(f"again: {gap.command}", soft_wrap=True)


def _title(gap: Gap) -> str:
    loss = f"{gap.loss_ppb * 100 / PPB_ONE:g} %"
    return (
        f"gap table on {gap.topology}: {gap.n_receivers:,} receivers, "
        f"sparse group of {gap.n_members}, loss {loss} a link, seed {gap.seed}, "
        f"medians of {gap.n_seeds} seeds"
    )


def _words(gap: Gap, names: Sequence[str]) -> Table:
    table = Table("scheme", *REQUIREMENTS, box=SIMPLE)
    what = {name: f"{what}" for name, _, what in gap.variants}
    for name in names:
        label = f"{name}\n  {what[name]}" if name in what else name
        cells = (_cell(gap, requirement, name) for requirement in REQUIREMENTS)
        table.add_row(label, *(_word(cell) for cell in cells))
    return table


def _cell(gap: Gap, requirement: str, name: str) -> Cell | None:
    known = {(cell.requirement, cell.scheme) for cell in gap.cells}
    return cell_of(gap, requirement, name) if (requirement, name) in known else None


def _word(cell: Cell | None) -> str | Text:
    """The word, and what the draft says where it says something."""
    if cell is None:
        return "not measured"
    text = bold(cell.word, _COLOURS[cell.word])
    if not cell.draft_word:
        return text
    same = "as the draft" if cell.draft_word == cell.word else f"the draft: {cell.draft_word}"
    return Text.assemble(text, f" ({same})")


def _limits(gap: Gap, names: Sequence[str]) -> Table:
    table = Table(box=SIMPLE)
    table.add_column("number", no_wrap=True)
    for column in ("Good to", "Moderate to", *names):
        table.add_column(column, justify="right")
    for limit in gap.limits:
        found = [_number(gap, limit, name) for name in names]
        ends = (amount(limit.metric, end) for end in (limit.good, limit.moderate))
        table.add_row(limit.metric, *ends, *map(_value, found))
    return table


def _spread(gap: Gap) -> Table:
    """Worst, median and best seed of every row."""
    metrics = ("goodput_least_ppm", "goodput_ppm", "goodput_most_ppm")
    table = Table("scheme", "worst", "median", "best", box=SIMPLE)
    for name in (*gap.schemes, *(name for name, _, _ in gap.variants)):
        cell = _cell(gap, "reliability", name)
        held = {n.metric: n.value for n in cell.numbers} if cell else {}
        if metrics[0] in held:
            table.add_row(name, *(amount(metric, held[metric]) for metric in metrics))
    return table


def _number(gap: Gap, limit: Limit, name: str) -> Number | None:
    cell = _cell(gap, metric_of(limit.metric).requirement, name)
    found = [n for n in cell.numbers if n.metric == limit.metric] if cell else []
    return found[0] if found else None


def _value(number: Number | None) -> str | Text:
    if number is None:
        return "-"
    mark = "*" if number.by else ""
    return bold(f"{amount(number.metric, number.value)}{mark}", _COLOURS[number.word])


def _reasons(gap: Gap, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        for requirement in REQUIREMENTS:
            cell = _cell(gap, requirement, name)
            if cell and (cell.word != "Good" or cell.draft_word not in ("", cell.word)):
                yield f"  {name}, {requirement}: {cell.word}: {cell.why}"


def _show_numbers(console: Screen, gap: Gap) -> None:
    variants = [name for name, _, _ in gap.variants]
    if variants:
        for line in _reasons(gap, variants):
            console.print(line)
    for part in (gap.schemes, *(variants[i : i + 6] for i in range(0, len(variants), 6))):
        console.print(_all_numbers(gap, part))
    console.print(_meanings(gap))
    console.print(_bases(gap))
    limits = Table("limit of", "because", box=SIMPLE)
    for limit in gap.limits:
        limits.add_row(limit.metric, limit.why)
    console.print(limits)
    assumed = Table("assumed", "value", "source", box=SIMPLE)
    for default in gap.defaults:
        assumed.add_row(default.name, default.value, default.source)
    console.print(assumed)


def _all_numbers(gap: Gap, names: Sequence[str]) -> Table:
    """Every number of some schemes, deciding or not."""
    table = Table(box=SIMPLE)
    table.add_column("number", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right")
    values = {
        (cell.scheme, number.metric): amount(number.metric, number.value)
        for cell in gap.cells
        for number in cell.numbers
    }
    metrics = dict.fromkeys(n.metric for cell in gap.cells for n in cell.numbers)
    for metric in metrics:
        table.add_row(metric, *(values.get((name, metric), "-") for name in names))
    return table


def _meanings(gap: Gap) -> Table:
    table = Table("number", "is", box=SIMPLE)
    for metric in dict.fromkeys(n.metric for cell in gap.cells for n in cell.numbers):
        table.add_row(metric, metric_of(metric).meaning)
    return table


def _bases(gap: Gap) -> Table:
    """Numbers that no run gave, and why."""
    table = Table("not measured", "of", "because", box=SIMPLE)
    found: dict[tuple[str, str], list[str]] = {}
    for cell in gap.cells:
        for number in cell.numbers:
            if number.by:
                found.setdefault((number.metric, number.by), []).append(cell.scheme)
    for (metric, reason), schemes in found.items():
        table.add_row(metric, ", ".join(schemes), reason)
    return table


def _show_example(console: Screen, example: Example) -> None:
    names = [name for name, _ in example.lines[0].values]
    table = Table("", box=SIMPLE)
    for name in names:
        table.add_column(name, justify="right")
    for line in example.lines:
        table.add_row(line.what, *(format_value(line.unit, n) for _, n in line.values))
    console.print(Text.assemble(bold(example.title), "  ", printable(example.command)))
    console.print(table)
    console.print(f"  {example.verdict}")
    console.print()
