"""The command line as its users meet it: faults in one line, leftovers, nodes by hand."""

import json
import os
import signal
import socket
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from live_site import (
    LiveLab,
    Site,
    data_packets,
    finish,
    is_running,
    links,
    off_prediction,
    random_bytes,
    states,
    wait_for,
)

pytestmark = pytest.mark.live

MB = 1_000_000
NAME = "live-cli"
OCTET = 1 + os.getpid() % 250
"""Third octet of hand-written addresses: two runs of these tests rarely share one."""
MAX_NODE_KB, USUAL_NODE_KB = 60 * 1024, 34 * 1024
START_S = 10.0
"""Three seconds on a quiet machine."""

TOML = """
[fabric]
name = "byhand"
{fabric}

[[node]]
name = "h0"
address = "127.90.{octet}.1"
role = "host"
bfr_id = {id0}

[[node]]
name = "h1"
address = "127.90.{octet}.2"
role = "host"
bfr_id = 2

[[node]]
name = "h2"
address = "127.90.{octet}.3"
role = "host"
bfr_id = 3

[[node]]
name = "leaf1"
address = "127.90.{octet}.11"
role = "bfr"

[[node]]
name = "leaf2"
address = "127.90.{octet}.12"
role = "{role}"

[[link]]
between = ["leaf1", "h0"]

[[link]]
between = ["leaf1", "h1"]

[[link]]
between = ["leaf1", "leaf2"]

[[link]]
between = ["leaf2", "h2"]
"""


def by_hand(fabric: str = "", id0: int = 1, role: str = "bfr", octet: int = OCTET) -> str:
    return TOML.format(fabric=fabric, id0=id0, role=role, octet=octet)


CONFIGS = {
    "good": by_hand(),
    "unknown_key": by_hand("mtuu = 1500\nsub_domain = 0"),
    "same_id": by_hand(id0=2),
    "tiny_mtu": by_hand("mtu = 100"),
    "no_room": by_hand("mtu = 600\nbitstring_bits = 4096"),
    "wrong_type": by_hand('mtu = "large"'),
    "wrong_role": by_hand(role="router"),
    "wrong_bits": by_hand("bitstring_bits = 100"),
    "no_toml": "[fabric\n",
}
LAB = ("--lab", NAME)
UP = ("lab", "up", "--name", "live-never")
BAD: dict[str, tuple[tuple[str, ...], int, tuple[str, ...]]] = {
    # what: (words, exit code, what the line must say)
    "receiver": (("push", "{file}", *LAB, "--to", "h99"), 2, ("--to", "h99", "h1, h2")),
    "receivers": (("push", "{file}", *LAB, "--to", "h1,,h2"), 2, ("--to", "h1,,h2")),
    "source": (("push", "{file}", *LAB, "--from", "h99"), 2, ("--from", "h99", "h0")),
    "itself": (("push", "{file}", *LAB, "--to", "h0"), 2, ("--to", "h0", "other than")),
    "missing": (("push", "{missing}", *LAB), 2, ("missing.bin", "No such file")),
    "pipe": (("push", "{pipe}", *LAB), 2, ("pipe", "file")),
    "rate": (("push", "{file}", *LAB, "--rate", "0"), 2, ("--rate", "'0'", "5Gbps")),
    "unit": (("push", "{file}", *LAB, "--rate", "5 apples"), 2, ("--rate", "apples")),
    "chance": (
        ("push", "{file}", *LAB, "--loss", "2@leaf1-h1"),
        2,
        ("--loss", "'2'", "zero to one"),
    ),
    "link": (
        ("push", "{file}", *LAB, "--loss", "1%@leaf1-h9"),
        2,
        ("--loss", "leaf1-h9", "-leaf1"),
    ),
    "impairment": (
        ("push", "{file}", *LAB, "--impair", "jitter=3ms"),
        2,
        ("--impair", "jitter", "reorder"),
    ),
    "seed": (("push", "{file}", *LAB, "--seed", "x"), 2, ("--seed", "whole number")),
    "pcap": (("push", "{file}", *LAB, "--pcap", "/no/such/x.pcapng"), 2, ("--pcap", "folder")),
    "flag": (("push", "{file}", *LAB, "--colour", "red"), 2, ("--colour",)),
    "verb": (("broadcast",), 2, ("broadcast",)),
    "loss_beyond_lab": (
        ("push", "{file}", "--config", "{good}", "--loss", "1%"),
        2,
        ("--loss", "lab"),
    ),
    "unknown_key": ((*UP, "--config", "{unknown_key}"), 2, ("fabric.mtuu", "mtu?")),
    "same_id": ((*UP, "--config", "{same_id}"), 2, ("node[1].bfr_id", "2", "node[0]")),
    "tiny_mtu": ((*UP, "--config", "{tiny_mtu}"), 2, ("fabric.mtu", "100", "576")),
    "no_room": ((*UP, "--config", "{no_room}"), 2, ("fabric.mtu", "600", "at least")),
    "wrong_type": ((*UP, "--config", "{wrong_type}"), 2, ("fabric.mtu", "whole number")),
    "wrong_role": ((*UP, "--config", "{wrong_role}"), 2, ("node[4].role", "host, bfr")),
    "wrong_bits": ((*UP, "--config", "{wrong_bits}"), 2, ("bitstring_bits", "100", "64")),
    "no_toml": ((*UP, "--config", "{no_toml}"), 2, ("no_toml.toml", "TOML")),
    "no_config": ((*UP, "--config", "{missing}"), 2, ("missing.bin", "No such file")),
    "hosts": ((*UP, "--hosts", "0"), 2, ("hosts", "0", "1..")),
    "name": (("lab", "up", "--name", "../x"), 2, ("../x", "letters")),
    "up_already": (("lab", "up", "--name", NAME), 2, (NAME, "lab down")),
    "no_lab": (("push", "{file}", "--lab", "nowhere"), 3, ("nowhere", "lab up")),
    "no_lab_down": (("lab", "down", "--name", "nowhere"), 3, ("nowhere", "lab status")),
    "restart": (("lab", "restart", "h99", "--name", NAME), 2, ("NODE", "h99", "leaf1")),
    "bfr": (("bfr", "--config", "{good}", "--node", "h1"), 2, ("--node", "h1", "leaf1, leaf2")),
    "receive": (
        ("receive", "--config", "{good}", "--node", "leaf1", "--into", "x"),
        2,
        ("--node", "leaf1", "h0, h1, h2"),
    ),
    "no_option": (("bfr", "--config", "{good}"), 2, ("--node",)),
    "port_in_use": (("bfr", "--config", "{taken}", "--node", "leaf1"), 3, ("8138", "in use")),
    "lab_port_in_use": ((*UP, "--config", "{taken}"), 3, ("8138", "in use")),
    "bitstring": (("bitstring", "0"), 2, ("1..65535",)),
}


@pytest.fixture(scope="module")
def lab(site: Site) -> Iterator[LiveLab]:
    made = LiveLab(site, NAME, "--leaves", 1, "--spines", 1, "--hosts", 2)
    yield made
    made.down()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("cli")
    found = {name: folder / f"{name}.toml" for name in (*CONFIGS, "taken")}
    for name, text in CONFIGS.items():
        found[name].write_text(text)
    found["taken"].write_text(by_hand(octet=OCTET - 1))
    found |= {name: folder / f"{name}.bin" for name in ("file", "missing")}
    found["file"].write_bytes(random_bytes(100_000, 1))
    found["pipe"] = folder / "pipe"
    os.mkfifo(found["pipe"])
    return found


@pytest.fixture(scope="module")
def refused(
    site: Site, lab: LiveLab, files: dict[str, Path]
) -> dict[str, CompletedProcess[str]]:
    """Every bad command; nothing may be left of them."""
    before = site.pids()
    commands = [[word.format(**files) for word in words] for words, _, _ in BAD.values()]
    taken = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    try:
        for sock, last in zip(taken, (2, 11), strict=True):
            sock.bind((f"127.90.{OCTET - 1}.{last}", 8138))
        ended = [site.run(*words) for words in commands]
    finally:
        for sock in taken:
            sock.close()
    wait_for(lambda: site.pids() == before, "only the lab left running")
    assert not (site.state / "labs" / "live-never" / "lab.json").exists()
    return dict(zip(BAD, ended, strict=True))


@pytest.mark.parametrize("what", BAD)
def test_a_fault_is_one_line_that_names_it(
    refused: dict[str, CompletedProcess[str]], what: str
) -> None:
    _, code, says = BAD[what]
    done = refused[what]
    if what == "lab_port_in_use":  # a start that takes longer than a second says what it does
        progress = "".join(x + "\n" for x in done.stderr.splitlines() if "starting " in x)
        done.stderr = done.stderr.removeprefix(progress)
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert [word for word in says if word not in done.stderr] == [], done.stderr
    assert done.returncode == code
    assert done.stdout == ""


def test_a_fault_is_an_object_too_with_json(site: Site, lab: LiveLab, tmp_path: Path) -> None:
    done = site.run(*lab.push_args(tmp_path / "missing"))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    said = json.loads(done.stdout)
    assert said["exit_code"] == 2
    assert "missing" in said["error"]


def test_flags_have_twins_in_the_environment(site: Site, lab: LiveLab, tmp_path: Path) -> None:
    path = tmp_path / "twin.bin"
    path.write_bytes(random_bytes(2 * MB, 2))
    result = lab.push(path, FANFOLD_PUSH_RATE="20Mbps", FANFOLD_PUSH_TO="h2")
    assert states(result) == {"h2": "verified"}
    assert result["goodput_bps"] <= 20_500_000
    bad = site.run(*lab.push_args(path), FANFOLD_PUSH_RATE="0")
    assert bad.returncode == 2
    assert "--rate" in bad.stderr
    over = lab.push(path, "--to", "h1", FANFOLD_PUSH_TO="h2")
    assert states(over) == {"h1": "verified"}


# Labs that crashed.


def test_up_after_a_crash_cleans_and_says_so(site: Site) -> None:
    name = "live-crash"
    shape = ("--leaves", 1, "--spines", 0, "--hosts", 2)
    made = LiveLab(site, name, *shape)
    try:
        state = json.loads((made.folder / "lab.json").read_text())
        nodes = [entry["pid"] for entry in state["nodes"].values()]
        os.kill(state["pid"], signal.SIGKILL)
        wait_for(lambda: not is_running(state["pid"]), "the supervisor gone")
        assert all(is_running(pid) for pid in nodes)
        (report,) = site.read("lab", "status", "--name", name)
        assert (report["up"], report["leftovers"]) == (False, True)
        refused = site.run("push", made.folder / "lab.json", "--lab", name)
        assert refused.returncode == 3

        again = site.run(
            "lab", "up", "--name", name, "--leaves", 1, "--spines", 0, "--hosts", 2
        )
        assert again.returncode == 0, again.stderr
        assert "4 processes a crash had left" in again.stderr
        assert not any(is_running(pid) for pid in nodes)
        path = made.folder / "lab.json"
        assert set(states(made.push(path)).values()) == {"verified"}
    finally:
        made.down()


def test_down_twice_is_no_fault(site: Site) -> None:
    name = "live-twice"
    made = LiveLab(site, name, "--leaves", 1, "--spines", 0, "--hosts", 1)
    pids = [entry["pid"] for entry in made.nodes().values()]
    first = site.run("lab", "down", "--name", name)
    assert first.returncode == 0
    assert "4 processes ended" in first.stdout
    assert not any(is_running(pid) for pid in pids)
    second = site.run("lab", "down", "--name", name)
    assert (second.returncode, second.stderr) == (0, "")
    assert "0 processes ended" in second.stdout
    assert site.run("lab", "down", "--name", name, "--purge").returncode == 0
    assert site.run("lab", "down", "--name", name).returncode == 3


def test_down_after_a_crash_ends_what_is_left(site: Site) -> None:
    made = LiveLab(site, "live-left", "--leaves", 1, "--spines", 0, "--hosts", 1)
    state = json.loads((made.folder / "lab.json").read_text())
    os.kill(state["pid"], signal.SIGKILL)
    wait_for(lambda: not is_running(state["pid"]), "the supervisor gone")
    done = site.run("lab", "down", "--name", "live-left", "--purge")
    assert done.returncode == 0
    assert "left by a crash" in done.stdout
    assert not any(is_running(entry["pid"]) for entry in state["nodes"].values())


def test_two_labs_do_not_meet(site: Site, lab: LiveLab, tmp_path: Path) -> None:
    other = LiveLab(site, "live-other", "--leaves", 1, "--spines", 0, "--hosts", 2)
    try:
        path = tmp_path / "mine.bin"
        path.write_bytes(random_bytes(MB, 3))
        assert off_prediction(other.push(path)) == []
        assert lab.who_has("mine.bin", path.read_bytes()) == []
        assert other.who_has("mine.bin", path.read_bytes()) == ["h1", "h2"]
    finally:
        other.down()


# What it costs.


@pytest.mark.alone
def test_thirteen_nodes_start_fast_and_small(site: Site) -> None:
    big = LiveLab(site, "live-big", "--leaves", 2, "--spines", 2, "--hosts", 8)
    try:
        assert len(big.nodes()) == 13
        assert big.told["seconds"] < START_S
        own = {name: private_kb(entry["pid"]) for name, entry in big.nodes().items()}
        assert max(own.values()) < MAX_NODE_KB, own
        assert statistics.median(own.values()) < USUAL_NODE_KB, own
    finally:
        big.down()


def private_kb(pid: int) -> int:
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    (row,) = (row for row in rows if row.startswith("Private_Dirty:"))
    return int(row.split()[1])


# Nodes by hand.


def test_nodes_started_by_hand_carry_a_push(
    site: Site, files: dict[str, Path], tmp_path: Path
) -> None:
    config, path = files["good"], tmp_path / "hand.bin"
    path.write_bytes(random_bytes(4 * MB, 4))
    runs = [site.start("bfr", "--config", config, "--node", f"leaf{i}") for i in (1, 2)]
    for i in (1, 2):
        words = ("--config", config, "--node", f"h{i}", "--into", tmp_path / f"in{i}")
        runs.append(site.start("receive", *words))
    push = ("push", path, "--config", config)
    try:
        firsts = [run.stdout.readline() for run in runs if run.stdout is not None]
        assert [line.split()[0] for line in firsts] == ["leaf1:", "leaf2:", "h1:", "h2:"]
        result = site.read(*push)
        again = site.read(*push)
    finally:
        for run in runs:
            run.terminate()
        ended = [finish(run, 20) for run in runs]
    assert [code for code, _, _ in ended] == [0] * 4
    for _, _, log in ended[:2]:  # one line for each push that passes
        assert [line.count("push from h0 passes") for line in log.splitlines()] == [1, 1], log
    for _, _, log in ended[2:]:
        words = ("begins, 4000000 bytes", "verified and in place")
        found = [line for line in log.splitlines() if "push 'hand.bin' from h0" in line]
        assert len(found) == len(log.splitlines()) == 4
        assert all(word in line for word, line in zip(words * 2, found, strict=True)), log
    assert states(result) == {"h1": "verified", "h2": "verified"}
    assert all(
        (tmp_path / f"in{i}" / "hand.bin").read_bytes() == path.read_bytes() for i in (1, 2)
    )
    down = {("h0", "leaf1"), ("leaf1", "h1"), ("leaf1", "leaf2"), ("leaf2", "h2")}
    assert {way for way, row in links(result).items() if row["packets"]} == down
    assert off_prediction(result) == []
    up = {way for way, row in links(result).items() if row["feedback_packets"]}
    assert {("leaf1", "h0"), ("leaf2", "leaf1")} <= up
    assert data_packets(again) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts")
def test_a_place_that_takes_no_files_is_refused_at_the_start(
    site: Site, files: dict[str, Path], tmp_path: Path
) -> None:
    words = ("receive", "--config", files["good"], "--node", "h1", "--into")
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "ro").mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "ro", "none", str(tmp_path / "ro")]
    subprocess.run(mount, check=True)
    try:
        for place in ("file", "file/below", "ro", "ro/below"):
            done = site.run(*words, tmp_path / place)
            assert done.returncode == 2, place
            assert len(done.stderr.splitlines()) == 1
            assert "--into" in done.stderr
            assert str(tmp_path / place) in done.stderr
            assert done.stdout == ""
    finally:
        subprocess.run(["umount", "-l", str(tmp_path / "ro")], check=True)


def test_a_node_that_is_not_there_makes_the_push_fail_by_name(
    site: Site, files: dict[str, Path]
) -> None:
    push = ("push", files["file"], "--config", files["good"], "--patience", "2s", "--json")
    done = site.run(*push, timeout_s=30)
    assert done.returncode == 4
    assert len(done.stderr.splitlines()) == 1
    assert states(json.loads(done.stdout)) == {"h1": "failed", "h2": "failed"}
    assert "leaf1" in json.loads(done.stdout)["suspects"]
