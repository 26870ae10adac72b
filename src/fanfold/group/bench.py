"""A sweep over sizes, kinds and operators on a live fabric, each rank a process of its own.

As nccl-tests count: algorithm bandwidth is bytes of the array by the time of the slowest rank;
bus bandwidth is what a ring would have had to carry for it, so that collectives compare.
"""

import json
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from fanfold.errors import CheckFailed, EnvironmentLack, FanfoldError
from fanfold.group.communicator import Op
from fanfold.group.expectation import SHARED, Array, Case, draw, n_wrong
from fanfold.group.fabric import FabricCommunicator
from fanfold.live.clock import now_ps
from fanfold.live.syscalls import end_with_parent
from fanfold.topo.fabric import Fabric
from fanfold.units import PS_PER_SECOND

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
DIED = b'{"error": "a rank died", "cause": "failed"}'
CAUSES: dict[str, type[FanfoldError]] = {
    "failed": CheckFailed,
    "lack": EnvironmentLack,
    "unexpected": FanfoldError,
}


class Line(NamedTuple):
    """What one case took and whether it was right.

    n_bytes: of the array that is timed. time_ps: mean over the rounds of the slowest rank.
    n_wrong: values outside the bound, over all ranks. same: all ranks have equal bytes, where
    they should. uplink_ppm: bytes that the busiest rank sent, per million of its array's.
    """

    case: Case
    n_bytes: int
    time_ps: int
    n_wrong: int
    same: bool
    uplink_ppm: int
    sent_again: int

    def bandwidth(self, n_ranks: int) -> tuple[float, float]:
        """Algorithm and bus bandwidth in bytes a second."""
        plain = self.n_bytes * PS_PER_SECOND / max(self.time_ps, 1)
        share = (n_ranks - 1) / n_ranks
        factor = {"all_reduce": 2 * share, "broadcast": 1.0, "reduce": 1.0}
        return plain, plain * factor.get(self.case.collective, share)


def sweep(
    fabric: Fabric,
    members: Sequence[str],
    cases: Sequence[Case],
    *,
    rounds: int,
    seed: int,
    group: int,
    progress: Callable[[int], None],
) -> list[Line]:
    """Run all cases with one process for each rank; none outlives this one.

    Args:
        progress: told in the process of rank 0 which case begins.

    Raises:
        FanfoldError: what a rank's process said when it failed; CheckFailed: an operation
            did, EnvironmentLack: a rank could not start.
    """
    readers, pids = [], []
    try:
        for rank in range(len(members)):
            read, write = os.pipe()
            pid = os.fork()
            if pid == 0:
                end_with_parent()
                os.close(read)
                mine = _watched(cases, progress) if rank == 0 else cases
                _be_rank(fabric, members, rank, mine, rounds, seed, group, write)
            os.close(write)
            pids.append(pid)
            readers.append(os.fdopen(read, "rb"))
        answers = [json.loads(reader.read() or DIED) for reader in readers]
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)  # it has said all, or nobody listens
            os.waitpid(pid, 0)
        for reader in readers:
            reader.close()
    for answer in answers:
        if isinstance(answer, dict):
            raise CAUSES[answer["cause"]](f"reduce-bench: {answer['error']}")
    return [_line(case, [rows[i] for rows in answers]) for i, case in enumerate(cases)]


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
    )


def _be_rank(
    fabric: Fabric,
    members: Sequence[str],
    rank: int,
    cases: Iterable[Case],
    rounds: int,
    seed: int,
    group: int,
    write: int,
) -> None:
    """Run the cases and end the process."""
    code = 1
    try:
        rows = _run(fabric, members, rank, cases, rounds, seed, group)
        _tell(write, rows)
        code = 0
    except FanfoldError as error:
        cause = "lack" if isinstance(error, EnvironmentLack) else "failed"
        _tell(write, {"error": f"rank {rank}: {error}", "cause": cause})
    except BaseException as error:  # a fork has nobody above it to tell
        text = f"rank {rank}: {type(error).__name__}: {error}"
        _tell(write, {"error": text, "cause": "unexpected"})
    finally:
        os._exit(code)


def _tell(write: int, value: Any) -> None:
    with os.fdopen(write, "wb") as file:
        file.write(json.dumps(value).encode())


def _run(
    fabric: Fabric,
    members: Sequence[str],
    rank: int,
    cases: Iterable[Case],
    rounds: int,
    seed: int,
    group: int,
) -> list[dict[str, Any]]:
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
