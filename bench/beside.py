"""all_reduce by fanfold and by gloo, alternating, on this machine.

By fanfold with all ranks at one host, and with a host for each behind BFRs that it reaches
through shared memory, in the processes that gloo is measured in; and through sockets only, in a
second lab and processes of its own that are idle meanwhile.
"""

import importlib.util
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from jobs import JobError
from labs import BenchLab
from measure import Part, cpu_of, spread
from shaped import Rank, answers, ask

from fanfold.units import format_size

SIZES = tuple(1 << n for n in range(12, 27, 2))
"""4 KiB to 64 MiB."""
RANKS = (4, 8)
ROUND_BYTES = 4 << 20
"""Operations of one round are as many as make up this size, 1 to 64."""
CASTS, CAST_BYTES = 9000, 1 << 16
LOOPS = 1000
"""Broadcasts one after the other, each waited for."""
CASTERS = "host", "fanfold", "gloo"
START_S, ROUND_S = 180.0, 60.0
HOST, OURS, GLOO, SOCKETS = "host", "fanfold", "gloo", "sockets"


def run(folder: Path, n_rounds: int, sizes: Sequence[int] = SIZES) -> Part:
    """Every size by both, in changing order.

    Raises:
        JobError: PyTorch is not there.
    """
    if not importlib.util.find_spec("torch"):
        raise JobError("no PyTorch here: pip install 'fanfold[torch]'")
    rows = []
    for n_ranks in RANKS:
        labs = [BenchLab(folder, n_ranks, has_rings=has_rings) for has_rings in (True, False)]
        try:
            for lab in labs:
                lab.up()
            with (
                _ranks(labs[0], folder, n_ranks) as near,
                _ranks(labs[1], folder, n_ranks) as far,
            ):
                ways = dict.fromkeys((HOST, OURS, GLOO), (labs[0], near))
                ways[SOCKETS] = labs[1], far
                rows += [_row(ways, size, n_rounds) for size in sizes]
        finally:
            for lab in labs:
                lab.down()
    return Part(
        name="gloo",
        title="all_reduce through PyTorch, all ranks on this machine",
        columns={
            "ranks": "ranks",
            "size": "array",
            "host_us": "fanfold, one host, us",
            "ours_us": "by BFRs, us",
            "gloo_us": "gloo, us",
            "sockets_us": "by BFRs and sockets, us",
            "host_ratio": "gloo / one host",
            "host_spread": "over rounds",
            "ratio": "gloo / by BFRs",
            "ratio_spread": "over rounds",
            "least": "least of each, us",
            "cpu": "CPU us, with BFRs",
            "wrong": "wrong",
        },
        rows=rows,
        source="Begin of the first rank to end of the last, after a barrier, by operations in a"
        " row; each round measures all ways, those but the last in the same"
        f" processes, in changing order; medians of {n_rounds} rounds. CPU time by"
        " operation, in the order of the ways: all ranks, and all nodes of the lab",
        limits="No link limits either: what is compared is the work that a byte costs. Ranks"
        " and BFRs share the processors of this machine.",
    )


def run_broadcasts(folder: Path, n_rounds: int) -> Part:
    """Many small broadcasts at once beside one of all their bytes, by both.

    Raises:
        JobError: PyTorch is not there.
    """
    if not importlib.util.find_spec("torch"):
        raise JobError("no PyTorch here: pip install 'fanfold[torch]'")
    lab = BenchLab(folder, RANKS[0])
    whole = {"n_bytes": CASTS * CAST_BYTES, "n_casts": 1}
    many = {"n_bytes": CAST_BYTES, "n_casts": CASTS}
    loop = {"n_bytes": CAST_BYTES, "n_casts": LOOPS, "is_loop": True}
    took: dict[tuple[str, int], list[float]] = {}
    wrong = 0
    try:
        lab.up()
        with _ranks(lab, folder, RANKS[0]) as ranks:
            for i in range(-1, n_rounds):
                for name in CASTERS if i % 2 else CASTERS[::-1]:
                    for task in (whole, many, loop):
                        told = ask(ranks, task | {"backend": name}, ROUND_S)
                        wrong += sum(t["n_wrong"] for t in told)
                        seconds = max(t["ended"] for t in told) - min(t["began"] for t in told)
                        if i >= 0:
                            took.setdefault((name, task["n_casts"]), []).append(seconds * 1e3)
    finally:
        lab.down()
    return Part(
        name="broadcasts",
        title=f"{CASTS:,} broadcasts of {format_size(CAST_BYTES)} at once, {RANKS[0]} ranks",
        columns={
            "by": "by",
            "many": "all of them, ms",
            "whole": "one tensor of as many bytes, ms",
            "ratio": "times as long",
            "ratio_spread": "over rounds",
            "loop_us": "in a loop, us each",
            "wrong": "wrong, all",
        },
        rows=[_cast_row(name, took, wrong) for name in CASTERS],
        source="async_op=True for all, then a wait for each; in a loop: "
        f"{LOOPS:,} of them, each waited for before the next; begin of the first rank to end of"
        f" the last, after a barrier; medians of {n_rounds} rounds in changing order",
        limits="No link limits: what is compared is the work that an operation costs.",
    )


def _cast_row(
    name: str, took: dict[tuple[str, int], list[float]], wrong: int
) -> dict[str, Any]:
    many, whole, loop = took[name, CASTS], took[name, 1], took[name, LOOPS]
    ratios = [a / b for a, b in zip(many, whole, strict=True)]
    return {
        "by": {HOST: "fanfold, one host", OURS: "fanfold, by BFRs"}.get(name, name),
        "many": f"{median(many):,.0f}",
        "whole": f"{median(whole):,.0f}",
        "ratio": f"{median(ratios):.2f}",
        "ratio_spread": spread(ratios, 2),
        "loop_us": f"{median(loop) * 1e3 / LOOPS:,.0f}",
        "wrong": wrong,
        "all": [many, whole, loop],
    }


def _row(
    ways: dict[str, tuple[BenchLab, list[Rank]]], size: int, n_rounds: int
) -> dict[str, Any]:
    n_ops = min(max(ROUND_BYTES // size, 1), 64)
    took: dict[str, list[float]] = {way: [] for way in ways}
    cpu: dict[str, list[float]] = {way: [] for way in ways}
    wrong = 0
    for i in range(-1, n_rounds):
        order = list(ways)
        for way in order[i % len(order) :] + order[: i % len(order)]:
            lab, ranks = ways[way]
            before = sum(cpu_of(pid) for pid in lab.pids)
            backend = OURS if way == SOCKETS else way
            told = ask(ranks, {"backend": backend, "n_bytes": size, "n_ops": n_ops}, ROUND_S)
            nodes_s = sum(cpu_of(pid) for pid in lab.pids) - before
            wrong += sum(t["n_wrong"] for t in told)
            if i < 0:
                continue  # connections and windows of this size are made
            seconds = max(t["ended"] for t in told) - min(t["began"] for t in told)
            took[way].append(seconds * 1e6 / n_ops)
            cpu[way].append((sum(t["cpu_s"] for t in told) + nodes_s) * 1e6 / n_ops)
    ratios, at_one = (
        [b / a for a, b in zip(took[way], took[GLOO], strict=True)] for way in (OURS, HOST)
    )
    return {
        "ranks": len(ways[OURS][1]),
        "size": format_size(size),
        "host_us": f"{median(took[HOST]):,.0f}",
        "ours_us": f"{median(took[OURS]):,.0f}",
        "sockets_us": f"{median(took[SOCKETS]):,.0f}",
        "gloo_us": f"{median(took[GLOO]):,.0f}",
        "host_ratio": f"{median(at_one):.2f}",
        "host_spread": spread(at_one, 2),
        "ratio": f"{median(ratios):.2f}",
        "ratio_spread": spread(ratios, 2),
        "least": ", ".join(f"{min(took[way]):,.0f}" for way in ways),
        "cpu": ", ".join(f"{median(cpu[way]):,.0f}" for way in ways),
        "wrong": wrong,
        "all": took,
    }


@contextmanager
def _ranks(lab: BenchLab, folder: Path, n_ranks: int) -> Iterator[list[Rank]]:
    program = [sys.executable, str(Path(__file__).with_name("beside_rank.py"))]
    env = lab.env | {"FANFOLD_LAB": lab.name, "OMP_NUM_THREADS": "1"}
    env["GLOO_SOCKET_IFNAME"] = "lo"
    ranks: list[Rank] = []
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    try:
        for r in range(n_ranks):
            command = [*program, str(r), str(n_ranks), str(port)]
            log = folder / f"{lab.name}-{n_ranks}-{r}.log"
            ranks.append(Rank(f"rank {r}", command, env, log))
        answers(ranks, START_S)
        yield ranks
    finally:
        for rank in ranks:
            rank.process.kill()
        for rank in ranks:
            rank.process.communicate()
