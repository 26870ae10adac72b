"""What is compiled is said on stderr, once; what is loaded is not."""

import fcntl
import os
import subprocess
import sys
import threading

import pytest

from fanfold.kernels.jit import JIT
from fanfold.live import compile_notice

CODE = """
from fanfold.cli.pulse import Pulse
from fanfold.kernels.spread import is_ours
Pulse(is_on=False)
is_ours(0)
"""


@pytest.mark.skipif(not JIT, reason="compiles")
def test_a_first_run_says_what_it_compiles_and_where_it_is_kept(tmp_path):
    said = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", CODE],
            env=os.environ | {"FANFOLD_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == ""
        said.append(done.stderr.splitlines())
    assert said[0] == [
        "compiling kernels, once after a change: is_ours (some seconds, "
        f"kept in {tmp_path.resolve()})"
    ]
    assert said[1] == []


def test_who_waits_for_another_that_compiles_says_so(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(compile_notice, "AGAIN_S", 0.05)
    monkeypatch.setattr(compile_notice, "_is_on", [True])
    file = tmp_path / "rank.lock"
    with file.open("w") as held, file.open("w") as mine:
        compile_notice.take_turn(held.fileno())
        assert capsys.readouterr().err == ""
        other = threading.Timer(0.2, lambda: fcntl.flock(held, fcntl.LOCK_UN))
        other.start()
        compile_notice.take_turn(mine.fileno())
        other.join()
    said = capsys.readouterr().err.splitlines()
    assert set(said) == {"waiting for another process that compiles or loads the kernels"}
