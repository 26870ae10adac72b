"""Values of any number to codes and words and back, a part after the other (words.py).

Letters: E = values of a part.
"""

import numpy as np

from fanfold.kernels.jit import kernel
from fanfold.kernels.reduce import KIND_F32, KIND_F64
from fanfold.kernels.state import U8
from fanfold.kernels.words import POWERS_AT, code_values, pack_values, unpack_values

PART_VALUES = 2048
"""E: what they need stays in the nearest cache."""
RUN_SCRATCH = POWERS_AT + 16 * PART_VALUES
"""Bytes of the scratch that these need."""


@kernel
def value_bytes(kind: int) -> int:
    """Bytes of a float of a kind."""
    if kind == KIND_F64:
        return 8
    return 4 if kind == KIND_F32 else 2


@kernel
def code_run(kind: int, src: U8, out: U8, wide: U8) -> int:
    """Codes of all values; not 0 where a value is not finite.

    Args:
        src: bytes of the values. out: bytes of the codes. wide: (RUN_SCRATCH,).
    """
    width = value_bytes(kind)
    code = 2 if kind == KIND_F64 else 1
    n, bad = src.shape[0] // width, 0
    for i in range(0, n, PART_VALUES):
        j = min(i + PART_VALUES, n)
        bad |= code_values(kind, src[i * width : j * width], out[i * code : j * code], wide)
    return bad


@kernel
def pack_run(kind: int, n_ranks: int, codes: U8, src: U8, out: U8, wide: U8) -> None:
    """All values to words, with an agreed code for each.

    Args:
        codes, src, out: bytes of the codes, values and words. wide: (RUN_SCRATCH,).
    """
    width = value_bytes(kind)
    code, word = (2, 8) if kind == KIND_F64 else (1, 4)
    n = src.shape[0] // width
    for i in range(0, n, PART_VALUES):
        j = min(i + PART_VALUES, n)
        own = codes[i * code : j * code]
        words = out[i * word : j * word]
        pack_values(kind, n_ranks, own, src[i * width : j * width], words, wide)


@kernel
def unpack_run(
    kind: int, n_ranks: int, codes: U8, src: U8, out: U8, wide: U8, share: np.float64
) -> None:
    """Joined words to values; the inverse of ``pack_run``, each sum times ``share``."""
    width = value_bytes(kind)
    code, word = (2, 8) if kind == KIND_F64 else (1, 4)
    n = out.shape[0] // width
    for i in range(0, n, PART_VALUES):
        j = min(i + PART_VALUES, n)
        own = codes[i * code : j * code]
        words = src[i * word : j * word]
        unpack_values(kind, n_ranks, own, words, out[i * width : j * width], wide, share)
