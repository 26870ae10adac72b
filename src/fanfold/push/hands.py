"""Long work of a node, bit by bit: by whoever asks how far it is, or by another thread.

A machine starts no thread: it gives a row of steps to the hands that its driver lent it. Each
step is short, so that work can be counted while it goes on, and stopped between two steps.
"""

from collections.abc import Iterator
from typing import Protocol

TURN_BYTES = 1 << 20


class Work(Protocol):
    """Work that was given away."""

    n_steps: int
    """Steps done; grows as long as the work goes on."""

    def is_over(self) -> bool:
        """Whether it ended; raises what a step raised."""


class Hands(Protocol):
    """Who does work. is_aside: it goes on by itself, and its end wakes the node."""

    is_aside: bool

    def take(self, steps: Iterator[int]) -> Work:
        """Start work; it yields what each step costs, in bytes read."""


class OwnHands:
    """The node does the work itself, a bit each time it asks."""

    is_aside = False

    def take(self, steps: Iterator[int]) -> Work:
        """Start work."""
        return _OwnWork(steps)


class _OwnWork:
    def __init__(self, steps: Iterator[int]) -> None:
        self.n_steps = 0
        self._steps = steps
        self._is_over = False

    def is_over(self) -> bool:
        spent = 0
        while not self._is_over and spent < TURN_BYTES:
            try:
                spent += next(self._steps)
                self.n_steps += 1
            except StopIteration:
                self._is_over = True
        return self._is_over
