"""What every part shares: its form, CPU time of processes, files and their hashes."""

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from blake3 import blake3

TICKS = os.sysconf("SC_CLK_TCK")
PIECE = 1 << 24


@dataclass
class Part:
    """One measurement: rows, what the columns are, where they come from, what they are not."""

    name: str
    title: str
    columns: dict[str, str]
    rows: list[dict[str, Any]]
    source: str
    limits: str
    notes: list[str] = field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def spread(values: Iterable[float], digits: int) -> str:
    """Least and most."""
    numbers = list(values)
    return f"{min(numbers):.{digits}f}..{max(numbers):.{digits}f}" if numbers else "-"


def cpu_of(pid: int) -> float:
    """CPU seconds of a process and of its children that it waited for; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(n) for n in fields[11:15]) / TICKS


def hash_file(path: Path) -> str:
    """BLAKE3 of a file, or the reason there is none."""
    try:
        h = blake3()
        with path.open("rb") as file:
            while part := file.read(PIECE):
                h.update(part)
        return h.hexdigest()
    except OSError as error:
        return error.strerror or "unreadable"


def random_file(path: Path, size: int) -> str:
    """Write random bytes; returns their BLAKE3."""
    h = blake3()
    with path.open("wb") as file:
        while size:
            part = os.urandom(min(size, PIECE))
            h.update(part)
            file.write(part)
            size -= len(part)
    return h.hexdigest()


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that is gone afterwards, in memory where there is such a place."""
    shm = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="fanfold-bench-", dir=shm if shm.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def touch_memory(folder: Path, n_bytes: int) -> None:
    """Let the kernel, and a hypervisor below it, hand out this many bytes of memory once.

    The first touch costs a guest several times the later ones, and whichever way came first
    would pay for all.
    """
    file = folder / "touched"
    part = bytes(PIECE)
    try:
        with file.open("wb") as out:
            for _ in range(0, n_bytes, PIECE):
                out.write(part)
    finally:
        file.unlink(missing_ok=True)


def room_of(folder: Path) -> int:
    """Free bytes where a folder lies, and not more than memory could take when it is tmpfs."""
    free = shutil.disk_usage(folder).free
    if str(folder).startswith("/dev/shm"):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = min(free, int(line.split()[1]) * 1024 * 3 // 4)
    return free
