"""Network-order integers and BitString words in byte arrays.

Letters: buf = uint8 (n,), at = byte offset. Integers are int64, BitString words uint64.
"""

import sys

import numpy as np

from fanfold.kernels.jit import JIT, i64, kernel, prefetch, stream_pair
from fanfold.kernels.state import U8, U64

ZERO = np.uint64(0)
ONE = np.uint64(1)
LINE = 64
"""Bytes of a line of the cache."""
STREAMS, STEP = JIT, 16
"""Whether there are stores past the caches, and of how many bytes."""
_BYTE = np.uint64(8)
_PAIR = np.uint64(16)
_BYTES = np.uint64(0x00FF00FF00FF00FF)
_PAIRS = np.uint64(0x0000FFFF0000FFFF)
IS_LITTLE = sys.byteorder == "little"
_LANE = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def word_of(octets: bytes) -> np.uint64:
    """Eight bytes as the word that a native view of them shows."""
    return np.uint64(int.from_bytes(octets, sys.byteorder))


@kernel
def read_u16(buf: U8, at: int) -> int:
    """Unsigned 16-bit integer at ``at``."""
    return (i64(buf[at]) << 8) | i64(buf[at + 1])


@kernel
def read_u32(buf: U8, at: int) -> int:
    """Unsigned 32-bit integer at ``at``."""
    return (
        (i64(buf[at]) << 24)
        | (i64(buf[at + 1]) << 16)
        | (i64(buf[at + 2]) << 8)
        | i64(buf[at + 3])
    )


@kernel
def write_u16(buf: U8, at: int, value: int) -> None:
    """Store the low 16 bits of ``value``."""
    buf[at] = (value >> 8) & 0xFF
    buf[at + 1] = value & 0xFF


@kernel
def write_u32(buf: U8, at: int, value: int) -> None:
    """Store the low 32 bits of ``value``."""
    buf[at] = (value >> 24) & 0xFF
    buf[at + 1] = (value >> 16) & 0xFF
    buf[at + 2] = (value >> 8) & 0xFF
    buf[at + 3] = value & 0xFF


@kernel
def swap_word(word: np.uint64) -> np.uint64:
    """Network to native byte order and back: whole words, no loop over bytes."""
    if not IS_LITTLE:
        return word
    word = ((word & _BYTES) << _BYTE) | ((word >> _BYTE) & _BYTES)
    word = ((word & _PAIRS) << _PAIR) | ((word >> _PAIR) & _PAIRS)
    return (word << _HALF) | (word >> _HALF)


@kernel
def read_word(buf: U8, at: int) -> np.uint64:
    """64-bit word, most significant byte first."""
    return swap_word(buf[at : at + 8].view(np.uint64)[0])


@kernel
def write_word(buf: U8, at: int, word: np.uint64) -> None:
    """Store a 64-bit word, most significant byte first."""
    buf[at : at + 8].view(np.uint64)[0] = swap_word(word)


@kernel
def read_bits(buf: U8, at: int, n_words: int, bits: U64) -> int:
    """BitString at ``at`` into words, word 0 = positions 1..64 (RFC 8296 2.1: last bytes).

    Returns:
        1 when any bit is set, else 0.
    """
    seen = ZERO
    for w in range(n_words):
        bits[w] = read_word(buf, at + 8 * (n_words - 1 - w))
        seen |= bits[w]
    return 1 if seen != ZERO else 0


@kernel
def write_bits(buf: U8, at: int, n_words: int, bits: U64) -> None:
    """Words to a BitString at ``at``; the inverse of ``read_bits``."""
    for w in range(n_words):
        write_word(buf, at + 8 * (n_words - 1 - w), bits[w])


@kernel
def sum_octets(buf: U8, at: int, n: int) -> int:
    """Ones-complement sum of ``n`` bytes (RFC 1071), folded to 16 bits in network order.

    Added as 32-bit lanes in native order, two of a word at a time, and swapped at the end: the
    sum does not depend on byte order (RFC 1071 2 (B)), and the loop vectorises.
    """
    low, high = ZERO, ZERO
    n_words = n >> 3
    lanes = buf[at : at + 8 * n_words].view(np.uint64)
    for i in range(n_words):
        low += lanes[i] & _LANE
        high += lanes[i] >> _HALF
    total = low + high
    if n & 4 != 0:
        total += np.uint64(buf[at + 8 * n_words : at + 8 * n_words + 4].view(np.uint32)[0])
    sum16 = 0
    for i in range(n & ~3, n):
        sum16 += i64(buf[at + i]) << (8 if i & 1 == 0 else 0)
    native = i64(total & _LANE) + i64(total >> _HALF)
    native = fold_sum(native)
    return fold_sum(sum16 + ((native & 0xFF) << 8) + (native >> 8))


@kernel
def fold_sum(total: int) -> int:
    """Partial sum folded to 16 bits, end-around carry (RFC 1071)."""
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


@kernel
def plus(a: np.uint64, b: np.uint64) -> np.uint64:
    """Sum of two words modulo 2**64, by halves: without JIT an overflow would warn."""
    low = (a & _LANE) + (b & _LANE)
    high = (a >> _HALF) + (b >> _HALF) + (low >> _HALF)
    return ((high & _LANE) << _HALF) | (low & _LANE)


@kernel
def times(a: np.uint64, b: np.uint64) -> np.uint64:
    """Product of two words modulo 2**64, by halves."""
    low = (a & _LANE) * (b & _LANE)
    cross = ((a >> _HALF) * (b & _LANE) & _LANE) + ((a & _LANE) * (b >> _HALF) & _LANE)
    high = (low >> _HALF) + cross
    return ((high & _LANE) << _HALF) | (low & _LANE)


@kernel
def repeat_words(buf: U8, at: int, step: int, n: int, n_words: int) -> None:
    """Copy the words at ``at`` to the ``n - 1`` places that follow it, ``step`` bytes apart."""
    if step & 7 == 0:  # one view for all: making it costs more than a copy
        here = buf[at : at + (n - 1) * step + 8 * n_words].view(np.uint64)
        for j in range(1, n):
            for w in range(n_words):
                here[j * (step >> 3) + w] = here[w]
        return
    for j in range(1, n):
        copy_octets(buf, at + j * step, buf, at, 8 * n_words)


@kernel
def copy_octets(dst: U8, dst_at: int, src: U8, src_at: int, n: int) -> None:
    """Copy ``n`` bytes between arrays, eight at a time."""
    words = n >> 3
    to = dst[dst_at : dst_at + 8 * words].view(np.uint64)
    here = src[src_at : src_at + 8 * words].view(np.uint64)
    for i in range(words):
        to[i] = here[i]
    for i in range(8 * words, n):
        dst[dst_at + i] = src[src_at + i]


@kernel
def stream_octets(dst: U8, dst_at: int, src: U8, src_at: int, n: int) -> None:
    """Copy ``n`` bytes that nobody reads soon: past the caches, where ``dst_at`` suits that."""
    to = np.uint64(dst.ctypes.data) + np.uint64(dst_at)
    here = np.uint64(src.ctypes.data) + np.uint64(src_at)
    done = 0
    if STREAMS and to & np.uint64(STEP - 1) == ZERO:
        done = n - n % STEP
        for i in range(0, done, STEP):
            stream_pair(to + np.uint64(i), here + np.uint64(i))
    copy_octets(dst, dst_at + done, src, src_at + done, n - done)


@kernel
def fetch(buf: U8, at: int, n: int) -> None:
    """Have ``n`` bytes in the processor's cache soon; nothing waits, ends may lie outside."""
    base = np.uint64(buf.ctypes.data) + np.uint64(at)
    for i in range(0, n, LINE):
        prefetch(base + np.uint64(i))
