"""What a packet set off that nobody foresaw: counted, told once, and the node lives."""

import sys
import traceback

from fanfold.kernels.codes import DROP_FAULT
from fanfold.kernels.state import I64

MAX_TOLD = 16
"""Faults of different places that are told; a flood of one kind is told once."""


class Faults:
    """Faults of one node.

    Args:
        who: how lines begin. drops: counters of the node.
    """

    def __init__(self, who: str, drops: I64) -> None:
        self.who, self.drops = who, drops
        self._told: set[tuple[str, str]] = set()

    def note(self, what: str, error: Exception) -> None:
        """Count a fault that is being handled, and tell it once; its trace to a log only."""
        self.drops[DROP_FAULT] += 1
        last = traceback.extract_tb(error.__traceback__)[-1:]
        place = f"{last[0].filename}:{last[0].lineno}" if last else ""
        key = (type(error).__name__, place)
        if key in self._told or len(self._told) >= MAX_TOLD:
            return
        self._told.add(key)
        said = " ".join(str(error).split())[:200]
        line = f"{self.who}: {what}: {key[0]}: {said}; counted as fault, told once\n"
        if not sys.stderr.isatty():
            line += "".join(traceback.format_exception(error))
        sys.stderr.write(line)
        sys.stderr.flush()
