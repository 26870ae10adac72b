"""Where tasks run: in this process, or in others beside it; clusters are in clusters.py.

A worker keeps its row itself, so what is done is kept whatever becomes of who asked for it.
"""

import contextlib
import functools
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fanfold.errors import CheckFailed, ConfigError
from fanfold.extras import load
from fanfold.study.keep import Shelf
from fanfold.study.result import Row
from fanfold.study.task import Fault, StudyTask, run_task, task_id

Got = tuple[int, Row | Fault]
"""Place of a task in its list, and what came of it."""
Submit = Callable[[Sequence[StudyTask], Path], Iterator[Got]]
"""Runs tasks somewhere, and gives back each as it is done."""
LOST = "a process of a run died, for want of memory perhaps: fewer --jobs; the rest is kept"


def work(task: StudyTask, folder: str) -> Row | Fault:
    """Run one task and keep its row; a row that is kept already is not made again."""
    shelf, name = Shelf(Path(folder)), task_id(task)
    if (kept := shelf.row(name)) is not None:
        return kept
    got = run_task(task, folder)
    if isinstance(got, Row):
        shelf.put_row(name, got)
    return got


def here(jobs: int) -> Submit:
    """Run in so many processes; in this one where it is one.

    Raises:
        ConfigError: less than one.
    """
    if not 1 <= jobs <= 1024:
        raise ConfigError("--jobs", jobs, "1..1024")
    return functools.partial(_beside, jobs)


def _beside(jobs: int, tasks: Sequence[StudyTask], folder: Path) -> Iterator[Got]:
    if jobs == 1 or len(tasks) == 1:
        for place, task in enumerate(tasks):
            yield place, work(task, str(folder))
        return
    loky: Any = load("loky", "study")
    pool = loky.ProcessPoolExecutor(min(jobs, len(tasks)), initializer=_leave_interrupts)
    places = {pool.submit(work, task, str(folder)): i for i, task in enumerate(tasks)}
    try:
        for done in loky.as_completed(places):
            yield places[done], done.result()
    except loky.BrokenProcessPool as err:
        raise CheckFailed(LOST) from err
    finally:
        pool.shutdown(wait=True, kill_workers=True)


def _leave_interrupts() -> None:
    """Ctrl-C is for who asked; it ends the workers."""
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
