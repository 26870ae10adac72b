"""One more thread of a node, for work that waits on its disk while the node goes on answering.

Work is a row of short steps. All that is in hand gets its turn, so that no push waits for
another one's thousands of files.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator

TURN_STEPS = 64
"""Steps of one work before the next one has its turn."""
END_S = 5.0


class Work:
    """Steps being done by a worker; n_steps grows with each."""

    def __init__(self, steps: Iterator[int]) -> None:
        self.n_steps = 0
        self.error: Exception | None = None
        self.ended = threading.Event()
        self._steps = steps

    def is_over(self) -> bool:
        """Whether the steps ended; raises what one of them raised."""
        if not self.ended.is_set():
            return False
        if self.error is not None:
            raise self.error
        return True

    def turn(self) -> None:
        """Do some steps; the worker calls it."""
        try:
            for _ in range(TURN_STEPS):
                next(self._steps)
                self.n_steps += 1
        except StopIteration:
            self.ended.set()
        except Exception as error:
            self.error = error
            self.ended.set()

    def stop(self) -> None:
        """End between two steps; the worker calls it."""
        close = getattr(self._steps, "close", None)
        if close is not None and not self.ended.is_set():
            close()
            self.ended.set()


class TurnWorker:
    """Does work in turns; its thread starts with the first. wake: told when one ended."""

    is_aside = True

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._works: deque[Work] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_stopped = False

    def take(self, steps: Iterator[int]) -> Work:
        """Start work."""
        work = Work(steps)
        with self._changed:
            self._works.append(work)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="worker", daemon=True)
                self._thread.start()
            self._changed.notify()
        return work

    def close(self) -> None:
        """Stop all work between two steps, and the thread."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(END_S)

    def _run(self) -> None:
        while (work := self._next()) is not None:
            work.turn()
            if work.ended.is_set():
                self._wake()
            else:
                self._works.append(work)
        while self._works:
            self._works.popleft().stop()

    def _next(self) -> Work | None:
        with self._changed:
            self._changed.wait_for(lambda: self._works or self._is_stopped)
            return None if self._is_stopped else self._works.popleft()
