"""How many nodes this machine takes: processes, memory."""

import os
import resource
from pathlib import Path

from fanfold.errors import ConfigError

NODE_BYTES = 24 << 20
"""Of a node's process that it shares with no other: 8 to 12 MB when it starts, measured, and
the blocks that a receiver collects, which is a part of all nodes."""
NODE_TASKS = 5
"""Threads of a node, at most."""
SPARE = 64
"""Processes left to others."""
CGROUP = Path("/sys/fs/cgroup")


def require_room(n_nodes: int) -> None:
    """Refuse a lab of more nodes than this machine has processes and memory for.

    Raises:
        ConfigError: "topology", with what is allowed and what bounds it.
    """
    most, what = min((by_tasks(), "processes of this user"), (by_memory(), "free memory"))
    if n_nodes > most:
        allowed = f"at most {most} here, one process each; {what} allows no more"
        raise ConfigError("topology", f"{n_nodes} nodes", allowed)


def by_tasks() -> int:
    """Nodes that limits on processes and threads leave room for."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    limits = [soft] if soft != resource.RLIM_INFINITY and os.getuid() else []
    top, now = _number(CGROUP / "pids.max"), _number(CGROUP / "pids.current")
    if top is not None:
        limits.append(top - (now or 0))
    limits.append(_number(Path("/proc/sys/kernel/pid_max")) or 1 << 15)
    return max(min(limits) - SPARE, 0) // NODE_TASKS


def by_memory() -> int:
    """Nodes that free memory leaves room for."""
    free = [_free_bytes()]
    top, now = _number(CGROUP / "memory.max"), _number(CGROUP / "memory.current")
    if top is not None:
        free.append(top - (now or 0))
    return max(min(free), 0) // NODE_BYTES


def _free_bytes() -> int:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 1 << 62


def _number(path: Path) -> int | None:
    """Number in a file of the kernel; None where there is none, or no limit."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
