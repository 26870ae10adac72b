"""Tables of the page: plain cells of text, and what is said of them."""

from collections.abc import Sequence
from typing import NamedTuple

from fanfold.report.amounts import format_times, format_value, label_of
from fanfold.report.points import format_key, sort_of
from fanfold.report.ranking import best_first
from fanfold.study.metric_catalog import CATALOG, metric_of
from fanfold.study.result import Row, Study

AI_METRICS = ("step_ps", "utilisation_ppm", "idle_gpu_ps", "straggler_ps")
"""Numbers that only a job of GPUs has; a straggler counts where a barrier waits for it."""
REFUSED = "cannot"


class Cell(NamedTuple):
    """Text of a cell; under: a second line. tone: best, refused, a word of the gap table."""

    text: str
    under: str = ""
    tone: str = ""


class Grid(NamedTuple):
    """A table.

    head: names of columns and what hovers over them; the first is a heading. is_words: cells
    hold words, not numbers.
    """

    caption: str
    head: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Cell, ...], ...]
    is_words: bool = False


def main_tables(study: Study, rows: Sequence[Row]) -> list[Grid]:
    """The table of a point in two blocks: metrics of any network, and those of AI jobs."""
    shown = [m for m in study.metrics if any(row.values.get(m) for row in rows)]
    plain = [m for m in shown if m not in AI_METRICS]
    of_ai = [m for m in shown if m in AI_METRICS]
    grids = []
    if plain or not shown:
        grids.append(_metrics("Metrics of any network", study, rows, plain))
    if of_ai:
        grids.append(_metrics("Metrics of AI jobs", study, rows, of_ai))
    return grids


def idle_metrics(study: Study, rows: Sequence[Row]) -> list[str]:
    """Metrics of the study that are nothing for every scheme; they get no column."""
    held = [m for m in study.metrics if any(m in row.values for row in rows)]
    return [m for m in held if not any(row.values.get(m) for row in rows)]


def _metrics(caption: str, study: Study, rows: Sequence[Row], metrics: Sequence[str]) -> Grid:
    head = [("scheme", "and how exactly it was run")]
    head += [(label_of(m), _meaning(m)) for m in metrics]
    base = next((row for row in rows if row.scheme == study.baseline), None)
    best = {m: _best(m, [row for row in rows if not row.unranked]) for m in metrics}
    decisive = study.metrics[0] if study.metrics else ""
    able = [row for row in rows if not row.refusal]
    ranked = best_first(able, decisive)
    able = ranked + [row for row in able if row not in ranked]
    lines = []
    for row in able:
        cells = [Cell(row.scheme, row.fidelity)]
        for m in metrics:
            if m not in row.values:
                cells.append(Cell("-"))
                continue
            value = row.values[m]
            times = format_times(value, base.values.get(m, 0)) if base else ""
            under = times if row.scheme != study.baseline and _is_ratio(m) else ""
            tone = ""
            if value == best[m] and not row.unranked:
                tone, under = "best", f"best, {under}" if under else "best"
            cells.append(Cell(format_value(m, value), under, tone))
        lines.append(tuple(cells))
    lines += [(Cell(r.scheme), Cell(REFUSED, r.refusal, "refused")) for r in rows if r.refusal]
    return Grid(caption, tuple(head), tuple(lines))


def sweep_table(study: Study, metrics: Sequence[str]) -> Grid:
    """All points of a sweep, one line for each scheme and point."""
    head = [("scheme", "")] + [(key, "key of the sweep") for key in study.keys]
    head += [(label_of(m), _meaning(m)) for m in metrics]
    sorts = {key: sort_of(study.kind, key) for key in study.keys}
    lines = []
    for row in study.rows:
        cells = [Cell(row.scheme)]
        cells += [Cell(format_key(sorts[k], row.point.get(k, ""))) for k in study.keys]
        if row.refusal:
            cells.append(Cell(REFUSED, row.refusal, "refused"))
        else:
            cells += [
                Cell(format_value(m, row.values[m]) if m in row.values else "-")
                for m in metrics
            ]
        lines.append(tuple(cells))
    return Grid("Every point", tuple(head), tuple(lines))


def meanings(study: Study) -> Grid:
    """Definition and unit of every metric that the study holds."""
    held = {m for row in study.rows for m in row.values} | set(study.metrics)
    lines = tuple(
        (
            Cell(label_of(m.name), m.name),
            Cell(m.unit or "count"),
            Cell({"less": "less is better", "more": "more is better"}.get(m.better, "")),
            Cell(m.requirement or "cost"),
            Cell("AI jobs" if m.name in AI_METRICS else "any network"),
            Cell(m.meaning),
        )
        for m in CATALOG
        if m.name in held
    )
    head = ("metric", "unit", "better", "requirement", "of", "meaning")
    return Grid(
        "What each number means", tuple((name, "") for name in head), lines, is_words=True
    )


def defaults_table(study: Study) -> Grid:
    """Everything that was assumed, and where it is from."""
    lines = tuple((Cell(d.name), Cell(d.value), Cell(d.source)) for d in study.defaults)
    head = (("name", ""), ("value", ""), ("from", ""))
    return Grid("Defaults and assumptions", head, lines, is_words=True)


def _best(metric: str, rows: Sequence[Row]) -> int | None:
    values = [row.values[metric] for row in rows if metric in row.values]
    if len(set(values)) < 2:
        return None
    better = metric_of(metric).better
    return None if not better else max(values) if better == "more" else min(values)


def _is_ratio(metric: str) -> bool:
    return metric_of(metric).unit != "ppm"


def _meaning(metric: str) -> str:
    row = metric_of(metric)
    return f"{row.name}: {row.meaning}"
