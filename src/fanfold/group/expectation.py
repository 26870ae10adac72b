"""What a collective must leave on a rank, worked out by numpy from the ranks' values.

Integers are equal, floats that are only moved or compared too. Sums of floats are within the
bound of ADR 0033 and one rounding, products within one rounding for each rank.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.kernels.fixed import room_of
from fanfold.kernels.reduce import MOST_NARROW
from fanfold.streams import stream

EXACT = {"float32": 24, "float64": 53, "bfloat16": 8, "float16": 11}
"""Bits of a significand."""
PIECE = 1 << 20
"""Values that are looked at at once."""
SHARED = ("all_reduce", "broadcast", "all_gather")
"""Collectives that leave the same bytes on every rank: numpy looks at those of rank 0."""

JOINED = ("all_reduce", "reduce_scatter", "reduce")
"""Collectives that have an operator."""

Array = NDArray[Any]


class Case(NamedTuple):
    """One line of the sweep; n_values: of the array of each rank."""

    collective: str
    kind: str
    op: str
    n_values: int


def draw(case: Case, rank: int, seed: int) -> Array:
    """Values of one rank."""
    random = stream(seed, f"reduce-bench/{case.kind}/{case.n_values}/{rank}")
    if case.kind.startswith("int"):
        return random.integers(-1000, 1000, case.n_values).astype(case.kind)
    values = random.standard_normal(case.n_values)
    if case.kind != "bfloat16":
        return values.astype(case.kind)
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def n_wrong(case: Case, every: list[Array], out: Array, rank: int) -> int:
    """Values of a rank's result that are not what they should be.

    Args:
        every: arrays of all ranks, as they were before.
    """
    is_kept = case.collective == "reduce" and rank != 0
    if case.collective not in JOINED or is_kept:
        return differ(out, _moved(case.collective, every, rank))
    n = len(every)
    if case.collective == "reduce_scatter":
        every = [_part(a, rank, n) for a in every]
    if case.kind.startswith("int"):
        return differ(out, _joined_whole(case.op, every))
    pieces = [slice(at, at + PIECE) for at in range(0, out.size, PIECE)]
    return sum(_n_off(case, [a[p] for a in every], out[p]) for p in pieces)


def _moved(collective: str, every: list[Array], rank: int) -> Array:
    """What is only moved, or stays as it was."""
    n, own = len(every), every[rank]
    match collective:
        case "broadcast":
            return every[0]
        case "scatter":
            return _part(every[0], rank, n)
        case "send":
            return every[rank - 1]
        case "all_to_all":
            rest = np.zeros(own.size % n, own.dtype)  # what no rank has a part of
            return np.concatenate([*(_part(a, rank, n) for a in every), rest])
        case "reduce":
            return own
        case _:
            whole = np.concatenate(every)
            return whole if collective == "all_gather" or rank == 0 else np.zeros_like(whole)


def _part(array: Array, rank: int, n: int) -> Array:
    part = array.size // n
    return array[rank * part : (rank + 1) * part]


def differ(got: Array, want: Array) -> int:
    """Values that are not equal; all of them where there are not as many."""
    return int((got != want).sum()) if got.shape == want.shape else max(got.size, want.size)


def _n_off(case: Case, every: list[Array], out: Array) -> int:
    wide = np.longdouble if case.kind == "float64" else np.float64  # it must not round itself
    stack = np.stack([_wide(case.kind, a) for a in every]).astype(wide)
    share = 1 / len(every) if case.op == "avg" else 1.0
    want = _joined(case.op, stack) * share
    last = np.zeros_like(want)
    if case.op == "prod":
        last = _slack_of_product(case.kind, stack)
    elif case.op not in ("min", "max"):
        worst = bound(case.kind, np.abs(stack).max(axis=0), len(every))
        last = np.abs(want) * 2.0 ** (1 - EXACT[case.kind]) + share * worst
        last = last + (2.0**-24 if case.kind == "float16" else 0.0)
    return int((~(np.abs(_wide(case.kind, out) - want) <= last)).sum())


def _slack_of_product(kind: str, stack: Array) -> Array:
    """Error of products rounded after each rank; later factors enlarge what is there."""
    least = 2.0**-25 if kind == "float16" else 0.0  # half of its smallest step
    product: Array = stack[0]
    slack: Array = np.zeros_like(product)
    for row in stack[1:]:
        product = product * row
        slack = slack * np.abs(row) + np.abs(product) * 2.0 ** (1 - EXACT[kind]) + least
    return slack


def _joined_whole(op: str, every: list[Array]) -> Array:
    """Integers, which wrap; a mean rounds down."""
    want = _joined(op, np.stack(every))
    return want // len(every) if op == "avg" else want


def _joined(op: str, stack: Array) -> Array:
    joins = {"prod": np.multiply, "min": np.minimum, "max": np.maximum}
    return np.asarray(joins.get(op, np.add).reduce(stack, axis=0, dtype=stack.dtype))


def _wide(kind: str, array: Array) -> Array:
    if kind == "bfloat16":
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float64)


def bound(kind: str, largest: Array, n_ranks: int) -> Array:
    """Error of sums in fixed-point: half a unit for each rank (ADR 0033).

    Args:
        largest: of the sizes of each sum's terms.
    """
    is_long = kind == "float64" or n_ranks > MOST_NARROW
    shift = (62 if is_long else 30) - int(room_of(n_ranks)) - np.frexp(largest)[1]
    return np.asarray(np.ldexp(n_ranks / 2, -shift))
