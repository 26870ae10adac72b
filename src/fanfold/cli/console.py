"""Where commands print for people: one console, whose tables never cut a number or a name.

A table is as wide as its numbers and its longest words, also where the screen is narrower:
lines then run on, and a terminal wraps them. Text folds at blanks only, and only as far as the
screen asks for it; in a pipe a row is one line.
"""

import os
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.errors import MarkupError
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

PIPED = 1 << 20
"""Columns where neither a terminal nor the variable of that name says otherwise."""
SHORT = 24
"""Cells of at most so many characters are not folded: "15.23 M" stays with its unit."""
PADDING = 2
"""Blanks of each cell, one on each side."""


class Told(Exception):  # noqa: N818 - the name says what happened
    """A command's end whose reason was printed already: its exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Screen(Console):
    """A console that gives each column of a table the room that its cells need."""

    def print(self, *objects: Any, **more: Any) -> None:
        """Print; a table as wide as it must be, a line of text uncut where nobody looks on."""
        for one in objects:
            if isinstance(one, Table):
                self._print_table(one)
            else:
                words = {"soft_wrap": self.soft_wrap or not self.is_terminal, **more}
                super().print(one, **words)
        if not objects:
            super().print(**more)

    def _print_table(self, table: Table) -> None:
        width = max(self.width, fit(table, self.width))
        wide = Console(
            file=self.file,
            force_terminal=self.is_terminal,
            width=width,
            height=self.height,  # with both given, no screen is asked
            highlight=False,
        )
        wide.print(table)


def screen() -> Screen:
    """Standard output."""
    made = Screen(highlight=False)
    if not made.is_terminal and not os.environ.get("COLUMNS"):
        made.width = PIPED
    return made


def error_screen() -> Screen:
    """Standard error."""
    return Screen(stderr=True, soft_wrap=True, highlight=False)


def tell_error(text: str) -> None:
    """One line on stderr."""
    error_screen().print("[bold red]error:[/] " + escape(" ".join(text.split())))


def tell_warning(text: str) -> None:
    """One line on stderr, of what is odd and no error."""
    error_screen().print("[yellow]note:[/] " + escape(" ".join(text.split())))


def fit(table: Table, room: int) -> int:
    """Fix the width of each column, and return that of the table.

    Numbers and short cells stand on one line, longer text folds between words.
    """
    needs = [_need(column) for column in table.columns]
    left = room - sum(least for least, _ in needs) - _frame(table)
    for column, width in zip(table.columns, _dealt(needs, left), strict=True):
        column.width = width
    return sum(column.width or 0 for column in table.columns) + _frame(table)


def _frame(table: Table) -> int:
    """Columns of borders and padding."""
    n = len(table.columns)
    edges = (2 if table.show_edge else 0) + n - 1 if table.box else 0
    return edges + PADDING * n


def _need(column: Column) -> tuple[int, int]:
    """Least and most characters of a column: a number's cells are not folded at all."""
    header = _span([column.header])
    cells = _span(column.cells)
    is_number = column.no_wrap or column.justify == "right"
    least = cells[1] if is_number else max(cells[0], min(cells[1], SHORT))
    return max(header[0], least, 1), max(header[1], cells[1], 1)


def _span(cells: Iterable[Any]) -> tuple[int, int]:
    """Longest word and longest line of cells."""
    least = most = 0
    for cell in cells:
        plain = _plain(cell)
        words = (Text(word).cell_len for word in plain.split())
        least = max(least, max(words, default=0))
        most = max(most, max((Text(line).cell_len for line in plain.splitlines()), default=0))
    return least, most


def _plain(cell: Any) -> str:
    if isinstance(cell, Text):
        return cell.plain
    try:
        return Text.from_markup(str(cell)).plain
    except MarkupError:
        return str(cell)


def _dealt(needs: list[tuple[int, int]], left: int) -> list[int]:
    """Widths: what is left goes to the columns that are furthest from fitting on one line."""
    widths = [least for least, _ in needs]
    while left > 0:
        short = [i for i, (_, most) in enumerate(needs) if widths[i] < most]
        if not short:
            break
        least = min(short, key=widths.__getitem__)
        widths[least] += 1
        left -= 1
    return widths
