"""One file to eight receivers on one machine: fanfold, TCP copies, uftp, udpcast."""

import shutil
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import peers
from jobs import Job, JobError
from labs import N_RECEIVERS, bench_lab
from measure import Part, hash_file, random_file, touch_memory
from peers import Transfer

from fanfold.peers import tcp

N_ROUNDS = 2
PACKAGES = {"uftp": "uftp", "udpcast": "udp-sender"}
RATES_MBPS = (500, 1000, 1500, 2000, 3000, 5000, -1)
"""Rates tried for uftp; -1 is its own "as fast as the interface"."""
TRIAL_BYTES = 64 << 20
LOOPBACK = "127.0.0.1"
SLOWEST_BPS = 4e6 * 8

Way = Callable[[Path, Path, float], tuple[Transfer, list[Path]]]
"""(file, empty folder, timeout) -> what it took, the copies."""


def run(folder: Path, size: int) -> Part:
    """Every way once in each round, in changing order."""
    notes: list[str] = []
    file = folder / "model.bin"
    digest = random_file(file, size)
    touch_memory(folder, size * N_RECEIVERS)
    found: dict[str, list[Transfer]] = {}
    with ExitStack() as stack:
        ways = _ways(folder, stack, notes, min(size, TRIAL_BYTES))
        for i in range(N_ROUNDS):
            for name in list(ways)[:: 1 if i % 2 == 0 else -1]:
                took = _one(name, ways[name], file, digest, folder / "into", notes, i)
                if took is not None:
                    found.setdefault(name, []).append(took)
    file.unlink()
    return Part(
        name="goodput",
        title=f"Goodput: {size / (1 << 20):.0f} MiB to {N_RECEIVERS} receivers on this machine",
        columns={
            "what": "what",
            "hops": "forwarders passed",
            "seconds": "command, s",
            "mbps": "Mbit/s to each",
            "moving_mbps": "while moving",
            "cpu_per_gb": "CPU s per GB delivered",
            "copies": "sender's link, copies",
            "rounds": "each round, s",
        },
        rows=[_row(name, took, size) for name, took in found.items()],
        source="Wall time of the sending command, start to end; receivers are up before it."
        " Every copy's BLAKE3 is compared outside that span. CPU: rusage or /proc of the"
        " sender, all receivers and all forwarders. Medians of the rounds that were right."
        " Memory for eight copies is written once before the first."
        " `while moving`: fanfold's own `data_seconds`, TCP from connect to last word back",
        limits="fanfold passes one BFR to h1-h4 and three to h5-h8, and hashes at every end;"
        " the TCP copies pass no forwarder, the kernel moves them by page, and on loopback"
        " eight copies share no link: this compares CPU, not networks. On a sender's real link"
        " N copies take N times as long as one. uftp and udpcast pass one kernel bridge, not"
        " three forwarders. Work that the kernel does outside any process is counted nowhere.",
        notes=notes,
    )


def _one(
    name: str, way: Way, file: Path, digest: str, into: Path, notes: list[str], i: int
) -> Transfer | None:
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir()
    try:
        took, copies = way(file, into, 30 + file.stat().st_size * 8 / SLOWEST_BPS)
    except JobError as error:
        notes.append(f"{name}, round {i + 1}: {error}")
        return None
    finally_good = sum(hash_file(copy) == digest for copy in copies)
    shutil.rmtree(into, ignore_errors=True)
    if finally_good != N_RECEIVERS:
        notes.append(f"{name}, round {i + 1}: {finally_good} of {N_RECEIVERS} copies are right")
        return None
    return took


def _row(name: str, took: list[Transfer], size: int) -> dict[str, Any]:
    seconds = median(t.seconds for t in took)
    moving = median(t.moving_s for t in took)
    delivered_gb = size * N_RECEIVERS / 1e9
    return {
        "what": name,
        "hops": {"fanfold": "1 or 3 BFRs", "TCP copies": "none"}.get(name, "1 bridge"),
        "seconds": round(seconds, 2),
        "mbps": round(size * 8 / seconds / 1e6),
        "moving_mbps": round(size * 8 / moving / 1e6) if moving else "",
        "cpu_per_gb": round(median(t.cpu_s for t in took) / delivered_gb, 2),
        "copies": round(median(t.link_bytes for t in took) / size, 3),
        "rounds": ", ".join(f"{t.seconds:.2f}" for t in took),
        "all": [vars(t) for t in took],
    }


def _ways(folder: Path, stack: ExitStack, notes: list[str], trial_bytes: int) -> dict[str, Way]:
    ways: dict[str, Way] = {"fanfold": _fanfold, "TCP copies": _tcp}
    gone = peers.lacking(PACKAGES)
    notes += [f"{package}: not installed; as root: apt install {package}" for package in gone]
    if len(gone) == len(PACKAGES):
        return ways
    try:
        made = stack.enter_context(peers.net())
    except JobError as error:
        notes.append(f"uftp, udpcast: {error}")
        return ways
    if "uftp" not in gone:
        rate = _best_rate(made, folder, trial_bytes, notes)
        if rate:
            ways["uftp"] = _uftp(made, rate)
    if "udpcast" not in gone:
        ways["udpcast"] = _udpcast(made)
    return ways


def _fanfold(file: Path, into: Path, timeout_s: float) -> tuple[Transfer, list[Path]]:
    with bench_lab(into / "state") as lab:
        pushed = lab.push(file, timeout_s)
        if not pushed.is_complete:
            why = [r["error"] for r in pushed.told["receivers"] if r["error"]]
            raise JobError(f"exit {pushed.code}: {'; '.join(why)}")
        kept = [into / f"h{i + 1}" for i in range(N_RECEIVERS)]
        for copy, place in zip(lab.copies(file.name), kept, strict=True):
            copy.rename(place)
    told = pushed.told
    return (
        Transfer(
            pushed.command_s, pushed.cpu_s, told["source_link_bytes"], told["data_seconds"]
        ),
        kept,
    )


def _tcp(file: Path, into: Path, timeout_s: float) -> tuple[Transfer, list[Path]]:
    program = [sys.executable, "-IS", str(Path(tcp.__file__).with_name("tcp_end.py"))]
    copies = [into / f"copy{i + 1}" for i in range(N_RECEIVERS)]
    receivers = [Job([*program, "receive", str(copy), LOOPBACK, "0"]) for copy in copies]
    try:
        ends = [f"{LOOPBACK}:{receiver.line().strip()}" for receiver in receivers]
        ended = Job([*program, "send", str(file), *ends]).end(timeout_s)
        if ended.code:
            raise JobError(ended.err.strip() or f"exit {ended.code}")
        cpu_s = ended.cpu_s + sum(r.end(20).cpu_s for r in receivers)
    finally:
        for receiver in receivers:
            if receiver.process.returncode is None:
                receiver.stop()
    n_bytes = file.stat().st_size * N_RECEIVERS  # payload alone: loopback counts nobody's link
    return Transfer(ended.seconds, cpu_s, n_bytes, float(ended.out)), copies


def _uftp(made: peers.Net, rate_mbps: int) -> Way:
    def way(file: Path, into: Path, timeout_s: float) -> tuple[Transfer, list[Path]]:
        took = peers.uftp(made, file, into, rate_mbps, timeout_s)
        return took, [folder / file.name for folder in peers.folders(into)]

    return way


def _udpcast(made: peers.Net) -> Way:
    def way(file: Path, into: Path, timeout_s: float) -> tuple[Transfer, list[Path]]:
        took = peers.udpcast(made, file, into, timeout_s)
        return took, [folder / file.name for folder in peers.folders(into)]

    return way


def _best_rate(made: peers.Net, folder: Path, size: int, notes: list[str]) -> int:
    """Rate at which a small file reached all eight soonest; 0 when none did."""
    file = folder / "trial.bin"
    digest = random_file(file, size)
    times: dict[int, float] = {}
    for rate in RATES_MBPS:
        took = _one(f"uftp at {rate}", _uftp(made, rate), file, digest, folder / "try", [], 0)
        if took is not None:
            times[rate] = took.seconds
    file.unlink()
    tried = ", ".join(f"{rate} {s:.2f} s" for rate, s in times.items())
    best = min(times, key=lambda rate: times[rate], default=0)
    notes.append(f"uftp: rates in Mbit/s tried with {size >> 20} MiB: {tried}; taken: {best}")
    return best
