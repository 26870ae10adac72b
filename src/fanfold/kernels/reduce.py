"""Arrays joined element by element, and floats as integers that add up exactly (ADR 0022).

What travels is an array of words: 32- or 64-bit integers to be added or multiplied, keys to be
compared, or bytes to be moved. Integers join in any order with the same result, so floats are
sent as fixed-point: all ranks agree on the largest exponent field of a block before they send
it, and each value becomes round(v * 2**shift), shift chosen so that n of them cannot overflow.

Error of a sum of n: at most n/2 units of the last place, 2**-shift each. Two's complement,
little-endian on the wire: whoever adds is little-endian. Letters: E = elements of one block.
"""

import numpy as np
from numpy.typing import NDArray

from fanfold.kernels.jit import JIT, i64, kernel
from fanfold.kernels.octets import plus, times
from fanfold.kernels.state import I64, U8, U64

I32 = NDArray[np.int32]
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
U16 = NDArray[np.uint16]
U32 = NDArray[np.uint32]
Ints = NDArray[np.signedinteger]

OP_SUM = 0
OP_PRODUCT = 1
OP_MIN = 2
OP_MAX = 3
OP_MOVE = 4
"""One rank has the bytes, the others send none; joined by OR."""

WORD_I32 = 0
WORD_I64 = 1
WORD_I16 = 2
WORD_BYTES = 3
WORD_FIX32 = 4
WORD_FIX64 = 5
"""Fixed-point with an exponent for each value before the words (fixed.py)."""
WORD_BYTES_OF = (4, 8, 2, 1, 4, 8)
CODE_BYTES_OF = (0, 0, 0, 0, 1, 2)
MOST_NARROW = 64
"""Ranks whose sums of float32 fit words of 32 bits (ADR 0033)."""

KIND_F32 = 0
KIND_F64 = 1
KIND_BF16 = 2
KIND_F16 = 3
KIND_I32 = 4
KIND_I64 = 5
KIND_BYTES = 6

POW2_ZERO = 1100
"""Index of 2**0 in the table of powers of two."""
_MAX_32 = 2**31 - 1
_MAX_64 = 2**63 - 1
_ALL_32 = 0xFFFFFFFF
_TOP_32 = 0xFF
_TOP_64 = 0x7FF
_LEAST_CODE_64 = 123
"""Smaller exponent fields count as this one: 2**shift has to be a float64 as well."""
_MAGIC = np.float64(3 << 51)
"""Adding it rounds a float64 below 2**51 to a whole number, ties to even."""
_LIMIT = np.float64(1 << 51)
_FAR = np.float64(1 << 62)
_QUIET_32 = np.int32(0x7FC00000)
_QUIET_64 = np.int64(0x7FF8 << 48)
_QUIET_16 = 0x7FC0
_QUIET_HALF = 0x7E00


def build_pow2() -> F64:
    """2**(i - POW2_ZERO) for i in 0..2 * POW2_ZERO, infinity past float64's range."""
    with np.errstate(over="ignore", under="ignore"):
        return np.ldexp(np.float64(1), np.arange(-POW2_ZERO, POW2_ZERO + 1))


# Joining words.


@kernel
def _plus_word(a: np.uint64, b: np.uint64) -> np.uint64:
    return a + b


@kernel
def _times_word(a: np.uint64, b: np.uint64) -> np.uint64:
    return a * b


plus_word = _plus_word if JIT else plus
times_word = _times_word if JIT else times
"""Modulo 2**64; without JIT an overflow would warn."""


@kernel
def join(op: int, word: int, acc: U8, src: U8) -> int:
    """Join ``src`` into ``acc``, both whole words of the same number of bytes.

    Returns:
        1 when a sum or product overflowed its words (they wrap as numpy's do), else 0.
    """
    if op == OP_MOVE:
        join_bytes(acc, src)
        return 0
    if word == WORD_I32 or word == WORD_FIX32:
        return join_i32(op, acc.view(np.int32), src.view(np.int32))
    if word == WORD_I64 or word == WORD_FIX64:
        return join_i64(op, acc.view(np.int64), src.view(np.int64))
    if word == WORD_I16:
        join_extreme(op, acc.view(np.int16), src.view(np.int16))
    elif op == OP_MAX:
        join_largest(acc, src)
    return 0


@kernel
def join_codes(word: int, acc: U8, src: U8) -> None:
    """Larger of each pair of codes, those that ``word`` has: of 16 bits, or of 8."""
    if word == WORD_FIX64:
        here, there = acc.view(np.uint16), src.view(np.uint16)
        for i in range(here.shape[0]):
            here[i] = max(here[i], there[i])
    else:
        join_largest(acc, src)


@kernel
def join_largest(acc: U8, src: U8) -> None:
    """Larger of each pair of bytes."""
    for i in range(acc.shape[0]):
        acc[i] = max(acc[i], src[i])


@kernel
def join_i32(op: int, acc: I32, src: I32) -> int:
    """Join 32-bit words; 1 when any overflowed."""
    if op == OP_SUM:
        return add_i32(acc, src)
    if op == OP_PRODUCT:
        return multiply_i32(acc, src)
    join_extreme(op, acc, src)
    return 0


@kernel
def join_i64(op: int, acc: I64, src: I64) -> int:
    """Join 64-bit words; 1 when any overflowed."""
    if op == OP_SUM:
        return add_i64(acc, src)
    if op == OP_PRODUCT:
        return multiply_i64(acc, src)
    join_extreme(op, acc, src)
    return 0


@kernel
def add_i32(acc: I32, src: I32) -> int:
    """Add; an overflow is a sum whose sign differs from that of both summands."""
    wrong = 0
    for i in range(acc.shape[0]):
        a, b = acc[i], src[i]
        total = np.int32((i64(a) + i64(b)) & _ALL_32)
        wrong |= (a ^ total) & (b ^ total)
        acc[i] = total
    return 1 if wrong < 0 else 0


@kernel
def add_i64(acc: I64, src: I64) -> int:
    """Add."""
    wrong = 0
    for i in range(acc.shape[0]):
        a, b = acc[i], src[i]
        total = i64(plus_word(np.uint64(a), np.uint64(b)))
        wrong |= (a ^ total) & (b ^ total)
        acc[i] = total
    return 1 if wrong < 0 else 0


@kernel
def multiply_i32(acc: I32, src: I32) -> int:
    """Multiply; 64 bits hold any product of two words."""
    wrong = 0
    for i in range(acc.shape[0]):
        product = i64(acc[i]) * i64(src[i])
        wrong |= 1 if product > _MAX_32 or product < -_MAX_32 - 1 else 0
        acc[i] = np.int32(product & _ALL_32)
    return wrong


@kernel
def multiply_i64(acc: I64, src: I64) -> int:
    """Multiply; whether it overflowed is seen by dividing again."""
    wrong = 0
    for i in range(acc.shape[0]):
        a, b = acc[i], src[i]
        product = i64(times_word(np.uint64(a), np.uint64(b)))
        if a == -1:
            wrong |= 1 if b == -_MAX_64 - 1 else 0
        elif a != 0:
            wrong |= 1 if product // a != b or product % a != 0 else 0
        acc[i] = product
    return wrong


@kernel
def join_extreme(op: int, acc: Ints, src: Ints) -> None:
    """Smaller or larger word of each pair."""
    if op == OP_MIN:
        for i in range(acc.shape[0]):
            acc[i] = min(acc[i], src[i])
    else:
        for i in range(acc.shape[0]):
            acc[i] = max(acc[i], src[i])


@kernel
def join_bytes(acc: U8, src: U8) -> None:
    """OR of bytes."""
    n = acc.shape[0] & ~7
    a, b = acc[:n].view(np.uint64), src[:n].view(np.uint64)
    for i in range(a.shape[0]):
        a[i] |= b[i]
    for i in range(n, acc.shape[0]):
        acc[i] |= src[i]


@kernel
def join_floats(op: int, acc: F64, src: F64) -> None:
    """Join floats as they are: the result hangs on the order, which the caller fixes."""
    for i in range(acc.shape[0]):
        a, b = acc[i], src[i]
        if op == OP_SUM:
            acc[i] = a + b
        elif op == OP_PRODUCT:
            acc[i] = a * b
        elif np.isnan(b) or (b < a if op == OP_MIN else b > a):
            acc[i] = a if np.isnan(a) else b


# Floats to words and back.


@kernel
def widen(kind: int, src: U16, out: U32) -> None:
    """16-bit floats to the bits of the same float32 values, exactly."""
    if kind == KIND_BF16:
        for i in range(src.shape[0]):
            out[i] = i64(src[i]) << 16
        return
    for i in range(src.shape[0]):
        h = i64(src[i])
        sign, code, part = (h & 0x8000) << 16, (h >> 10) & 0x1F, h & 0x3FF
        if code == 0 and part != 0:  # below float16's normal range, but not below float32's
            code = 1
            while part & 0x400 == 0:
                part <<= 1
                code -= 1
            part &= 0x3FF
            out[i] = sign | ((code + 112) << 23) | (part << 13)
        elif code == 0:
            out[i] = sign
        else:
            code = 0xFF if code == 0x1F else code + 112
            out[i] = sign | (code << 23) | (part << 13)


@kernel
def narrow(kind: int, src: U32, out: U16) -> None:
    """Bits of float32 to 16-bit floats, ties to even."""
    for i in range(src.shape[0]):
        b = i64(src[i])
        size = b & _MAX_32
        if kind == KIND_BF16:
            out[i] = _QUIET_16 if size > 0x7F800000 else (b + 0x7FFF + ((b >> 16) & 1)) >> 16
        else:
            out[i] = ((b >> 16) & 0x8000) | half_of(size)


@kernel
def half_of(size: int) -> int:
    """Bits of float16 for the bits of a float32 without its sign."""
    if size > 0x7F800000:
        return _QUIET_HALF
    if size >= 0x477FF000:  # 65520, half way between the largest float16 and what would follow
        return 0x7C00
    if size < 0x38800000:  # 2**-14: a whole multiple of 2**-24
        code = size >> 23
        drop = 126 - code
        if drop > 25:
            return 0
        part = (size & 0x7FFFFF) | 0x800000
        return (part + (1 << (drop - 1)) - 1 + ((part >> drop) & 1)) >> drop
    return (size - 0x38000000 + 0xFFF + ((size >> 13) & 1)) >> 13


@kernel
def largest_code(kind: int, bits32: U32, bits64: U64) -> int:
    """Largest exponent field among the finite values of a block.

    Args:
        bits32: of float32 values, (E,), used unless ``kind`` is KIND_F64. bits64: of float64.

    Returns:
        The field, biased as it stands. Every finite value is below 2**(field - 126), or
        2**(field - 1022) for float64. Not finite values add 1 << 16.
    """
    if kind == KIND_F64:
        return _largest_64(bits64.view(np.int64))
    found = _largest_32(bits32.view(np.int32))
    if found < 0xFF:
        return found
    best = 0
    for i in range(bits32.shape[0]):
        code = (i64(bits32[i]) >> 23) & 0xFF
        if code != 0xFF and code > best:
            best = code
    return best | (1 << 16)


@kernel
def _largest_32(bits: I32) -> int:
    best = 0
    for i in range(bits.shape[0]):
        size = i64(bits[i]) & _MAX_32
        best = size if size > best else best
    return best >> 23


@kernel
def _largest_64(bits: I64) -> int:
    best = 0
    for i in range(bits.shape[0]):
        best = max(best, bits[i] & _MAX_64)
    if best >> 52 < _TOP_64:
        return best >> 52
    best = 0
    for i in range(bits.shape[0]):
        code = (bits[i] >> 52) & _TOP_64
        if code != _TOP_64 and code > best:
            best = code
    return best | (1 << 16)


@kernel
def shift_of(kind: int, code: int, n_ranks: int) -> int:
    """Power of two that values are multiplied by; n_ranks of them stay below the sign bit.

    A code that no value has, as a peer may send one, counts as the largest.
    """
    room = 0
    while 1 << room < n_ranks:
        room += 1
    if kind == KIND_F64:
        return 62 - room - (min(max(code, _LEAST_CODE_64), _TOP_64) - 1022)
    return 30 - room - (min(code, _TOP_32) - 126)


@kernel
def fix_f32(src: F32, out: I32, scale: np.float64) -> None:
    """Float32 to fixed-point; what is not finite becomes 0."""
    for i in range(src.shape[0]):
        v = np.float64(src[i]) * scale
        out[i] = np.int32(i64(v + _MAGIC - _MAGIC)) if abs(v) < _LIMIT else np.int32(0)


@kernel
def fix_f64(src: F64, out: I64, scale: np.float64) -> None:
    """Float64 to fixed-point; what is not finite becomes 0."""
    for i in range(src.shape[0]):
        v = src[i] * scale
        if abs(v) < _LIMIT:
            v = v + _MAGIC - _MAGIC
        out[i] = i64(v) if abs(v) <= _FAR else 0


@kernel
def unfix_f32(src: I32, out: F32, scale: np.float64, share: np.float64) -> None:
    """Fixed-point to float32, each sum times ``share`` (1, or 1/n for a mean)."""
    for i in range(src.shape[0]):
        out[i] = np.float32(np.float64(src[i]) * scale * share)


@kernel
def unfix_f64(src: I64, out: F64, scale: np.float64, share: np.float64) -> None:
    """Fixed-point to float64."""
    for i in range(src.shape[0]):
        out[i] = np.float64(src[i]) * scale * share


@kernel
def key_f32(op: int, src: I32, out: I32) -> None:
    """Bits of float32 to integers in the same order; not-a-number wins every comparison."""
    worst = np.int32(_MAX_32) if op == OP_MAX else np.int32(-_MAX_32 - 1)
    for i in range(src.shape[0]):
        b = i64(src[i])
        is_nan = (b & _MAX_32) > 0x7F800000
        out[i] = worst if is_nan else np.int32(b ^ ((b >> 31) & _MAX_32))


@kernel
def unkey_f32(src: I32, out: I32) -> None:
    """The inverse of ``key_f32``."""
    for i in range(src.shape[0]):
        b = i64(src[i])
        is_nan = b == _MAX_32 or b == -_MAX_32 - 1
        out[i] = _QUIET_32 if is_nan else np.int32(b ^ ((b >> 31) & _MAX_32))


@kernel
def key_f64(op: int, src: I64, out: I64) -> None:
    """The same for float64."""
    worst = _MAX_64 if op == OP_MAX else -_MAX_64 - 1
    for i in range(src.shape[0]):
        b = src[i]
        is_nan = (b & _MAX_64) > _TOP_64 << 52
        out[i] = worst if is_nan else b ^ ((b >> 63) & _MAX_64)


@kernel
def unkey_f64(src: I64, out: I64) -> None:
    """The inverse of ``key_f64``."""
    for i in range(src.shape[0]):
        b = src[i]
        is_nan = b == _MAX_64 or b == -_MAX_64 - 1
        out[i] = _QUIET_64 if is_nan else b ^ ((b >> 63) & _MAX_64)
