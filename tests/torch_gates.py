"""PyTorch's own tests of process groups, opened for a backend that they do not know.

``torch.testing._internal.distributed.distributed_test`` ships in PyTorch's wheel. It decides at
its import which tests a backend has, by names: here it is imported as if for gloo, so that all
tests of gloo are there, and then runs another backend. all_to_all, which it has for MPI only,
is opened for all. Nothing of it is copied. Its lists of backends whose operations a profiler
shows as asynchronous stay as they are: that mark is set by C++ only.

Ranks are forks of one process that has loaded all there is to load, one time limit a test.
"""

import os
import re
import tempfile
import types
import unittest
from typing import Any

OPENED = re.compile(r"Only MPI supports (CPU )?all_to_all")
"""Reasons of gates that are opened though they do not name gloo."""


FOR_GPUS = ("skip_if_lt_x_gpu", "skip_if_no_gpu")
"""Functions that wrap a test that needs some."""


class AsGloo(str):
    """Name of a backend for tests that ask, while they run, whether it is gloo."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return str(self) == other or other == "gloo"

    def __ne__(self, other: object) -> bool:
        return not self == other


def load(backend: str, n_ranks: int, limit_s: int) -> types.ModuleType:
    """The tests, for one backend; once a process.

    Args:
        limit_s: of each test.
    """
    temp = tempfile.mkdtemp(prefix="fanfold-torch-")
    os.environ.update(BACKEND="gloo", WORLD_SIZE=str(n_ranks), TEMP_DIR=temp)
    from torch.testing._internal import common_distributed, common_utils  # noqa: PLC0415

    closed = common_utils.skip_but_pass_in_sandcastle_if

    def gate(condition: bool, reason: str) -> Any:
        return closed(condition and not OPENED.match(reason), reason)

    common_utils.skip_but_pass_in_sandcastle_if = gate
    common_distributed.TIMEOUT_DEFAULT = limit_s
    common_distributed.TIMEOUT_OVERRIDE.clear()
    from torch.testing._internal.distributed import distributed_test as tests  # noqa: PLC0415

    tests.BACKEND, os.environ["BACKEND"] = AsGloo(backend), backend
    return tests


def cases(tests: types.ModuleType) -> type[unittest.TestCase]:
    """A class with all tests, whose ranks are forked."""
    import torch  # noqa: PLC0415

    class Ranks(tests.TestDistBackend, tests.DistributedTest._DistTestBase):
        def setUp(self) -> None:
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    return Ranks


def names_of(case: type[unittest.TestCase]) -> list[str]:
    """Tests that are not skipped before they begin, and need no GPU."""
    every = unittest.TestLoader().getTestCaseNames(case)
    return [n for n in every if not is_skipped(getattr(case, n))]


def is_skipped(test: Any) -> bool:
    """A gate is closed, or one asks for GPUs, which else each test finds out in its ranks."""
    if getattr(test, "__unittest_skip__", False):
        return True
    while test is not None:
        if test.__code__.co_qualname.split(".")[0] in FOR_GPUS:
            return True
        test = getattr(test, "__wrapped__", None)
    return False


class Outcomes(unittest.TestResult):
    """What became of each test: pass, skip, or the last words of its failure."""

    def __init__(self) -> None:
        super().__init__()
        self.of: dict[str, str] = {}

    def _note(self, test: Any, what: str) -> None:
        self.of[test._testMethodName] = what

    def addSuccess(self, test: Any) -> None:  # noqa: N802
        self._note(test, "pass")

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
        self._note(test, "skip")

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        self._note(test, f"fail: {err[1]}")

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        self.addError(test, err)
