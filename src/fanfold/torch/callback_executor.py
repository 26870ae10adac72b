"""Threads that tell the holders of futures: what a program does then may take its time.

A program's callback may begin another operation of the group and wait for its end, as gradient
compression does. So no thread that sees operations end runs one, and there is always a thread
for the next callback, however many wait.
"""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock, Thread


class CallbackExecutor:
    """As many threads as there ever were callbacks at once; none before the first."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = Lock()
        self._n_idle = 0
        self._threads: list[Thread] = []

    def tell(self, job: Callable[[], None]) -> None:
        """Do a job in a thread that does nothing else meanwhile."""
        with self._lock:
            if self._n_idle:
                self._n_idle -= 1
            else:
                thread = Thread(target=self._work, name=self._name, daemon=True)
                self._threads.append(thread)
                thread.start()
        self._jobs.put(job)

    def close(self, timeout_s: float) -> None:
        """End the threads; waits for each of them, but not for ever."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join(timeout_s)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job  # tensors are not kept while nothing is to do
            with self._lock:
                self._n_idle += 1
