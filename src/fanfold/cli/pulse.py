"""A line now and then for who reads a log: how far a command is, and how long still."""

import sys

from fanfold.cli.console import printable
from fanfold.live.clock import now_ps
from fanfold.live.compile_notice import announce_compiles
from fanfold.units import PS_PER_SECOND, format_duration

EVERY_PS = 5 * PS_PER_SECOND
"""After so long the first line, and then one at most so often."""


class Pulse:
    """Lines on stderr where there is no terminal for a bar."""

    def __init__(self, *, is_on: bool) -> None:
        announce_compiles()
        self._is_on = is_on
        self._began_ps = self._last_ps = now_ps()

    def tell(self, text: str) -> None:
        """Print where we are, if the last line is long enough ago."""
        now = now_ps()
        if self._is_on and now - self._last_ps >= EVERY_PS:
            self._last_ps = now
            spent = format_duration((now - self._began_ps) // PS_PER_SECOND * PS_PER_SECOND)
            print(printable(f"{spent}: {text}"), file=sys.stderr, flush=True)

    def left(self, n_done: int, n_left: int) -> str:
        """Time that the rest takes if it goes on like this."""
        if not n_done:
            return "?"
        return format_duration((now_ps() - self._began_ps) * n_left // n_done)
