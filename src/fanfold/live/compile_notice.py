"""A word while kernels are compiled or waited for: a first run after a change takes a while."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from fanfold.kernels.jit import cache_dir, on_compile, on_wait
from fanfold.live.birth import Say

AGAIN_S = 2.0
"""Between two lines at least."""
_last_s: list[float] = []


def announce_compiles() -> None:
    """From now on this process says what it compiles, and for whom it waits."""
    on_compile(tell)
    on_wait(tell_wait)


@contextmanager
def telling_compiles(say: Say, what: str) -> Iterator[None]:
    """Meanwhile say which step a compilation belongs to, or who is waited for.

    Args:
        what: the kernel, and which of how many.
    """

    def compiling(name: str) -> None:
        del name
        say(f"compiling kernels, once after a change: {what}; kept in {_place()}")

    def waiting(owner: str) -> None:
        say(f"compiling kernels, once after a change: {what}; {owner}, waiting for it")

    undo = [on_compile(compiling), on_wait(waiting)]
    try:
        yield
    finally:
        for each in undo:
            each()


def tell(name: str) -> None:
    """Say which kernel comes next, and where all of them are kept; not too often."""
    now = time.monotonic()
    if _last_s and now - _last_s[0] < AGAIN_S:
        return
    where = "" if _last_s else f", kept in {_place()}"
    _last_s[:] = [now]
    _write(f"compiling kernels, once after a change: {name} (some seconds{where})")


def tell_wait(owner: str) -> None:
    """Say who compiles what this process waits for."""
    _write(f"compiling kernels, once after a change: {owner}, waiting for it")


def _place() -> str:
    return str(cache_dir("kernels").parent)


def _write(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
