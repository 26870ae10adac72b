"""Where commands print for people: one console, whose tables never cut a number or a name.

A table is as wide as its numbers and its longest words, also where the screen is narrower:
lines then run on, and a terminal wraps them. Text folds at blanks only, and only as far as the
screen asks for it; in a pipe a row is one line.

Text is shown as it is: names of files and hosts and words of receivers are others' text, so
nothing in a string is markup, and characters that steer a terminal stand there as escapes. What
is to be bold or red is a ``Text``.
"""

import os
import re
from collections.abc import Iterable
from typing import Any

import msgspec
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

PIPED = 1 << 20
"""Columns where neither a terminal nor the variable of that name says otherwise."""
SHORT = 24
"""Cells of at most so many characters are not folded: "15.23 M" stays with its unit."""
PADDING = 2
"""Blanks of each cell, one on each side."""


STEERS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069"
    "\ud800-\udfff\ufeff]"
)
"""Control characters, marks of writing direction, what is not seen, halves of characters."""


def printable(text: str, keep: str = "") -> str:
    """Text that a terminal shows and does not obey, but for characters to keep as they are."""

    def escaped(found: re.Match[str]) -> str:
        char = found.group()
        return char if char in keep else char.encode("unicode_escape").decode()

    return STEERS.sub(escaped, text)


def bold(text: str, style: str = "bold") -> Text:
    """Text in a style."""
    return Text(printable(text), style)


class Plain(Console):
    """A console that shows text as it is, whatever stands in it."""

    def __init__(self, **more: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **more)

    def render_str(self, text: str, **more: Any) -> Text:
        """Text of a string, as wide as what is shown."""
        return super().render_str(printable(text, "\n"), **more)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """All that is shown comes by here."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text, "\n"), segment.style)


class Screen(Plain):
    """A console that gives each column of a table the room that its cells need."""

    def print(self, *objects: Any, **more: Any) -> None:
        """Print; a table as wide as it must be, a line of text uncut where nobody looks on."""
        for one in objects:
            if isinstance(one, Table):
                self._print_table(one)
            elif isinstance(one, str):
                self.print(Text(printable(one)), **more)
            else:
                words = {"soft_wrap": self.soft_wrap or not self.is_terminal, **more}
                super().print(one, **words)
        if not objects:
            super().print(**more)

    def _print_table(self, table: Table) -> None:
        width = max(self.width, fit(table, self.width))
        wide = Plain(
            file=self.file,
            force_terminal=self.is_terminal,
            width=width,
            height=self.height,  # with both given, no screen is asked
        )
        wide.print(table)


def screen() -> Screen:
    """Standard output."""
    made = Screen()
    if not made.is_terminal and not os.environ.get("COLUMNS"):
        made.width = PIPED
    return made


def stacked(parts: Iterable[RenderableType]) -> Group:
    """Several things, one below the other, as one that is shown."""
    return Group(*parts)


def error_screen() -> Screen:
    """Standard error."""
    return Screen(stderr=True, soft_wrap=True)


def tell_error(text: str) -> None:
    """One line on stderr."""
    _tell_line("error:", "bold red", text)


def say(text: str) -> None:
    """One line on standard output, at once."""
    print(printable(text), flush=True)


def print_json(value: Any) -> None:
    """One value as JSON; what would steer a terminal stands there as an escape of JSON."""
    text = msgspec.json.encode(value).decode()
    print(STEERS.sub(lambda found: f"\\u{ord(found.group()):04x}", text))


def tell_warning(text: str) -> None:
    """One line on stderr, of what is odd and no error."""
    _tell_line("note:", "yellow", text)


def _tell_line(mark: str, style: str, text: str) -> None:
    line = printable(" ".join(text.split()))
    error_screen().print(Text.assemble((mark, style), " ", line))


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
    return cell.plain if isinstance(cell, Text) else printable(str(cell), "\n")


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
