"""Check words of sums: what exposes a BFR that adds wrongly, for ranks that share a secret.

Behind the words x of its block a rank sends, for each of three primes p,

    c = a[0] x[0] + a[1] x[1] + ... + mask(rank, block)   modulo p

as two words of 16 bits. BFRs add them as they do the others, and nothing overflows. A result is
taken when the same sum of its words, and all ranks' masks, is what came. Coefficients a follow
from the secret; masks are AES of the block's number and the rank's bit, so what is seen of
check words says nothing of a. Whoever changes words by d, and check words as it likes, has
c right with probability 1 / p where d is no multiple of p. Words are whole numbers below 2**64,
so some p divides not d: a false block is missed with 2**-31 at most, of 32-bit words 2**-61.
It holds while no word overflows; a result that says one did is not taken.

Letters: N = words of a block, R = ranks.
"""

from typing import NamedTuple

import numpy as np

from fanfold.kernels.jit import call_at, i64, kernel
from fanfold.kernels.octets import swap_word
from fanfold.kernels.state import I64, U8, U64

PRIMES = (2**31 - 1, 2**31 - 19, 2**31 - 61)
N_CHECK_WORDS = 2 * len(PRIMES)
CHECK_ROOM = 64
"""Bytes of a block that check words take from the others, whole lines."""
AES_BLOCKS = 2
"""For each rank's masks of a block: 64 bits a prime, of which the last are left."""
LIMB = 16

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_TOP = np.uint64(31)


class Check(NamedTuple):
    """coeffs: (3, N), empty where sums are not checked. bits: (R,) of members in the BitString.

    aes: (2,), address of EVP_EncryptUpdate and cipher. nonces, pads: (4 R,). told: (1,).
    """

    coeffs: U64
    bits: I64
    aes: U64
    nonces: U64
    pads: U64
    told: I64


def no_check() -> Check:
    """Of ranks whose sums are not checked."""
    return Check(
        coeffs=np.zeros((3, 0), np.uint64),
        bits=np.zeros(0, np.int64),
        aes=np.zeros(2, np.uint64),
        nonces=np.zeros(0, np.uint64),
        pads=np.zeros(0, np.uint64),
        told=np.zeros(1, np.int64),
    )


@kernel
def combine(words: U8, width: int, coeffs: U64, prime: int) -> int:
    """Linear combination of signed words of 4 or 8 bytes, modulo a prime."""
    parts = words.view(np.uint32)
    step = width // 4
    p = np.uint64(prime)
    fold = np.uint64((1 << 32) % prime)
    total = np.uint64(0)
    for half in range(step):
        low = high = negative = np.uint64(0)
        is_last = np.uint64(1 if half == step - 1 else 0)
        for i in range(parts.shape[0] // step):
            x, a = np.uint64(parts[step * i + half]), coeffs[i]
            product = x * a
            low += product & _LOW
            high += product >> _HALF
            negative += a * ((x >> _TOP) * is_last)
        value = (high % p * fold + low) % p + (p - negative % p * fold % p)
        total = (total + value % p * (fold if half == 1 else np.uint64(1))) % p
    return i64(total)


@kernel
def make_masks(check: Check, block: int, first: int, n: int) -> bool:
    """Masks of ``n`` ranks from ``first`` on for a block, into ``pads``."""
    for r in range(n):
        for k in range(AES_BLOCKS):
            at = 2 * (AES_BLOCKS * r + k)
            check.nonces[at] = swap_word(np.uint64(block))
            check.nonces[at + 1] = swap_word(np.uint64(2 * check.bits[first + r] + k))
    size = 16 * AES_BLOCKS * n
    code = call_at(
        check.aes[0],
        check.aes[1],
        np.uint64(check.pads.ctypes.data),
        np.uint64(check.told.ctypes.data),
        np.uint64(check.nonces.ctypes.data),
        np.uint64(size),
    )
    return bool(code & 0xFFFFFFFF == 1 and check.told[0] & 0xFFFFFFFF == size)


@kernel
def mask_sum(check: Check, n: int, which: int) -> int:
    """Sum of what ``make_masks`` made of ``n`` ranks for one prime, modulo it."""
    p = np.uint64(PRIMES[which])
    total = np.uint64(0)
    for r in range(n):
        total += check.pads[2 * AES_BLOCKS * r + which] % p
    return i64(total % p)


@kernel
def write_checks(check: Check, own: int, block: int, words: U8, width: int, out: U8) -> bool:
    """Check words of a rank's block behind it; own: which of ``bits`` is this rank's."""
    if not make_masks(check, block, own, 1):
        return False
    for e in range(len(PRIMES)):
        value = combine(words, width, check.coeffs[e], PRIMES[e]) + mask_sum(check, 1, e)
        value %= PRIMES[e]
        write_word(out, 2 * e, width, value & 0xFFFF)
        write_word(out, 2 * e + 1, width, value >> LIMB)
    return True


@kernel
def is_true_sum(check: Check, block: int, words: U8, width: int, came: U8) -> bool:
    """A result is what ranks sent: its check words, joined, are those of its words."""
    n = check.bits.shape[0]
    if not make_masks(check, block, 0, n):
        return False
    for e in range(len(PRIMES)):
        said = read_word32(came, 2 * e, width) + (read_word32(came, 2 * e + 1, width) << LIMB)
        value = combine(words, width, check.coeffs[e], PRIMES[e]) + mask_sum(check, n, e)
        if said % PRIMES[e] != value % PRIMES[e]:
            return False
    return True


@kernel
def write_word(out: U8, k: int, width: int, value: int) -> None:
    """The k-th word, little-endian as all words of arrays."""
    for j in range(width):
        out[width * k + j] = (value >> (8 * j)) & 0xFF if j < 4 else 0


@kernel
def read_word32(came: U8, k: int, width: int) -> int:
    """The lower 32 bits of the k-th word."""
    value = 0
    for j in range(4):
        value |= i64(came[width * k + j]) << (8 * j)
    return value
