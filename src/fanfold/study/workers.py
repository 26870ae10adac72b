"""Where tasks run: in this process, in others beside it, or on a cluster.

A worker keeps its row itself, so what is done is kept whatever becomes of who asked for it.
"""

import contextlib
import functools
import importlib
import importlib.util
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fanfold.errors import CheckFailed, ConfigError, EnvironmentLack
from fanfold.study.keep import Shelf
from fanfold.study.result import Row
from fanfold.study.task import Fault, StudyTask, run_task, task_id

Got = tuple[int, Row | Fault]
"""Place of a task in its list, and what came of it."""
Submit = Callable[[Sequence[StudyTask], Path], Iterator[Got]]
"""Runs tasks somewhere, and gives back each as it is done."""
CLUSTERS = ("slurm", "local", "debug")
"""Of submitit: a cluster, processes of this machine, and this process."""
MINUTES = 120
LOST = "a process of a run died, for want of memory perhaps: fewer --jobs; the rest is kept"


def work(task: StudyTask, folder: str) -> Row | Fault:
    """Run one task and keep its row."""
    got = run_task(task, folder)
    if isinstance(got, Row):
        Shelf(Path(folder)).put_row(task_id(task), got)
    return got


def here(jobs: int) -> Submit:
    """Run in so many processes; in this one where it is one.

    Raises:
        ConfigError: less than one.
    """
    if not 1 <= jobs <= 1024:
        raise ConfigError("--jobs", jobs, "1..1024")
    return functools.partial(_beside, jobs)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def on_cluster(cluster: str) -> Submit:
    """Hand tasks to a cluster, by submitit.

    Raises:
        ConfigError: no such kind of cluster.
        EnvironmentLack: submitit is not installed, or no Slurm here.
    """
    if cluster not in CLUSTERS:
        raise ConfigError("--submit", cluster, ", ".join(CLUSTERS))
    if importlib.util.find_spec("submitit") is None:
        raise EnvironmentLack(
            "--submit: no module submitit (import fails): pip install 'fanfold[slurm]'"
        )
    if cluster == "slurm" and shutil.which("sbatch") is None:
        raise EnvironmentLack(
            "--submit slurm: no sbatch on the path: run it where Slurm can be reached"
        )
    return functools.partial(_submitted, cluster)


def _beside(jobs: int, tasks: Sequence[StudyTask], folder: Path) -> Iterator[Got]:
    if jobs == 1 or len(tasks) == 1:
        for place, task in enumerate(tasks):
            yield place, work(task, str(folder))
        return
    loky: Any = importlib.import_module("loky")
    pool = loky.ProcessPoolExecutor(min(jobs, len(tasks)), initializer=_leave_interrupts)
    places = {pool.submit(work, task, str(folder)): i for i, task in enumerate(tasks)}
    try:
        for done in loky.as_completed(places):
            yield places[done], done.result()
    except loky.BrokenProcessPool as err:
        raise CheckFailed(LOST) from err
    finally:
        pool.shutdown(wait=True, kill_workers=True)


def _submitted(cluster: str, tasks: Sequence[StudyTask], folder: Path) -> Iterator[Got]:
    submitit: Any = importlib.import_module("submitit")
    executor = submitit.AutoExecutor(folder=str(folder / "jobs"), cluster=cluster)
    executor.update_parameters(timeout_min=MINUTES, cpus_per_task=1, name="fanfold-study")
    jobs = executor.map_array(work, tasks, [str(folder)] * len(tasks))
    places = {id(job): place for place, job in enumerate(jobs)}
    left = list(jobs)
    try:
        while left:
            done = [job for job in left if job.done()]
            if not done:
                done = [left[0]]
            for job in done:
                left.remove(job)
                yield places[id(job)], _result(submitit, job)
    finally:
        for job in left:
            job.cancel()


def _result(submitit: Any, job: Any) -> Row | Fault:
    try:
        got: Row | Fault = job.result()
    except (submitit.core.utils.UncompletedJobError, submitit.core.utils.FailedJobError) as err:
        raise CheckFailed(f"job {job.job_id} gave nothing: {str(err).splitlines()[0]}") from err
    return got


def _leave_interrupts() -> None:
    """Ctrl-C is for who asked; it ends the workers."""
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
