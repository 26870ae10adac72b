"""All tasks of a request, those that are not kept yet run; then the whole as a Study.

What was stopped goes on where it was: a task whose row is in the folder is not run again.
"""

from collections.abc import Callable, Iterator, Sequence

from fanfold.errors import CheckFailed, ConfigError
from fanfold.study.ask import StudyRequest
from fanfold.study.keep import Shelf
from fanfold.study.result import Row, Study
from fanfold.study.summary import build_study
from fanfold.study.sweep import tasks_of
from fanfold.study.task import Fault, StudyTask, task_id
from fanfold.study.workers import Submit

INTERRUPTED = "not run: the study was interrupted; the same command goes on"
Tell = Callable[[int, int, str], None]
"""Called with how many tasks are done, of how many, and which was the last."""


def run_study(
    ask: StudyRequest,
    shelf: Shelf,
    command: str,
    *,
    submit: Submit,
    use_cache: bool = True,
    tell: Tell | None = None,
) -> Study:
    """Run what is not kept yet, and put the study on the shelf.

    Args:
        command: that prints the same again. submit: of study/workers.py.

    Raises:
        ConfigError: the first fault of the request.
        CheckFailed: a run that gave nothing.
    """
    tasks = tasks_of(ask)
    shelf.check()
    names = [task_id(task) for task in tasks]
    rows: list[Row | None] = [shelf.row(name) if use_cache else None for name in names]
    left = [i for i, row in enumerate(rows) if row is None]
    for i in left:
        shelf.drop_row(names[i])
    n_done = len(tasks) - len(left)
    if tell:
        tell(n_done, len(tasks), "")
    try:
        for place, row in _rows_of(submit, [tasks[i] for i in left], shelf):
            rows[left[place]] = row
            n_done += 1
            if tell:
                task = tasks[left[place]]
                tell(n_done, len(tasks), " ".join([task.scheme, *task.point.values()]))
    except KeyboardInterrupt:
        if n_done:
            shelf.put_study(build_study(ask, tasks, _with_gaps(tasks, rows), command))
        raise
    whole = [row for row in rows if row is not None]
    if len(whole) < len(tasks):
        raise CheckFailed(f"{len(tasks) - len(whole)} of {len(tasks)} runs gave nothing")
    study = build_study(ask, tasks, whole, command)
    shelf.put_study(study)
    return study


def _rows_of(
    submit: Submit, tasks: Sequence[StudyTask], shelf: Shelf
) -> Iterator[tuple[int, Row]]:
    """Rows as they come, each with the place of its task."""
    for place, got in submit(tasks, shelf.folder) if tasks else ():
        if isinstance(got, Fault):
            raise ConfigError(got.field, got.got, got.allowed)
        yield place, got


def _with_gaps(tasks: Sequence[StudyTask], rows: Sequence[Row | None]) -> list[Row]:
    """Rows that are there, and for each other one why it is not."""
    return [
        row or Row(task.scheme, dict(task.point), refusal=INTERRUPTED)
        for task, row in zip(tasks, rows, strict=True)
    ]
