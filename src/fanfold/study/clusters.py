"""Tasks on machines beyond this one: Slurm by submitit, a scheduler of Dask's by its address.

All machines see one folder of results, and a worker keeps each row there as soon as it has it.
So what a worker did outlives it: only rows that are not there are asked for again, and a row
that is there is never made twice. A worker that is gone is replaced, MAX_LOSSES times for the
work it held.
"""

import functools
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fanfold.errors import CheckFailed, ConfigError, EnvironmentLack
from fanfold.extras import load, require
from fanfold.live.clock import pause
from fanfold.study.keep import Shelf
from fanfold.study.result import Row
from fanfold.study.task import Fault, StudyTask, task_id
from fanfold.study.workers import Got, Submit, work

CLUSTERS = ("slurm", "local", "debug")
"""Of submitit: a cluster, processes of this machine, and this process."""
DASK = "dask://"
MINUTES = 120
MAX_JOBS = 32
"""Jobs of an array; each does its share of the tasks one after the other, in one process."""
MAX_LOSSES = 3
POLL_PS = 5 * 10**11
MISSES = 4
"""Looks at the queue in a row that a job without a result is missing from before it is lost: a
result may come through a shared folder later than the queue forgets the job."""


def on_cluster(cluster: str) -> Submit:
    """Hand tasks to a cluster.

    Raises:
        ConfigError: no such kind of cluster.
        EnvironmentLack: a module is not installed, no Slurm here, or no scheduler there.
    """
    if cluster.startswith(DASK):
        address = cluster.removeprefix(DASK)
        host, _, port = address.rpartition(":")
        if not host or not port.isascii() or not port.isdigit():
            raise ConfigError("--submit", cluster, f"{DASK}HOST:PORT of a scheduler")
        require(("distributed",), "dask", "--submit")
        return functools.partial(_by_dask, f"tcp://{address}")
    if cluster not in CLUSTERS:
        raise ConfigError("--submit", cluster, f"{', '.join(CLUSTERS)}, {DASK}HOST:PORT")
    require(("submitit",), "slurm", "--submit")
    if cluster == "slurm" and shutil.which("sbatch") is None:
        raise EnvironmentLack(
            "--submit slurm: no sbatch on the path: run it where Slurm can be reached"
        )
    return functools.partial(_by_submitit, cluster)


def work_many(tasks: Sequence[StudyTask], folder: str) -> list[tuple[int, Fault]]:
    """Run tasks, keep their rows; what nobody could do is given back, by place."""
    done = ((place, work(task, folder)) for place, task in enumerate(tasks))
    return [(place, got) for place, got in done if isinstance(got, Fault)]


class _Share(NamedTuple):
    """Places of tasks that one job has; losses: jobs before it that had some of them."""

    places: tuple[int, ...]
    job: Any
    losses: int


def _by_submitit(cluster: str, tasks: Sequence[StudyTask], folder: Path) -> Iterator[Got]:
    submitit: Any = load("submitit", "slurm")
    executor = submitit.AutoExecutor(folder=str(folder / "jobs"), cluster=cluster)
    executor.update_parameters(timeout_min=MINUTES, cpus_per_task=1, name="fanfold-study")
    n = min(len(tasks), MAX_JOBS)
    every = [tuple(range(start, len(tasks), n)) for start in range(n)]
    shares = _handed(executor, tasks, folder, [(places, 0) for places in every])
    misses: dict[str, int] = {}
    shelf, open_places = Shelf(folder), set(range(len(tasks)))
    try:
        while open_places:
            for place, row in _kept(shelf, tasks, open_places):
                yield place, row
            gone = _gone(cluster, shares, misses)
            for share in gone:
                shares.remove(share)
                for place, fault in _faults(share):
                    open_places.discard(place)
                    yield place, fault
            for place, row in _kept(shelf, tasks, open_places):
                yield place, row
            again = [_left(share, open_places) for share in gone]
            more = [left for left in again if left[0]]
            shares += _handed(executor, tasks, folder, more)
            if open_places and not gone:
                pause(POLL_PS)
    finally:
        for share in shares:
            share.job.cancel()


def _handed(
    executor: Any,
    tasks: Sequence[StudyTask],
    folder: Path,
    wanted: Sequence[tuple[tuple[int, ...], int]],
) -> list[_Share]:
    """One array of jobs."""
    if not wanted:
        return []
    parts = [[tasks[place] for place in places] for places, _ in wanted]
    jobs = executor.map_array(work_many, parts, [str(folder)] * len(parts))
    return [_Share(places, job, n) for (places, n), job in zip(wanted, jobs, strict=True)]


def _kept(
    shelf: Shelf, tasks: Sequence[StudyTask], open_places: set[int]
) -> Iterator[tuple[int, Row]]:
    """Rows that have come since the last look."""
    for place in sorted(open_places):
        row = shelf.row(task_id(tasks[place]))
        if row is not None:
            open_places.discard(place)
            yield place, row


def _gone(cluster: str, shares: Sequence[_Share], misses: dict[str, int]) -> list[_Share]:
    """Jobs that are over, with a result or without."""
    queued = _queued(shares) if cluster == "slurm" else None
    over = []
    for share in shares:
        is_over = share.job.paths.result_pickle.exists()
        if not is_over and queued is None:
            is_over = bool(share.job.done())
        elif not is_over and queued is not None:
            name = share.job.job_id
            misses[name] = 0 if name in queued else misses.get(name, 0) + 1
            is_over = misses[name] >= MISSES
        if is_over:
            over.append(share)
    return over


def _queued(shares: Sequence[_Share]) -> set[str] | None:
    """Jobs that the queue knows, an array's tasks one by one; None where it cannot be asked.

    Not sacct: that needs a data base, which small clusters have not.
    """
    arrays = sorted({share.job.job_id.partition("_")[0] for share in shares})
    if not arrays:
        return set()
    asked = ["squeue", "-h", "-r", "-o", "%i", "-j", ",".join(arrays)]
    told = subprocess.run(asked, capture_output=True, text=True, check=False)  # noqa: S603
    if told.returncode and "Invalid job id" not in told.stderr:
        return {share.job.job_id for share in shares}
    return set(told.stdout.split())


def _faults(share: _Share) -> list[tuple[int, Fault]]:
    """Faults of a job that has a result; a job without one has lost its worker."""
    if not share.job.paths.result_pickle.exists():
        return []
    outcome, got = share.job._get_outcome_and_result()
    if outcome == "error":
        last = str(got).strip().splitlines()[-1]
        raise CheckFailed(f"job {share.job.job_id} gave nothing: {last}")
    return [(share.places[at], fault) for at, fault in got]


def _left(share: _Share, open_places: set[int]) -> tuple[tuple[int, ...], int]:
    """Places of a lost job that have no row yet.

    Raises:
        CheckFailed: too many workers lost on the same work.
    """
    places = tuple(place for place in share.places if place in open_places)
    if places and share.losses >= MAX_LOSSES:
        text = (
            f"job {share.job.job_id} was lost, as {share.losses} before it with the same runs"
        )
        raise CheckFailed(f"{text}: see its log in jobs; what is done is kept")
    return places, share.losses + 1


def _by_dask(address: str, tasks: Sequence[StudyTask], folder: Path) -> Iterator[Got]:
    distributed: Any = load("distributed", "dask")
    try:
        client = distributed.Client(address, timeout="10s")
    except OSError as err:
        what = f"--submit: no scheduler of Dask's at {address}"
        raise EnvironmentLack(f"{what}: dask scheduler starts one") from err
    try:
        futures = [
            client.submit(work, task, str(folder.resolve()), key=f"fanfold-{task_id(task)}")
            for task in tasks
        ]
        places = {future.key: place for place, future in enumerate(futures)}
        for future in distributed.as_completed(futures):
            yield places[future.key], _of(future)
    finally:
        client.close()


def _of(future: Any) -> Row | Fault:
    try:
        got: Row | Fault = future.result()
    except Exception as err:
        text = f"{future.key} gave nothing: {str(err).splitlines()[0]}"
        raise CheckFailed(f"{text}; what is done is kept") from err
    return got
