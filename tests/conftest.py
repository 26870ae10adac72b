"""Puts tests/ on the import path, for ``naive``, and sets the profiles of hypothesis.

Each phase of a test has a time limit (``limits.py``). The end of a run says what was skipped
and why, and how many runs were set aside (``tries.py``). Started in the background tests would
ignore Ctrl-C, and so would all that they start.
"""

import os
import signal
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from limits import limit_of, limited, logs_of
from skips import skipped
from tries import Tries

SLOW_MACHINE = [HealthCheck.too_slow]

settings.register_profile(
    "gate",
    derandomize=True,
    max_examples=60,
    deadline=None,
    database=None,
    suppress_health_check=SLOW_MACHINE,
)
settings.register_profile(
    "hunt", max_examples=1_000, deadline=None, suppress_health_check=SLOW_MACHINE
)
settings.load_profile("gate")

os.environ.pop("COLUMNS", None)  # tables have the width that a pipe takes

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    with limited(limit_of(item)):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    with limited(limit_of(item)):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    with limited(limit_of(item)):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, pytest.TestReport]:
    """A failure in a lab shows what its nodes said."""
    report: pytest.TestReport = yield
    site = getattr(item, "funcargs", {}).get("site")
    if report.failed and hasattr(site, "state"):
        report.sections.append(("logs of labs", logs_of(site.state)))
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what did not run here and how it can, and which runs were set aside."""
    say = terminalreporter.write_line
    for reason, n in sorted(skipped(terminalreporter.stats.get("skipped", [])).items()):
        say(f"NOT RUN HERE, {n}: {reason}")
    for each in Tries.every:
        if each.n_kept + each.n_aside:
            say(str(each))
