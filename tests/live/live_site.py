"""fanfold commands as processes with a state folder of their own, and what is left of them."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from forks import Command, Nursery

from fanfold.live.control_sockets import call
from fanfold.live.host import LATE

UP_S = 300.0
"""The first start of a machine compiles every kernel."""
TREES = ("FANFOLD_CACHE_DIR", "FANFOLD_DEBUG")
"""What of the caller's settings a command sees."""

Json = Any


def random_bytes(n: int, seed: int) -> bytes:
    """Bytes that no other seed gives: a push of them finds nothing at its receivers."""
    return Random(seed).randbytes(n)


def wait_for(is_true: Callable[[], object], what: str, within_s: float = 30.0) -> None:
    """Look until something holds."""
    until = time.monotonic() + within_s
    while not is_true():
        assert time.monotonic() < until, f"not within {within_s} s: {what}"
        time.sleep(0.02)


class Site:
    """A state folder, commands that know it, and every process that came from them."""

    def __init__(self, state: Path) -> None:
        self.state = state
        given = {k: v for k, v in os.environ.items() if not k.startswith("FANFOLD_")}
        kept = {k: os.environ[k] for k in TREES if k in os.environ}
        self.env = {**given, **kept, "FANFOLD_STATE_DIR": str(state), "COLUMNS": "200"}
        self.nursery = Nursery(self.env)

    def run(
        self, *args: object, timeout_s: float = 60.0, **more: str
    ) -> subprocess.CompletedProcess[str]:
        """Run one command to its end; ``more`` goes into its environment."""
        command = self.start(*args, **more)
        code, out, err = finish(command, timeout_s)
        return subprocess.CompletedProcess(command.args, code, out, err)

    def start(self, *args: object, **more: str) -> Command:
        """Start one command; ``finish`` waits for it."""
        return self.nursery.start([*map(str, args)], more)

    def read(self, *args: object, timeout_s: float = 60.0) -> Json:
        """What a command that must succeed prints as JSON."""
        done = self.run(*args, "--json", timeout_s=timeout_s)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def pids(self) -> set[int]:
        """Processes whose environment names the state folder: every fork of a command."""
        mark = f"FANFOLD_STATE_DIR={self.state}".encode() + b"\0"
        others = {os.getpid(), *self.nursery.pids()}
        found = set()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) not in others:
                try:
                    is_ours = mark in (entry / "environ").read_bytes()
                except OSError:
                    continue
                if is_ours:
                    found.add(int(entry.name))
        return found

    def end_all(self) -> None:
        """End whatever runs; for the end of a session."""
        self.nursery.end()
        for pid in self.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def finish(
    process: Command | subprocess.Popen[str], timeout_s: float = 60.0
) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command that was started; killed when it is late."""
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate(timeout=10)
        raise
    return process.returncode, out, err


class LiveLab:
    """One lab of a site."""

    def __init__(self, site: Site, name: str, *flags: object) -> None:
        self.site, self.name = site, name
        self.folder = site.state / "labs" / name
        self.told = site.read("lab", "up", "--name", name, *flags, timeout_s=UP_S)
        self.everyone = [n for n in self.nodes() if n.startswith("h")]
        self.receivers = [n for n in self.everyone if n != "h0"]

    def push_args(self, path: Path, *flags: object) -> tuple[object, ...]:
        """Words of a push on this lab."""
        return ("push", path, "--lab", self.name, "--json", *flags)

    def push(
        self, path: Path, *flags: object, code: int = 0, timeout_s: float = 60.0, **more: str
    ) -> Json:
        """Push, and the result as JSON; the exit code must be as expected."""
        done = self.site.run(*self.push_args(path, *flags), timeout_s=timeout_s, **more)
        assert done.returncode == code, f"exit {done.returncode}: {done.stderr}"
        return json.loads(done.stdout)

    def start_push(self, path: Path, *flags: object) -> Command:
        """Start a push whose end is not waited for here."""
        return self.site.start(*self.push_args(path, *flags))

    def nodes(self) -> dict[str, dict[str, Any]]:
        """Processes of the lab as its own file lists them."""
        nodes: dict[str, dict[str, Any]] = json.loads((self.folder / "lab.json").read_text())[
            "nodes"
        ]
        return nodes

    def ask(self, node: str, /, **request: object) -> Json:
        """One command at a node's control socket."""
        return call(self.folder / "control" / f"{node}.sock", request, 15.0)

    def status(self, node: str) -> Json:
        """Counters of a node."""
        return self.ask(node, do="status")

    def sent(self, node: str, to: str, kind: str = "data") -> int:
        """Packets of a class that a node has sent to a neighbour."""
        counts = self.status(node)["links"][to]["tx"]
        return int(counts.get(kind, [0, 0])[0])

    def pid(self, node: str) -> int:
        """Process of a node."""
        return int(self.nodes()[node]["pid"])

    def deaths(self) -> dict[str, Any]:
        """Nodes that ended by themselves: exit code, minus a signal; and what the log says."""
        dead = {n: e.get("exit") for n, e in self.nodes().items() if not is_running(e["pid"])}
        log = (self.folder / "lab.log").read_text(errors="replace")
        return {**dead, "log": log[-3000:]} if dead or "Traceback" in log else {}

    def kill(self, *names: str) -> None:
        """Kill nodes as a crash would, and see them gone."""
        pids = [self.pid(node) for node in names]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not any(is_running(pid) for pid in pids), f"{names} gone")

    def restart(self, *names: str) -> None:
        """Start nodes again."""
        for node in names:
            answer = self.ask("supervisor", do="restart", node=node)
            assert "pid" in answer, answer

    def received(self, node: str, name: str) -> Path:
        """Where a node puts a file of that name."""
        return self.folder / "hosts" / node / name

    def who_has(self, name: str, contents: bytes) -> list[str]:
        """Hosts that have exactly these bytes under that name."""
        paths = {node: self.received(node, name) for node in self.everyone}
        return [n for n, p in paths.items() if p.is_file() and p.read_bytes() == contents]

    def revive(self) -> None:
        """Restart what does not run."""
        self.restart(*(n for n, entry in self.nodes().items() if not is_running(entry["pid"])))

    def down(self) -> None:
        """End it and remove what it received; no node may have compiled in the middle."""
        log = (self.folder / "lab.log").read_text(errors="replace")
        self.site.run("lab", "down", "--name", self.name, "--purge")
        assert [line for line in log.splitlines() if LATE in line] == []


def is_running(pid: int) -> bool:
    """A process that is there and no zombie, nor any of its threads left."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] != "Z" or int(fields[17]) > 1


def write(folder: Path, name: str, n_bytes: int, seed: int) -> Path:
    """A file of random bytes."""
    path = folder / name
    path.write_bytes(random_bytes(n_bytes, seed))
    return path


def all_verified(lab: LiveLab, result: Json) -> bool:
    """Whether each receiver has it."""
    return states(result) == dict.fromkeys(lab.receivers, "verified")


def states(result: Json) -> dict[str, str]:
    """State of each receiver of a push."""
    return {r["id"]: r["state"] for r in result["receivers"]}


def links(result: Json) -> dict[tuple[str, str], Json]:
    """Rows of a push by (from, to)."""
    return {(row["from"], row["to"]): row for row in result["links"]}


def carried(result: Json, src: str, dst: str) -> int:
    """Packets of data on one link, repairs included; a link without any has no row."""
    row = links(result).get((src, dst), {"packets": 0, "repair_packets": 0})
    return int(row["packets"] + row["repair_packets"])


def data_packets(result: Json) -> int:
    """First transmissions and repairs on all links."""
    return sum(row["packets"] + row["repair_packets"] for row in result["links"])


def off_prediction(result: Json) -> list[tuple[str, str]]:
    """Links whose data is not exactly what was predicted."""
    return [
        way
        for way, row in links(result).items()
        if (row["packets"], row["bytes"]) != (row["predicted_packets"], row["predicted_bytes"])
    ]
