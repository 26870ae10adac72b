"""A sweep over sizes, kinds and operators on a live fabric, each rank a process of its own.

As nccl-tests count: algorithm bandwidth is bytes of the array by the time of the slowest rank;
bus bandwidth is what a ring would have had to carry for it, so that collectives compare.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from fanfold.errors import EnvironmentLack
from fanfold.group.communicator import Op
from fanfold.group.crew import Crew
from fanfold.group.expectation import JOINED, SHARED, Array, Case, draw, n_wrong
from fanfold.group.fabric import FabricCommunicator
from fanfold.live.clock import now_ps
from fanfold.live.memory import free_bytes
from fanfold.topo.fabric import Fabric
from fanfold.units import PS_PER_SECOND, format_size

COLLECTIVES = (
    "all_reduce",
    "broadcast",
    "all_gather",
    "reduce_scatter",
    "reduce",
    "all_to_all",
    "gather",
    "scatter",
    "send",
)
KINDS = ("float32", "float64", "bfloat16", "float16", "int32", "int64")
OPS = {"sum": Op.SUM, "prod": Op.PRODUCT, "min": Op.MIN, "max": Op.MAX, "avg": Op.AVG}


class Line(NamedTuple):
    """What one case took and whether it was right.

    n_bytes: of the array that is timed. time_ps: mean over the rounds of the slowest rank.
    n_wrong: values outside the bound, over all ranks. same: all ranks have equal bytes, where
    they should. uplink_ppm: bytes that the busiest rank sent, per million of its array's.
    n_slots: that each BFR on the way has for the group. n_refused: times that BFRs had no room
    for as many as were asked for. at_host: the group's root is the host of rank 0.
    """

    case: Case
    n_bytes: int
    time_ps: int
    n_wrong: int
    same: bool
    uplink_ppm: int
    sent_again: int
    n_slots: int
    n_refused: int
    at_host: bool

    def bandwidth(self, n_ranks: int) -> tuple[float, float]:
        """Algorithm and bus bandwidth in bytes a second."""
        plain = self.n_bytes * PS_PER_SECOND / max(self.time_ps, 1)
        share = (n_ranks - 1) / n_ranks
        factor = {"all_reduce": 2 * share, "broadcast": 1.0, "reduce": 1.0}
        return plain, plain * factor.get(self.case.collective, share)


def sweep(  # noqa: PLR0913 - all but two by name
    fabric: Fabric,
    members: Sequence[str],
    cases: Sequence[Case],
    *,
    rounds: int,
    seed: int,
    group: int,
    progress: Callable[[int], None],
    watch: Callable[[], None],
    enter: Callable[[str], object] = lambda name: None,
) -> list[Line]:
    """Run all cases with one process for each rank; none outlives this one.

    Args:
        progress: told in the process of rank 0 which case begins. watch: called now and then;
            what it raises ends the run. enter: puts a rank's process where its host is.

    Raises:
        FanfoldError: what a rank's process said when it failed; CheckFailed: an operation
            did, or a rank died; EnvironmentLack: a rank could not start, or too little memory.
    """
    for case in cases:
        check_memory(case, len(members), free_bytes())

    def run(rank: int) -> list[dict[str, Any]]:
        enter(members[rank])
        mine = _watched(cases, progress) if rank == 0 else cases
        return _run(fabric, members, rank, mine, rounds, seed, group)

    answers = Crew("reduce-bench", members).run(run, watch)
    return [_line(case, [rows[i] for rows in answers]) for i, case in enumerate(cases)]


def check_memory(case: Case, n_ranks: int, free: int | None) -> None:
    """Raise EnvironmentLack where a case needs more memory than is free; None: unknown."""
    need = memory_of(case, n_ranks)
    if free is not None and need > free:
        what = f"{case.collective} of {case.n_values} {case.kind} on {n_ranks} ranks"
        raise EnvironmentLack(
            f"reduce-bench: {what} needs some {format_size(need)} of memory, "
            f"{format_size(free)} are free; take smaller sizes or fewer ranks"
        )


def memory_of(case: Case, n_ranks: int) -> int:
    """Bytes that all ranks' processes take together for one case, more or less.

    Each keeps its values, the array and the result; those that check them draw the values of
    all, and put them side by side where they are whole numbers or were moved.
    """
    size = case.n_values * (2 if case.kind == "bfloat16" else np.dtype(case.kind).itemsize)
    result = size * n_ranks if case.collective in ("all_gather", "gather") else size
    is_apart = case.collective not in JOINED or case.kind.startswith("int")
    checking = size * n_ranks * (2 if is_apart else 1)
    n_checking = 1 if case.collective in SHARED else n_ranks
    return n_ranks * (2 * size + result) + n_checking * checking


def _watched(cases: Sequence[Case], progress: Callable[[int], None]) -> Iterator[Case]:
    for i, case in enumerate(cases):
        progress(i)
        yield case


def _line(case: Case, rows: list[dict[str, Any]]) -> Line:
    n_rounds = len(rows[0]["times_ps"])
    slowest = [max(row["times_ps"][i] for row in rows) for i in range(n_rounds)]
    size = rows[0]["n_bytes"]
    up = max(row["sent_bytes"] for row in rows) // n_rounds
    return Line(
        case,
        size,
        sum(slowest) // n_rounds,
        sum(row["n_wrong"] for row in rows),
        len({row["digest"] for row in rows if row["digest"]}) <= 1,
        up * 1_000_000 // max(rows[0]["array_bytes"], 1),
        sum(row["sent_again"] for row in rows),
        n_slots=2 * rows[0]["window"],
        n_refused=rows[0]["shrunk"],
        at_host=bool(rows[0]["host_root"]),
    )


def _run(
    fabric: Fabric,
    members: Sequence[str],
    rank: int,
    cases: Iterable[Case],
    rounds: int,
    seed: int,
    group: int,
) -> list[dict[str, Any]]:
    warnings.filterwarnings("ignore", "no BFR has slots|.* has no BFR", RuntimeWarning)
    comm = FabricCommunicator(fabric, members, rank, group=group)
    try:
        return [_one(comm, case, rounds, seed) for case in cases]
    finally:
        comm.close()


def _one(comm: FabricCommunicator, case: Case, rounds: int, seed: int) -> dict[str, Any]:
    """Time one case, the first round not counted; check the last."""
    kind = "bfloat16" if case.kind == "bfloat16" else ""
    is_shared = case.collective in SHARED
    must_see = not is_shared or comm.rank == 0
    mine = draw(case, comm.rank, seed)
    times, before, out = [], comm.counters(), mine
    for turn in range(rounds + 1):
        array = mine.copy()
        out = room_of(case, array, comm.size)
        comm.barrier().wait()
        if turn == 1:
            before = comm.counters()
        began = now_ps()
        start(comm, case, out, array, kind).wait()
        if turn:
            times.append(now_ps() - began)
    after = comm.counters()
    every = [draw(case, r, seed) for r in range(comm.size)] if must_see else []
    return {
        "times_ps": times,
        "n_bytes": max(out.nbytes, mine.nbytes),
        "array_bytes": mine.nbytes,
        "n_wrong": n_wrong(case, every, out, comm.rank) if must_see else 0,
        "digest": blake2b(out.tobytes(), digest_size=8).hexdigest() if is_shared else "",
        "sent_bytes": after["sent_bytes"] - before["sent_bytes"],
        "sent_again": after["sent_again"] - before["sent_again"],
        **{word: after[word] for word in ("window", "shrunk", "host_root")},
    }


def room_of(case: Case, array: Array, n_ranks: int) -> Array:
    """Where the result goes."""
    match case.collective:
        case "all_gather" | "gather":
            return np.zeros(array.size * n_ranks, array.dtype)
        case "reduce_scatter" | "scatter":
            return np.zeros(array.size // n_ranks, array.dtype)
        case "all_to_all" | "send":
            return np.zeros_like(array)
        case _:
            return array


def start(comm: FabricCommunicator, case: Case, out: Array, array: Array, kind: str) -> Any:
    """Begin one operation."""
    op, part = OPS[case.op], array[: array.size // comm.size * comm.size]
    match case.collective:
        case "all_reduce":
            return comm.all_reduce(array, op, kind=kind)
        case "reduce":
            return comm.reduce(array, 0, op, kind=kind)
        case "reduce_scatter":
            return comm.reduce_scatter(out, part, op, kind=kind)
        case _:
            return _move(comm, case.collective, out, array, part)


def _move(
    comm: FabricCommunicator, collective: str, out: Array, array: Array, part: Array
) -> Any:
    """Begin what has no operator; ``send``: each rank to the next one."""
    match collective:
        case "broadcast":
            return comm.broadcast(array, 0)
        case "all_gather":
            return comm.all_gather(out, array)
        case "gather":
            return comm.gather(out, array, 0)
        case "scatter":
            return comm.scatter(out, part, 0)
        case "send":
            sent = comm.send(array, (comm.rank + 1) % comm.size)
            comm.recv(out, (comm.rank - 1) % comm.size).wait()
            return sent
        case _:
            return comm.all_to_all(out[: part.size], part)
