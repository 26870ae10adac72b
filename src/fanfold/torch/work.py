"""One operation as PyTorch sees it: a Work whose future fails as its wait does.

Three traps of PyTorch 2.13 set its form. An exception set on a future from Python is stored
as a value, which DistributedDataParallel then takes for tensors; a work made from a future
returns True though the future failed; DistributedDataParallel waits on the future and never
on the work. So the future here is a callback of another one, which raises.
"""

import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from threading import Condition, get_ident
from typing import Any

import torch
from torch._C._profiler import _RecordFunctionFast
from torch.distributed import Work

from fanfold.group.communicator import GroupError
from fanfold.live.clock import now_ps
from fanfold.units import PS_PER_SECOND

CARRIED_BY = {"all_to_all": "all_gather"}
"""What the communicator calls these, or what begins them."""


class _Outcome:
    """What the future's callback tells; apart from the Work, so that nothing holds itself."""

    __slots__ = ("error", "tensors")

    def __init__(self, tensors: list[Any]) -> None:
        self.tensors = tensors
        self.error: Exception | None = None

    def tell(self, _: Any) -> list[Any]:
        if self.error is not None:
            raise self.error
        return self.tensors


class FanfoldWork(Work):
    """One operation; ``finish`` is called once, by the thread that saw it end.

    The future is made when it is first asked for: most programs never do.

    Args:
        number: of the operation in its group, from 1; 0 where it is none.
        gate: where threads wait for works of the group; opened once for many of them it costs
            less than a lock for each.

    Attributes:
        until_ps: its deadline, whatever it waits for before it begins.
    """

    def __init__(
        self,
        name: str,
        tensors: list[Any],
        timeout_ps: int,
        number: int = 0,
        gate: Condition | None = None,
    ) -> None:
        super().__init__()
        self.name, self.timeout_ps, self.number = name, timeout_ps, number
        self.until_ps = now_ps() + timeout_ps
        self._record: tuple[int, Any] | None = None
        self._source: Callable[[], int] | None = None
        self._pid = os.getpid()
        self._gate, self._is_over = gate or Condition(), False
        self._outcome = _Outcome(tensors)
        self._raw: Any = None
        self._future: Any = None

    def finish(self, error: Exception | None) -> Callable[[], None] | None:
        """It is over, well or badly.

        Returns: what is left to call where somebody holds the future; runs what hangs on it.
        """
        self._outcome.error = error
        with self._gate:
            self._is_over = True
            self._gate.notify_all()
            return None if self._raw is None else partial(self._raw.set_result, None)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Return True when it went well.

        Args:
            timeout: longest wait here, where it is more than zero.

        Raises:
            DistBackendError: it failed, or ``timeout`` is over.
        """
        if not self._is_over:
            self._stay(timeout.total_seconds())
        self._end_record()
        if self._outcome.error is not None:
            raise self._outcome.error
        return True

    def _stay(self, seconds: float) -> None:
        if os.getpid() != self._pid:
            text = f"{self.name}: it is of process {self._pid}, of which this one is a fork"
            raise torch.distributed.DistBackendError(text)
        if not self._has_come(seconds if seconds > 0 else None):
            text = f"{self.name}: Timed out after {seconds} s of wait; it goes on"
            raise torch.distributed.DistBackendError(text)

    def _has_come(self, seconds: float | None) -> bool:
        """Its end, within so many seconds."""
        with self._gate:
            return self._gate.wait_for(self.is_completed, seconds)

    def record(self, backend: str, inputs: Sequence[Any]) -> None:
        """Let PyTorch's profiler, if it is on, show the operation until its end is seen here.

        Only the thread that the profiler was started for can end what it shows.
        """
        if torch.autograd._profiler_enabled():
            record = _RecordFunctionFast(f"{backend}:{self.name}", list(inputs))
            record.__enter__()
            self._record = get_ident(), record

    def _end_record(self) -> None:
        if self._record is not None and self._record[0] == get_ident():
            (_, record), self._record = self._record, None
            record.__exit__(None, None, None)

    def comes_from(self, source: Callable[[], int]) -> None:
        """Note how to learn, at the end, which rank a message came from."""
        self._source = source

    def _source_rank(self) -> int:
        """Rank that a message came from."""
        self.wait()
        return self._source() if self._source is not None else -1

    def get_future(self) -> Any:
        """Future of the tensors; it raises where ``wait`` does."""
        with self._gate:
            if self._future is None:
                raw: Any = torch.futures.Future()
                self._future = raw.then(self._outcome.tell)
                if self._is_over:
                    raw.set_result(None)
                else:
                    self._raw = raw
            return self._future

    def is_over_by(self, until_ps: int) -> bool:
        """Over, well or badly, before an instant; waits for it."""
        return self._has_come(max(until_ps - now_ps(), 0) / PS_PER_SECOND)

    def is_completed(self) -> bool:
        """Over, well or badly."""
        return self._is_over

    def is_success(self) -> bool:
        """Over, and well."""
        return self._is_over and self._outcome.error is None

    def exception(self) -> Exception | None:
        """Why it failed."""
        return self._outcome.error

    def result(self) -> list[Any]:
        """Tensors of the outcome, when it is over."""
        self.wait()
        return self._outcome.tensors

    def synchronize(self) -> None:
        """The same as ``wait``: there is no stream of a device."""
        self.wait()


def said_end(work: FanfoldWork, is_deadline: bool) -> str:
    """Which operation it was, and its deadline where that is why it ended."""
    late = f"; Timed out after {work.timeout_ps / PS_PER_SECOND:g} s" if is_deadline else ""
    return f"{late}; operation {work.number} of the group" if work.number else late


def as_torch(error: Exception, name: str, work: FanfoldWork | None = None) -> Exception:
    """An error as PyTorch's programs catch it: a RuntimeError that names the operation.

    Args:
        work: the operation itself, whose number and deadline are told.
    """
    text = str(error)
    carrier = CARRIED_BY.get(name)
    if carrier and isinstance(error, GroupError) and error.op == carrier:
        text = f"{name}: {text.removeprefix(f'{carrier}: ')}"
    if not text.startswith(name):
        is_before = isinstance(error, GroupError) and error.op not in ("", "rendezvous")
        text = f"{name}: {'refused since ' if is_before else ''}{text}"
    branch = error.branch if isinstance(error, GroupError) else ""
    if branch and branch not in text:
        text += f"; branch {branch}"
    if work is not None:
        text += said_end(work, isinstance(error, GroupError) and error.is_deadline)
    told = torch.distributed.DistBackendError(text)
    told.__cause__ = error
    return told
