"""A study as a table for people, and the line that says how far it is."""

from types import TracebackType
from typing import Any

from rich.box import SIMPLE
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from fanfold.cli.console import error_screen, print_json, screen
from fanfold.cli.pulse import Pulse
from fanfold.report.amounts import format_value, label_of
from fanfold.study.api import kinds_of
from fanfold.study.result import Row, Study

MOST_SHOWN = 9
"""Metrics of a table; the rest is in the JSON and in the report."""


class Line:
    """How many runs are done, of how many, and which was the last."""

    def __init__(self, *, is_shown: bool) -> None:
        console = error_screen()
        self.n_done = self.n_tasks = 0
        self._pulse = Pulse(is_on=not console.is_terminal)
        self._n_kept = 0
        self._bar = Progress(
            TextColumn("{task.fields[what]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not (is_shown and console.is_terminal),
        )
        self._task = self._bar.add_task("runs", what="runs", total=1)

    def __enter__(self) -> "Line":
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def tell(self, n_done: int, n_tasks: int, what: str) -> None:
        """Take how far it is."""
        self.n_done, self.n_tasks = n_done, n_tasks
        if not what:
            self._n_kept = n_done
        left = self._pulse.left(n_done - self._n_kept, n_tasks - n_done)
        self._pulse.tell(f"{n_done} of {n_tasks} runs, {left} left, last {what}")
        kept = f"{n_done} kept already" if n_done else "the first runs"
        self._bar.update(self._task, completed=n_done, total=n_tasks, what=what or kept)

    def show(self, study: Study) -> None:
        """Print a whole study above the line."""
        self._bar.stop()
        show_study(study)
        self._bar.start()


def show_study(study: Study) -> None:
    """Title, table, what to choose, what was assumed."""
    console = screen()
    console.print(study.title, style="bold")
    console.print(_table(study))
    for row in study.rows:
        if row.refusal or row.note:
            where = "".join(f", {key} {value}" for key, value in row.point.items())
            text = f"left out: {row.refusal}" if row.refusal else row.note
            console.print(f"{row.scheme}{where}: {text}")
    for line in study.verdict:
        console.print(f"=> {line}")
    console.print("assumed, as nobody said otherwise:", style="dim")
    for default in study.defaults:
        text = f"  {default.name}: {default.value} ({default.source})"
        console.print(text, style="dim")


def show_key_rows(kind: str, *, as_json: bool) -> None:
    """What can be swept, with defaults and where these are from."""
    rows = [(row, key) for row in kinds_of(kind) for key in row.all_keys]
    if as_json:
        told = [
            {"study": row.name, "key": key.name, "default": key.default, "source": key.source}
            for row, key in rows
        ]
        print_json(told)
        return
    table = Table("study", "key", "values", "default", "from", box=SIMPLE)
    for row, key in rows:
        values = ", ".join(key.words) or key.sort
        table.add_row(row.name, key.name, values, key.default or "worked out", key.source)
    screen().print(table)


def _table(study: Study) -> Table:
    table = Table(box=SIMPLE)
    table.add_column("scheme\nfidelity")
    for key in study.keys:
        table.add_column(key)
    shown = study.metrics[:MOST_SHOWN]
    for name in shown:
        justify: Any = "right"
        table.add_column(label_of(name), justify=justify)
    last: dict[str, int | str] | None = None
    for row in study.rows:
        if last is not None and row.point != last:
            table.add_section()
        last = row.point
        table.add_row(*_cells(study, row, shown))
    return table


def _cells(study: Study, row: Row, shown: tuple[str, ...]) -> list[str]:
    cells = [f"{row.scheme}\n{'left out' if row.refusal else row.fidelity}"]
    cells += [str(row.point.get(key, "")) for key in study.keys]
    for name in shown:
        value = row.values.get(name)
        cells.append("" if value is None else format_value(name, value))
    return cells
