"""Crashes, full disks and slow receivers in the middle of a push: who is named, who goes on."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_site import (
    Json,
    LiveLab,
    Site,
    carried,
    data_packets,
    finish,
    links,
    states,
    wait_for,
    write,
)

from fanfold.wire import inner
from fanfold.wire.close import Close, CloseReason
from fanfold.wire.packet import dissect
from fanfold.wire.pcapng import Direction, read

pytestmark = pytest.mark.live

MB = 1_000_000
PATIENCE_S = 20.0
"""A push that lost nodes ends within this much more than it takes without."""


@pytest.fixture(scope="module")
def module_lab(site: Site) -> Iterator[LiveLab]:
    made = LiveLab(site, "live-faults", "--leaves", 2, "--spines", 2, "--hosts", 8)
    yield made
    made.down()


def under_way(lab: LiveLab, path: Path, node: str, to: str, *flags: object) -> "Running":
    """A push that has put some blocks on a link and has more to send."""
    before = lab.sent(node, to)
    push = lab.start_push(path, *flags)
    try:
        wait_for(lambda: lab.sent(node, to) > before + 200, "data under way", 20)
    except BaseException:
        push.kill()
        finish(push)
        raise
    assert push.poll() is None, "the push ended before it could be disturbed"
    return Running(push, before)


class Running:
    """A push and what a link had carried before it."""

    def __init__(self, push: subprocess.Popen[str], before: int) -> None:
        self.push, self.before = push, before

    def end(self, timeout_s: float = 60.0) -> tuple[int, Json, str]:
        code, out, err = finish(self.push, timeout_s)
        return code, json.loads(out), err


def test_a_receiver_that_dies_is_named_and_the_others_finish(
    lab: LiveLab, tmp_path: Path
) -> None:
    path = write(tmp_path, "dies.bin", 12 * MB, 1)
    running = under_way(lab, path, "leaf2", "h6", "--rate", "40Mbps", "--patience", "2s")
    lab.kill("h6")
    began = time.monotonic()
    code, result, err = running.end()
    assert time.monotonic() - began < PATIENCE_S
    assert code == 4
    others = [n for n in lab.receivers if n != "h6"]
    assert states(result) == {**dict.fromkeys(others, "verified"), "h6": "failed"}
    assert lab.who_has("dies.bin", path.read_bytes()) == others
    assert len(err.splitlines()) == 1
    assert "h6: silent" in err
    assert [s for s in result["suspects"] if "h6" in s]

    lab.restart("h6")
    again = lab.push(path)
    assert set(states(again).values()) == {"verified"}
    assert lab.received("h6", "dies.bin").read_bytes() == path.read_bytes()
    assert 0 < carried(again, "leaf2", "h6") < carried(result, "leaf2", "h7") - 100
    assert carried(again, "leaf2", "h7") == 0


def test_a_sender_that_dies_leaves_nothing_visible_and_the_next_push_resumes(
    lab: LiveLab, tmp_path: Path
) -> None:
    path = write(tmp_path, "resumed.bin", 12 * MB, 2)
    push = lab.start_push(path, "--rate", "40Mbps")
    before = lab.sent("leaf1", "h1")
    wait_for(lambda: lab.sent("leaf1", "h1") > before + 400, "data under way", 20)
    push.send_signal(signal.SIGKILL)
    assert finish(push)[0] == -signal.SIGKILL
    assert [h for h in lab.receivers if lab.received(h, "resumed.bin").exists()] == []

    again = lab.push(path)
    assert set(states(again).values()) == {"verified"}
    assert lab.who_has("resumed.bin", path.read_bytes()) == lab.receivers
    n_all = 12 * MB // 8192
    assert 0 < carried(again, "leaf1", "h1") < n_all - 200
    assert 0 < carried(again, "h0", "leaf1") < n_all


@pytest.mark.parametrize(("number", "seed"), [(signal.SIGINT, 3), (signal.SIGTERM, 30)])
def test_an_interrupted_push_says_so_closes_and_keeps_what_was_verified(
    lab: LiveLab, tmp_path: Path, number: signal.Signals, seed: int
) -> None:
    path = write(tmp_path, f"stopped{seed}.bin", 12 * MB, seed)
    pcap = tmp_path / "stopped.pcapng"
    running = under_way(
        lab, path, "leaf1", "h1", "--rate", "40Mbps", "--pcap", str(pcap), "--snaplen", "0"
    )
    running.push.send_signal(number)
    code, result, err = running.end(20)
    assert code == 130
    assert result["is_interrupted"]
    assert set(states(result).values()) == {"failed"}
    said, last = err.splitlines()
    assert said.startswith("note: --pcap: about ")
    assert "interrupted" in last
    assert aborted(pcap) >= {("leaf1", "h1"), ("leaf2", "h8"), ("h0", "leaf1")}
    assert [h for h in lab.receivers if lab.received(h, f"stopped{seed}.bin").exists()] == []
    again = lab.push(path)
    assert set(states(again).values()) == {"verified"}
    assert data_packets(again) < data_packets(result) + len(links(again)) * 12 * MB // 8192


def aborted(pcap: Path) -> set[tuple[str, str]]:
    """Ways that a CLOSE of a push that was given up went."""
    capture = read(pcap.read_bytes())
    ways = set()
    for one in capture.packets:
        found = dissect(inner.decode(one.frame).payload).layers
        if found and isinstance(found[-1], Close) and found[-1].reason == CloseReason.ABORTED:
            node, _, other = capture.interfaces[one.interface].name.partition(":")
            is_out = one.direction == Direction.OUTBOUND
            ways.add((node, other) if is_out else (other, node))
    return ways


def test_a_bfr_that_dies_is_suspected(lab: LiveLab, tmp_path: Path) -> None:
    path = write(tmp_path, "leafless.bin", 12 * MB, 4)
    running = under_way(lab, path, "leaf2", "h5", "--rate", "40Mbps", "--patience", "2s")
    lab.kill("leaf2")
    began = time.monotonic()
    code, result, err = running.end()
    assert time.monotonic() - began < PATIENCE_S
    assert code == 4
    assert states(result) == {
        **dict.fromkeys(("h1", "h2", "h3", "h4"), "verified"),
        **dict.fromkeys(("h5", "h6", "h7", "h8"), "failed"),
    }
    assert "leaf2" in result["suspects"]
    assert "leaf1" not in result["suspects"]
    assert "leaf2" in err
    lab.restart("leaf2")
    again = lab.push(path)
    assert set(states(again).values()) == {"verified"}
    assert lab.who_has("leafless.bin", path.read_bytes()) == lab.receivers
    assert carried(again, "leaf1", "h1") == 0


def test_a_bfr_that_restarts_in_the_middle_costs_nobody_the_push(
    lab: LiveLab, tmp_path: Path
) -> None:
    path = write(tmp_path, "blip.bin", 8 * MB, 5)
    running = under_way(lab, path, "leaf2", "h5", "--rate", "40Mbps")
    lab.kill("leaf2")
    lab.restart("leaf2")
    code, _, err = running.end()
    assert code == 0, err
    assert lab.who_has("blip.bin", path.read_bytes()) == lab.receivers


def test_a_late_joiner_gets_everything(lab: LiveLab, tmp_path: Path) -> None:
    path = write(tmp_path, "late.bin", 8 * MB, 6)
    lab.kill("h7")
    running = under_way(lab, path, "leaf2", "h5", "--rate", "30Mbps")
    lab.restart("h7")
    code, result, err = running.end()
    assert code == 0, err
    assert lab.who_has("late.bin", path.read_bytes()) == lab.receivers
    assert carried(result, "leaf2", "h7") >= links(result)["leaf2", "h5"]["packets"]


def test_a_receiver_that_restarts_in_the_middle_gets_everything(
    lab: LiveLab, tmp_path: Path
) -> None:
    path = write(tmp_path, "rejoin.bin", 8 * MB, 7)
    running = under_way(lab, path, "leaf1", "h2", "--rate", "30Mbps")
    lab.kill("h2")
    lab.restart("h2")
    code, _, err = running.end()
    assert code == 0, err
    assert lab.who_has("rejoin.bin", path.read_bytes()) == lab.receivers


@pytest.mark.alone
@pytest.mark.slow
def test_a_slow_receiver_goes_at_its_own_pace(lab: LiveLab, tmp_path: Path) -> None:
    rate = ("--rate", "40Mbps")
    plain = lab.push(write(tmp_path, "fast.bin", 10 * MB, 8), *rate)
    path = write(tmp_path, "slow.bin", 10 * MB, 9)
    result = lab.push(path, *rate, "--impair", "rate=10Mbps@leaf1-h3", timeout_s=120)
    assert lab.who_has("slow.bin", path.read_bytes()) == lab.receivers
    before, after = ({r["id"]: r["seconds"] for r in x["receivers"]} for x in (plain, result))
    others = [n for n in lab.receivers if n != "h3"]
    assert max(after[n] for n in others) <= 2 * max(before.values())
    assert after["h3"] > 10 * MB * 8 / 10e6 * 0.9
    assert [r["id"] for r in result["receivers"] if r["split"]] == ["h3"]


# Disks.


def test_what_stands_in_the_way_is_named_for_each_receiver(
    lab: LiveLab, tmp_path: Path
) -> None:
    path = write(tmp_path, "blocked.bin", 4 * MB, 10)
    lab.received("h2", "blocked.bin").mkdir(parents=True)
    root = lab.folder / "hosts" / "h5"
    aside = root.rename(root.with_name("h5-aside"))
    root.write_text("a file where a folder should be")
    try:
        done = lab.site.run(*lab.push_args(path))
    finally:
        root.unlink()
        aside.rename(root)
        lab.received("h2", "blocked.bin").rmdir()
    assert done.returncode == 4
    result = json.loads(done.stdout)
    errors = {r["id"]: r["error"] for r in result["receivers"] if r["state"] != "verified"}
    assert errors.keys() == {"h2", "h5"}
    assert errors["h2"].startswith("collision: blocked.bin: a directory")
    assert errors["h5"].startswith("collision:")
    assert "h2: collision" in done.stderr
    assert "h5: collision" in done.stderr
    assert result["suspects"] == []
    log = (lab.folder / "lab.log").read_text()
    assert " h2: push 'blocked.bin' from h0: failed: blocked.bin: a directory" in log
    assert " h5: push 'blocked.bin' from h0: failed: " in log
    others = [n for n in lab.receivers if n not in errors]
    assert lab.who_has("blocked.bin", path.read_bytes()) == others


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts; root is never refused otherwise")
@pytest.mark.parametrize(
    ("options", "error"), [("size=1m", "disk_full"), ("ro,size=9m", "permission")]
)
def test_a_disk_that_takes_nothing_is_named(
    lab: LiveLab, tmp_path: Path, options: str, error: str
) -> None:
    path = write(tmp_path, f"{error}.bin", 4 * MB, 11)
    root = lab.folder / "hosts" / "h2"
    root.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", options, "none", str(root)]
    if subprocess.run(mount, capture_output=True, timeout=10, check=False).returncode:
        pytest.skip("this machine mounts nothing")
    try:
        done = lab.site.run(*lab.push_args(path))
    finally:
        subprocess.run(["umount", "-l", str(root)], timeout=10, check=True)
    assert done.returncode == 4
    result = json.loads(done.stdout)
    assert states(result)["h2"] == "failed"
    (said,) = (r["error"] for r in result["receivers"] if r["id"] == "h2")
    assert said.startswith(f"{error}:")
    assert f"h2: {error}" in done.stderr
    others = [n for n in lab.receivers if n != "h2"]
    assert lab.who_has(path.name, path.read_bytes()) == others


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_may_not_be_written_is_named(lab: LiveLab, tmp_path: Path) -> None:
    path = write(tmp_path, "readonly.bin", 4 * MB, 12)
    root = lab.folder / "hosts" / "h2"
    root.mkdir(parents=True, exist_ok=True)
    root.chmod(0o555)
    try:
        done = lab.site.run(*lab.push_args(path))
    finally:
        root.chmod(0o755)
    assert done.returncode == 4
    assert "h2: permission" in done.stderr
    others = [n for n in lab.receivers if n != "h2"]
    assert lab.who_has("readonly.bin", path.read_bytes()) == others


def test_a_source_that_changes_during_the_push_is_named(lab: LiveLab, tmp_path: Path) -> None:
    path = write(tmp_path, "moving.bin", 12 * MB, 13)
    running = under_way(lab, path, "leaf1", "h1", "--rate", "40Mbps")
    with path.open("r+b") as file:
        file.write(b"changed")
    code, out, err = finish(running.push, 30)
    assert code == 2, out
    assert len(err.splitlines()) == 1
    assert "moving.bin" in err
    assert "changed" in err
    assert [h for h in lab.receivers if lab.received(h, "moving.bin").exists()] == []
    told = json.loads(out)
    assert (told["exit_code"], "changed during the push" in told["error"]) == (2, True)
    halves = [lab.received(h, ".fanfold") for h in lab.receivers]
    wait_for(lambda: not any(list(h.glob("*/lock")) for h in halves), "halves are removed")
