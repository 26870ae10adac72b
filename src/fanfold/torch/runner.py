"""The threads of a group: one starts operations in the order of the calls, one sees them end.

The communicator runs them outside the GIL and in that order; so PyTorch's threads only ever
put a task into a queue. The first thread first holds the rendezvous of the ranks; the second
watches that nobody waits past the deadline for a store that does not answer.
"""

import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Condition, Event, Lock, Thread
from typing import Any, NamedTuple, Protocol

from fanfold.errors import ConfigError
from fanfold.group.communicator import Communicator, GroupError
from fanfold.live.clock import now_ps
from fanfold.torch.callback_executor import CallbackExecutor
from fanfold.torch.work import FanfoldWork, as_torch
from fanfold.units import PS_PER_SECOND

CLOSE_PS = 5 * PS_PER_SECOND
LOOK_S = 0.25
ALL, NOBODY = -1, -2
"""In the place of the rank that an operation sends to: a collective has all, a receive none."""
LEAST_PS = PS_PER_SECOND // 1000
"""What an operation has that is begun at its deadline: it fails by it, in words."""


class Ends(Protocol):
    """What is used of a communicator's Work; beside ``then``, which some have."""

    def wait(self) -> None:
        """Return when it is done."""


class Meets(Protocol):
    """What is used of a rendezvous; deadline_ps: when it fails, None: nobody waits yet."""

    deadline_ps: int | None

    def leave(self) -> None:
        """Make it end soon."""

    def silence(self) -> GroupError | None:
        """Why it will not end, past its deadline."""


class Task(NamedTuple):
    """start: begin it on a communicator. finish: what is left to do at its end.

    to: rank that it sends to, ALL or NOBODY where it is no send. is_plain: ``finish`` has
    nothing to do.
    """

    work: FanfoldWork
    start: Callable[[Communicator, int], Sequence[Ends]]
    finish: Callable[[], None]
    to: int = ALL
    is_plain: bool = False


def refusal(error: Exception, work: FanfoldWork) -> Task:
    """In the place of an operation that was wrong on this rank: nobody waits for its Work."""
    allowed = "what every rank can do"

    def start(comm: Communicator, timeout_ps: int) -> Sequence[Ends]:
        raise ConfigError(work.name, str(error), allowed)

    return Task(work, start, _none)


class Runner:
    """Queue and threads of one group, in the process that made it."""

    def __init__(self, name: str, rendezvous: Meets) -> None:
        self._name, self._rendezvous = name, rendezvous
        self._pid = os.getpid()
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._begun: SimpleQueue[tuple[Task, Sequence[Ends]] | None] = SimpleQueue()
        self._callbacks = CallbackExecutor(f"fanfold {name} tells")
        self._lock, self._gate = Lock(), Condition()
        self._n_queued = 0
        self._met = Event()
        self._comm: Communicator | None = None
        self._error: Exception | None = None
        self._is_closed = False
        self._sends: list[Task] = []
        self._threads: list[Thread] = []

    def start(self, connect: Callable[[], Communicator]) -> None:
        """Start both threads; connect: gives the communicator, called once, in one of them."""
        name = f"fanfold {self._name}"
        self._threads = [
            Thread(target=self._start_all, args=(connect,), name=f"{name} starts", daemon=True),
            Thread(target=self._end_all, name=f"{name} ends", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def work(self, name: str, tensors: list[Any], timeout_ps: int, number: int) -> FanfoldWork:
        """What the caller of an operation of this group gets."""
        return FanfoldWork(name, tensors, timeout_ps, number, self._gate)

    def submit(self, task: Task) -> FanfoldWork:
        """Put an operation behind all others of the group.

        A collective that none is before is begun here: its communicator only notes it, and
        another thread would cost more than that. A message may open sockets.
        """
        name = task.work.name
        if os.getpid() != self._pid:  # before the lock, which a thread of the other may hold
            text = f"{name}: the group is of process {self._pid}, of which this one is a fork"
            raise as_torch(GroupError(f"{text}; it makes its own", op=name), name)
        with self._lock:
            if self._is_closed:
                raise as_torch(GroupError(f"{name}: the group is closed", op=name), name)
            if self._rendezvous.deadline_ps is None:
                self._rendezvous.deadline_ps = task.work.until_ps
            if task.to >= 0:
                self._sends = [old for old in self._sends if not old.work.is_completed()]
                self._sends.append(task._replace(start=_nothing, finish=_none))
            if task.to == ALL and self._comm is not None and not self._n_queued:
                self._begin(task)
            else:
                self._n_queued += 1
                self._tasks.put(task)
        return task.work

    def counters(self) -> dict[str, int]:
        """Counters of the communicator, none before it is built."""
        return self._comm.counters() if self._comm else {}

    def close(self) -> None:
        """End the threads and the communicator; what is under way fails. Nothing in a fork.

        What was sent is delivered first, or it is said that it was not.
        """
        if os.getpid() != self._pid:
            return
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._tasks.put(None)
        until_ps = now_ps() + CLOSE_PS
        pending = [task for task in self._sends if not task.work.is_over_by(until_ps)]
        self._rendezvous.leave()
        self._join(self._threads[0])
        if self._comm is not None:
            self._comm.close()
        self._join(self._threads[1])
        self._callbacks.close(CLOSE_PS // PS_PER_SECOND)
        for task in pending:
            text = f"send to rank {task.to} was not delivered: no receive there took it"
            text += f"; operation {task.work.number} of the group"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        self._sends.clear()

    def _join(self, thread: Thread) -> None:
        """Wait for a thread, but not for ever, nor for one that hangs in the store."""
        until_ps = now_ps() + CLOSE_PS
        while thread.is_alive() and now_ps() < until_ps and self._rendezvous.silence() is None:
            thread.join(LOOK_S)

    def _start_all(self, connect: Callable[[], Communicator]) -> None:
        try:
            self._take(connect())
        except Exception as error:
            self._fail(error)
        del connect
        self._met.set()
        while (task := self._tasks.get()) is not None:
            self._begin(task)
            with self._lock:
                self._n_queued -= 1
            del task  # tensors are not kept while nothing is to do
        self._begun.put(None)

    def _begin(self, task: Task) -> None:
        try:
            ends = self._start(task)
        except Exception as error:
            self._end(task.work, error)
            return
        then = getattr(ends[0], "then", None) if task.is_plain and len(ends) == 1 else None
        if then is not None:
            then(partial(self._end_plain, task.work, ends[0]), self._gate)
        else:
            self._begun.put((task, ends))

    def _end_plain(self, work: FanfoldWork, end: Ends) -> None:
        """The end of what leaves nothing to do, in the thread that sees it."""
        self._end(work, _error_of(end.wait))

    def _take(self, comm: Communicator) -> None:
        with self._lock:
            is_late = self._is_closed or self._error is not None
            if not is_late:
                self._comm = comm
        if is_late:
            comm.close()

    def _fail(self, error: Exception) -> None:
        with self._lock:
            self._error = self._error or error

    def _start(self, task: Task) -> Sequence[Ends]:
        name = task.work.name
        if self._comm is None:
            raise GroupError(f"{name}: {self._error}", op=name) from self._error
        left_ps = max(task.work.until_ps - now_ps(), LEAST_PS)
        try:
            return task.start(self._comm, left_ps)
        except ConfigError:
            if task.to == ALL:
                self._refuse(left_ps)
            raise

    def _refuse(self, timeout_ps: int) -> None:
        """Keep step with ranks whose arguments were right; they learn that this one differs."""
        if self._comm is not None:
            self._comm.barrier(timeout_ps=timeout_ps)

    def _end_all(self) -> None:
        while not self._met.wait(LOOK_S):
            silence = self._rendezvous.silence()
            if silence is not None:
                self._give_up(silence)
                if self._is_closed:
                    return
        while (begun := self._begun.get()) is not None:
            task, ends = begun
            errors = [error for end in ends if (error := _error_of(end.wait)) is not None]
            self._end(task.work, errors[0] if errors else _error_of(task.finish))
            del begun, task, ends, errors

    def _give_up(self, silence: GroupError) -> None:
        """Tell who waits for a rendezvous that will not end: the other thread hangs in it."""
        self._fail(silence)
        with suppress(Empty):
            while (task := self._tasks.get_nowait()) is not None:
                name = task.work.name
                self._end(task.work, GroupError(f"{name}: {silence}", op=name))
            self._tasks.put(None)

    def _end(self, work: FanfoldWork, error: Exception | None) -> None:
        """Tell who waits."""
        tell = work.finish(as_torch(error, work.name, work) if error is not None else None)
        if tell is not None:
            self._callbacks.tell(tell)


def _nothing(comm: Communicator, timeout_ps: int) -> Sequence[Ends]:
    return []


def _none() -> None:
    return None


def _error_of(action: Callable[[], None]) -> Exception | None:
    """Do it; the error, which is told to whoever waits for the operation."""
    try:
        action()
    except Exception as error:
        return error
    return None
