"""One operation as PyTorch sees it: a Work whose future fails as its wait does.

Three traps of PyTorch 2.13 set its form. An exception set on a future from Python is stored
as a value, which DistributedDataParallel then takes for tensors; a work made from a future
returns True though the future failed; DistributedDataParallel waits on the future and never
on the work. So the future here is a callback of another one, which raises.
"""

import os
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from threading import Event, Lock
from typing import Any

import torch
from torch.distributed import Work

from fanfold.group.communicator import GroupError

CARRIED_BY = {"send": "broadcast", "recv": "broadcast", "all_to_all": "all_gather"}
"""What the communicator calls these, or what begins them."""


class _Outcome:
    """What the future's callback tells; apart from the Work, so that nothing holds itself."""

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
    """

    def __init__(self, name: str, tensors: list[Any], timeout_ps: int) -> None:
        super().__init__()
        self.name, self.timeout_ps = name, timeout_ps
        self._pid = os.getpid()
        self._lock, self._over = Lock(), Event()
        self._outcome = _Outcome(tensors)
        self._raw: Any = None
        self._future: Any = None

    def finish(self, error: Exception | None) -> Callable[[], None] | None:
        """It is over, well or badly.

        Returns: what is left to call where somebody holds the future; runs what hangs on it.
        """
        self._outcome.error = error
        with self._lock:
            self._over.set()
            return None if self._raw is None else partial(self._raw.set_result, None)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Return True when it went well.

        Args:
            timeout: longest wait here, where it is more than zero.

        Raises:
            DistBackendError: it failed, or ``timeout`` is over.
        """
        if not self._over.is_set():
            self._stay(timeout.total_seconds())
        if self._outcome.error is not None:
            raise self._outcome.error
        return True

    def _stay(self, seconds: float) -> None:
        if os.getpid() != self._pid:
            text = f"{self.name}: it is of process {self._pid}, of which this one is a fork"
            raise torch.distributed.DistBackendError(text)
        if not self._over.wait(seconds if seconds > 0 else None):
            text = f"{self.name}: not done after {seconds} s of wait; it goes on"
            raise torch.distributed.DistBackendError(text)

    def get_future(self) -> Any:
        """Future of the tensors; it raises where ``wait`` does."""
        with self._lock:
            if self._future is None:
                raw: Any = torch.futures.Future()
                self._future = raw.then(self._outcome.tell)
                if self._over.is_set():
                    raw.set_result(None)
                else:
                    self._raw = raw
            return self._future

    def is_completed(self) -> bool:
        """Over, well or badly."""
        return self._over.is_set()

    def is_success(self) -> bool:
        """Over, and well."""
        return self._over.is_set() and self._outcome.error is None

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


def as_torch(error: Exception, name: str) -> Exception:
    """An error as PyTorch's programs catch it: a RuntimeError that names the operation."""
    text = str(error)
    carrier = CARRIED_BY.get(name)
    if carrier and isinstance(error, GroupError) and error.op == carrier:
        text = f"{name}: {text.removeprefix(f'{carrier}: ')}"
    if not text.startswith(name):
        is_before = isinstance(error, GroupError) and error.op not in ("", "meeting")
        text = f"{name}: {'refused since ' if is_before else ''}{text}"
    branch = error.branch if isinstance(error, GroupError) else ""
    if branch and branch not in text:
        text += f"; branch {branch}"
    told = torch.distributed.DistBackendError(text)
    told.__cause__ = error
    return told
