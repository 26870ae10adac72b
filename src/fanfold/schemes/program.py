"""A program: unicast messages and fans, and what each of them waits for.

Letters: F = messages, M = fans, D = dependencies. Items are numbered messages first, then
fans. An item starts when all it needs has happened, at its ``start_ps`` at the earliest.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
RECEIVED = 0
"""An item is done when its receiver (each of a fan's receivers) has all bytes."""
ACKED = 1
"""An item is done when its sender knows that."""


class Fan(NamedTuple):
    """One message to many: source host, receiving hosts, bytes, earliest start."""

    source: int
    receivers: tuple[int, ...]
    n_bytes: int
    start_ps: int = 0


class Program(NamedTuple):
    """What is sent.

    src, dst, n_bytes, start_ps: (F,) of each message; sizes are at least 1 byte.
    fans: M fans. folds: whether BFRs fold the feedback of fans.
    n_needs: (F + M,) items to wait for. first_dep, dep: (F + M + 1,), (D,): who waits for item
    i stands at dep[first_dep[i]:first_dep[i + 1]]. on: RECEIVED or ACKED, when an item counts
    as done for those who wait.
    """

    src: I64
    dst: I64
    n_bytes: I64
    start_ps: I64
    fans: tuple[Fan, ...]
    folds: bool
    n_needs: I64
    first_dep: I64
    dep: I64
    on: int

    @property
    def n_items(self) -> int:
        """Messages and fans."""
        return self.src.size + len(self.fans)


def build_program(
    messages: NDArray[np.int64],
    edges: NDArray[np.int64],
    *,
    fans: tuple[Fan, ...] = (),
    folds: bool = False,
    on: int = RECEIVED,
) -> Program:
    """Program from tables.

    Args:
        messages: (F, 4) source, destination, bytes, start in ps. edges: (D, 2) item, the item
            that waits for it.
    """
    n = len(messages) + len(fans)
    before, after = edges[:, 0], edges[:, 1]
    order = np.argsort(before, kind="stable")
    first = np.searchsorted(before[order], np.arange(n + 1)).astype(np.int64)
    src, dst, n_bytes, start_ps = np.ascontiguousarray(messages.T)
    needs = np.bincount(after, minlength=n).astype(np.int64)
    return Program(
        src, dst, n_bytes, start_ps, fans, folds, needs, first, after[order].copy(), on
    )
