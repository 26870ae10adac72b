"""The store of a group: a few keys by which its ranks meet, each call to it watched.

A store of PyTorch waits without end for a host that was stopped or cut off, and for long for
one that is gone. So it is seen here since when a call has had no answer.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

from fanfold.live.clock import now_ps

T = TypeVar("T")


class Store(Protocol):
    """What is used of a store of torch.distributed."""

    def set(self, key: str, value: str) -> None:
        """Write."""

    def get(self, key: str) -> bytes:
        """Read; waits where nothing is written."""

    def check(self, keys: list[str]) -> bool:
        """All are written."""


class GroupStore:
    """A store that is opened by the first call to it.

    asked_ps: when the call began that has no answer yet; None: there is none.
    """

    def __init__(self, open_store: Callable[[], Store]) -> None:
        self._open = open_store
        self._store: Store | None = None
        self.asked_ps: int | None = None

    def set(self, key: str, value: str) -> None:
        """Write."""
        self._ask(lambda store: store.set(key, value))

    def get(self, key: str) -> bytes:
        """Read; waits where nothing is written."""
        return self._ask(lambda store: store.get(key))

    def check(self, keys: list[str]) -> bool:
        """All are written."""
        return self._ask(lambda store: store.check(keys))

    def close(self) -> None:
        """Give the connection back."""
        self._store = None

    def _ask(self, action: Callable[[Store], T]) -> T:
        self.asked_ps = now_ps()
        try:
            if self._store is None:
                self._store = self._open()
            return action(self._store)
        finally:
            self.asked_ps = None
