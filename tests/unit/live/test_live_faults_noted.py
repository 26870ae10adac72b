"""What a packet sets off in a role is counted, told once, and goes no further."""

import numpy as np
import pytest

from fanfold.core.effects import DropReason
from fanfold.errors import ConfigError
from fanfold.kernels.codes import DROP_FAULT, N_DROPS
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
