"""A node that cannot start says why, whatever the cause, and nothing is left running."""

import subprocess
import sys
from pathlib import Path

import pytest
from live_site import Site, finish, wait_for

from fanfold.live.lab import is_alive, start_time

pytestmark = pytest.mark.live

START = """
import os, signal, sys
from pathlib import Path
from fanfold.api.labs import pick_fabric
from fanfold.api.nodes import make_lab_host
from fanfold.errors import FanfoldError
from functools import partial
from fanfold.live.lab import Lab
from fanfold.live.supervisor import supervise

def make(fabric, name, control_socket, hosts):
    if name == "h1":
        {fault}
    return make_lab_host(fabric, name, control_socket, hosts)

try:
    Lab("live-bad").up(
        pick_fabric("live-bad", 1, 0, 2, 9000), partial(supervise, make)
    )
except FanfoldError as error:
    print(error)
"""


def start(site: Site, fault: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", START.format(fault=fault)],
        capture_output=True,
        text=True,
        timeout=120,
        env=site.env,
        check=True,
    )
    assert site.pids() == set()
    assert done.stderr == ""
    return done.stdout.strip()


def test_any_error_of_a_node_is_named_and_its_trace_kept(site: Site) -> None:
    log = site.state / "labs" / "live-bad" / "lab.log"
    said = start(site, "raise ValueError('no such thing')")
    assert said == f"lab 'live-bad': h1: ValueError: no such thing; see {log}"
    assert "ValueError: no such thing" in log.read_text()
    assert "Traceback" in log.read_text()


def test_a_node_that_dies_without_a_word_is_said_to_have_died(site: Site) -> None:
    said = start(site, "os.kill(os.getpid(), signal.SIGKILL)")
    assert "h1: its process died" in said
    assert "lab.log" in said


def test_a_lab_that_somebody_is_starting_is_not_started_twice(site: Site) -> None:
    starts = [site.start("lab", "up", "--name", "live-twins", "--hosts", 1) for _ in range(2)]
    ends = [finish(process, 120) for process in starts]
    try:
        assert sorted(code for code, _, _ in ends) == [0, 2]
        (err,) = (err for code, _, err in ends if code == 2)
        assert "--name" in err
        (report,) = site.read("lab", "status", "--name", "live-twins")
        assert report["up"]
    finally:
        site.run("lab", "down", "--name", "live-twins", "--purge")
    assert site.pids() == set()


def test_a_process_lives_until_its_last_thread_has_closed_what_it_holds() -> None:
    code = (
        "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(9,)).start()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", f"{code}; ctypes.CDLL(None).pthread_exit(None)"]
    )
    try:
        stat = Path(f"/proc/{process.pid}/stat")
        wait_for(lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z", "a zombie")
        assert is_alive(process.pid, start_time(process.pid))
        process.kill()
        wait_for(lambda: not is_alive(process.pid, start_time(process.pid)), "dead")
    finally:
        process.kill()
        process.wait()
