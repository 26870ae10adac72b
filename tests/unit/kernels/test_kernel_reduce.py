"""Arrays joined by kernels against numpy, Python's integers and exact fractions."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fanfold.kernels import reduce as r
from fanfold.kernels import words

POW2 = r.build_pow2()
N = 192
Array = NDArray[Any]
KINDS = {
    "float32": (r.KIND_F32, np.float32),
    "float64": (r.KIND_F64, np.float64),
    "float16": (r.KIND_F16, np.float16),
    "bfloat16": (r.KIND_BF16, np.uint16),
    "int32": (r.KIND_I32, np.int32),
    "int64": (r.KIND_I64, np.int64),
}


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def bf16(values: Array) -> Array:
    """Nearest bfloat16, ties to even, by Python's integers."""
    found = []
    for b in values.astype(np.float32).view(np.uint32).tolist():
        low, high = b & 0xFFFF, b >> 16
        found.append(high + (low > 0x8000 or (low == 0x8000 and high & 1 == 1)))
    return np.array(found, np.uint16)


def floats_of(kind: str, array: Array) -> Array:
    if kind == "bfloat16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array


def draw(kind: str, n: int, seed: int) -> Array:
    random = rng(seed)
    if kind.startswith("int"):
        return random.integers(-(2**20), 2**20, n).astype(KINDS[kind][1])
    values = random.standard_normal(n) * np.exp2(random.integers(-10, 10, n))
    return bf16(values) if kind == "bfloat16" else values.astype(KINDS[kind][1])


def fold(kind: str, op: int, arrays: list[Array], share: float = 1.0) -> tuple[Array, int, int]:
    """What the fabric does with one block: agree, pack, join in the given order, unpack."""
    code_kind = KINDS[kind][0]
    wide = np.zeros(16 * N, np.uint8)
    code = 0
    if words.is_fixed(code_kind, op):
        code = max(
            int(words.code_of_block(code_kind, a.view(np.uint8), wide)) & 0xFFFF for a in arrays
        )
    width = r.WORD_BYTES_OF[words.word_of_kind(code_kind, op)]
    n_bytes = width * (arrays[0].nbytes if width == 1 else arrays[0].size)
    packed = []
    for a in arrays:
        out = np.zeros(n_bytes, np.uint8)
        words.pack_block(code_kind, op, len(arrays), code, a.view(np.uint8), out, wide, POW2)
        packed.append(out)
    acc, over = packed[0], 0
    for other in packed[1:]:
        over |= r.join(op, words.word_of_kind(code_kind, op), acc, other)
    result = np.zeros_like(arrays[0])
    words.unpack_block(
        code_kind,
        op,
        len(arrays),
        code,
        acc,
        result.view(np.uint8),
        wide,
        POW2,
        np.float64(share),
    )
    return result, over, code


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_ranks", [1, 2, 7, 40])
def test_a_sum_has_the_same_bits_in_any_order_and_its_error_is_bounded(
    kind: str, n_ranks: int
) -> None:
    arrays = [draw(kind, N, seed) for seed in range(n_ranks)]
    result, over, code = fold(kind, r.OP_SUM, arrays)
    for seed in range(5):
        order = rng(seed).permutation(n_ranks)
        again, _, _ = fold(kind, r.OP_SUM, [arrays[i] for i in order])
        assert again.tobytes() == result.tobytes()
    assert over == 0
    values = [floats_of(kind, a) for a in arrays]
    got = floats_of(kind, result)
    unit = Fraction(0)
    if not kind.startswith("int"):
        number = KINDS[kind][0] if kind == "float64" else r.KIND_F32
        unit = Fraction(2) ** -int(r.shift_of(number, code, n_ranks))
    last = {"float16": 2**-10, "bfloat16": 2**-7, "float32": 2**-23, "float64": 2**-52}
    for i in range(N):
        exact = sum(Fraction(float(v[i])) for v in values)
        bound = n_ranks * unit / 2 + abs(exact) * Fraction(last.get(kind, 0))
        least = Fraction(2) ** -25 if kind == "float16" else Fraction(0)
        assert abs(Fraction(float(got[i])) - exact) <= bound + least


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("op", "join"), [(r.OP_MIN, np.minimum), (r.OP_MAX, np.maximum)])
def test_smallest_and_largest_are_numpys(kind: str, op: int, join: Any) -> None:
    arrays = [draw(kind, N, seed) for seed in range(4)]
    if not kind.startswith("int"):
        arrays[1][3] = 0x7FC0 if kind == "bfloat16" else np.nan
        arrays[2][5] = 0xFF80 if kind == "bfloat16" else -np.inf
        arrays[3][7] = 0x7F80 if kind == "bfloat16" else np.inf
    result, _, _ = fold(kind, op, arrays)
    want = floats_of(kind, arrays[0])
    for other in arrays[1:]:
        want = join(want, floats_of(kind, other))
    np.testing.assert_array_equal(floats_of(kind, result), want)


@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize("op", [r.OP_SUM, r.OP_PRODUCT])
@pytest.mark.parametrize("case", ["fits", "top", "bottom", "far"])
def test_integers_wrap_and_say_so(kind: str, op: int, case: str) -> None:
    n_bits = 32 if kind == "int32" else 64
    top = 2 ** (n_bits - 1) - 1
    a, b = {
        "fits": ([3, -top - 1, top, -1], [4, 1, 1 if op else 0, top]),
        "top": ([top], [2 if op else 1]),
        "bottom": ([-top - 1], [-1]),
        "far": ([top, -top], [top, -top]),
    }[case]
    left, right = np.array(a, KINDS[kind][1]), np.array(b, KINDS[kind][1])
    result, over, _ = fold(kind, op, [left, right])
    exact = [x * y if op else x + y for x, y in zip(a, b, strict=True)]
    wrapped = [(x + top + 1) % 2**n_bits - top - 1 for x in exact]
    assert result.tolist() == wrapped
    assert over == int(exact != wrapped)


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "bfloat16"])
def test_what_is_not_finite_is_noticed_and_left_out(kind: str) -> None:
    array = draw(kind, N, 1)
    wide = np.zeros(16 * N, np.uint8)
    clean = words.code_of_block(KINDS[kind][0], array.view(np.uint8), wide)
    assert clean < words.NOT_FINITE
    for bad in (np.nan, np.inf, -np.inf):
        spoiled = array.copy()
        spoiled[9] = bf16(np.array([bad]))[0] if kind == "bfloat16" else bad
        code = words.code_of_block(KINDS[kind][0], spoiled.view(np.uint8), wide)
        assert code & words.NOT_FINITE
        result, _, _ = fold(kind, r.OP_SUM, [spoiled, array])
        got, want = floats_of(kind, result), floats_of(kind, array)
        assert got[9] == pytest.approx(want[9], rel=1e-2)
        assert np.isfinite(got).all()


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("n_ranks", [2, 3, 64, 1000])
def test_the_largest_values_of_all_ranks_do_not_overflow(kind: str, n_ranks: int) -> None:
    value = np.nextafter(KINDS[kind][1](1024), KINDS[kind][1](0))
    for sign in (1, -1):
        array = np.full(4, sign * value)
        result, over, _ = fold(kind, r.OP_SUM, [array] * n_ranks)
        assert over == 0
        np.testing.assert_allclose(result, n_ranks * array.astype(np.float64), rtol=1e-5)


def test_extremes_of_the_exponent() -> None:
    for kind, dtype in (("float32", np.float32), ("float64", np.float64)):
        info = np.finfo(dtype)
        for value in (info.max, info.tiny, info.smallest_subnormal, 0.0):
            array = np.full(N, value, dtype)
            result, over, _ = fold(kind, r.OP_SUM, [array, -array, array])
            assert over == 0
            least = 2.0**-900 if kind == "float64" else 0.0
            np.testing.assert_allclose(result, array, rtol=1e-6, atol=least)


def test_every_float16_and_every_rounding_of_it() -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    wide = np.zeros(1 << 16, np.uint32)
    r.widen(r.KIND_F16, every, wide)
    want = every.view(np.float16).astype(np.float32)
    np.testing.assert_array_equal(wide.view(np.float32), want)
    back = np.zeros_like(every)
    for step in (-1, 0, 1, 0xFFF, 0x1000, 0x1001):
        near = (wide.astype(np.int64) + step).clip(0, 2**32 - 1).astype(np.uint32)
        r.narrow(r.KIND_F16, near, back)
        with np.errstate(over="ignore", invalid="ignore"):
            rounded = near.view(np.float32).astype(np.float16)
        np.testing.assert_array_equal(back.view(np.float16), rounded)


def test_bfloat16_rounds_to_even() -> None:
    bits = rng(3).integers(0, 0x7F80_0000, 4096).astype(np.uint32)
    bits[:3] = 0x3F808000, 0x3F818000, 0x3F818001
    got = np.zeros(bits.size, np.uint16)
    r.narrow(r.KIND_BF16, bits, got)
    assert got.tolist() == bf16(bits.view(np.float32)).tolist()


def test_bytes_are_moved() -> None:
    data = rng(2).integers(0, 256, 4 * N + 3).astype(np.uint8)
    acc = np.zeros_like(data)
    assert r.join(r.OP_MOVE, r.WORD_BYTES, acc, data) == 0
    assert acc.tobytes() == data.tobytes()


@pytest.mark.parametrize(
    ("op", "join"),
    [
        (r.OP_SUM, np.add),
        (r.OP_PRODUCT, np.multiply),
        (r.OP_MIN, np.minimum),
        (r.OP_MAX, np.maximum),
    ],
)
def test_floats_in_a_fixed_order_are_numpys(op: int, join: Any) -> None:
    a, b = rng(5).standard_normal(N), rng(6).standard_normal(N)
    a[1] = b[2] = np.nan
    want = join(a, b)
    r.join_floats(op, a, b)
    np.testing.assert_array_equal(a, want)
