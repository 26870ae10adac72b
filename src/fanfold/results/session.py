"""A DuckDB for each thread of a process, kept open: opening one costs as much as asking it."""

import contextlib
import os
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from fanfold.extras import load

_mine = ContextVar[Any]("session", default=None)


@contextlib.contextmanager
def session() -> Iterator[Any]:
    """The connection of this thread, in memory; with one thread, so that rows keep their order.

    Who comes after an error takes a new one.

    Raises:
        EnvironmentLack: DuckDB is not installed.
    """
    db = _mine.get() or load("duckdb", "study").connect(config={"threads": 1})
    _mine.set(None)
    yield db
    _mine.set(db)


def _close() -> None:
    """Before a fork: it waits for a thread of its own when it ends, which a child has not."""
    if (db := _mine.get()) is not None:
        db.close()
        _mine.set(None)


os.register_at_fork(before=_close)
