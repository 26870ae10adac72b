"""UMAC of RFC 4418 with tags of 96 bits: the hash of a message, by three keys of one form.

A tag is this hash and a word of AES that no two messages share; here is the hash only. What a
link's packet needs is mostly 88 octets of headers: 36 products, no call of any library. Why not
GMAC: ADR 0059. Messages end below 2**24 octets, so RFC 4418's POLY-128 is never reached.

Letters: T = 3 hashes (the RFC's iterations), each 4 octets of the tag; B = octets of a block of
the first layer, 1,024.
"""

import numpy as np
from numpy.typing import NDArray

from fanfold.kernels.jit import add_words, kernel
from fanfold.kernels.state import U64

U32 = NDArray[np.uint32]

N_HASHES = 3
BLOCK_BYTES = 1024
GROUP_BYTES = 32
"""The first layer works on so many, and on zeros behind a message that ends between."""
FIRST_WORDS = BLOCK_BYTES // 4 + 4 * (N_HASHES - 1)
"""Of the key of the first layer: 32-bit words, each hash begins four further on."""
LATER_WORDS = 6 * N_HASHES
"""Of the keys of the other layers, six to a hash: that of POLY, four of the third layer's that
meet what is not zero, and the word that its result is masked with."""

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_P36 = np.uint64((1 << 36) - 5)
_P64 = np.uint64((1 << 64) - 59)
_PAST = np.uint64(59)  # 2**64 less the prime
_LARGE = np.uint64(0xFFFFFFFF00000000)
_ONE = np.uint64(1)
_MARKER = np.uint64((1 << 64) - 60)
_WORD = np.uint64(0xFFFF)
_S16, _S48 = np.uint64(16), np.uint64(48)


@kernel
def hash_block(words: U32, n_bytes: int, first: U32, out: U64, at: int) -> None:
    """NH of one block of the first layer, RFC 4418 section 5.2, into ``out[at:at + T]``.

    Args:
        words: the block, zeros behind it to the end of a group. n_bytes: of it, 0..B.
    """
    n_groups = max((n_bytes + GROUP_BYTES - 1) // GROUP_BYTES, 1)
    y0 = y1 = y2 = np.uint64(0)
    for i in range(0, 8 * n_groups, 8):
        for j in range(i, i + 4):
            a, b = np.uint64(words[j]), np.uint64(words[j + 4])
            k0, k1 = np.uint64(first[j]), np.uint64(first[j + 4])
            k2, k3 = np.uint64(first[j + 8]), np.uint64(first[j + 12])
            y0 = add_words(y0, ((a + k0) & _LOW) * ((b + k1) & _LOW))
            y1 = add_words(y1, ((a + k1) & _LOW) * ((b + k2) & _LOW))
            y2 = add_words(y2, ((a + k2) & _LOW) * ((b + k3) & _LOW))
    n_bits = np.uint64(8 * n_bytes)
    out[at] = add_words(y0, n_bits)
    out[at + 1] = add_words(y1, n_bits)
    out[at + 2] = add_words(y2, n_bits)


@kernel
def end_hash(blocks: U64, n_blocks: int, later: U64, out: U64) -> None:
    """Second and third layer, RFC 4418 sections 5.3 and 5.4: T words of 32 bits into ``out``.

    Args:
        blocks: T words of ``hash_block`` for each block.
    """
    for t in range(N_HASHES):
        y = blocks[t]
        if n_blocks > 1:
            y = poly64(blocks, n_blocks, t, later[6 * t])
        total = (y >> _S48) * later[6 * t + 1] + ((y >> _HALF) & _WORD) * later[6 * t + 2]
        total += ((y >> _S16) & _WORD) * later[6 * t + 3] + (y & _WORD) * later[6 * t + 4]
        out[t] = ((total % _P36) & _LOW) ^ later[6 * t + 5]


@kernel
def poly64(blocks: U64, n_blocks: int, t: int, k: np.uint64) -> np.uint64:
    """Polynomial of the blocks' words modulo 2**64 - 59, RFC 4418 section 5.3.2."""
    y = _ONE
    for i in range(n_blocks):
        m = blocks[N_HASHES * i + t]
        if m >= _LARGE:
            y = add64(times64(k, y), _MARKER)
            m -= _PAST
        y = add64(times64(k, y), m)
    return y


@kernel
def add64(a: np.uint64, b: np.uint64) -> np.uint64:
    """Sum modulo 2**64 - 59; ``a`` is below that."""
    s = add_words(a, b)
    if s < b:
        s = add_words(s, _PAST)
    return s - _P64 if s >= _P64 else s


@kernel
def times64(a: np.uint64, b: np.uint64) -> np.uint64:
    """Product modulo 2**64 - 59, by halves: what lies above 2**64 counts 59 times."""
    a0, a1, b0, b1 = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    p00, p01, p10 = a0 * b0, a0 * b1, a1 * b0
    mid = (p00 >> _HALF) + (p01 & _LOW) + (p10 & _LOW)
    low = (p00 & _LOW) | ((mid & _LOW) << _HALF)
    high = a1 * b1 + (p01 >> _HALF) + (p10 >> _HALF) + (mid >> _HALF)
    if low >= _P64:
        low -= _P64
    h0, h1 = (high & _LOW) * _PAST, (high >> _HALF) * _PAST
    low = add64(low, (h1 & _LOW) << _HALF)
    return add64(low, h0 + (h1 >> _HALF) * _PAST)
