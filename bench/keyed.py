"""What keys cost each role in pushes to eight, sums and starts: none, of links, of ends too.

Three labs that are up at the same time; each round does the same on each of them, in changing
order, so what else the machine does meets all alike.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np
from jobs import FANFOLD, JobError, run
from labs import N_RECEIVERS, BenchLab
from measure import Part, cpu_of, random_file, spread

from fanfold.group.fabric import FabricCommunicator
from fanfold.topo.fabric_file import load_fabric
from fanfold.units import PS_PER_SECOND

GB = 1e9
TIMEOUT_S = 120.0
SMALL = 4096
SUM_BYTES = 64 << 20
RANKS = ("h1", "h2", "h5", "h6")
GROUP = 0x6B650000
GROUP_PS = 60 * PS_PER_SECOND
MODES: dict[str, tuple[str, tuple[str, ...]]] = {
    "open": ("open", ()),
    "links": ("links", ()),
    "links, signed": ("both", ("--sign",)),
    "links, sealed": ("both", ("--seal",)),
}
"""A mode: its lab, and flags of its pushes."""
LABS = {"open": (), "links": ("--link-keys",), "both": ("--link-keys", "--keys")}
BAR = 0.2


def run_keys(folder: Path, size: int, n_rounds: int) -> Part:
    """All modes, alternating; ``size``: bytes of a push."""
    seen: dict[str, list[dict[str, float]]] = {mode: [] for mode in MODES}
    with ExitStack() as stack:
        labs = {name: stack.enter_context(_lab(folder, name)) for name in LABS}
        for i in range(n_rounds + 1):
            for mode in list(MODES)[:: 1 if i % 2 else -1]:
                name, flags = MODES[mode]
                told = _push(labs[name], folder, SMALL if i == 0 else size, flags)
                told |= {"start": _push(labs[name], folder, SMALL, flags)["command"]}
                told |= {"sum": _sum(labs[name], GROUP + i)}
                if i > 0:  # what is loaded and touched first is nobody's
                    seen[mode].append(told)
    return Part(
        name="keys",
        title=f"Keys: pushes of {size >> 20} MiB to {N_RECEIVERS}, processor time by role",
        columns={
            "mode": "keys",
            "sender": "sender, s/GB",
            "receiver": "a receiver, s/GB",
            "bfrs": "4 BFRs, s/GB",
            "ends_more": f"more at an end, s/GB (bar {BAR})",
            "sum": "all_reduce 64 MiB, CPU s",
            "start": "push of 4 KiB, CPU s",
            "up": "lab up, s",
        },
        rows=[_row(mode, seen) | {"up": round(labs[MODES[mode][0]].up_s, 2)} for mode in MODES],
        source="Processor time of the push command, of its host's receivers (mean of eight) and"
        f" of BFRs; of four ranks in one process and BFRs; medians of {n_rounds} rounds",
        limits="Ranks pass arrays by sockets: by shared memory nothing has a trailer.",
    )


def by_role(lab: BenchLab) -> dict[str, list[float]]:
    """Processor time of BFRs and hosts so far."""
    return {
        role: [
            cpu_of(pid) for node, pid in lab.nodes.items() if node.startswith("h") == is_host
        ]
        for role, is_host in (("bfr", False), ("host", True))
    }


@contextmanager
def _lab(folder: Path, name: str) -> Iterator[BenchLab]:
    lab = BenchLab(folder / name, flags=LABS[name], has_rings=False)
    try:
        lab.up()
        yield lab
    finally:
        lab.down()


def _push(lab: BenchLab, folder: Path, size: int, flags: Sequence[str]) -> dict[str, float]:
    """Processor time a GB of each role, and of the command."""
    path = folder / "pushed.bin"
    random_file(path, size)
    before = by_role(lab)
    command = [*FANFOLD, "push", str(path), "--lab", lab.name, "--json", *flags]
    ended = run(command, TIMEOUT_S, lab.env)
    after = by_role(lab)
    if ended.code != 0:
        raise JobError((ended.err.strip().splitlines() or ["no word"])[-1])
    lab.forget()
    path.unlink()
    spent = {role: sum(after[role]) - sum(before[role]) for role in after}
    return {
        "sender": ended.cpu_s / size * GB,
        "receiver": spent["host"] / N_RECEIVERS / size * GB,
        "bfrs": spent["bfr"] / size * GB,
        "command": ended.cpu_s,
    }


def _sum(lab: BenchLab, number: int) -> float:
    """Processor time of one all_reduce, of all ranks and BFRs."""
    os.environ |= lab.env  # where ranks look for their hosts' keys
    fabric = load_fabric(lab.hosts.parent / "fabric.toml")
    ranks = [
        FabricCommunicator(fabric, list(RANKS), r, group=number, timeout_ps=GROUP_PS)
        for r in range(len(RANKS))
    ]
    arrays = [np.full(SUM_BYTES // 4, r + 1, np.int32) for r in range(len(RANKS))]
    try:
        small = [rank.all_reduce(np.ones(1, np.int32)) for rank in ranks]
        for work in small:
            work.wait()
        before, began = sum(by_role(lab)["bfr"]), process_time()
        for work in [rank.all_reduce(a) for rank, a in zip(ranks, arrays, strict=True)]:
            work.wait()
        spent = process_time() - began + sum(by_role(lab)["bfr"]) - before
    finally:
        with ThreadPoolExecutor(len(ranks)) as pool:
            list(pool.map(lambda rank: rank.close(), ranks))
    if any((a != sum(range(1, len(RANKS) + 1))).any() for a in arrays):
        raise JobError("a sum is wrong")
    return spent


def _row(mode: str, seen: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """Medians of a mode, and what its ends took more than open ones in the same rounds."""
    rounds = seen[mode]
    more = [
        max(mine[end] - plain[end] for end in ("sender", "receiver"))
        for mine, plain in zip(rounds, seen["open"], strict=True)
    ]
    row: dict[str, Any] = {"mode": mode}
    for key in ("sender", "receiver", "bfrs", "sum", "start"):
        values = [told[key] for told in rounds]
        row[key] = f"{median(values):.2f} ({spread(values, 2)})"
        row[f"all_{key}"] = [round(value, 3) for value in values]
    row["ends_more"] = f"{median(more):.2f} ({spread(more, 2)})"
    return row
