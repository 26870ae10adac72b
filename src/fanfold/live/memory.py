"""How much memory, and how many cores, a process of this machine may take now."""

import os
from pathlib import Path

MEMINFO = Path("/proc/meminfo")
LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""Bound of the container that this process is in, by version of cgroups."""


def free_bytes() -> int | None:
    """What the kernel takes for free, or the container's bound where that is less.

    Returns:
        None where the kernel does not say.
    """
    try:
        rows = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
        free = int(rows["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError):
        return None
    for path in LIMITS:
        try:
            free = min(free, int(path.read_text()))
        except (OSError, ValueError):  # no such version, or "max"
            continue
    return free


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))
