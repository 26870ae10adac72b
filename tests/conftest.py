"""Puts tests/ on the import path, for ``naive``, and sets the profiles of hypothesis.

Each phase of a test has a time limit (``limits.py``). The end of a run says what was skipped
and why, and how many runs were set aside (``tries.py``). Started in the background tests would
ignore Ctrl-C, and so would all that they start.
"""

import os
import signal
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from limits import limit_of, limited, logs_of
from skips import OF_MODE, skipped
from tries import Tries

TESTS = Path(__file__).parent

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


UNMEASURED = {TESTS / "property", TESTS / "sim"}
"""Their many repetitions take twice as long under coverage, and reach what unit tests reach."""
MEASURED = {"test_sender_joins.py", "test_sender_machine.py"}
ONCE = {
    TESTS / "unit" / name
    for name in (
        "cli",
        "core",
        "peers",
        "push",
        "report",
        "results",
        "seals",
        "study",
        "wire",
        "work",
    )
}
ONCE |= {
    TESTS / "property" / f"test_{name}.py"
    for name in ("codec_laws", "path_weights_laws", "topo_file_laws", "tree_sender")
}
"""Tests of what has no kernels: they run without JIT, where coverage sees them."""
TWICE = {"test_cli_first_run.py"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    is_jit = not int(os.environ.get("NUMBA_DISABLE_JIT") or 0)  # numba is not loaded for it
    once = pytest.mark.skip(reason="no kernel is in it; once is enough")
    for item in items:
        above = {item.path, *item.path.parents}
        if above & UNMEASURED and item.path.name not in MEASURED:
            item.add_marker("no_cover")
        needs_jit = any(OF_MODE in str(m.kwargs) for m in item.iter_markers("skipif"))
        if is_jit and above & ONCE and not needs_jit and item.path.name not in TWICE:
            item.add_marker(once)


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
