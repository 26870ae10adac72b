"""Thousands of small files to eight receivers, beside one file of their size and bare calls."""

import os
import shutil
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

from jobs import JobError
from labs import N_RECEIVERS, BenchLab, bench_lab
from measure import Part, random_file, spread

FILE_BYTES = 4096
COUNTS = (4_500, 9_000, 18_000)
IN_FOLDER = 500
TIMEOUT_S = 120.0


def run(folder: Path, rounds: int) -> Part:
    """For each count, alternating: the files, one file of all their bytes, the bare calls."""
    rows = []
    with bench_lab(folder / "state") as lab, bench_lab(folder / "safe", "--fsync") as safe:
        for count in COUNTS:
            many, one = folder / f"many{count}", folder / f"one{count}.bin"
            make_files(many, count)
            random_file(one, count * FILE_BYTES)
            took: dict[str, list[float]] = {"many": [], "one": [], "fsync": [], "bare": []}
            for _ in range(rounds):
                took["one"].append(_push(lab, one))
                took["many"].append(_push(lab, many))
                took["fsync"].append(_push(safe, many))
                took["bare"].append(bare_calls(many, folder / "bare", count))
            rows.append(_row(count, took))
            shutil.rmtree(many)
            one.unlink()
    return Part(
        name="files",
        title=f"Files of {FILE_BYTES} bytes to {N_RECEIVERS} receivers on this machine",
        columns={
            "files": "files",
            "one_s": "one file of that size, s",
            "bare_s": "bare calls, s",
            "many_s": "the files, s",
            "ratio": "times one file",
            "floor": "times one file and bare calls",
            "fsync_s": "receivers with --fsync, s",
            "rounds": "each round, s",
        },
        rows=rows,
        source="Wall time of `fanfold push`, start to end, median. Every receiver verified all."
        " Bare calls: a loop of open, write, chmod, utime, close over as many files in"
        f" {N_RECEIVERS} folders, shared by one process for each CPU, after a loop of stat,"
        " open, read, fstat, close over the source, twice as the sender does",
        limits="All receivers share this machine's CPUs and its file system"
        f" ({folder}); what each creates, it creates alone elsewhere.",
    )


def make_files(top: Path, count: int, size: int = FILE_BYTES) -> None:
    """Random files, so many in a folder."""
    for k in range(count):
        place = top / f"d{k // IN_FOLDER:03d}"
        if k % IN_FOLDER == 0:
            place.mkdir(parents=True)
        (place / f"f{k:06d}.bin").write_bytes(os.urandom(size))


def bare_calls(source: Path, into: Path, count: int) -> float:
    """Seconds of the system calls alone that such a push cannot do without."""
    into.mkdir()
    began = time.perf_counter()
    for _ in range(2):
        _read_all(source)
    context = get_context("fork")
    n = len(os.sched_getaffinity(0))
    mine = [range(i, N_RECEIVERS, n) for i in range(n)]
    crew = [context.Process(target=_create_all, args=(into, hosts, count)) for hosts in mine]
    for worker in crew:
        worker.start()
    for worker in crew:
        worker.join()
    took = time.perf_counter() - began
    shutil.rmtree(into)
    return took


def _read_all(source: Path) -> None:
    for folder in os.scandir(source):
        for child in os.scandir(folder.path):
            child.stat()
            fd = os.open(child.path, os.O_RDONLY)
            os.pread(fd, FILE_BYTES, 0)
            os.fstat(fd)
            os.close(fd)


def _create_all(into: Path, hosts: range, count: int) -> None:
    data = os.urandom(FILE_BYTES)
    for host in hosts:
        for dir_fd, k in _places(into / f"h{host}", count):
            name = f"f{k:06d}.bin"
            fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=dir_fd)
            os.write(fd, data)
            os.fchmod(fd, 0o644)
            os.utime(fd, ns=(1, 1))
            os.close(fd)


def _places(top: Path, count: int) -> Iterator[tuple[int, int]]:
    for at in range(0, count, IN_FOLDER):
        place = top / f"d{at // IN_FOLDER:03d}"
        place.mkdir(parents=True)
        dir_fd = os.open(place, os.O_RDONLY)
        for k in range(at, min(at + IN_FOLDER, count)):
            yield dir_fd, k
        os.close(dir_fd)


def _push(lab: BenchLab, path: Path) -> float:
    pushed = lab.push(path, TIMEOUT_S)
    if not pushed.is_complete:
        why = [r["error"] for r in pushed.told["receivers"] if r["error"]]
        raise JobError(f"{path.name}: exit {pushed.code}: {'; '.join(why)}")
    lab.forget()
    return pushed.command_s


def _row(count: int, took: dict[str, list[float]]) -> dict[str, Any]:
    pairs = list(zip(took["many"], took["one"], took["bare"], strict=True))
    return {
        "files": f"{count:,}",
        **{f"{name}_s": round(median(times), 2) for name, times in took.items()},
        "ratio": round(median(many / one for many, one, _ in pairs), 2),
        "floor": round(median(many / (one + bare) for many, one, bare in pairs), 2),
        "rounds": spread(took["many"], 2),
        "all": took,
    }
