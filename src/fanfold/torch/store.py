"""The store of a group: a few keys by which its ranks meet, each call to it watched.

A store of PyTorch waits without end for a host that was stopped or cut off, and for long for
one that is gone. So it is seen here since when a call has had no answer. All groups of a
process share one connection to it, which is not the program's own: a program that waits in its
store holds up no group, and many groups are no burden for the host that has the store.
"""

import os
from collections.abc import Callable
from threading import Lock
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

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


class Connections:
    """One connection of a process for each store of the program, made when first used.

    It goes when the program's own store goes.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._made: WeakKeyDictionary[Any, tuple[int, Any]] = WeakKeyDictionary()

    def of(self, store: Any) -> Any:
        """The connection beside a store; in a fork, one of its own."""
        pid = os.getpid()
        with self._lock:
            owner, made = self._made.get(store, (0, None))
            if owner != pid:
                made = store.clone()
                self._made[store] = (pid, made)
            return made


class GroupStore:
    """A store that is opened by the first call to it.

    asked_ps: when the call began that has no answer yet; None: there is none.
    """

    def __init__(self, open_store: Callable[[], Store]) -> None:
        self._open = open_store
        self._store: Store | None = None
        self._folder = ""
        self.asked_ps: int | None = None

    def enter(self, folder: str) -> None:
        """Keep all keys in a folder from now on."""
        self._folder = f"{folder}/"

    def set(self, key: str, value: str) -> None:
        """Write."""
        self._ask(lambda store: store.set(self._folder + key, value))

    def get(self, key: str) -> bytes:
        """Read; waits where nothing is written."""
        return self._ask(lambda store: store.get(self._folder + key))

    def check(self, keys: list[str]) -> bool:
        """All are written."""
        return self._ask(lambda store: store.check([self._folder + key for key in keys]))

    def close(self) -> None:
        """It is not needed any more."""
        self._store = None

    def _ask(self, action: Callable[[Store], T]) -> T:
        self.asked_ps = now_ps()
        try:
            if self._store is None:
                self._store = self._open()
            return action(self._store)
        finally:
            self.asked_ps = None
