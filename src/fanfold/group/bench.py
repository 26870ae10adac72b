"""A sweep over sizes, kinds and operators on a live fabric, each rank a process of its own.

As nccl-tests count: algorithm bandwidth is bytes of the array by the time of the slowest rank;
bus bandwidth is what a ring would have had to carry for it, so that collectives compare.
"""

import json
import os
import signal
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import CheckFailed, EnvironmentLack, FanfoldError
from fanfold.group.communicator import Op
from fanfold.group.fabric import FabricCommunicator
from fanfold.kernels import reduce as r
from fanfold.live.clock import now_ps
from fanfold.live.syscalls import end_with_parent
from fanfold.streams import stream
from fanfold.topo.fabric import Fabric
from fanfold.units import PS_PER_SECOND

COLLECTIVES = (
    "all_reduce",
    "broadcast",
    "all_gather",
    "reduce_scatter",
    "reduce",
    "all_to_all",
)
KINDS = ("float32", "float64", "bfloat16", "float16", "int32", "int64")
OPS = {"sum": Op.SUM, "prod": Op.PRODUCT, "min": Op.MIN, "max": Op.MAX, "avg": Op.AVG}
EXACT = {"float32": 24, "float64": 53, "bfloat16": 8, "float16": 11}
"""Bits of a significand."""

DIED = b'{"error": "a rank died", "cause": "failed"}'
CAUSES: dict[str, type[FanfoldError]] = {
    "failed": CheckFailed,
    "lack": EnvironmentLack,
    "unexpected": FanfoldError,
}

Array = NDArray[Any]


class Case(NamedTuple):
    """One line of the sweep."""

    collective: str
    kind: str
    op: str
    n_values: int


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
) -> list[Line]:
    """Run all cases with one process for each rank; none outlives this one.

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
                _be_rank(fabric, members, rank, cases, rounds, seed, group, write)
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
    cases: Sequence[Case],
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
    cases: Sequence[Case],
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
    every = [draw(case, r, seed) for r in range(comm.size)]
    times, before, out = [], comm.counters(), every[comm.rank]
    for turn in range(rounds + 1):
        array = every[comm.rank].copy()
        out = room_of(case, array, comm.size)
        comm.barrier().wait()
        if turn == 1:
            before = comm.counters()
        began = now_ps()
        start(comm, case, out, array, kind).wait()
        if turn:
            times.append(now_ps() - began)
    after = comm.counters()
    wrong, shared = check(case, every, out, comm.rank)
    return {
        "times_ps": times,
        "n_bytes": max(out.nbytes, every[0].nbytes),
        "array_bytes": every[0].nbytes,
        "n_wrong": wrong,
        "digest": blake2b(out.tobytes(), digest_size=8).hexdigest() if shared else "",
        "sent_bytes": after["sent_bytes"] - before["sent_bytes"],
        "sent_again": after["sent_again"] - before["sent_again"],
    }


def draw(case: Case, rank: int, seed: int) -> Array:
    """Values of one rank."""
    random = stream(seed, f"reduce-bench/{case.kind}/{case.n_values}/{rank}")
    if case.kind.startswith("int"):
        return random.integers(-1000, 1000, case.n_values).astype(case.kind)
    values = random.standard_normal(case.n_values)
    if case.kind != "bfloat16":
        return values.astype(case.kind)
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def room_of(case: Case, array: Array, n_ranks: int) -> Array:
    """Where the result goes."""
    if case.collective == "all_gather":
        return np.zeros(array.size * n_ranks, array.dtype)
    if case.collective == "reduce_scatter":
        return np.zeros(array.size // n_ranks, array.dtype)
    return np.zeros_like(array) if case.collective == "all_to_all" else array


def start(comm: FabricCommunicator, case: Case, out: Array, array: Array, kind: str) -> Any:
    """Begin one operation."""
    op = OPS[case.op]
    match case.collective:
        case "all_reduce":
            return comm.all_reduce(array, op, kind=kind)
        case "reduce":
            return comm.reduce(array, 0, op, kind=kind)
        case "reduce_scatter":
            part = array[: array.size // comm.size * comm.size]
            return comm.reduce_scatter(out, part, op, kind=kind)
        case "broadcast":
            return comm.broadcast(array, 0)
        case "all_gather":
            return comm.all_gather(out, array)
        case _:
            n = array.size // comm.size * comm.size
            return comm.all_to_all(out[:n], array[:n])


def check(case: Case, every: list[Array], out: Array, rank: int) -> tuple[int, bool]:
    """Values that are wrong, and whether all ranks should have the same."""
    n = len(every)
    part = every[0].size // n
    match case.collective:
        case "broadcast":
            return int((out != every[0]).sum()), True
        case "all_gather":
            return int((out != np.concatenate(every)).sum()), True
        case "all_to_all":
            mine = [a[rank * part : (rank + 1) * part] for a in every]
            return int((out[: part * n] != np.concatenate(mine)).sum()), False
        case "reduce" if rank != 0:
            return int((out != every[rank]).sum()), False
        case "reduce_scatter":
            every = [a[rank * part : (rank + 1) * part] for a in every]
        case _:
            pass
    return n_wrong(case, every, out), case.collective == "all_reduce"


def n_wrong(case: Case, every: list[Array], out: Array) -> int:
    """Values that differ from numpy's, for sums of floats by more than the bound."""
    if case.kind.startswith("int"):
        want = every[0].copy()
        for other in every[1:]:
            want = _joined(case.op, want, other)
        if case.op == "avg":
            want //= len(every)
        return int((out != want).sum())
    values = [_wide(case.kind, a) for a in every]
    got = _wide(case.kind, out)
    stack = np.stack(values).astype(np.longdouble)  # what it is held against must not round
    want = _joined_all(case.op, stack)
    share = 1 / len(every) if case.op == "avg" else 1.0
    last = np.abs(want * share) * 2.0 ** (1 - EXACT[case.kind])
    if case.op in ("sum", "avg"):
        last = last + share * _bound(case.kind, stack)
    if case.op == "prod":
        last = last * len(every)
    least = 2.0**-24 if case.kind == "float16" else 0.0
    return int((np.abs(got - want * share) > last + least).sum())


def _joined(op: str, a: Array, b: Array) -> Array:
    match op:
        case "prod":
            return np.multiply(a, b)
        case "min":
            return np.minimum(a, b)
        case "max":
            return np.maximum(a, b)
        case _:
            return np.add(a, b)


def _joined_all(op: str, stack: Array) -> Array:
    match op:
        case "prod":
            return np.asarray(stack.prod(0))
        case "min":
            return np.asarray(stack.min(0))
        case "max":
            return np.asarray(stack.max(0))
        case _:
            return np.asarray(stack.sum(0))


def _wide(kind: str, array: Array) -> Array:
    if kind == "bfloat16":
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float64)


def _bound(kind: str, stack: Array) -> float:
    """Error of a sum in fixed-point: half a unit for each rank (ADR 0022)."""
    if not stack.size:
        return 0.0
    number = r.KIND_F64 if kind == "float64" else r.KIND_F32
    top = int(np.frexp(np.abs(stack).max())[1])
    code = top + (1022 if kind == "float64" else 126)
    return float(len(stack) / 2 * 2.0 ** -int(r.shift_of(number, code, len(stack))))
