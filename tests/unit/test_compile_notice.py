"""What is compiled is said on stderr, once; what is loaded is not."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fanfold
from fanfold.kernels.jit import JIT, cache_dir
from fanfold.kernels.kept import waiters
from fanfold.kernels.parts import listeners
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
    own = Path(fanfold.__file__).parent
    copy = shutil.copytree(own, tmp_path / "copy" / "fanfold", copy_function=shutil.copyfile)
    for place in (own, own, copy):  # equal sources elsewhere, of another time
        more = {"FANFOLD_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(place.parent)}
        done = subprocess.run(
            [sys.executable, "-c", CODE],
            env=os.environ | more,
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
    assert said[1:] == [[], []]


def test_each_step_says_which_it_is_and_for_whom_it_waits() -> None:
    said: list[str] = []
    with compile_notice.telling_compiles(said.append, "serve, 1 of 9"):
        for listener in listeners:
            listener("serve")
        for waiter in waiters:
            waiter("process 7 compiles kernels into x/live")
    place = cache_dir("kernels").parent
    start = "compiling kernels, once after a change: serve, 1 of 9; "
    assert said == [
        f"{start}kept in {place}",
        f"{start}process 7 compiles kernels into x/live, waiting for it",
    ]
    assert not {f.__qualname__ for f in listeners + waiters if "telling" in f.__qualname__}
