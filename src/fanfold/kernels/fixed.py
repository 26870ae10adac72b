"""Floats as fixed-point words with an exponent for each value (ADR 0033).

The *code* of a value says how large it is: its exponent field as it stands, but 1 where that is
0, and 0 for -0.0. Ranks agree on the largest code of each value by a fold by maximum before
they send it; each then sends round(v * 2**shift), shift by the agreed code, so that n words
cannot overflow, and integers add up to the same bits in any order. A code of 0 that all agreed
on is a sum of nothing but -0.0. What is not finite has code 1 and word 0 (words.py marks it).

32-bit words have codes of 8 bits, 64-bit words of 16 bits. Error of a sum of n values, none
above m in size, before it is rounded: n/2 units of 2**-shift each. With 32-bit words a unit is
at most m * 2**(room - 29), room = ceil(log2 n); with 64-bit words m * 2**(room - 61).

Letters: E = elements of one block.
"""

import numpy as np

from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.reduce import F32, F64, I32, U16
from fanfold.kernels.state import I64, U8, U64

BIAS_64 = 1022
"""A value with code c is below 2**(c - bias)."""
_ONE = 1023
_ONE_32 = 127
_TOP_32 = 0xFF
_TOP_64 = 0x7FF
_MAGIC = np.float64(3 << 51)
"""Adding it rounds a float64 below 2**51 to a whole number, ties to even."""
_FAR_32 = np.float32(1 << 31)
_FAR_64 = np.float64(1 << 62)
_LIMIT = np.float64(1 << 51)
_MINUS_ZERO_BITS = -(1 << 31)
_MINUS_ZERO_32 = -np.float32(0)
_MINUS_ZERO_64 = -np.float64(0)


@kernel
def room_of(n_ranks: int) -> int:
    """Bits that a sum of so many words is longer than each of them."""
    room = 0
    while 1 << room < n_ranks:
        room += 1
    return room


@kernel
def codes_f32(bits: I32, out: U8) -> int:
    """Codes of float32 values; 1 where some value is not finite, else 0.

    One thing in each loop: so all of them become vector instructions.

    Args:
        bits: of the values, (E,). out: (E,).
    """
    least, top = np.int32(0), np.uint8(0)
    for i in range(bits.shape[0]):
        out[i] = (bits[i] >> 23) & _TOP_32
    for i in range(bits.shape[0]):
        least = min(least, bits[i])
    for i in range(out.shape[0]):
        top = max(top, out[i])
    for i in range(out.shape[0]):
        code = max(out[i], np.uint8(1))
        out[i] = np.uint8(1) if code == np.uint8(_TOP_32) else code
    if least == _MINUS_ZERO_BITS:
        for i in range(bits.shape[0]):
            out[i] = 0 if bits[i] == _MINUS_ZERO_BITS else out[i]
    return 1 if top == _TOP_32 else 0


@kernel
def codes_f64(bits: I64, out: U16) -> int:
    """The same of float64 values."""
    bad = 0
    for i in range(bits.shape[0]):
        b = bits[i]
        code = (b >> 52) & _TOP_64
        bad |= 1 if code == _TOP_64 else 0
        code = 1 if code == 0 or code == _TOP_64 else code
        out[i] = 0 if b == -(1 << 63) else code
    return bad


@kernel
def fix_values_f32(src: F32, codes: U8, out: I32, room: int) -> None:
    """Float32 to words of 32 bits.

    The scale is a product of two powers of two, as it may be none of float32 itself; what falls
    below float32's normal range between them is far below half a word's last place.

    Args:
        codes: agreed ones, (E,).
    """
    lift = np.int32((_ONE_32 + 28 - room) << 23).view(np.float32)
    for i in range(src.shape[0]):
        up = np.int32(min(255 - i64(codes[i]), 254) << 23).view(np.float32)
        v = src[i] * up * lift
        out[i] = np.int32(np.rint(v)) if abs(v) < _FAR_32 else np.int32(0)


@kernel
def unfix_values_f32(src: I32, codes: U8, out: F32, room: int) -> None:
    """Words of 32 bits to float32: rounded to 24 bits, then times two powers of two."""
    lift = np.int32((_ONE_32 - 29 + room) << 23).view(np.float32)
    for i in range(src.shape[0]):
        up = np.int32(i64(codes[i]) << 23).view(np.float32)
        v = np.float32(src[i]) * lift * up
        out[i] = _MINUS_ZERO_32 if codes[i] == 0 else v


@kernel
def share_values_f32(src: I32, codes: U8, out: F32, room: int, share: np.float64) -> None:
    """The same times ``share``, 1/n for a mean, rounded once."""
    lift = share * np.int64((_ONE - 29 + room) << 52).view(np.float64)
    for i in range(src.shape[0]):
        up = np.int32(i64(codes[i]) << 23).view(np.float32)
        v = np.float32(np.float64(src[i]) * lift * np.float64(up))
        out[i] = _MINUS_ZERO_32 if codes[i] == 0 else v


@kernel
def fix_values_f64(src: F64, codes: U16, out: I64, room: int, powers: U64) -> None:
    """Float64 to words of 64 bits; the scale is a product of two: one may be no float64.

    Args:
        powers: scratch, (2 E,).
    """
    n = src.shape[0]
    for i in range(n):
        shift = 62 - room + BIAS_64 - min(i64(codes[i]), _TOP_64)
        half = shift >> 1
        powers[i] = np.uint64((_ONE + half) << 52)
        powers[n + i] = np.uint64((_ONE + shift - half) << 52)
    scale = powers.view(np.float64)
    for i in range(n):
        v = src[i] * scale[i] * scale[n + i]
        if abs(v) < _LIMIT:
            v = v + _MAGIC - _MAGIC
        out[i] = i64(v) if abs(v) <= _FAR_64 else 0


@kernel
def unfix_values_f64(
    src: I64, codes: U16, out: F64, room: int, powers: U64, share: np.float64
) -> None:
    """Words of 64 bits to float64."""
    n = src.shape[0]
    for i in range(n):
        shift = min(i64(codes[i]), _TOP_64) - BIAS_64 - 62 + room
        half = shift >> 1
        powers[i] = np.uint64((_ONE + half) << 52)
        powers[n + i] = np.uint64((_ONE + shift - half) << 52)
    scale = powers.view(np.float64)
    for i in range(n):
        v = np.float64(src[i]) * share * scale[i] * scale[n + i]
        out[i] = _MINUS_ZERO_64 if codes[i] == 0 else v
