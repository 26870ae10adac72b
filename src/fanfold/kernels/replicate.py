"""BIER replication, RFC 8279 section 6.5, and the word operations it needs.

W = words of a BitString, C = copies. Ends on any table: each turn clears bit k.
"""

import numpy as np

from fanfold.kernels.jit import kernel
from fanfold.kernels.octets import ONE, ZERO
from fanfold.kernels.state import I64, U64

TOO_MANY = -1
NULL_NBR = -1

_M32, _M16, _M8 = np.uint64(0xFFFFFFFF), np.uint64(0xFFFF), np.uint64(0xFF)
_M4, _M2 = np.uint64(0xF), np.uint64(0x3)
_S32, _S16, _S8, _S4, _S2 = (np.uint64(n) for n in (32, 16, 8, 4, 2))


@kernel
def bit(index: int) -> np.uint64:
    """Word with bit ``index`` (0..63) set."""
    return ONE << np.uint64(index)


@kernel
def lowest_bit(word: np.uint64) -> int:
    """Index 0..63 of the lowest set bit of a word that is not zero."""
    n = 0
    if word & _M32 == ZERO:
        n, word = n + 32, word >> _S32
    if word & _M16 == ZERO:
        n, word = n + 16, word >> _S16
    if word & _M8 == ZERO:
        n, word = n + 8, word >> _S8
    if word & _M4 == ZERO:
        n, word = n + 4, word >> _S4
    if word & _M2 == ZERO:
        n, word = n + 2, word >> _S2
    return n if word & ONE != ZERO else n + 1


@kernel
def n_bits(word: np.uint64) -> int:
    """Set bits of a word."""
    n = 0
    while word != ZERO:
        word &= word - ONE
        n += 1
    return n


@kernel
def replicate(
    bits: U64, n_words: int, nbr_of: I64, f_bm: U64, out_nbr: I64, out_bits: U64
) -> int:
    """One copy for each BFR-NBR of a BitString.

    Args:
        bits: BitString, (W,), consumed: zero on return.
        n_words: words in use, 1..W.
        nbr_of: port by bit index, (64 * W,): NULL_NBR, 0 for the node itself, else a port.
        f_bm: F-BM by port + 1, (P + 2, W); row 0 is the null next hop's.
        out_nbr: (C,). out_bits: (C, W). Both filled from 0; a null next hop is among them.

    Returns:
        Copies written, or TOO_MANY when C is below the number of BFR-NBRs.
    """
    n = 0
    for w in range(n_words):
        while bits[w] != ZERO:  # step 2
            k = lowest_bit(bits[w])  # step 3
            nbr = nbr_of[w * 64 + k]  # steps 4 and 5: the own bit's row leads to port 0
            if n == out_nbr.shape[0]:
                return TOO_MANY
            out_nbr[n] = nbr
            bits[w] &= ~bit(k)  # progress even when the row's F-BM lacks bit k
            for j in range(n_words):
                out_bits[n, j] = bits[j] & f_bm[nbr + 1, j]  # step 7
                bits[j] &= ~f_bm[nbr + 1, j]  # step 8
            out_bits[n, w] |= bit(k) & f_bm[nbr + 1, w]
            n += 1
    return n
