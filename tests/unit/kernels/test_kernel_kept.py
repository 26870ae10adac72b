"""Each kernel is compiled by one process; a lock or a file that a crash left ends nobody."""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from fanfold.kernels.jit import JIT
from fanfold.kernels.kept import Lock, waiters

compiles = pytest.mark.skipif(not JIT, reason="compiles")

KERNEL = """
import time
from fanfold.kernels import kept
from fanfold.kernels.jit import cache_dir, kernel, on_compile, on_wait

def triple(a: int) -> int:
    return 3 * a

compiled, waited = [], []
on_compile(compiled.append)
on_wait(waited.append)
"""
AT_ONCE = f"""{KERNEL}
import sys
kept.AGAIN_NS = 10**8
on_compile(lambda name: time.sleep(0.8))  # a kernel that takes long
print("ready", flush=True)
sys.stdin.readline()
one = kernel(triple)
assert (one(2), one(2.5)) == (6, 7.5)  # two sets of types
print(len(compiled), len(waited) > 0, flush=True)
"""
THREADS = f"""{KERNEL}
import threading
lock, held = kept.lock_of(cache_dir("kernels")), []
def see(name):
    held.append(lock._fd >= 0)
    time.sleep(0.5)
    held.append(lock._fd >= 0)
on_compile(see)
give = kept.Lock.give
kept.Lock.give = lambda self: (time.sleep(0.2), give(self))
one = kernel(triple)
threads = [threading.Thread(target=one, args=(x,)) for x in (2, 2.5)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(compiled), held)
"""
TORN = f"""{KERNEL}
one = kernel(triple)
assert one(2) == 6
files = [f for f in cache_dir("kernels").rglob("*.nb?")]
assert len(files) == 2, files
for harm in (lambda b: b"", lambda b: b[:-9], lambda b: b"odd" * 9):
    for file in files:
        whole = file.read_bytes()
        file.write_bytes(harm(whole))
        assert kernel(triple)(2) == 6, file
        n = len(compiled)
        assert kernel(triple)(2) == 6
        assert len(compiled) == n, "not kept again"
print(len(compiled))
"""
HOLD = """
import os, sys, time
from pathlib import Path
from fanfold.kernels.kept import Lock
Lock(Path(sys.argv[1])).take()
if os.fork() == 0:  # a child lives on, and does not hold what its parent held
    os.close(1)
    time.sleep(20)
    os._exit(0)
print(os.getpid(), flush=True)
time.sleep(20)
"""


def written(code: str, folder: Path) -> Path:
    """A file for the code; once, since a process that starts reads it."""
    script = folder / "one.py"
    script.write_text(code)
    return script


def start(script: Path, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, script, folder],
        env=os.environ | {"FANFOLD_CACHE_DIR": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@compiles
def test_of_processes_that_start_on_an_empty_cache_one_compiles(tmp_path: Path) -> None:
    script = written(AT_ONCE, tmp_path)
    with ExitStack() as stack:
        runs = [stack.enter_context(start(script, tmp_path / "cache")) for _ in range(3)]
        for run in runs:
            stack.callback(run.kill)
        for run in runs:
            assert run.stdout is not None
            assert run.stdout.readline() == "ready\n"
        told = []
        for run in runs:
            assert run.stdin is not None
            run.stdin.write("\n")
            run.stdin.flush()
        for run in runs:
            out, _ = run.communicate(timeout=60)
            assert run.returncode == 0
            told.append(out.split())
    assert sum(int(n) for n, _ in told) == 2  # one for each set of types
    assert sum(waited == "True" for _, waited in told) >= 2


@compiles
def test_threads_of_one_process_hold_the_lock_one_after_the_other(tmp_path: Path) -> None:
    with start(written(THREADS, tmp_path), tmp_path / "cache") as run:
        out, _ = run.communicate(timeout=60)
    assert (run.returncode, out) == (0, f"2 {[True] * 4}\n")


@compiles
def test_a_file_that_a_crash_left_is_compiled_anew_and_kept(tmp_path: Path) -> None:
    run = start(written(TORN, tmp_path), tmp_path / "cache")
    out, _ = run.communicate(timeout=60)
    assert run.returncode == 0
    assert int(out) == 7


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path: Path) -> None:
    holder = start(written(HOLD, tmp_path), tmp_path / "cache")
    heard: list[str] = []

    def kill(owner: str) -> None:
        heard.append(owner)
        os.kill(holder.pid, signal.SIGKILL)

    try:
        assert holder.stdout is not None
        assert int(holder.stdout.readline()) == holder.pid
        waiters.append(kill)
        lock = Lock(tmp_path / "cache")
        lock.take()
        lock.give()
    finally:
        waiters.remove(kill)
        os.killpg(holder.pid, signal.SIGKILL)  # and the child
        holder.communicate()
    assert heard == [f"process {holder.pid} compiles kernels into {tmp_path / 'cache'}"]


def test_a_cache_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    lock = Lock(tmp_path / "file" / "below")
    lock.take()
    lock.give()
