"""Ends of many small operations: whoever waits is woken once a batch, and hears of errors."""

import threading
from concurrent.futures import TimeoutError as WaitOver

import pytest

from fanfold.group.communicator import GroupError
from fanfold.group.pending import Pending, end_all
from fanfold.group.work import FabricWork
from fanfold.live.worker import Gate


class CountedGate(Gate):
    """How often it was opened."""

    n_opened = 0

    def notify_all(self) -> None:
        self.n_opened += 1
        super().notify_all()


def test_a_batch_opens_the_gate_once() -> None:
    gate = CountedGate()
    some = [Pending(gate) for _ in range(1000)]
    ended = threading.Thread(target=lambda: end_all(gate, some))
    ended.start()
    for one in some:
        one.result(10)
    ended.join()
    assert gate.n_opened == 1
    assert all(one.done() and one.exception() is None for one in some)


def test_a_wait_ends_with_its_time_or_with_why_it_failed() -> None:
    gate = Gate()
    good, bad, late = Pending(gate), Pending(gate), Pending(gate)
    end_all(gate, [good])
    end_all(gate, [bad], GroupError("broadcast: no", op="broadcast"))
    good.result(0)
    with pytest.raises(GroupError, match="no"):
        bad.result()
    assert isinstance(bad.exception(), GroupError)
    with pytest.raises(WaitOver):
        late.result(0.01)
    work = FabricWork("broadcast", late)
    with pytest.raises(GroupError, match="broadcast: not done yet"):
        work.wait(10**9)
    assert not work.is_done()


def test_what_hangs_on_an_end_is_called_once_before_or_after_it() -> None:
    gate = Gate()
    one, told = Pending(gate), []
    one.then(lambda: told.append("at its end"))
    assert told == []
    end_all(gate, [one])
    one.then(lambda: told.append("later"))
    assert told == ["at its end", "later"]


def test_a_gate_that_actions_open_wakes_once_a_batch() -> None:
    gate, theirs = Gate(), Gate()
    some, woken = [Pending(gate) for _ in range(200)], []
    n_told = [0]

    def tell() -> None:
        with theirs:
            n_told[0] += 1
            theirs.notify_all()

    for one in some:
        one.then(tell, theirs)

    def wait() -> None:
        with theirs:
            while n_told[0] < len(some):
                theirs.wait(10)
                woken.append(n_told[0])

    waiter = threading.Thread(target=wait)
    waiter.start()
    while not theirs._waiters:  # type: ignore[attr-defined]  # it waits by now
        pass
    end_all(gate, some)
    waiter.join()
    assert woken == [len(some)]
