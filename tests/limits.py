"""A test has so much time and no more; where it stood is shown, and the logs of labs."""

import faulthandler
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

LIMIT_S = 240
LIVE_LIMIT_S = 480
"""One phase of a test; setting up the first lab of a machine compiles every kernel."""
AGAIN_S = 30
set_handler = signal.signal
"""Tests put others in its place."""
LOG_CHARACTERS = 3000


def limit_of(item: pytest.Item) -> float:
    """Seconds of each phase, FANFOLD_TEST_LIMIT_S or by the kind of test."""
    named = os.environ.get("FANFOLD_TEST_LIMIT_S")
    if named:
        return float(named)
    return LIVE_LIMIT_S if item.get_closest_marker("live") else LIMIT_S


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Fail where this takes longer: what waits in Python or in a system call is interrupted."""

    def fail(number: int, frame: FrameType | None) -> None:
        del number, frame
        faulthandler.dump_traceback(sys.__stderr__)
        pytest.fail(f"took longer than {seconds:g} s, its limit")

    before = set_handler(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_S)  # again: clearing up may hang too
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        set_handler(signal.SIGALRM, before)


def logs_of(state: Path) -> str:
    """The last lines of the log of each lab below a state folder."""
    said = []
    for log in sorted(state.glob("labs/*/lab.log")):
        text = log.read_text(errors="replace")[-LOG_CHARACTERS:]
        said.append(f"{log.parent.name}:\n{text or '(empty)'}")
    return "\n".join(said)
