"""Receivers and BFRs that fall silent in the middle of a push, and others that come late."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_site import Json, LiveLab, Site, finish, states, wait_for, write

pytestmark = pytest.mark.live

MB = 1_000_000
STOPPED_S = 3.0


@pytest.fixture(scope="module")
def module_lab(site: Site) -> Iterator[LiveLab]:
    made = LiveLab(site, "patience", "--leaves", 2, "--spines", 2, "--hosts", 8)
    yield made
    made.down()


def push_while(
    lab: LiveLab, path: Path, happens: Callable[[], None], *flags: object
) -> tuple[int, Json, str]:
    """A push during which something happens, once its data are on their way."""
    before = lab.sent("leaf1", "h1")
    push = lab.start_push(path, *flags)
    try:
        wait_for(lambda: lab.sent("leaf1", "h1") > before + 100, "data under way", 30)
        happens()
    finally:
        code, out, err = finish(push, 100)
    return code, json.loads(out), err


def stop_for(lab: LiveLab, node: str) -> None:
    os.kill(lab.pid(node), signal.SIGSTOP)
    time.sleep(STOPPED_S)
    os.kill(lab.pid(node), signal.SIGCONT)


def seconds_of(result: Json) -> dict[str, float]:
    return {r["id"]: r["seconds"] for r in result["receivers"]}


def copies(result: Json) -> float:
    """Data and repairs on the sender's link, of what was pushed."""
    rows = [row for row in result["links"] if row["from"] == "h0"]
    return sum(row["bytes"] + row["repair_bytes"] for row in rows) / result["bytes"]


@pytest.mark.parametrize(("node", "behind"), [("h6", 1), ("leaf2", 4)])
def test_who_is_silent_for_three_seconds_holds_nobody_back_and_has_all_at_the_end(
    lab: LiveLab, tmp_path: Path, node: str, behind: int
) -> None:
    path = write(tmp_path, f"stop-{node}.bin", 6 * MB, behind)
    code, result, err = push_while(lab, path, lambda: stop_for(lab, node), "--rate", "40Mbps")
    assert code == 0, err
    assert lab.who_has(path.name, path.read_bytes()) == lab.receivers
    late = sorted(seconds_of(result).values())[-behind:]
    others = sorted(seconds_of(result).values())[:-behind]
    assert min(late) > STOPPED_S - 0.5
    assert max(others) < min(late)
    assert copies(result) < 2.3


@pytest.mark.parametrize("node", ["h3", "leaf2"])
def test_who_is_killed_and_back_after_it_was_set_aside_has_all_in_the_same_push(
    lab: LiveLab, tmp_path: Path, node: str
) -> None:
    path = write(tmp_path, f"back-{node}.bin", 6 * MB, 20 + len(node))

    def happens() -> None:
        lab.kill(node)
        time.sleep(STOPPED_S)
        lab.restart(node)

    code, result, err = push_while(lab, path, happens, "--rate", "40Mbps")
    assert code == 0, err
    assert lab.who_has(path.name, path.read_bytes()) == lab.receivers
    assert copies(result) < 2.3


def test_a_receiver_that_is_gone_for_good_delays_nobody_and_is_named_at_the_end(
    lab: LiveLab, tmp_path: Path
) -> None:
    path = write(tmp_path, "gone.bin", 6 * MB, 30)
    plain = lab.push(write(tmp_path, "plain.bin", 6 * MB, 31), "--rate", "40Mbps")
    code, result, err = push_while(
        lab, path, lambda: lab.kill("h6"), "--rate", "40Mbps", "--patience", "3s"
    )
    assert code == 4
    others = [n for n in lab.receivers if n != "h6"]
    assert states(result) == {**dict.fromkeys(others, "verified"), "h6": "failed"}
    assert "h6: silent for" in err
    served = max(seconds_of(result)[n] for n in others)
    assert served < max(seconds_of(plain).values()) + 2
    assert 2.9 < result["seconds"] - served < 5


def test_four_late_joiners_cost_one_more_copy_at_most_and_nobody_else_is_lost(
    lab: LiveLab, tmp_path: Path
) -> None:
    path = write(tmp_path, "joiners.bin", 12 * MB, 40)
    late = ("h5", "h6", "h7", "h8")
    lab.kill(*late)

    def happens() -> None:
        time.sleep(0.5)
        lab.restart(*late)

    code, result, err = push_while(lab, path, happens, "--rate", "50Mbps")
    assert code == 0, err
    assert lab.who_has(path.name, path.read_bytes()) == lab.receivers
    # Who is started late on a busy machine finds the first pass over: two passes, and a window
    # of two blocks that were on their way.
    assert copies(result) < 2.1 + 2 / result["n_blocks"]
    assert max(seconds_of(result)[n] for n in lab.receivers if n not in late) < 6


def test_gaps_are_told_a_few_times_each_however_long_a_repair_takes(
    lab: LiveLab, tmp_path: Path
) -> None:
    """Once, 22,466 packets of FEEDBACK came of 33 blocks."""
    path = write(tmp_path, "lossy.bin", 17 * MB, 50)
    before = feedback_of(lab)
    result = lab.push(path, "--impair", "drop=5%,delay=25ms", "--seed", 7, timeout_s=90)
    assert set(states(result).values()) == {"verified"}
    n_words = feedback_of(lab) - before
    assert n_words < 16 * result["n_blocks"] * len(lab.receivers)


def feedback_of(lab: LiveLab) -> int:
    links = [link for node in lab.receivers for link in lab.status(node)["links"].values()]
    return sum(link["tx"].get("feedback", [0])[0] for link in links)


def test_a_busy_machine_is_no_dead_peer(lab: LiveLab, tmp_path: Path) -> None:
    """Twice as many spinning processes as there are processors."""
    path = write(tmp_path, "busy.bin", 8 * MB, 60)
    n = 2 * (os.cpu_count() or 1)
    spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]
    try:
        result = lab.push(path, timeout_s=90)
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()
    assert set(states(result).values()) == {"verified"}
