"""The actors of docs/threats.md against a lab without keys: what that page says, and no more.

Each sends what it does to a lab with keys (hostile_actors.py), without trailers, and does once
what the page says that it can do there: a run fails where that does not come true, too.

    off-path   costs nobody anything: no receiver and no sum fails
    local      pushes in a host's name, which receivers take; verifies nobody, adds falsely
    insider    is refused in another's name by its own address (`wrong_port`); says, as the BFR
               beside a sender, that a receiver has what it has not
    recorder   brings an older file back; of pushes under way nothing is said falsely
    flooder    HELLOs in the name of every neighbour: links may go down, nothing is said falsely
    sender     a file below a receiver's folder, nothing outside
"""

import json
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from blake3 import blake3
from forgeries import Forger, first_of_manifest, frames_to
from hostile_actors import ActorRun, bad_pushes, off_path, recorder
from hostile_run import BURST, OUTSIDER, PORT, RATE, SOURCE, bound
from live_site import LiveLab, finish, random_bytes, wait_for

from fanfold.live.keeper import fabric_digest
from fanfold.wire.hello import Diag, Hello, SessionState
from fanfold.wire.link import build_link

SMALL = 300_000
TAKEN_S = 10.0
DEAD, LIAR = "h4", "h5"


class Law(NamedTuple):
    """What an actor does, what it shows once, and what it may cost others.

    adds: sums may be wrong. holds: pushes may be held up, or fail by name; so may sums.
    """

    act: Callable[["OpenRun", float], None]
    show: Callable[["OpenRun"], None]
    adds: bool = False
    holds: bool = True


class OpenRun(ActorRun):
    """One actor against a lab without keys, while it pushes and adds up."""

    def __init__(self, lab: LiveLab, folder: Path, seed: int, actors: str) -> None:
        super().__init__(lab, folder, seed, actors, ())
        laws = self.laws = [OPEN[actor] for actor in actors.split("+")]
        self.may_add_falsely = any(law.adds for law in laws)
        self.may_be_held = any(law.holds for law in laws)

    def acts_of(self, actors: list[str]) -> list[Callable[[Any, float], None]]:
        return [OPEN[actor].act for actor in actors]

    def show(self) -> None:
        """What the page says that the actor can do, done."""
        for law in self.laws:
            law.show(self)

    def require(self, is_so: bool, what: str) -> None:
        """A thing that the page says."""
        self.count(f"shown: {what}", int(is_so))
        assert is_so, what

    def small_file(self, name: str, seed: int) -> Path:
        path = self.folder / name
        path.write_bytes(random_bytes(SMALL, self.seed * 1000 + seed))
        return path


def off_path_costs_nothing(run: OpenRun) -> None:
    failed = [what for what in run.seen if "failed by name" in what]
    run.require(not failed, "nobody failed")
    reasons = {what for what in run.drops() if what not in QUIET}
    run.require(reasons == {"unknown_peer"}, f"of neighbours only is taken, {sorted(reasons)}")


QUIET = ("unknown_flow", "duplicate", "socket_full", "null_nbr", "turned_back", "bad_link")
"""Reasons of pushes and sums without any actor; of links, where a node stood still."""


def local_user(run: OpenRun, until: float) -> None:
    run.blast([n.address for n in run.fabric.nodes], until)


def local_pushes(run: OpenRun) -> None:
    path = run.small_file("strange.bin", 1)
    Forger(run.lab, run.fabric, "h1").push(SOURCE, path)
    got = run.lab.received("h1", path.name)
    wait_for(got.exists, "a push in the name of a host taken", TAKEN_S)
    run.require(got.read_bytes() == path.read_bytes(), "a push in the name of a host is taken")


def insider(run: OpenRun, until: float) -> None:
    run.blast([run.fabric.by_name[OUTSIDER].address], until)


def insider_says_the_end(run: OpenRun) -> None:
    """From its own address it speaks for nobody; from that of the sender's BFR for anybody."""
    run.require(run.drops().get("wrong_port", 0) > 0, "in another's name by its own address no")
    run.lab.kill(DEAD)
    raw, path = run.folder / "insider.raw", run.small_file("ends.bin", 2)
    run.lab.ask(LIAR, do="capture", path=str(raw), snaplen=65_535)
    words = ("--to", "h1-5", "--rate", "1Mbps", "--patience", "2s")
    leaf = run.fabric.neighbours[LIAR][0]
    before = run.lab.sent(leaf, LIAR)
    push = run.lab.start_push(path, *words)
    try:
        forger = Forger(run.lab, run.fabric, SOURCE)
        wait_for(lambda: run.lab.sent(leaf, LIAR) > before, "a manifest under way")
        time.sleep(0.2)
        run.lab.ask(LIAR, do="capture")
        seen = first_of_manifest(run.lab, raw, forger.address(LIAR))
        digest = blake3(path.read_bytes()).digest()
        forger.end(seen, digest, DEAD, "h2", source=OUTSIDER)
        time.sleep(0.2)
        run.require(push.poll() is None, "the push is under way")
        forger.end(seen, digest, DEAD, "h2")
    finally:
        code, told, err = finish(push, 60)
    assert code == 4, err
    ends = {r["id"]: r["error"] or r["state"] for r in json.loads(told)["receivers"]}
    run.require(ends["h2"] == "io: forged", "that a receiver failed")
    run.require(ends[DEAD] == "verified", "that a receiver has what it has not")
    run.require(not run.lab.received(DEAD, path.name).exists(), "which has nothing")
    run.require({ends[h] for h in ("h1", "h3", LIAR)} == {"verified"}, "others have it")
    run.lab.revive()


def recorder_plays(run: OpenRun) -> None:
    path, pcap = run.small_file("again.bin", 3), run.folder / "record.pcapng"
    run.lab.push(path, "--to", "h1", "--pcap", pcap, "--snaplen", 0)
    record = frames_to(pcap, run.fabric.by_name["h1"].address)
    got = run.lab.received("h1", path.name)
    got.write_bytes(b"what came since")
    run.lab.restart("h1")
    Forger(run.lab, run.fabric, "h1").replay(record)
    wait_for(lambda: got.read_bytes() == path.read_bytes(), "the old bytes back", TAKEN_S)
    run.require(True, "an older file came back")


def flooder(run: OpenRun, until: float) -> None:
    """HELLOs of sessions that are down or unknown, and noise behind sound first octets."""
    fabric, r = run.fabric, run.random
    digest = fabric_digest(fabric)  # anybody on the machine may read the file
    pairs = [(a, b) for a in fabric.by_name for b in fabric.neighbours[a]]
    with ExitStack() as stack:
        socks = {x.name: bound(stack, x.address) for x in fabric.nodes}
        while time.monotonic() < until and not run.faults:
            for _ in range(BURST):
                src, to = r.choice(pairs)
                hello = Hello(
                    state=r.choice(list(SessionState)),
                    detect_mult=r.randrange(1, 256),
                    fabric=digest if r.random() < 0.9 else r.randrange(1 << 32),
                    my_disc=r.randrange(1, 1 << 32),
                    your_disc=r.choice((0, r.randrange(1 << 32))),
                    interval_us=r.choice((1, 1_000_000, (1 << 32) - 1)),
                    wanted_us=r.choice((1, 1_000_000)),
                    digest=r.randrange(1 << 64),
                    diag=r.choice(list(Diag)),
                    poll=r.random() < 0.5,
                )
                packet = build_link(hello)
                if r.random() < 0.15:
                    packet = packet[:4] + r.randbytes(len(packet) - 4)
                try:
                    socks[src].sendto(packet, (fabric.by_name[to].address, PORT))
                except OSError:
                    run.count("datagrams refused")
                run.count("datagrams")
            time.sleep(BURST / RATE)


def flooder_ends_nothing(run: OpenRun) -> None:
    run.require(run.lab.deaths() == {}, "all nodes run")


def sender(run: OpenRun, until: float) -> None:
    worker = threading.Thread(target=bad_pushes, args=(run, until))
    worker.start()
    try:
        insider(run, until)
    finally:
        worker.join()


def sender_stays_below(run: OpenRun) -> None:
    path = run.small_file("evil.bin", 4)
    run.lab.push(path, "--to", "h1", "--from", OUTSIDER, "--as", "evil/whole")
    got = run.lab.received("h1", "evil/whole")
    run.require(got.read_bytes() == path.read_bytes(), "a file below a receiver's folder")
    hosts = run.lab.folder / "hosts"
    outside = [p for p in run.lab.site.state.rglob("*evil*") if hosts not in p.parents]
    outside += [p for p in hosts.iterdir() if p.name not in run.fabric.by_name]
    known = {path, run.folder / "evil.bin"}
    run.require(not set(outside) - known and not Path("/evil").exists(), "nothing outside it")


OPEN: dict[str, Law] = {
    "off-path": Law(off_path, off_path_costs_nothing, holds=False),
    "local": Law(local_user, local_pushes, adds=True),
    "insider": Law(insider, insider_says_the_end),
    "recorder": Law(recorder, recorder_plays),
    "flooder": Law(flooder, flooder_ends_nothing),
    "sender": Law(sender, sender_stays_below),
}
