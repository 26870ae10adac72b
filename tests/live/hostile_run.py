"""Pushes and sums on a lab while mutated captures hit every port of it.

A host of the lab that is in no push and no group, and a stranger, send what they captured with
bits of any header flipped, ids of others and right checksums, to every UDP port of every node.
Meanwhile a host pushes and four ranks add up. Laws, all the time:

- no node ends, and none counts a fault of the program;
- a receiver that is said to be verified has the file, byte for byte;
- every push ends in time, each receiver verified or failed by a named error;
- every sum is right, or its ranks fail by a named error;
- memory stays flat.

Then everybody's address is forged: nodes live, memory is flat, and a push works afterwards.
"""

import json
import socket
import subprocess
import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random

import numpy as np
from forks import Command
from hostile_packets import HostilePackets
from live_site import UP_S, Json, LiveLab, finish, random_bytes

from fanfold.errors import WireError
from fanfold.group.communicator import GroupError
from fanfold.group.fabric import FabricCommunicator
from fanfold.live.capture import read_raw
from fanfold.topo.fabric_file import load_fabric
from fanfold.units import PS_PER_SECOND
from fanfold.wire.fold import Fold
from fanfold.wire.packet import Packet, parse

PORT = 8138
FLAGS = ("--leaves", 2, "--spines", 2, "--hosts", 6)
SOURCE, OUTSIDER = "h0", "h6"
RANKS = ["h1", "h2", "h3", "h4"]
TARGETS = "h1-5"
STRANGER = "127.0.0.1"
PUSH_BYTES = 1_000_000
PUSH_S = 10.0
"""A push ends within this, a command's own start and end on a busy machine not counted."""
START_S = 10.0
RATE = 3000
"""Datagrams a second: full queues are another test's."""
BURST = 60
GROWTH_KB = 48 * 1024
FORGED_SHARE = 0.25
NEAR_SHARE = 0.7
LOOK_S = 0.5
NAP_S, STILL_S = 0.02, 1.0
"""A nap that took longer than that: this process was stopped, and its lab with it."""
NO_KEY = "no key with"


class HostileRun:
    """Everything at once, and what was seen. flags: of each push."""

    def __init__(
        self, lab: LiveLab, folder: Path, seed: int, flags: tuple[str, ...] = ()
    ) -> None:
        self.lab, self.folder, self.flags = lab, folder, flags
        self.fabric = load_fabric(lab.folder / "fabric.toml")
        self.random = Random(seed)
        self.seed = seed
        self.until = 0.0
        self.faults: list[str] = []
        self.seen: dict[str, int] = {}
        self.captured: list[bytes] = []
        self.slowest_s = 0.0
        self.may_lack_keys = self.may_add_falsely = self.may_be_held = False
        self.push_s = PUSH_S + START_S

    def count(self, what: str, n: int = 1) -> None:
        self.seen[what] = self.seen.get(what, 0) + n

    # What honest hosts do.

    def push(self, within_s: float = 0) -> None:
        """One push; what it says is true, and it says it in time, or ``push_s``."""
        within_s = within_s or self.push_s
        n = self.seen.get("pushes", 0)
        path = self.folder / f"hostile{n}.bin"
        path.write_bytes(random_bytes(PUSH_BYTES, self.seed * 1000 + n))
        process = self.lab.start_push(path, "--to", TARGETS, *self.flags)
        spent_s = self.wait_for_end(process, within_s)
        if spent_s >= within_s:
            process.kill()
        try:
            code, out, err = finish(process, START_S)
        except subprocess.TimeoutExpired:
            self.faults.append(f"push {n}: no end in {within_s} s")
            return
        self.slowest_s = max(self.slowest_s, spent_s)
        self.count("pushes")
        if code == 3 and self.may_lack_keys and NO_KEY in err:
            self.count("pushes that got no key in the flood, by name")
            path.unlink()
            return
        if code not in (0, 4):
            self.faults.append(f"push {n}: exit {code}: {err[-300:]}")
            return
        self.judge(n, path, json.loads(out), spent_s)
        path.unlink()

    def wait_for_end(self, process: Command, within_s: float) -> float:
        """How long a command took, or more; time in which all stood still is not counted."""
        spent_s, at = 0.0, time.monotonic()
        while process.poll() is None and spent_s < within_s:
            time.sleep(NAP_S)
            now = time.monotonic()
            spent_s += min(now - at, STILL_S)
            if now - at > STILL_S:
                self.count("seconds in which all stood still", round(now - at))
            at = now
        return spent_s

    def judge(self, n: int, path: Path, result: Json, spent_s: float) -> None:
        """What a push says of each receiver is so; spent_s: its command took."""
        took_s = min(result["seconds"], spent_s)
        if took_s > PUSH_S and self.may_be_held:
            self.count(f"pushes held up for more than {PUSH_S:g} s")
        elif took_s > PUSH_S:
            self.faults.append(f"push {n}: {took_s} s")
        for row in result["receivers"]:
            got = self.lab.received(row["id"], path.name)
            is_there = got.is_file() and got.read_bytes() == path.read_bytes()
            if row["state"] == "verified" and not is_there:
                self.faults.append(f"push {n}: {row['id']} is said to have what it has not")
            if row["state"] != "verified":
                self.count("receivers failed by name")
                if not row["error"]:
                    self.faults.append(f"push {n}: {row['id']} failed without a word")
            got.unlink(missing_ok=True)
        states = [row["state"] for row in result["receivers"]]
        self.count("receivers verified", states.count("verified"))

    def pushes(self) -> None:
        while time.monotonic() < self.until and not self.faults:
            self.push()

    def sums(self) -> None:
        """Groups of four ranks, one after the other: all sums of a group, then the next."""
        number = 0x5AFE0000 + self.seed % 1000 * 16
        while time.monotonic() < self.until and not self.faults:
            number += 1
            ranks = [
                FabricCommunicator(
                    self.fabric, RANKS, r, group=number, timeout_ps=10 * PS_PER_SECOND
                )
                for r in range(len(RANKS))
            ]
            try:
                self.add_up(ranks, min(self.until, time.monotonic() + 5))
            except GroupError as error:
                self.count("sums failed by name")
                self.count(f"  {str(error)[:100]}")
            closers = [threading.Thread(target=rank.close) for rank in ranks]
            for thread in closers:
                thread.start()
            for thread in closers:
                thread.join()

    def add_up(self, ranks: list[FabricCommunicator], until: float) -> None:
        step = 0
        while time.monotonic() < until:
            step += 1
            every = [
                np.arange(9000, dtype=np.int32) * (r + 1) + step for r in range(len(ranks))
            ]
            want = np.sum(every, axis=0)
            works = [rank.all_reduce(a) for rank, a in zip(ranks, every, strict=True)]
            for work in works:
                work.wait()
            self.count("sums", len(ranks))
            if any((a != want).any() for a in every) and self.may_add_falsely:
                self.count("false sums, as the page says")
                return
            if any((a != want).any() for a in every):
                self.faults.append(f"sum {step}: {every[0][:4]} in place of {want[:4]}")
                return

    # What the others do.

    def capture(self) -> None:
        """What a BFR and two hosts see of a push and a sum."""
        paths = {n: self.folder / f"{n}.tap" for n in ("leaf1", "h1", "leaf2")}
        for node, path in paths.items():
            assert self.lab.ask(node, do="capture", path=str(path))["ok"]
        self.push(UP_S)  # it may have to compile
        self.until = time.monotonic() + 0.5
        self.sums()
        for node, path in paths.items():
            self.lab.ask(node, do="capture")
            records = [record.packet for record in read_raw(path)[2]]
            self.captured += self.random.sample(records, min(len(records), 400))
            path.unlink()
        assert self.captured, self.faults

    def maker(self) -> HostilePackets:
        """Of packets that know what was captured."""
        bits = self.fabric.bitstring_bits
        found = [one for one in map(read, self.captured) if one]
        groups = {p.message.group for p in found if isinstance(p.message, Fold)}
        flows = {p.message.flow & ~1 for p in found if not isinstance(p.message, Fold)}
        ids = self.fabric.by_name
        return HostilePackets(
            self.seed,
            bsl=bits.bit_length() - 6,
            own=ids[OUTSIDER].bfr_id,
            top=max(n.bfr_id for n in self.fabric.nodes),
            groups=[*groups, 0x5AFE0001 + self.seed % 1000 * 16],
            flows=[*flows] or [6],
            ports=[p.inner.sport for p in found[:8]],
        )

    def blast(self, sources: list[str], until: float) -> None:
        """Mutated captures and made-up packets to all ports, from some addresses."""
        maker = self.maker()
        with ExitStack() as stack:
            socks = [bound(stack, address) for address in sources]
            looked, targets = 0.0, [(STRANGER, PORT)]
            while time.monotonic() < until and not self.faults:
                if time.monotonic() > looked + LOOK_S:
                    looked, targets = time.monotonic(), self.targets()
                self.burst(maker, socks, targets)
                time.sleep(BURST / RATE)

    def burst(
        self,
        maker: HostilePackets,
        socks: list[socket.socket],
        targets: list[tuple[str, int]],
    ) -> None:
        r, by_name = self.random, self.fabric.by_name
        near = {
            by_name[name].address: [(by_name[n].address, PORT) for n in them]
            for name, them in self.fabric.neighbours.items()
        }
        for _ in range(BURST):
            is_seen = r.random() < 0.6
            packet = maker.mutated(r.choice(self.captured) if is_seen else None)
            sock = r.choice(socks)
            if r.random() < NEAR_SHARE:  # where the packets of this address are looked at
                where = r.choice(near.get(sock.getsockname()[0], targets))
            else:
                where = r.choice(targets)
            try:
                sock.sendto(packet, where)
            except OSError:  # a queue is full, a port was closed
                self.count("datagrams refused")
            self.count("datagrams")

    def targets(self) -> list[tuple[str, int]]:
        """UDP ports that are open on any node's address."""
        owners = {n.address for n in self.fabric.nodes}
        rows = [line.split()[1] for line in Path("/proc/net/udp").read_text().splitlines()[1:]]
        found = []
        for row in rows:
            number, port = row.split(":")
            address = socket.inet_ntoa(int(number, 16).to_bytes(4, "little"))
            if address in owners:
                found.append((address, int(port, 16)))
        return found

    # Laws.

    def drops(self) -> dict[str, int]:
        """Reasons of all nodes."""
        found: dict[str, int] = {}
        for node in self.lab.nodes():
            for reason, n in self.lab.status(node)["drops"].items():
                found[reason] = found.get(reason, 0) + n
        return found

    def check(self, before: dict[str, int]) -> None:
        dead = self.lab.deaths()
        assert dead == {}, dead
        after = {n: dirty_kb(self.lab.pid(n)) for n in before}
        grown = {n: after[n] - kb for n, kb in before.items()}
        self.count("memory of all nodes at first, kB", sum(before.values()))
        self.count("memory of all nodes at last, kB", sum(after.values()))
        self.count("memory grown by at most, kB", max(grown.values()))
        assert {n: kb for n, kb in grown.items() if kb > GROWTH_KB} == {}
        for reason, n in self.drops().items():
            self.count(f"dropped {reason}", n)
        assert self.seen.get("dropped fault", 0) == 0, (self.lab.folder / "lab.log").read_text()

    def run(self, seconds: float) -> dict[str, int]:
        """All of it; what was counted."""
        self.capture()
        self.until = time.monotonic() + 2
        self.pushes()  # every page that is used is touched once
        before = {n: dirty_kb(self.lab.pid(n)) for n in self.lab.nodes()}
        began = time.monotonic()
        self.until = began + seconds * (1 - FORGED_SHARE)
        workers = [threading.Thread(target=work) for work in (self.pushes, self.sums)]
        for worker in workers:
            worker.start()
        self.blast([self.fabric.by_name[OUTSIDER].address, STRANGER], self.until)
        for worker in workers:
            worker.join()
        assert self.faults == []
        self.blast([n.address for n in self.fabric.nodes], began + seconds)
        assert self.faults == []
        self.push()
        assert self.faults == []
        self.check(before)
        return self.seen


def read(packet: bytes) -> Packet | None:
    """A captured packet taken apart, if it is whole."""
    try:
        return parse(packet)
    except WireError:
        return None


def dirty_kb(pid: int) -> int:
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    (row,) = (row for row in rows if row.startswith("Private_Dirty:"))
    return int(row.split()[1])


def bound(stack: ExitStack, address: str) -> socket.socket:
    sock = stack.enter_context(closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)))
    sock.bind((address, 0))
    sock.setblocking(False)
    return sock
