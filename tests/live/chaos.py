"""Pushes through a lab whose links and nodes fail by a seed: who is healthy must be verified.

    python tests/live/chaos.py [--pushes N] [--seed S] [--hosts H]

Each push draws impairments of all links and one accident: a node stopped for 3 s, killed, or
killed and started again in the middle, or a sender that another host takes over from. A
receiver that was killed for good may be missing; nobody else, and what it is verified to have
are the bytes that were sent. A sender that stood still is told who took over.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import NamedTuple

from live_site import Json, LiveLab, Site, finish, is_running, random_bytes, states

MB = 1_000_000
RATE = "40Mbps"
STOPPED_S = 3.0
PATIENCE = "4s"
"""For a receiver that does not come back; the others are given the default."""
LONGEST_S = 120.0
ACCIDENTS = (
    "none",
    "receiver stopped",
    "BFR stopped",
    "sender stopped",
    "receiver killed",
    "receiver killed and back",
    "BFR killed and back",
    "sender killed, taken over",
    "sender stopped, taken over",
)
TAKEN_OVER = 5
End = tuple[int, str, str]
"""Exit code, stdout, stderr."""


class Draw(NamedTuple):
    """What befalls one push, all from its seed."""

    seed: int
    n_bytes: int
    impair: str
    accident: str
    node: str
    at_s: float
    back_s: float


class Verdict(NamedTuple):
    """What came of it: faults are empty where all is well."""

    draw: Draw
    seconds: float
    copies: float
    faults: tuple[str, ...]


def draw_of(seed: int, lab: LiveLab) -> Draw:
    """The push of a seed."""
    rng = Random(seed)
    n_bytes = rng.randrange(2 * MB, 5 * MB)
    parts = [f"drop={rng.choice((0, 0.1, 1, 3, 10))}%"]
    if rng.random() < 0.5:
        parts.append(f"duplicate={rng.choice((1, 5))}%")
    if rng.random() < 0.5:
        parts.append(f"reorder={rng.choice((5, 30))}%")
    if rng.random() < 0.5:
        parts.append(f"corrupt={rng.choice((1, 4))}%")
    if rng.random() < 0.3:
        parts.append(f"delay={rng.choice((1, 10, 25))}ms")
    accident = ACCIDENTS[seed % len(ACCIDENTS)]
    bfrs = [name for name in lab.nodes() if not name.startswith("h")]
    node = {"receiver": rng.choice(lab.receivers), "BFR": rng.choice(bfrs), "sender": "h0"}
    at_s = rng.uniform(0.05, 0.9) * n_bytes * 8 / 40e6
    return Draw(
        seed,
        n_bytes,
        ",".join(parts),
        accident,
        node.get(accident.partition(" ")[0], ""),
        at_s,
        rng.uniform(0.2, STOPPED_S),
    )


def run_one(lab: LiveLab, folder: Path, draw: Draw) -> Verdict:
    """One push and its accident; the lab is whole again at the end."""
    path = folder / f"chaos-{draw.seed}.bin"
    contents = random_bytes(draw.n_bytes, draw.seed)
    path.write_bytes(contents)
    is_final = draw.accident == "receiver killed"
    flags = ["--rate", RATE, "--impair", draw.impair, "--seed", str(draw.seed)]
    flags += ["--patience", PATIENCE] if is_final else []
    is_heir = draw.accident.endswith("taken over")
    to = lab.receivers[: -1 if is_heir else None]
    flags += ["--to", ",".join(to)]
    sent_before = lab.sent("leaf1", "h1")
    began = time.monotonic()
    push = lab.start_push(path, *flags)
    heirs: list[End] = []
    take_over = lab.push_args(path, "--from", lab.receivers[-1], *flags) if is_heir else ()
    hand = threading.Thread(
        target=befall, args=(lab, push, sent_before, draw, take_over, heirs)
    )
    hand.start()
    try:
        code, out, err = finish(push, LONGEST_S)
    except subprocess.TimeoutExpired:
        code, out, err = -1, "", f"no end within {LONGEST_S:.0f} s"
    seconds = time.monotonic() - began
    hand.join()
    first = code, out, err
    faults = faults_of(lab, draw, heirs[0] if heirs else first, contents, to)
    if heirs and draw.accident.startswith("sender stopped"):
        faults += faults_of_late(first, lab.receivers[-1])
    copies = copies_of(out, draw.n_bytes)
    lab.revive()
    for host in lab.everyone:
        lab.received(host, path.name).unlink(missing_ok=True)
    path.unlink()
    return Verdict(draw, seconds, copies, tuple(faults))


def befall(
    lab: LiveLab,
    push: "subprocess.Popen[str]",
    sent_before: int,
    draw: Draw,
    take_over: tuple[object, ...],
    heirs: list[End],
) -> None:
    """The accident: some time after the first data left. heirs: how a second sender ended."""
    until = time.monotonic() + 20
    while lab.sent("leaf1", "h1") <= sent_before and time.monotonic() < until:
        if push.poll() is not None:
            return
        time.sleep(0.02)
    time.sleep(draw.at_s)
    if not draw.node or push.poll() is not None:
        return
    pid = push.pid if draw.node == "h0" else lab.pid(draw.node)
    if take_over:
        os.kill(pid, signal.SIGKILL if "killed" in draw.accident else signal.SIGSTOP)
        try:
            heirs.append(finish(lab.site.start(*take_over), LONGEST_S))
        finally:
            if "stopped" in draw.accident:
                os.kill(pid, signal.SIGCONT)
        return
    if draw.accident.endswith("stopped"):
        os.kill(pid, signal.SIGSTOP)
        time.sleep(STOPPED_S)
        os.kill(pid, signal.SIGCONT)
        return
    lab.kill(draw.node)
    if draw.accident.endswith("back"):
        time.sleep(draw.back_s)
        lab.restart(draw.node)


def faults_of_late(end: End, heir: str) -> list[str]:
    """A sender that stood still had reached all before, or is told who took over."""
    code, out, err = end
    result = read_json(out)
    if result is None:
        return [f"late sender, exit {code}: {err.strip()[-300:]}"]
    wanted = (TAKEN_OVER, heir) if result["taken_over_by"] else (0, "")
    if (code, result["taken_over_by"]) == wanted:
        return []
    return [f"late sender: exit {code}, taken over by {result['taken_over_by']!r}"]


def faults_of(lab: LiveLab, draw: Draw, end: End, contents: bytes, to: list[str]) -> list[str]:
    """What must not be."""
    code, out, err = end
    killed = {draw.node} if draw.accident == "receiver killed" else set()
    result = read_json(out)
    if result is None:
        return [f"exit {code}: {err.strip()[-300:]}"]
    states_of = states(result)
    missing = {host for host, state in states_of.items() if state != "verified"}
    faults = [f"{host} {states_of[host]}" for host in sorted(missing - killed)]
    if set(states_of) != set(to):
        faults.append(f"receivers {sorted(states_of)}")
    if code != (4 if missing else 0):
        faults.append(f"exit {code} with {sorted(missing)} missing")
    for host in sorted(set(states_of) - missing):
        got = lab.received(host, f"chaos-{draw.seed}.bin")
        if not got.is_file() or got.read_bytes() != contents:
            faults.append(f"{host} verified and has other bytes")
    dead = [n for n, e in lab.nodes().items() if not is_running(e["pid"]) and n not in killed]
    faults += [f"{name} ended" for name in dead]
    if faults and err.strip():
        faults.append(err.strip()[-300:])
    return faults


def read_json(out: str) -> Json | None:
    """The result of a push, None when it printed none."""
    try:
        return json.loads(out)
    except ValueError:
        return None


def copies_of(out: str, n_bytes: int) -> float:
    """Data and repairs on the sender's link, as copies of what was pushed."""
    result = read_json(out)
    rows = result["links"] if result else []
    n = sum(r["bytes"] + r["repair_bytes"] for r in rows if r["from"] == "h0")
    return n / n_bytes


def show(verdicts: list[Verdict]) -> None:
    """A line for each accident."""
    print(f"{'accident':26} pushes faults  seconds (median, longest)  copies (median, most)")
    for accident in ACCIDENTS:
        mine = [v for v in verdicts if v.draw.accident == accident]
        if mine:
            seconds, copies = (
                sorted(c) for c in zip(*((v.seconds, v.copies) for v in mine), strict=True)
            )
            n_bad = sum(bool(v.faults) for v in mine)
            middle = len(mine) // 2
            print(
                f"{accident:26} {len(mine):6} {n_bad:6}  {seconds[middle]:8.2f} "
                f"{seconds[-1]:8.2f}           {copies[middle]:8.3f} {copies[-1]:8.3f}"
            )


def main() -> int:
    """Push until all seeds are through; 1 when one had a fault."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pushes", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1, help="of the first push")
    parser.add_argument("--hosts", type=int, default=8)
    options = parser.parse_args()
    verdicts: list[Verdict] = []
    with tempfile.TemporaryDirectory(prefix="fanfold-chaos-") as folder:
        site = Site(Path(folder) / "state")
        try:
            lab = LiveLab(site, "chaos", "--hosts", options.hosts)
            for seed in range(options.seed, options.seed + options.pushes):
                verdict = run_one(lab, Path(folder), draw_of(seed, lab))
                verdicts.append(verdict)
                if verdict.faults:
                    print("FAULT", verdict.draw, "; ".join(verdict.faults), flush=True)
                elif len(verdicts) % 20 == 0:
                    print(f"{len(verdicts)} of {options.pushes}", file=sys.stderr, flush=True)
        finally:
            site.end_all()
    show(verdicts)
    n_bad = sum(bool(v.faults) for v in verdicts)
    kinds = Counter(v.draw.accident for v in verdicts if v.faults)
    print(
        f"{len(verdicts) - n_bad} of {len(verdicts)} pushes without a fault {dict(kinds) or ''}"
    )
    return int(n_bad > 0)


if __name__ == "__main__":
    raise SystemExit(main())
