"""An operation of a communicator on a fabric, under way or over."""

from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as WaitOver

from fanfold.group.communicator import GroupError
from fanfold.group.pending import Pending
from fanfold.group.rules import Inside
from fanfold.live.worker import Gate
from fanfold.units import PS_PER_SECOND


class FabricWork:
    """One operation under way; see ``Work``."""

    __slots__ = ("_future", "_name")

    def __init__(self, name: str, future: Future[Inside | None] | Pending) -> None:
        self._name, self._future = name, future

    def wait(self, timeout_ps: int | None = None) -> None:
        """Return when it is done, or raise why not."""
        timeout_s = None if timeout_ps is None else timeout_ps / PS_PER_SECOND
        try:
            self._future.result(timeout_s)
        except WaitOver as over:
            if self._future.done():
                raise
            text = f"{self._name}: not done yet"
            raise GroupError(text, op=self._name, is_deadline=True) from over

    def inside(self) -> Inside | None:
        """Whose arrays are in the result of an all_reduce or reduce; waits for it."""
        self.wait()
        return self._future.result()

    def then(self, action: Callable[[], None], within: Gate | None = None) -> None:
        """Call this once at the end, in the thread that sees it: it must not wait nor raise.

        Args:
            within: a gate that the action opens; many ends open it once.
        """
        if isinstance(self._future, Future):
            self._future.add_done_callback(lambda _: action())
        else:
            self._future.then(action, within)

    def is_done(self) -> bool:
        """Over, well or badly."""
        return self._future.done()

    def error(self) -> GroupError | None:
        """Why it failed."""
        if not self._future.done():
            return None
        found = self._future.exception()
        if found is None or isinstance(found, GroupError):
            return found
        return GroupError(f"{self._name}: {found}", op=self._name)
