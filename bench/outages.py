"""Pushes of a whole file, each of which meets one failure in the middle, in shaped namespaces.

    python bench/outages.py [--size 256MiB] [--rate 200Mbps] [--rounds 1] [--hello 50ms]
        [--case far-link] ...

A lab of 4 leaves and 2 spines, 3 hosts a leaf, every link shaped to the rate: h0 pushes to
8 others. What carries the data fails when a third of it has come; links that are unplugged come
back, twenty times; nodes that were killed come back after a second where the case says so.
Needs root.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

from failures import _is_well, _sent, _status, _wait
from jobs import FANFOLD, run, run_well
from rich.console import Console
from rich.table import Table
from shaped_net import BURST_BYTES, QUEUE_BYTES

from fanfold.api.failing import fail, heal
from fanfold.live.control_sockets import call
from fanfold.live.lab import Lab
from fanfold.live.spaces import space_of
from fanfold.units import parse_rate, parse_size

SHAPE = "leaf-spine:leaves=4,spines=2,hosts=12"
SOURCE, NEAR_LEAF, FAR_LEAF = "h0", "leaf0", "leaf3"
RECEIVERS = ("h1", "h3", "h4", "h6", "h7", "h9", "h10", "h11")
FAR = ("h9", "h10", "h11")
DEAD = "h4"
BACK_S, PLUGS, PLUG_S = 1.0, 20, 0.15
SAMPLE_S, GAP_S = 0.02, 0.1
PATIENCE = "4s"


class Case(NamedTuple):
    """What happens, given the spine that carries the data; who is behind it; who is missing."""

    name: str
    words: Callable[[str], str]
    behind: tuple[str, ...]
    missing: tuple[str, ...] = ()
    back_s: float = 0
    plugs: int = 1


ABROAD = tuple(name for name in RECEIVERS if name != "h1")
CASES = (
    Case("none", lambda spine: "", ()),
    Case("near-link", lambda spine: f"link {NEAR_LEAF}-{spine}", ABROAD),
    Case("far-link", lambda spine: f"link {spine}-{FAR_LEAF}", FAR),
    Case("spine", lambda spine: f"node {spine}", ABROAD),
    Case("spine-back", lambda spine: f"node {spine}", ABROAD, (), BACK_S),
    Case("leaf", lambda spine: f"node {FAR_LEAF}", FAR, FAR),
    Case("leaf-back", lambda spine: f"node {FAR_LEAF}", FAR, (), BACK_S),
    Case("plugged", lambda spine: f"link {spine}-{FAR_LEAF}", FAR, (), PLUG_S, PLUGS),
    Case("receiver", lambda spine: f"node {DEAD}", (DEAD,), (DEAD,)),
    Case("receiver-still", lambda spine: f"pause {DEAD} 30s", (DEAD,), (DEAD,)),
    Case("receiver-1s", lambda spine: f"pause {DEAD} 1s", (DEAD,)),
    Case("receiver-3s", lambda spine: f"pause {DEAD} 3s", (DEAD,)),
)


class Run(NamedTuple):
    """One push: seconds of those who are there to the end, and what the failure cost."""

    others_s: float
    last_s: float
    code: int
    missing: tuple[str, ...]
    detect_ms: float
    backup_ms: float
    """Until a spine that had carried no DATA sends some to the leaf of the last receivers."""
    gap_ms: float
    with_gap: tuple[str, ...]
    lost: int
    """Packets that the receiver which missed most of those that stayed got only as repairs."""
    repaired: int
    elsewhere: int
    copies: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="256MiB")
    parser.add_argument("--rate", default="200Mbps")
    parser.add_argument("--hello", default="50ms", help="between two HELLOs; 3 missed: down")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--case", action="append", choices=[case.name for case in CASES])
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    n_bytes = parse_size(args.size, "--size")
    wanted = [case for case in CASES if not args.case or case.name in args.case]
    rows: dict[str, list[Run]] = {case.name: [] for case in wanted}
    if os.geteuid() != 0:
        parser.exit(3, "needs root for network namespaces\n")
    with _lab(args.rate, args.hello) as lab:
        for _ in range(args.rounds):
            for case in wanted:
                rows[case.name].append(_run(lab, case, n_bytes))
                print(case.name, rows[case.name][-1], file=sys.stderr, flush=True)
    _show(rows)
    if args.json:
        kept = {name: [row._asdict() for row in of] for name, of in rows.items()}
        args.json.write_text(json.dumps(kept, indent=2))
    return 0 if all(_is_right(case, row) for case in wanted for row in rows[case.name]) else 1


def _is_right(case: Case, row: Run) -> bool:
    """Everybody who can be reached has it, and exactly the others are named."""
    return row.missing == case.missing and row.code == (4 if case.missing else 0)


@contextmanager
def _lab(rate: str, hello: str) -> Iterator[Lab]:
    lab = Lab(f"outages{os.getpid()}")
    up = ["--topology", f"{SHAPE},rate={rate}", "--namespaces", "--hello", hello, "--json"]
    try:
        run_well([*FANFOLD, "lab", "up", "--name", lab.name, *up], 300)
        for link in lab.fabric().links:
            _shape(lab, link.a, link.b, rate)
            _shape(lab, link.b, link.a, rate)
        yield lab
    finally:
        run([*FANFOLD, "lab", "down", "--name", lab.name, "--purge", "--json"], 30)


def _shape(lab: Lab, name: str, to: str, rate: str) -> None:
    """As bench/shaped_net.py has it: segments leave one by one, 20 ms of queue."""
    space = ["ip", "netns", "exec", space_of(lab.name, name)]
    device = f"p{lab.fabric().port_to(name, to)}"
    run_well([*space, "ip", "link", "set", device, "gso_max_segs", "1"], 20)
    limits = f"burst {BURST_BYTES} limit {QUEUE_BYTES}".split()
    bits = f"{parse_rate(rate, '--rate')}bit"
    run_well(
        [*space, "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", bits, *limits], 20
    )


def _run(lab: Lab, case: Case, n_bytes: int) -> Run:
    heal(lab)
    _wait(lambda: _is_well(lab))
    path = lab.folder / f"{case.name}.bin"
    with path.open("wb") as file:
        for _ in range(n_bytes >> 20):
            file.write(os.urandom(1 << 20))
    os.sync()  # of runs before: a disk that is still writing slows receivers down
    time.sleep(1)
    spines = [to for to in lab.fabric().neighbours[NEAR_LEAF] if to.startswith("spine")]
    before = {spine: _sent(lab, NEAR_LEAF, spine) for spine in spines}
    repairs = {name: _repairs(lab, name) for name in RECEIVERS}
    command = [*FANFOLD, "push", str(path), "--lab", lab.name, "--from", SOURCE, "--json"]
    command += ["--to", ",".join(RECEIVERS), "--patience", PATIENCE]
    push = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    watch = _Watch(lab, spines)
    third = n_bytes // 3
    while push.poll() is None and watch.look("h1") - watch.first["h1"] < third:
        time.sleep(SAMPLE_S)
    spine = max(spines, key=lambda name: _sent(lab, NEAR_LEAF, name) - before[name])
    watch.backup = next(name for name in spines if name != spine)
    detect_ms = _happen(lab, case, spine, watch, push)
    out, _ = push.communicate()
    heal(lab)
    for kept in lab.folder.rglob(path.name):
        kept.unlink()
    return _told(
        lab, case, json.loads(out), push.returncode, detect_ms, watch, repairs, n_bytes
    )


def _happen(lab: Lab, case: Case, spine: str, watch: "_Watch", push: Any) -> float:
    """Let it fail, and come back where it does; until when somebody noticed, ms."""
    words, detect_ms = case.words(spine).split(), float("nan")
    for _ in range(case.plugs if words else 0):
        at = time.monotonic()
        watch.at = watch.at or at
        failing = Thread(target=fail, args=(lab, *words))
        failing.start()
        ends = at + (case.back_s or 3.0)
        while push.poll() is None and time.monotonic() < ends:
            watch.turn()
            if math.isnan(detect_ms):
                detect_ms = _noticed_ms(lab, spine, at)
            time.sleep(SAMPLE_S)
        failing.join()
        if case.back_s and push.poll() is None:
            heal(lab)
            watch.watch_for(case.back_s if case.plugs > 1 else 0, push)
    watch.watch_for(3600, push)
    return detect_ms


class _Watch:
    """How many bytes of DATA each receiver got, again and again; longest silences."""

    def __init__(self, lab: Lab, spines: list[str]) -> None:
        self.lab, self.at = lab, 0.0
        self.backup, self.backup_ms = "", float("nan")
        self.carried = {name: _sent(lab, name, FAR_LEAF) for name in spines}
        self.first = {name: _came(lab, name) for name in RECEIVERS}
        self.last = dict(self.first)
        self.moved = dict.fromkeys(RECEIVERS, 0.0)
        self.gaps = dict.fromkeys(RECEIVERS, 0.0)

    def look(self, name: str) -> int:
        count, now = _came(self.lab, name), time.monotonic()
        if count > self.last[name]:
            if self.at and self.moved[name]:
                self.gaps[name] = max(self.gaps[name], now - max(self.moved[name], self.at))
            self.last[name], self.moved[name] = count, now
        elif self.at and not self.moved[name]:
            self.moved[name] = self.at
        return self.last[name]

    def turn(self) -> None:
        if self.at and math.isnan(self.backup_ms):
            with suppress(Exception):
                if _sent(self.lab, self.backup, FAR_LEAF) > self.carried[self.backup]:
                    self.backup_ms = 1000 * (time.monotonic() - self.at)
        for name in RECEIVERS:
            self.look(name)

    def watch_for(self, seconds: float, push: Any) -> None:
        ends = time.monotonic() + seconds
        while push.poll() is None and time.monotonic() < ends:
            self.turn()
            time.sleep(SAMPLE_S)


def _came(lab: Lab, name: str) -> int:
    """Bytes of DATA and repairs that a host took in; 0 while it tells nothing."""
    with suppress(Exception):
        links = call(lab.control_socket(name), {"do": "status"}, SAMPLE_S)["links"].values()
        return sum(
            link["rx"].get(kind, [0, 0])[1] for link in links for kind in ("data", "repair")
        )
    return 0


def _repairs(lab: Lab, name: str) -> tuple[int, int]:
    """Packets and bytes of repairs that a host took in; 0 while it tells nothing."""
    with suppress(Exception):
        links = [
            link["rx"].get("repair", [0, 0]) for link in _status(lab, name)["links"].values()
        ]
        return sum(row[0] for row in links), sum(row[1] for row in links)
    return 0, 0


def _noticed_ms(lab: Lab, spine: str, at: float) -> float:
    """When the first of those beside what failed took its neighbour for lost."""
    for a, b in ((NEAR_LEAF, spine), (FAR_LEAF, spine), (spine, FAR_LEAF), (spine, NEAR_LEAF)):
        with suppress(Exception):
            row = _status(lab, a)["neighbours"][b]
            if row["state"] == "down":
                return 1000 * (time.monotonic() - row["since_s"] - at)
    return float("nan")


def _told(
    lab: Lab,
    case: Case,
    told: Any,
    code: int,
    detect_ms: float,
    watch: _Watch,
    before: dict[str, tuple[int, int]],
    n_bytes: int,
) -> Run:
    ends = {row["id"]: row for row in told["receivers"]}
    there = [row["seconds"] for row in ends.values() if row["state"] == "verified"]
    apart = (*case.missing, *((DEAD,) if DEAD in case.behind else ()))
    others = [
        row["seconds"] for name, row in ends.items() if name not in apart and row["seconds"]
    ]
    late = tuple(name for name in RECEIVERS if watch.gaps[name] > GAP_S)
    came = {name: _repairs(lab, name) for name in RECEIVERS}
    repairs = {name: max(came[name][1] - before[name][1], 0) for name in RECEIVERS}
    return Run(
        max(others, default=float("nan")),
        max(there, default=float("nan")),
        code,
        tuple(name for name in RECEIVERS if ends[name]["state"] != "verified"),
        detect_ms,
        watch.backup_ms,
        1000 * max((watch.gaps[name] for name in late), default=0.0),
        late,
        max(came[name][0] - before[name][0] for name in RECEIVERS if name not in apart),
        sum(repairs[name] for name in case.behind),
        sum(n for name, n in repairs.items() if name not in case.behind),
        told["source_link_bytes"] / n_bytes,
    )


def _show(rows: dict[str, list[Run]]) -> None:
    table = Table(
        *("failure", "others s", "all s", "code", "missing", "noticed ms", "backup ms"),
        *("gap ms", "with a gap", "lost", "sent again MB", "elsewhere MB", "copies"),
    )
    for name, of in rows.items():
        middle = sorted(of, key=lambda row: row.others_s)[len(of) // 2]
        table.add_row(
            name,
            f"{statistics.median(row.others_s for row in of):.2f}",
            f"{statistics.median(row.last_s for row in of):.2f}",
            str(middle.code),
            " ".join(middle.missing) or "-",
            f"{middle.detect_ms:.0f}",
            "-" if math.isnan(middle.backup_ms) else f"{middle.backup_ms:.0f}",
            f"{middle.gap_ms:.0f}",
            " ".join(middle.with_gap) or "-",
            str(middle.lost),
            f"{middle.repaired / 1e6:.2f}",
            f"{middle.elsewhere / 1e6:.2f}",
            f"{middle.copies:.3f}",
        )
    Console(width=None if sys.stdout.isatty() else 150).print(table)


if __name__ == "__main__":
    sys.exit(main())
