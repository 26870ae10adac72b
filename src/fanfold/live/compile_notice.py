"""A word on stderr while kernels are compiled: the first run after a change takes a while."""

import fcntl
import sys
import time

from fanfold.kernels.jit import cache_dir, on_compile

AGAIN_S = 2.0
"""Between two lines at least."""
STEP_S = 0.02
_last_s: list[float] = []
_is_on: list[bool] = []


def announce_compiles() -> None:
    """From now on this process says what it compiles."""
    on_compile(tell)
    _is_on[:] = [True]


def take_turn(fd: int) -> None:
    """Lock a file, as others that compile or load have it; say so while that takes long."""
    told_s = time.monotonic()
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if _is_on and time.monotonic() - told_s >= AGAIN_S:
                told_s = time.monotonic()
                _write("waiting for another process that compiles or loads the kernels")
            time.sleep(STEP_S)
        else:
            return


def tell(name: str) -> None:
    """Say which kernel comes next, and where all of them are kept; not too often."""
    now = time.monotonic()
    if _last_s and now - _last_s[0] < AGAIN_S:
        return
    where = "" if _last_s else f", kept in {cache_dir('kernels').parent}"
    _last_s[:] = [now]
    _write(f"compiling kernels, once after a change: {name} (some seconds{where})")


def _write(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
