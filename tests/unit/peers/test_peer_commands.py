"""What each peer is started with, and whom it says to have failed."""

import json
import subprocess
from hashlib import sha1
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from fanfold.live.mroutes import Branch, entries
from fanfold.peers import packages
from fanfold.peers.aria2 import PIECE, Aria2, torrent
from fanfold.peers.catalog import PEERS
from fanfold.peers.ground import Ground
from fanfold.peers.transfer import NAME, Peer, Transfer
from fanfold.push.result import ReceiverResult
from fanfold.units import Bps, Ppb

BY_NAME = {peer.name: peer for peer in PEERS}


class Unstarted(Transfer):
    """A transfer that starts nothing."""

    def start(self, name: str, host: str, words: Any, **more: str) -> Any:
        self.commands[name] = list(words)
        return SimpleNamespace(name=name, host=host, more=more)

    def await_port(self, host: str, kind: str, port: int) -> None:
        self.commands.setdefault("ports", []).append(f"{host} {kind} {port}")


@pytest.fixture
def transfer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Unstarted:
    """Of 3 MB to three over links of 50 Mbit/s and an MTU of 1500."""
    monkeypatch.setenv("FANFOLD_STATE_DIR", str(tmp_path / "state"))
    ground = Ground("pure", 3, Bps(50_000_000), 1500, has_nodes=False)
    file = tmp_path / NAME
    file.write_bytes(bytes(3 * PIECE - 5))
    (tmp_path / "logs").mkdir()
    return Unstarted(ground, file, tmp_path / "logs", Ppb(0), "h2")


def words_of(peer: str, transfer: Unstarted) -> list[str]:
    BY_NAME[peer].receive(transfer)
    BY_NAME[peer].send(transfer)
    return transfer.commands["sender"]


def after(words: list[str], flag: str) -> str:
    return words[words.index(flag) + 1]


def test_rates_and_blocks_follow_the_links(transfer: Unstarted) -> None:
    uftp = words_of("uftp", transfer)
    assert (after(uftp, "-R"), after(uftp, "-b")) == ("47500", "1400")
    assert after(uftp, "-H") == "0x00000001,0x00000002,0x00000003"
    udpcast = words_of("udpcast", transfer)
    assert (after(udpcast, "-b"), after(udpcast, "--min-receivers")) == ("1400", "3")
    norm = json.loads(words_of("norm", transfer)[-1])
    assert (norm["rate_bps"], norm["segment"]) == (47_500_000, 1372)
    assert norm["nodes"] == {"h1": 2, "h2": 3, "h3": 4}
    assert transfer.commands["ports"][-3:] == [f"h{i} udp 6003" for i in (1, 2, 3)]


def test_streams_go_to_every_address(transfer: Unstarted) -> None:
    addresses = [transfer.ground.address(host) for host in transfer.receivers]
    tcp = words_of("tcp", transfer)
    assert tcp[-3:] == [f"{address}:7000" for address in addresses]
    mpi = words_of("openmpi", transfer)
    assert after(mpi, "--host").split(",") == [transfer.ground.address("h0"), *addresses]
    assert after(mpi, "coll_tuned_bcast_algorithm_segmentsize") == str(128 << 10)
    agent = transfer.folder / "agent"
    assert f"{addresses[1]}) space=ff.pure.h2 name=h2;;" in agent.read_text()
    pushed = words_of("fanfold", transfer)
    assert after(pushed, "push") == str(transfer.file)
    assert after(pushed, "--lab") == "pure"


def test_a_torrent_has_the_sums_of_all_pieces(transfer: Unstarted) -> None:
    torrent(transfer)
    text = (transfer.folder / "torrent").read_bytes()
    data = transfer.file.read_bytes()
    sums = b"".join(sha1(data[at : at + PIECE]).digest() for at in range(0, len(data), PIECE))
    assert b"6:lengthi%de" % len(data) in text
    assert text.endswith(b"6:pieces60:" + sums + b"ee")


def test_seeding_is_over_when_all_living_have_it(transfer: Unstarted) -> None:
    first, dead, last = (transfer.ground.address(host) for host in transfer.receivers)
    log = transfer.log("tracker")
    log.write_text(f"started {first}\nstarted {dead}\nstarted {last}\ncompleted {first}\n")
    assert not Aria2().is_over(transfer, True)
    log.write_text(log.read_text() + f"completed {last}\n")
    assert Aria2().is_over(transfer, True)
    assert not Aria2().is_over(transfer, False)


SAID = {
    "uftp": "Host: 0x00000001  Status: Completed\nHost: 0x00000002  Status: Lost connection",
    "udpcast": "New connection from {h3}  (#0) 00000009\n"
    "New connection from {h2}  (#6) 00000009\nTimeout notAnswered=[0,6] notReady=[6]\n"
    "Timeout notAnswered=[6] notReady=[6] nrAns=7",
    "norm": "h2 has not acknowledged",
    "openmpi": "  Local host: h3\n  Local PID:  16676\n  Peer host:  {h2}\n",
    "tcp": "{h2} failed: Broken pipe",
    "aria2": "",
}
"""What each printed when h2 was killed, shortened."""


def pushed() -> str:
    """What a push prints whose h2 fell silent."""
    states = {"h1": "verified", "h2": "silent", "h3": "verified"}
    rows = [ReceiverResult(h, state, "", 1.0, "", False) for h, state in states.items()]
    return f"a note\n{msgspec.json.encode({'receivers': rows}).decode()}\nerror: h2 is silent\n"


@pytest.mark.parametrize("name", BY_NAME)
def test_the_dead_is_found_in_what_is_said(name: str, transfer: Unstarted) -> None:
    addresses = {host: transfer.ground.address(host) for host in transfer.receivers}
    said = SAID[name].format(**addresses) if name in SAID else pushed()
    assert BY_NAME[name].dead(transfer, said) == (set() if name == "aria2" else {"h2"})
    assert BY_NAME[name].dead(transfer, "all went well\n") == set()


def test_sources_of_a_multicast_route_come_in_by_their_branch() -> None:
    branches = [Branch("p1", ("10.0.0.1",)), Branch("p2", ("10.0.0.2", "10.0.0.3"))]
    rows = entries(branches, "239.1.2.3")
    assert [row[:8].hex() for row in rows] == [f"0a00000{i}ef010203" for i in (1, 2, 3)]
    assert [int.from_bytes(row[8:10], "little") for row in rows] == [0, 1, 1]
    assert [row[10:13].hex() for row in rows] == ["000100", "010000", "010000"]
    assert {len(row) for row in rows} == {60}  # struct mfcctl


def test_what_is_lacking_is_found_and_installed_by_apt(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"sh": "sh", "absent": "a-command-of-nobody", "libabsent": "lib of_nobody_at_all"}
    assert packages.lacking(there) == ["absent", "libabsent"]
    asked: list[list[str]] = []

    def run(words: list[str], **more: Any) -> Any:
        asked.append(words)
        return subprocess.CompletedProcess(words, 0, "uftp 4.10\nodd\n")

    monkeypatch.setattr(packages.subprocess, "run", run)
    monkeypatch.setattr(packages.shutil, "which", lambda name: name)
    monkeypatch.setattr(packages.os, "geteuid", lambda: 1000)
    packages.install(["uftp"])
    assert asked == []
    monkeypatch.setattr(packages.os, "geteuid", lambda: 0)
    packages.install(["uftp", "aria2"])
    packages.install([])
    assert [words[-2:] for words in asked] == [["aria2", "uftp"]]
    assert packages.versions(["uftp"]) == {"uftp": "4.10"}
    assert packages.versions([]) == {}


def test_every_peer_has_a_name_of_its_own() -> None:
    assert len(BY_NAME) == len(PEERS) == len(Peer.__subclasses__())
