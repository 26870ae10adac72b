"""Sums with an exponent for each value: any order, any magnitudes, against exact fractions."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fanfold.kernels import reduce as r
from fanfold.kernels import words

Array = NDArray[Any]
KINDS = {
    "float32": (r.KIND_F32, np.float32, 24, 149),
    "float64": (r.KIND_F64, np.float64, 53, 1074),
    "float16": (r.KIND_F16, np.float16, 11, 24),
    "bfloat16": (r.KIND_BF16, np.uint16, 8, 133),
}
"""Kernel's kind, array, bits of a significand, smallest step as a power of 1/2."""
MEAN = np.float64(1) / 3


def floats_of(kind: str, array: Array) -> Array:
    if kind == "bfloat16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array


def of_bits(kind: str, bits: list[list[int]]) -> list[Array]:
    width = 8 * np.dtype(KINDS[kind][1]).itemsize
    raw = np.array(bits, np.uint64) & np.uint64((1 << width) - 1)
    return [row.astype(f"uint{width}").view(KINDS[kind][1]) for row in raw]


def form(kind: str) -> tuple[int, int]:
    """Word and bytes of a code."""
    return (r.WORD_FIX64, 2) if kind == "float64" else (r.WORD_FIX32, 1)


def fold(kind: str, arrays: list[Array], order: list[int], share: float = 1.0) -> Array:
    """Agree, pack, join in an order, unpack: what the fabric does with a block."""
    number, (word, width) = KINDS[kind][0], form(kind)
    n = arrays[0].size
    wide = np.zeros(4 * 8192, np.uint8)
    agreed = np.zeros(n * width, np.uint8)
    for i in order:
        own = np.zeros(n * width, np.uint8)
        words.code_values(number, arrays[i].view(np.uint8), own, wide)
        r.join_codes(word, agreed, own)
    acc = np.zeros(n * r.WORD_BYTES_OF[word], np.uint8)
    result = np.zeros_like(arrays[0])
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):  # without JIT
        for i in order:
            out = np.zeros_like(acc)
            own = arrays[i].view(np.uint8)
            words.pack_values(number, len(arrays), agreed, own, out, wide)
            assert r.join(r.OP_SUM, word, acc, out) == 0, "a sum outgrew its words"
        raw = result.view(np.uint8)
        words.unpack_values(number, len(arrays), agreed, acc, raw, wide, np.float64(share))
    return result


def error_bound(kind: str, terms: list[Fraction]) -> Fraction:
    """docs/torch.md: (1 + n n' / 64) 2**-24 of the sum of sizes; n' the next power of two.

    For float64 512 stands for 64, and 2**-53 for 2**-24. 16-bit kinds are summed as float32 and
    then rounded to their own bits.
    """
    n = len(terms)
    part, unit = (512, Fraction(2) ** -53) if kind == "float64" else (64, Fraction(2) ** -24)
    worst = (1 + Fraction(n * (1 << (n - 1).bit_length()), part)) * unit
    if kind in ("float16", "bfloat16"):
        worst += Fraction(2) ** -KINDS[kind][2] * (1 + unit)
    return worst * sum(map(abs, terms)) + Fraction(2) ** -KINDS[kind][3]


def ranks_of(kind: str) -> Any:
    """Bits of a few values of 1 to 64 ranks, with many that are special."""
    width = 8 * np.dtype(KINDS[kind][1]).itemsize
    sign, part = 1 << (width - 1), (1 << (KINDS[kind][2] - 1)) - 1
    special = st.sampled_from([0, sign, 1, sign | 1, part, part + 1, sign | part])
    value = st.one_of(special, st.integers(0, (1 << width) - 1))
    n_values = 4
    row = st.lists(value, min_size=n_values, max_size=n_values)
    return st.lists(row, min_size=1, max_size=64)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60)
@given(data=st.data())
def test_an_error_is_within_rounding_of_the_values_own_sum_in_any_order(
    kind: str, data: st.DataObject
) -> None:
    arrays = of_bits(kind, data.draw(ranks_of(kind)))
    for a in arrays:
        a[~np.isfinite(floats_of(kind, a))] = 0
    order = data.draw(st.permutations(range(len(arrays))))
    got = fold(kind, arrays, order)
    assert fold(kind, arrays, sorted(order)).tobytes() == got.tobytes()
    values = [floats_of(kind, a) for a in arrays]
    for j, found in enumerate(floats_of(kind, got).tolist()):
        terms = [Fraction(float(v[j])) for v in values]
        exact = sum(terms)
        if np.isinf(found):
            info = np.finfo(np.float32 if kind == "bfloat16" else KINDS[kind][1])
            edge = Fraction(float(info.max)) * (1 - Fraction(2) ** -KINDS[kind][2])
            assert abs(exact) >= edge
            continue
        assert abs(Fraction(found) - exact) <= error_bound(kind, terms)


@pytest.mark.parametrize("kind", ["float32", "float64", "float16"])
def test_no_magnitude_beside_a_value_takes_its_bits(kind: str) -> None:
    dtype = KINDS[kind][1]
    info = np.finfo(dtype)
    small, large = float(info.tiny), float(info.max) / 8
    arrays = [
        np.array([large * (i == 0), 1.5, small, info.smallest_subnormal, 1.0], dtype)
        for i in range(4)
    ]
    arrays[1][4] = small
    got = fold(kind, arrays, [3, 1, 0, 2])
    least = 4 * float(info.smallest_subnormal)
    assert got[:4].tolist() == [dtype(large), 6.0, 4 * small, least]
    assert got[4] == 3.0


@pytest.mark.parametrize("kind", KINDS)
def test_minus_zero_is_the_sum_of_minus_zeros_only(kind: str) -> None:
    top = 1 << (8 * np.dtype(KINDS[kind][1]).itemsize - 1)
    zeros = of_bits(kind, [[top, top, 0, top, 0], [top, 0, 0, top, top], [top, top, 0, 1, 0]])
    got = floats_of(kind, fold(kind, zeros, [2, 0, 1]))
    assert np.signbit(got).tolist() == [True, False, False, False, False]
    assert (got[:3] == 0).all()
    assert got[3] > 0
    one = floats_of(kind, fold(kind, of_bits(kind, [[top], [top]]), [0, 1], 0.5))
    assert np.signbit(one).tolist() == [True]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_finite_is_told_and_disturbs_nobody(kind: str) -> None:
    number, width = KINDS[kind][0], form(kind)[1]
    clean = of_bits(kind, [[0x3C00] * 4, [0x4000] * 4])
    wide = np.zeros(4 * 8192, np.uint8)
    codes = np.zeros(4 * width, np.uint8)
    assert words.code_values(number, clean[0].view(np.uint8), codes, wide) == 0
    want = fold(kind, clean, [0, 1])
    width_bits = 8 * clean[0].itemsize
    top = {"bfloat16": 0x7F80, "float16": 0x7C00}.get(kind, 0)
    top = top or {"float32": 0x7F800000, "float64": 0x7FF << 52}[kind]
    for bits in (top, top | 1, top | 1 << (width_bits - 1)):
        bad = [clean[0].copy(), clean[1]]
        bad[0][2] = of_bits(kind, [[bits]])[0][0]
        raw = bad[0].view(np.uint8)
        assert words.code_values(number, raw, codes, wide) == words.NOT_FINITE
        got = floats_of(kind, fold(kind, bad, [1, 0]))
        alone = floats_of(kind, clean[1])
        assert got[2] == alone[2]
        assert got[[0, 1, 3]].tolist() == floats_of(kind, want)[[0, 1, 3]].tolist()


def test_sums_past_the_largest_value_are_infinite_and_means_are_not() -> None:
    for kind, dtype in (("float32", np.float32), ("float64", np.float64)):
        large = np.full(3, np.finfo(dtype).max)
        assert fold(kind, [large, large], [0, 1]).tolist() == [np.inf] * 3
        assert fold(kind, [-large, -large], [0, 1]).tolist() == [-np.inf] * 3
        assert fold(kind, [large, -large, large], [2, 0, 1]).tolist() == large.tolist()
        mean = fold(kind, [large, large, large], [0, 1, 2], float(MEAN))
        assert np.allclose(mean, large, rtol=1e-6)


def test_a_block_format_counts_what_became_zero() -> None:
    wide, pow2 = np.zeros(4 * 8192, np.uint8), r.build_pow2()
    for kind in ("float32", "bfloat16"):
        values = np.array([1e10, 1.5, 0.0, -1e-9, np.inf, 1.0], np.float32)
        if kind == "bfloat16":
            values = (values.view(np.uint32) >> 16).astype(np.uint16)
        number, raw = KINDS[kind][0], values.view(np.uint8)
        code = words.code_of_block(number, raw, wide) & 0xFFFF
        out = np.zeros(24, np.uint8)
        words.pack_block(number, r.OP_SUM, 4, code, raw, out, wide, pow2)
        assert words.count_flushed(number, raw, out) == 3
        again = np.zeros_like(out)
        agreed = np.zeros(6, np.uint8)
        words.code_values(number, raw, agreed, wide)
        words.pack_values(number, 4, agreed, raw, again, wide)
        assert words.count_flushed(number, raw, again) == 0
