"""Who waits for a process to start hears what it does, and waits while it gets anywhere."""

import os
import subprocess
import sys
import time

import pytest

from fanfold.cli.telling import Lines
from fanfold.live.birth import hear

QUIET_S = 1.2
CHILD = """
import os, sys, time
fd = int(sys.argv[1])
say = lambda text: os.write(fd, text.encode())
{body}
"""


def born(body: str) -> tuple[str, list[str], float]:
    """What ``hear`` says of a child, what it was told meanwhile, and how long that took."""
    told, tell = os.pipe()
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD.replace("{body}", body), str(tell)], pass_fds=[tell]
    )
    os.close(tell)
    said: list[str] = []
    began = time.monotonic()
    try:
        answer = hear(told, child.pid, said.append, QUIET_S)
    finally:
        took = time.monotonic() - began
        child.kill()
        child.wait()
    return answer, [text for text in said if text], took


def test_lines_are_passed_on_until_it_is_up() -> None:
    lines = "say('say one\\nsay tw'); time.sleep(.1); say('o\\nok\\n'); time.sleep(9)"
    answer, said, _ = born(lines)
    assert (answer, said) == ("", ["one", "two"])


def test_a_reason_is_the_answer() -> None:
    assert born("say('h1: no room\\n'); time.sleep(9)")[0] == "h1: no room"
    assert born("say('cut of')")[0] == "cut of"  # its end came in the middle of a line


def test_a_process_that_dies_is_said_to_have_died() -> None:
    answer, _, took = born("os._exit(3)")
    assert "died" in answer
    assert took < 60


@pytest.mark.parametrize(
    "work",
    [
        f"while time.process_time() < 1.5 * {QUIET_S}: pass",
        f"for _ in range(6): time.sleep({QUIET_S} / 3); say('say again\\n')",
    ],
    ids=["it computes", "it speaks"],
)
def test_a_wait_lasts_as_long_as_there_is_progress(work: str) -> None:
    answer, _, took = born(f"{work}\nsay('ok\\n')")
    assert answer == ""
    assert took > 1.2 * QUIET_S


def test_a_wait_without_progress_ends_and_says_so() -> None:
    answer, _, took = born("time.sleep(60)")
    assert "no progress" in answer
    assert QUIET_S <= took < 30


def test_a_line_with_a_pid_names_whose_time_is_progress() -> None:
    body = """
if os.fork() == 0:
    say(f"pid {os.getpid()}\\n")
    t = time.process_time()
    while time.process_time() - t < 2: pass
    say("ok\\n")
    os._exit(0)
time.sleep(30)
"""
    assert born(body)[0] == ""


def test_a_short_start_is_silent_off_a_terminal_and_a_long_one_is_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    quick, slow = Lines(60), Lines(0)
    for lines in (quick, slow):
        lines.say("starting, log x")
        lines.say("compiling")
    assert capsys.readouterr().err == "starting, log x\n"
    slow._next_s = 0
    slow.say("")  # goes on: what was said last is shown
    slow.say("")
    assert capsys.readouterr().err == "compiling\n"
