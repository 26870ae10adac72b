"""What is compiled is said on stderr, once; what is loaded is not."""

import os
import subprocess
import sys

import pytest

from fanfold.kernels.jit import JIT

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
