"""Results of many small operations, which cost no lock and no wake-up each.

A ``Future`` of the standard library has a lock and a condition of its own: half of what a
small broadcast costs. Here all of a communicator share one gate, and a batch opens it once.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import TimeoutError as WaitOver
from contextlib import ExitStack

from fanfold.live.worker import Gate


class Pending:
    """One operation's end."""

    __slots__ = ("_error", "_gate", "_is_over", "_then", "_within")

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._is_over = False
        self._error: BaseException | None = None
        self._then: Callable[[], None] | None = None
        self._within: Gate | None = None

    def done(self) -> bool:
        """Over, well or badly."""
        return self._is_over

    def result(self, timeout: float | None = None) -> None:
        """Wait; raises why it failed, or TimeoutError after so many seconds."""
        if not self._is_over:
            with self._gate:
                if not self._gate.wait_for(self.done, timeout):
                    raise WaitOver
        if self._error is not None:
            raise self._error

    def exception(self) -> BaseException | None:
        """Why it failed, None while it runs."""
        return self._error

    def then(self, action: Callable[[], None], within: Gate | None = None) -> None:
        """Call this once at the end, in the thread that sees it, or here where it is over.

        Args:
            within: a gate that the action opens; of a batch its threads are woken once.
        """
        with self._gate:
            if not self._is_over:
                self._then, self._within = action, within
                return
        action()


def end_all(gate: Gate, some: Iterable[Pending], error: BaseException | None = None) -> None:
    """All of these are over: whoever waits is woken once, then what hangs on each is called."""
    ended = list(some)
    with gate:
        for one in ended:
            one._error, one._is_over = error, True
        gate.notify_all()
    with ExitStack() as stack:
        for within in {one._within for one in ended if one._within is not None}:
            stack.enter_context(within)
        for one in ended:
            action, one._then = one._then, None
            if action is not None:
                action()
