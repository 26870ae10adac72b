"""What a command's process has before the command begins."""

import subprocess
import sys

import pytest

PROGRAM = """
import os
from fanfold.cli import entry, main

def run(ready):
    import numpy
    numpy.ones((300, 300)) @ numpy.ones((300, 300))
    ready()
    print(len(os.listdir("/proc/self/task")), os.environ.get("OPENBLAS_NUM_THREADS"))
    return 0

main.run = run
entry.main()
"""


@pytest.mark.parametrize(("told", "left"), [({}, "None"), ({"OPENBLAS_NUM_THREADS": "1"}, "1")])
def test_no_thread_spins_beside_a_command_and_its_children_are_told_nothing(
    told: dict[str, str], left: str
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=told, capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == ["1", left]
