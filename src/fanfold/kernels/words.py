"""A block of a rank's array to the words that travel, and a block of joined words back.

Floats that are added become fixed-point words with exponents that all ranks agreed on, one for
each value (fixed.py) or, where that was asked for, one for a block; floats that are compared
become keys; integers and bytes travel as they are (reduce.py).
"""

import numpy as np

from fanfold.kernels.fixed import (
    codes_f32,
    codes_f64,
    fix_values_f32,
    fix_values_f64,
    room_of,
    share_values_f32,
    unfix_values_f32,
    unfix_values_f64,
)
from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.octets import copy_octets
from fanfold.kernels.reduce import (
    F32,
    F64,
    I32,
    KIND_BF16,
    KIND_BYTES,
    KIND_F16,
    KIND_F32,
    KIND_F64,
    KIND_I32,
    OP_MAX,
    OP_MIN,
    OP_MOVE,
    OP_SUM,
    POW2_ZERO,
    U16,
    WORD_BYTES,
    WORD_I16,
    WORD_I32,
    WORD_I64,
    fix_f32,
    fix_f64,
    key_f32,
    key_f64,
    largest_code,
    narrow,
    shift_of,
    unfix_f32,
    unfix_f64,
    unkey_f32,
    unkey_f64,
    widen,
)
from fanfold.kernels.state import U8

NOT_FINITE = 1 << 16
MARK_PLUS = 1
MARK_MINUS = 2
MARK_NAN = 4
_MAX_16 = 0x7FFF
POWERS_AT = 8192
"""Where in the scratch of a rank the powers of two of a block begin."""


@kernel
def word_of_kind(kind: int, op: int) -> int:
    """Word that values of a kind travel in."""
    if op == OP_MOVE or kind == KIND_BYTES:
        return WORD_BYTES
    if kind == KIND_BF16 or kind == KIND_F16:
        return WORD_I32 if op == OP_SUM else WORD_I16
    return WORD_I32 if kind == KIND_F32 or kind == KIND_I32 else WORD_I64


@kernel
def code_values(kind: int, src: U8, out: U8, wide: U8) -> int:
    """Codes of the values of a block; NOT_FINITE where a value is not, else 0.

    Args:
        src: bytes of the values. out: bytes of the codes, exactly. wide: scratch as below.
    """
    if kind == KIND_F64:
        bad = codes_f64(src.view(np.int64), out.view(np.uint16))
    elif kind == KIND_F32:
        bad = codes_f32(src.view(np.int32), out)
    else:
        bits = wide[: 2 * src.shape[0]].view(np.uint32)
        widen(kind, src.view(np.uint16), bits)
        bad = codes_f32(bits.view(np.int32), out)
    return bad * NOT_FINITE


@kernel
def pack_values(kind: int, n_ranks: int, codes: U8, src: U8, out: U8, wide: U8) -> None:
    """Floats that are added to words, with an agreed code for each.

    Args:
        codes: bytes of them. src: bytes of the values. out: bytes of the words, exactly.
        wide: scratch: float32 of 16-bit values up to POWERS_AT, then 16 bytes for each float64.
    """
    room = room_of(n_ranks)
    if kind == KIND_F64:
        powers, words64 = wide[POWERS_AT:].view(np.uint64), out.view(np.int64)
        fix_values_f64(src.view(np.float64), codes.view(np.uint16), words64, room, powers)
    elif kind == KIND_F32:
        fix_values_f32(src.view(np.float32), codes, out.view(np.int32), room)
    else:
        bits = wide[: 2 * src.shape[0]].view(np.uint32)
        widen(kind, src.view(np.uint16), bits)
        fix_values_f32(bits.view(np.float32), codes, out.view(np.int32), room)


@kernel
def unpack_values(
    kind: int, n_ranks: int, codes: U8, src: U8, out: U8, wide: U8, share: np.float64
) -> None:
    """Joined words to values; the inverse of ``pack_values``, each sum times ``share``."""
    room = room_of(n_ranks)
    if kind == KIND_F64:
        powers = wide[POWERS_AT:].view(np.uint64)
        codes16, out64 = codes.view(np.uint16), out.view(np.float64)
        unfix_values_f64(src.view(np.int64), codes16, out64, room, powers, share)
    elif kind == KIND_F32:
        _unpack_f32(src.view(np.int32), codes, out.view(np.float32), room, share)
    else:
        bits = wide[: 2 * out.shape[0]].view(np.uint32)
        _unpack_f32(src.view(np.int32), codes, bits.view(np.float32), room, share)
        narrow(kind, bits, out.view(np.uint16))


@kernel
def _unpack_f32(src: I32, codes: U8, out: F32, room: int, share: np.float64) -> None:
    if share == 1:
        unfix_values_f32(src, codes, out, room)
    else:
        share_values_f32(src, codes, out, room, share)


@kernel
def count_flushed(kind: int, src: U8, words: U8) -> int:
    """Values of a block that are not 0 and became 0 as words.

    Args:
        src: bytes of the values. words: those that ``pack_block`` made of them.
    """
    n = 0
    if kind == KIND_F64:
        values64, words64 = src.view(np.float64), words.view(np.int64)
        for i in range(values64.shape[0]):
            n += 1 if values64[i] != 0 and words64[i] == 0 and np.isfinite(values64[i]) else 0
        return n
    words32 = words.view(np.int32)
    if kind == KIND_F32:
        values32 = src.view(np.float32)
        for i in range(values32.shape[0]):
            n += 1 if values32[i] != 0 and words32[i] == 0 and np.isfinite(values32[i]) else 0
        return n
    top = 0x7F80 if kind == KIND_BF16 else 0x7C00
    values16 = src.view(np.uint16)
    for i in range(values16.shape[0]):
        size = i64(values16[i]) & _MAX_16
        n += 1 if size != 0 and size < top and words32[i] == 0 else 0
    return n


@kernel
def is_fixed(kind: int, op: int) -> bool:
    """Values are sent as fixed-point, with an exponent."""
    return op == OP_SUM and kind <= KIND_F16


@kernel
def code_of_block(kind: int, src: U8, wide: U8) -> int:
    """Largest exponent field of a block of floats, plus NOT_FINITE where a value is not.

    Args:
        src: bytes of the values. wide: scratch for float32, twice the bytes of 16-bit values.
    """
    if kind == KIND_F64:
        return largest_code(kind, src.view(np.uint32), src.view(np.uint64))
    if kind == KIND_F32:
        return largest_code(kind, src.view(np.uint32), wide.view(np.uint64))
    bits = wide[: 2 * src.shape[0]].view(np.uint32)
    widen(kind, src.view(np.uint16), bits)
    return largest_code(KIND_F32, bits, wide.view(np.uint64))


@kernel
def pack_block(
    kind: int, op: int, n_ranks: int, code: int, src: U8, out: U8, wide: U8, pow2: F64
) -> None:
    """Values to words.

    Args:
        n_ranks, code: how many are added, and the largest exponent field of any of them, where
            ``is_fixed``. src: bytes of the values. out: bytes of the words, exactly.
        wide: scratch as in ``code_of_block``. pow2: ``build_pow2()``.
    """
    if is_fixed(kind, op):
        scale = pow2[POW2_ZERO + shift_of(kind, code, n_ranks)]
        if kind == KIND_F64:
            fix_f64(src.view(np.float64), out.view(np.int64), scale)
        elif kind == KIND_F32:
            fix_f32(src.view(np.float32), out.view(np.int32), scale)
        else:
            bits = wide[: 2 * src.shape[0]].view(np.uint32)
            widen(kind, src.view(np.uint16), bits)
            fix_f32(bits.view(np.float32), out.view(np.int32), scale)
    elif kind <= KIND_F16 and (op == OP_MIN or op == OP_MAX):
        if kind == KIND_F64:
            key_f64(op, src.view(np.int64), out.view(np.int64))
        elif kind == KIND_F32:
            key_f32(op, src.view(np.int32), out.view(np.int32))
        else:
            key_16(kind, op, src.view(np.uint16), out.view(np.uint16))
    else:
        copy_octets(out, 0, src, 0, src.shape[0])


@kernel
def unpack_block(
    kind: int,
    op: int,
    n_ranks: int,
    code: int,
    src: U8,
    out: U8,
    wide: U8,
    pow2: F64,
    share: np.float64,
) -> None:
    """Joined words to values; the inverse of ``pack_block``.

    Args:
        share: each sum of floats is multiplied by it, 1 or 1/n for a mean.
    """
    if is_fixed(kind, op):
        scale = pow2[POW2_ZERO - shift_of(kind, code, n_ranks)]
        if kind == KIND_F64:
            unfix_f64(src.view(np.int64), out.view(np.float64), scale, share)
        elif kind == KIND_F32:
            unfix_f32(src.view(np.int32), out.view(np.float32), scale, share)
        else:
            bits = wide[: 2 * out.shape[0]].view(np.uint32)
            unfix_f32(src.view(np.int32), bits.view(np.float32), scale, share)
            narrow(kind, bits, out.view(np.uint16))
    elif kind <= KIND_F16 and (op == OP_MIN or op == OP_MAX):
        if kind == KIND_F64:
            unkey_f64(src.view(np.int64), out.view(np.int64))
        elif kind == KIND_F32:
            unkey_f32(src.view(np.int32), out.view(np.int32))
        else:
            unkey_16(kind, src.view(np.uint16), out.view(np.uint16))
    else:
        copy_octets(out, 0, src, 0, out.shape[0])


@kernel
def mark_block(kind: int, src: U8, marks: U8, wide: U8) -> None:
    """Mark what is not finite: MARK_PLUS, MARK_MINUS, MARK_NAN; one byte for each value."""
    if kind == KIND_F64:
        bits64 = src.view(np.int64)
        for i in range(marks.shape[0]):
            top, part = bits64[i] >> 52, bits64[i] & ((1 << 52) - 1)
            if top & 0x7FF == 0x7FF:
                marks[i] = mark_of(top < 0, part)
        return
    bits = src.view(np.uint32) if kind == KIND_F32 else wide[: 2 * src.shape[0]].view(np.uint32)
    if kind != KIND_F32:
        widen(kind, src.view(np.uint16), bits)
    for i in range(marks.shape[0]):
        b = i64(bits[i])
        if b & 0x7F800000 == 0x7F800000:
            marks[i] = mark_of(b >> 31 != 0, b & 0x7FFFFF)


@kernel
def mark_of(is_negative: bool, part: int) -> int:
    """Mark of one value by its sign and fraction."""
    if part != 0:
        return MARK_NAN
    return MARK_MINUS if is_negative else MARK_PLUS


@kernel
def unmark_block(kind: int, marks: U8, out: U8) -> None:
    """Write what is not finite over the values: infinities of both signs make not-a-number."""
    for i in range(marks.shape[0]):
        mark = i64(marks[i])
        if mark == 0:
            continue
        is_nan = mark >= MARK_NAN or mark == MARK_PLUS | MARK_MINUS
        minus = 1 if mark == MARK_MINUS else 0
        if kind == KIND_F64:
            bits = (0x7FF8 if is_nan else 0x7FF0) << 48
            out.view(np.uint64)[i] = np.uint64(bits) | (np.uint64(minus) << np.uint64(63))
        elif kind == KIND_F32:
            out.view(np.uint32)[i] = (minus << 31) | (0x7FC00000 if is_nan else 0x7F800000)
        elif kind == KIND_BF16:
            out.view(np.uint16)[i] = (minus << 15) | (0x7FC0 if is_nan else 0x7F80)
        else:
            out.view(np.uint16)[i] = (minus << 15) | (0x7E00 if is_nan else 0x7C00)


@kernel
def key_16(kind: int, op: int, src: U16, out: U16) -> None:
    """Bits of 16-bit floats to the bits of 16-bit integers in the same order."""
    top = 0x7F80 if kind == KIND_BF16 else 0x7C00
    worst = _MAX_16 if op == OP_MAX else 0x8000
    for i in range(src.shape[0]):
        b = i64(src[i])
        key = b ^ _MAX_16 if b > _MAX_16 else b
        out[i] = worst if (b & _MAX_16) > top else key


@kernel
def unkey_16(kind: int, src: U16, out: U16) -> None:
    """The inverse of ``key_16``."""
    quiet = 0x7FC0 if kind == KIND_BF16 else 0x7E00
    for i in range(src.shape[0]):
        b = i64(src[i])
        key = b ^ _MAX_16 if b > _MAX_16 else b
        out[i] = quiet if b == _MAX_16 or b == 0x8000 else key
