"""What a collective must leave: every operator and kind in exact numbers, and faults seen."""

from fractions import Fraction
from functools import reduce

import numpy as np
import pytest

from fanfold.group.bench import COLLECTIVES, KINDS, OPS, room_of
from fanfold.group.expectation import JOINED, Case, draw, n_wrong

N = 4
SIZES = (0, 1, 37)


def exact(kind: str, array: np.ndarray) -> list[Fraction]:
    if kind == "bfloat16":
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return [Fraction(value) for value in array.astype(np.float64).tolist()]


def joined(case: Case, every: list[np.ndarray]) -> np.ndarray:
    """The join of all arrays in exact numbers, rounded once."""
    width = {"int32": 32, "int64": 64}.get(case.kind, 0)
    joins = {"prod": lambda a, b: a * b, "min": min, "max": max}
    rows = zip(*(exact(case.kind, a) for a in every), strict=True)
    values = [reduce(joins.get(case.op, lambda a, b: a + b), row) for row in rows]
    if case.op == "avg":
        values = [v // N if width else v / N for v in values]
    if width:
        half = 1 << (width - 1)
        return np.array([(int(v) + half) % (2 * half) - half for v in values], case.kind)
    floats = np.array([float(v) for v in values])
    if case.kind != "bfloat16":
        return floats.astype(case.kind)
    bits = floats.astype(np.float32).view(np.uint32).astype(np.int64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_values", SIZES)
def test_the_exact_join_is_right_and_a_rank_counted_twice_is_not(
    kind: str, op: str, n_values: int
) -> None:
    case = Case("all_reduce", kind, op, n_values)
    every = [draw(case, rank, 1) for rank in range(N)]
    assert n_wrong(case, every, joined(case, every), 0) == 0
    if n_values and op == "sum":
        twice = joined(case, [*every, every[0]])
        n_changed = int((twice != joined(case, every)).sum())
        assert n_wrong(case, every, twice, 0) == n_changed > 0


@pytest.mark.parametrize("collective", [c for c in COLLECTIVES if c not in JOINED])
@pytest.mark.parametrize("n_values", SIZES)
def test_what_is_moved_to_a_wrong_place_is_seen(collective: str, n_values: int) -> None:
    case = Case(collective, "float32", "sum", n_values)
    every = [draw(case, rank, 1) for rank in range(N)]
    nothing = room_of(case, every[1].copy(), N)
    wrong = n_wrong(case, every, nothing, 1)
    is_right = collective == "gather" or nothing.size == 0
    assert wrong == 0 if is_right else wrong >= nothing.size - N


def test_a_small_product_rounded_before_a_large_factor_is_no_fault() -> None:
    rows = [[1.5 * 2**-12] * 2, [2**-12] * 2, [1000.0] * 2]
    every = [np.array(row, np.float16) for row in rows]
    by_steps = np.float16(np.float16(every[0] * every[1]) * every[2])
    case = Case("all_reduce", "float16", "prod", 2)
    exact_product = 1.5 * 2**-24 * 1000
    assert abs(by_steps[0] - exact_product) > 0.3 * exact_product
    assert n_wrong(case, every, by_steps, 0) == 0
    assert n_wrong(case, every, by_steps * np.float16(1.5), 0) == 2
