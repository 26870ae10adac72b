"""The threads of a group: one starts operations in the order of the calls, one sees them end.

The communicator runs them outside the GIL and in that order; so PyTorch's threads only ever
put a task into a queue. The first thread first holds the meeting of the ranks.
"""

from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Lock, Thread
from typing import NamedTuple, Protocol

from fanfold.errors import ConfigError
from fanfold.group.communicator import Communicator, GroupError
from fanfold.live.clock import now_ps
from fanfold.torch.work import FanfoldWork, as_torch

CLOSE_S = 5.0


class Ends(Protocol):
    """What is used of a communicator's Work."""

    def wait(self) -> None:
        """Return when it is done."""


class Task(NamedTuple):
    """start: begin it on a communicator. finish: what is left to do at its end."""

    work: FanfoldWork
    start: Callable[[Communicator, int], Sequence[Ends]]
    finish: Callable[[], None]


def refusal(error: Exception, work: FanfoldWork) -> Task:
    """In the place of an operation that was wrong on this rank: nobody waits for its Work."""
    allowed = "what every rank can do"

    def start(comm: Communicator, timeout_ps: int) -> Sequence[Ends]:
        raise ConfigError(work.name, str(error), allowed)

    return Task(work, start, lambda: None)


class Runner:
    """Queue and threads of one group.

    connect: gives the communicator; called once, in the thread that starts operations. leave:
    makes it return soon.
    """

    def __init__(
        self, name: str, connect: Callable[[], Communicator], leave: Callable[[], None]
    ) -> None:
        self._connect, self._leave = connect, leave
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._begun: SimpleQueue[tuple[Task, Sequence[Ends]] | None] = SimpleQueue()
        self._lock = Lock()
        self._comm: Communicator | None = None
        self._error: Exception | None = None
        self._is_closed = False
        self.waits_until_ps: int | None = None
        self._threads = [
            Thread(target=self._start_all, name=f"fanfold {name} starts", daemon=True),
            Thread(target=self._end_all, name=f"fanfold {name} ends", daemon=True),
        ]

    def start(self) -> None:
        """Start both threads."""
        for thread in self._threads:
            thread.start()

    def submit(self, task: Task) -> FanfoldWork:
        """Put an operation behind all others of the group."""
        with self._lock:
            if self._is_closed:
                gone = GroupError(f"{task.work.name}: the group is closed", op=task.work.name)
                raise as_torch(gone, task.work.name)
            if self.waits_until_ps is None:
                self.waits_until_ps = now_ps() + task.work.timeout_ps
            self._tasks.put(task)
        return task.work

    def counters(self) -> dict[str, int]:
        """Counters of the communicator, none before it is built."""
        return self._comm.counters() if self._comm else {}

    def close(self) -> None:
        """End the threads and the communicator; what is under way fails."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._tasks.put(None)
        self._leave()
        self._threads[0].join(CLOSE_S)
        if self._comm is not None:
            self._comm.close()
        self._threads[1].join(CLOSE_S)

    def _start_all(self) -> None:
        try:
            self._comm = self._connect()
        except Exception as error:
            self._error = error
        while (task := self._tasks.get()) is not None:
            try:
                self._begun.put((task, self._start(task)))
            except Exception as error:
                self._end(task, error)
        self._begun.put(None)

    def _start(self, task: Task) -> Sequence[Ends]:
        name = task.work.name
        if self._comm is None:
            raise GroupError(f"{name}: {self._error}", op=name) from self._error
        try:
            return task.start(self._comm, task.work.timeout_ps)
        except ConfigError:
            self._refuse(task.work.timeout_ps)
            raise

    def _refuse(self, timeout_ps: int) -> None:
        """Keep step with ranks whose arguments were right; they learn that this one differs."""
        if self._comm is not None:
            self._comm.barrier(timeout_ps=timeout_ps)

    def _end_all(self) -> None:
        while (begun := self._begun.get()) is not None:
            task, ends = begun
            errors = [error for end in ends if (error := _error_of(end.wait)) is not None]
            self._end(task, errors[0] if errors else _error_of(task.finish))

    def _end(self, task: Task, error: Exception | None) -> None:
        """Tell who waits."""
        task.work.finish(as_torch(error, task.work.name) if error is not None else None)


def _error_of(action: Callable[[], None]) -> Exception | None:
    """Do it; the error, which is told to whoever waits for the operation."""
    try:
        action()
    except Exception as error:
        return error
    return None
