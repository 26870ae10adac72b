"""Runs that a test sets aside: how many, of how many, and how many there may be.

A comparison of live and simulated packets holds where no node was late; a busy machine makes
some late. Such runs are counted and told at the end, and too many of them are a failure.
"""

from typing import ClassVar

MOST_ASIDE = 2
"""Runs set aside for each that is looked at, over a module."""


class Tries:
    """Runs of one module."""

    every: ClassVar["list[Tries]"] = []

    def __init__(self, what: str) -> None:
        self.what = what
        self.n_kept = self.n_aside = 0
        self.every.append(self)

    def count(self, is_kept: bool) -> bool:
        """Note one run; whether it is kept."""
        self.n_kept += is_kept
        self.n_aside += not is_kept
        return is_kept

    def check(self) -> None:
        """Fail where so many were set aside that those left prove little."""
        allowed = MOST_ASIDE * max(self.n_kept, 1)
        assert self.n_aside <= allowed, f"{self}; allowed: {allowed}"

    def __str__(self) -> str:
        n = self.n_kept + self.n_aside
        return f"{self.what}: {self.n_aside} of {n} runs set aside"
