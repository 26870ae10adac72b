"""What a packet sets off in a role is counted, told once, and goes no further."""

from types import SimpleNamespace

import numpy as np
import pytest

from fanfold.core.effects import DropReason
from fanfold.errors import ConfigError, MisuseError
from fanfold.kernels.codes import DROP_FAULT, N_DROPS
from fanfold.live import event_loop as st
from fanfold.live.faults import MAX_TOLD, Faults


def fail(value: int) -> None:
    raise ConfigError("bfr_id", value, "1..65535")


def noted(faults: Faults, value: int) -> None:
    try:
        fail(value)
    except ConfigError as error:
        faults.note("Ask refused", error)


def test_a_fault_is_counted_each_time_and_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    drops = np.zeros(N_DROPS, np.int64)
    faults = Faults("127.0.0.1", drops)
    for _ in range(1000):
        noted(faults, 0)
    told = capsys.readouterr().err
    assert drops[DROP_FAULT] == 1000
    assert told.count("counted as fault") == 1
    assert told.startswith("127.0.0.1: Ask refused: ConfigError: bfr_id: got 0")
    assert "Traceback" in told  # stderr is no terminal here


def test_a_flood_of_faults_does_not_fill_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    faults = Faults("h1", np.zeros(N_DROPS, np.int64))
    for i in range(100):
        exec(compile(f"def f():\n raise ValueError({i})", f"made{i}", "exec"), names := {})
        try:
            names["f"]()
        except ValueError as error:
            faults.note("blocks refused", error)
    assert capsys.readouterr().err.count("counted as fault") == MAX_TOLD
    assert list(DropReason)[DROP_FAULT] == "fault"


class Failing:
    """A role that fails where, and as often, as it is told."""

    def __init__(self, where: str, times: int, error: Exception) -> None:
        self.where, self.times, self.error = where, times, error
        self.n_turns = 0

    def _fail(self, where: str) -> None:
        if where == self.where and self.times:
            self.times -= 1
            raise self.error

    def deadline_ps(self, now: int) -> int:
        self._fail("deadline_ps")
        return now

    def on_timer(self, now: int) -> None:
        del now
        self._fail("on_timer")
        self.n_turns += 1


def loop_of(role: Failing, monkeypatch: pytest.MonkeyPatch) -> st.EventLoop:
    """An event loop that nothing comes to."""
    monkeypatch.setattr(st.p, "serve", lambda *_: -1)
    made = st.EventLoop.__new__(st.EventLoop)
    made.role, made.on_pump, made._n_failed = role, [lambda: role._fail("hook")], 0  # type: ignore[assignment]
    monkeypatch.setattr(made, "_enter", lambda by_ps: -1)
    made.keeper = made.links = None
    made.io = SimpleNamespace()  # type: ignore[assignment]
    made.node = SimpleNamespace(collect=SimpleNamespace(n_events=[0]))  # type: ignore[assignment]
    made.faults = Faults("h1", np.zeros(N_DROPS, np.int64))
    return made


@pytest.mark.parametrize("where", ["on_timer", "deadline_ps", "hook"])
def test_a_turn_that_fails_is_counted_and_the_node_goes_on_unless_it_always_fails(
    where: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    role = Failing(where, st.MAX_IN_A_ROW - 1, ZeroDivisionError("odd"))
    event_loop = loop_of(role, monkeypatch)
    for _ in range(2 * st.MAX_IN_A_ROW):
        event_loop.step()
    assert role.n_turns > st.MAX_IN_A_ROW
    assert event_loop.faults.drops[DROP_FAULT] == st.MAX_IN_A_ROW - 1
    assert capsys.readouterr().err.count("counted as fault") == 1
    role.times = 1000
    for _ in range(st.MAX_IN_A_ROW - 1):
        event_loop.step()
    with pytest.raises(MisuseError, match=r"node h1 ends: .* in a row: ZeroDivisionError: odd"):
        event_loop.step()


@pytest.mark.parametrize("error", [ConfigError("a", 1, "2"), OSError(5, "gone")])
def test_what_a_role_says_on_purpose_ends_a_push(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    event_loop = loop_of(Failing("on_timer", 1, error), monkeypatch)
    with pytest.raises(type(error)):
        event_loop.step()
    assert event_loop.faults.drops[DROP_FAULT] == 0
