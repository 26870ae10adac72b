"""The thread that does long work in turns: all goes on, ends are told, stops are clean."""

import threading
import time
from collections.abc import Iterator

import pytest

from fanfold.live.turns import TURN_STEPS, TurnWorker


@pytest.fixture
def woken() -> threading.Event:
    return threading.Event()


@pytest.fixture
def worker(woken: threading.Event) -> Iterator[TurnWorker]:
    made = TurnWorker(woken.set)
    yield made
    made.close()


def steps(n: int, done: list[int], closed: list[bool] | None = None) -> Iterator[int]:
    try:
        for i in range(n):
            done.append(i)
            yield 1
    finally:
        if closed is not None:
            closed.append(True)


def wait(is_true: object) -> None:
    until = time.monotonic() + 10
    while not is_true():  # type: ignore[operator]  # a function
        assert time.monotonic() < until
        time.sleep(0.001)


def test_work_is_done_aside_and_its_end_is_told(
    worker: TurnWorker, woken: threading.Event
) -> None:
    done: list[int] = []
    work = worker.take(steps(500, done))
    assert woken.wait(10)
    assert work.is_over()
    assert (work.n_steps, done) == (500, list(range(500)))


def test_works_take_turns(worker: TurnWorker) -> None:
    go, seen = threading.Event(), []

    def named(name: str, n: int) -> Iterator[int]:
        go.wait(10)
        for _ in range(n):
            seen.append(name)
            yield 1

    long, short = worker.take(named("long", 100 * TURN_STEPS)), worker.take(named("short", 1))
    go.set()
    wait(short.is_over)
    wait(long.is_over)
    assert seen.index("short") <= 2 * TURN_STEPS


def test_what_a_step_raises_is_raised_where_its_end_is_asked_for(worker: TurnWorker) -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    work, other = worker.take(broken()), worker.take(steps(3, []))
    wait(other.is_over)
    with pytest.raises(ValueError, match="broken"):
        wait(work.is_over)


def test_closing_stops_between_two_steps(worker: TurnWorker) -> None:
    done: list[int] = []
    closed: list[bool] = []
    worker.take(steps(10**9, done, closed))
    wait(lambda: len(done) > 10)
    worker.close()
    assert closed == [True]
    n = len(done)
    time.sleep(0.01)
    assert len(done) == n
