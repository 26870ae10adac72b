"""What a command is doing while somebody waits: a line that changes, or several."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.markup import escape

from fanfold.cli.console import error_screen

EVERY_S = 2.0
"""Between two lines off a terminal."""

Say = Callable[[str], None]


class Lines:
    """Progress as lines on stderr: none before ``patience_s``, then not too many."""

    def __init__(self, patience_s: float) -> None:
        self._next_s = time.monotonic() + patience_s
        self._first = self._last = ""

    def say(self, text: str) -> None:
        """Take what is being done now, or "" for a sign that it goes on."""
        self._first = self._first or text
        self._last = text or self._last
        if time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + EVERY_S
        for line in dict.fromkeys((self._first, self._last)):
            if line and line != " ":
                print(line, file=sys.stderr, flush=True)
        self._first, self._last = " ", ""


@contextmanager
def telling(patience_s: float = 0.0) -> Iterator[Say]:
    """Show what is done meanwhile.

    patience_s: off a terminal, what takes no longer than this says nothing.
    """
    console = error_screen()
    if not console.is_terminal:
        yield Lines(patience_s).say
        return
    with console.status("") as status:
        yield lambda text: status.update(escape(text)) if text else None
