"""The only clock: picoseconds since this process' first reading of it."""

import time

from fanfold.units import Ps

_START_NS = time.monotonic_ns()


def now_ps() -> Ps:
    """Monotonic time, picoseconds since start."""
    return Ps((time.monotonic_ns() - _START_NS) * 1000)


def unix_ns() -> int:
    """Wall clock for captures and state files, nanoseconds since 1970."""
    return time.time_ns()


def unix_s() -> int:
    """Wall clock for keys that end, seconds since 1970."""
    return int(time.time())


def pause(time_ps: int) -> None:
    """Sleep that long."""
    time.sleep(time_ps / 1e12)


def start_unix_ps() -> int:
    """Wall-clock time of the start, picoseconds since 1970."""
    return (time.time_ns() - (time.monotonic_ns() - _START_NS)) * 1000


def start_ps() -> int:
    """What CLOCK_MONOTONIC showed at the start, for compiled loops."""
    return _START_NS * 1000
