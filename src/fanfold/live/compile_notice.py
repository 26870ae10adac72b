"""A word on stderr while kernels are compiled: the first run after a change takes a while."""

import sys
import time

from fanfold.kernels.jit import cache_dir, on_compile

AGAIN_S = 2.0
"""Between two lines at least."""
_last_s: list[float] = []


def announce_compiles() -> None:
    """From now on this process says what it compiles."""
    on_compile(tell)


def tell(name: str) -> None:
    """Say which kernel comes next, and where all of them are kept; not too often."""
    now = time.monotonic()
    if _last_s and now - _last_s[0] < AGAIN_S:
        return
    where = "" if _last_s else f", kept in {cache_dir('kernels').parent}"
    _last_s[:] = [now]
    sys.stderr.write(f"compiling kernels, once after a change: {name} (some seconds{where})\n")
    sys.stderr.flush()
