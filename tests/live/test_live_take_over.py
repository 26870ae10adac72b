"""Senders that die or stand still in the middle of a push, and another one that goes on."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_site import Json, LiveLab, Site, finish, links, random_bytes, states, wait_for, write

import fanfold
from fanfold.push.geometry import geometry_of
from fanfold.topo.fabric_file import load_fabric
from fanfold.wire.fan import Data
from fanfold.wire.link import is_link
from fanfold.wire.packet import parse
from fanfold.wire.pcapng import read

pytestmark = pytest.mark.live

MB = 1_000_000
UNDERLAY_BYTES = 28
HEIR = "h5"
SLOW = ("--rate", "40Mbps")
TAKEN_OVER = 5


@pytest.fixture(scope="module")
def module_lab(site: Site) -> Iterator[LiveLab]:
    made = LiveLab(site, "heirs", "--leaves", 2, "--spines", 2, "--hosts", 8)
    yield made
    made.down()


@pytest.fixture
def to(lab: LiveLab) -> list[str]:
    """Who receives of both senders."""
    return [name for name in lab.receivers if name != HEIR]


def started(lab: LiveLab, path: Path, to: list[str], *flags: object):
    """A push of h0 that came about half through."""
    before = lab.sent("leaf1", "h1")
    push = lab.start_push(path, "--to", ",".join(to), *SLOW, *flags)
    half = path_bytes(path) / 2 / geometry_of(*geometry(lab)).stride
    wait_for(lambda: lab.sent("leaf1", "h1") > before + half, "half of the data", 30)
    return push


def path_bytes(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def geometry(lab: LiveLab) -> tuple[int, int]:
    fabric = load_fabric(lab.folder / "fabric.toml")
    return fabric.mtu, fabric.bitstring_bits


def verified_blocks(lab: LiveLab, host: str, contents: bytes, block_bytes: int) -> set[int]:
    """Blocks that a receiver keeps of a half push, compared with the source byte by byte."""
    (staged,) = lab.received(host, ".fanfold").glob("*/0")
    kept = staged.read_bytes()
    starts = range(0, len(contents), block_bytes)
    same = (kept[at : at + block_bytes] == contents[at : at + block_bytes] for at in starts)
    return {block for block, is_there in enumerate(same) if is_there}


def blocks_sent(pcap: Path, port: str, flow: int) -> set[int]:
    """Blocks of the data that came in at a port of a BFR, repairs included."""
    capture = read(pcap.read_bytes())
    names = [face.name for face in capture.interfaces]
    found = set()
    for packet in capture.packets:
        octets = packet.frame[UNDERLAY_BYTES:]
        if names[packet.interface] != port or is_link(octets):
            continue
        message = parse(octets).message
        if isinstance(message, Data) and message.flow == flow:
            found.add(message.block)
    return found


def refused(lab: LiveLab, host: str) -> int:
    return int(lab.status(host)["drops"].get("stale_epoch", 0))


def push_of_heir(lab: LiveLab, path: Path, to: list[str], *flags: object) -> Json:
    return lab.push(path, "--from", HEIR, "--to", ",".join(to), *flags)


def test_what_a_dead_sender_left_is_finished_and_nothing_is_sent_twice(
    lab: LiveLab, to: list[str], tmp_path: Path
) -> None:
    path, pcap = write(tmp_path, "dead.bin", 12 * MB, 1), tmp_path / "heir.pcapng"
    contents = path.read_bytes()
    first = started(lab, path, to)
    first.kill()
    finish(first)
    time.sleep(0.3)  # what is under way
    stride, n_psn = geometry_of(*geometry(lab))
    block_bytes = stride * n_psn
    kept = {host: verified_blocks(lab, host, contents, block_bytes) for host in to}
    result = push_of_heir(lab, path, to, "--pcap", pcap, "--snaplen", 0)
    assert states(result) == dict.fromkeys(to, "verified")
    assert set(lab.who_has(path.name, contents)) == set(to)
    lacking = set(range(result["n_blocks"])) - set.intersection(*kept.values())
    assert 0.2 < len(lacking) / result["n_blocks"] < 0.8
    assert blocks_sent(pcap, f"leaf2:{HEIR}", result["flow"] | 1) == lacking
    assert links(result)[HEIR, "leaf2"]["packets"] == sum(
        -(-len(contents[at : at + block_bytes]) // stride)
        for at in (block * block_bytes for block in lacking)
    )
    assert {r["id"]: r["kept"] for r in result["receivers"]} == {
        host: len(blocks) for host, blocks in kept.items()
    }


def test_a_sender_that_stood_still_is_told_who_took_over(
    lab: LiveLab, to: list[str], tmp_path: Path
) -> None:
    path = write(tmp_path, "late.bin", 6 * MB, 2)
    before = {host: refused(lab, host) for host in to}
    first = started(lab, path, to)
    os.kill(first.pid, signal.SIGSTOP)
    try:
        result = push_of_heir(lab, path, to)
        assert states(result) == dict.fromkeys(to, "verified")
        assert set(lab.who_has(path.name, path.read_bytes())) == set(to)
        lab.kill("h1")  # epochs outlive the receiver
        lab.restart("h1")
        time.sleep(1.2)  # a refusal is forgotten after a second
    finally:
        os.kill(first.pid, signal.SIGCONT)
    code, out, err = finish(first, 30)
    assert code == TAKEN_OVER, err
    (line,) = err.splitlines()
    assert f"late.bin: taken over by {HEIR}; 0 of {len(to)} were verified" in line
    told = json.loads(out)
    assert told["taken_over_by"] == HEIR
    assert all("taken over by a newer push from h5" in r["error"] for r in told["receivers"])
    assert refused(lab, "h1") == 1
    assert all(refused(lab, host) >= before[host] + 2 for host in to if host != "h1")
    assert set(lab.who_has(path.name, path.read_bytes())) == set(to)


def test_a_sender_that_is_alive_gives_way_to_one_that_takes_over(
    lab: LiveLab, to: list[str], tmp_path: Path
) -> None:
    path = write(tmp_path, "alive.bin", 12 * MB, 3)
    first = started(lab, path, to)
    result = push_of_heir(lab, path, to, "--take-over")
    code, _, err = finish(first, 10)
    assert (code, f"taken over by {HEIR}" in err) == (TAKEN_OVER, True), err
    assert states(result) == dict.fromkeys(to, "verified")
    assert min(r["kept"] for r in result["receivers"]) > 0
    assert set(lab.who_has(path.name, path.read_bytes())) == set(to)


def test_an_older_folder_never_comes_back_and_none_is_a_mix(
    lab: LiveLab, to: list[str], tmp_path: Path
) -> None:
    versions = []
    for seed in (4, 5):
        folder = tmp_path / str(seed) / "model"
        folder.mkdir(parents=True)
        for i in range(6):
            write(folder, f"part{i}.bin", MB, 10 * seed + i)
        versions.append(folder)
    first = started(lab, versions[0], to)
    os.kill(first.pid, signal.SIGSTOP)
    try:
        push_of_heir(lab, versions[1], to)
    finally:
        os.kill(first.pid, signal.SIGCONT)
    code, _, err = finish(first, 30)
    assert code == TAKEN_OVER, err
    for host in to:
        there = lab.received(host, "model")
        for part in versions[1].iterdir():
            assert (there / part.name).read_bytes() == part.read_bytes(), (host, part.name)


def test_a_sender_whose_clock_is_behind_goes_above_what_it_finds(
    lab: LiveLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, "clock.bin", MB, 6)
    lab.push(path, "--to", "h1-2")
    path.write_bytes(random_bytes(MB, 7))
    monkeypatch.setenv("FANFOLD_STATE_DIR", str(lab.site.state))
    monkeypatch.setattr("fanfold.push.service.unix_ns", lambda: 1)
    result = fanfold.push(path, to="h1-2", source=HEIR, lab=lab.name)
    assert [r.state for r in result.receivers] == ["verified"] * 2
    assert set(lab.who_has(path.name, path.read_bytes())) == {"h1", "h2"}
    again = fanfold.push(path, to="h1-2", lab=lab.name)  # and from another host
    assert [r.kept for r in again.receivers] == [again.n_blocks] * 2
