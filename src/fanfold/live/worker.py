"""A thread that does what a group is asked for, in order."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from fanfold.live.batch import take_turns

Guard = threading.Lock
"""Of what several workers share."""
Gate = threading.Condition
"""What threads wait at until others open it."""


class Worker:
    """One thread that does what it is given, in order."""

    def __init__(self, name: str) -> None:
        self._queue: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = (
            queue.SimpleQueue()
        )
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, task: Callable[[], Any]) -> Future[Any]:
        """Do ``task`` after what was given before."""
        future: Future[Any] = Future()
        self._queue.put((future, task))
        return future

    def close(self) -> None:
        """End after what was given; waits for it."""
        self._queue.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _work(self) -> None:
        take_turns()
        while (given := self._queue.get()) is not None:
            future, task = given
            try:
                future.set_result(task())
            except BaseException as error:  # whoever waits hears of it
                future.set_exception(error)
            del future, task, given  # arrays are not kept while nothing is to do
