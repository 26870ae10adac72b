"""BIER replication, RFC 8279 section 6.5, and the word operations it needs.

W = words of a BitString, P = ports, C = copies. Ends on any table: each turn clears bit k.
"""

import numpy as np

from fanfold.kernels.jit import kernel
from fanfold.kernels.octets import ONE, ZERO
from fanfold.kernels.state import I64, U64
from fanfold.kernels.tables import NULL_NBR, WORD_BITS

TOO_MANY = -1

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

    A wrong row, whose BFR-NBR has no F-BM or one without the row's own bit, leads nowhere: its
    bit goes to the null next hop.

    Args:
        bits: BitString, (W,), consumed: zero on return.
        n_words: words in use, 1..W.
        nbr_of: port by bit index, (64 * W,): NULL_NBR, 0 for the node itself, else a port.
        f_bm: F-BM by port + 1, (P + 1, W); row 0 is the null next hop's.
        out_nbr: (C,). out_bits: (C, W). Both filled from 0; the null next hop is among them.

    Returns:
        Copies written; or TOO_MANY when they are more than C, never with C = P + 1.
    """
    n = 0
    null_at = -1
    for w in range(n_words):
        while bits[w] != ZERO:  # step 2
            k = lowest_bit(bits[w])  # step 3
            nbr = nbr_of[w * WORD_BITS + k]  # steps 4 and 5: the own bit's row leads to port 0
            if not is_row_sound(f_bm, nbr, w, k):
                nbr = NULL_NBR
            at = n
            if nbr == NULL_NBR and null_at >= 0:
                at = null_at
            elif n == out_nbr.shape[0]:
                return TOO_MANY
            else:
                out_nbr[n] = nbr
                for j in range(n_words):
                    out_bits[n, j] = ZERO
                if nbr == NULL_NBR:
                    null_at = n
                n += 1
            for j in range(n_words):
                out_bits[at, j] |= bits[j] & f_bm[nbr + 1, j]  # step 7
                bits[j] &= ~f_bm[nbr + 1, j]  # step 8
            out_bits[at, w] |= bit(k)
            bits[w] &= ~bit(k)  # progress even when the row is wrong
    return n


@kernel
def is_row_sound(f_bm: U64, nbr: int, w: int, k: int) -> bool:
    """The BFR-NBR has an F-BM, and bit k of word w is in it."""
    if nbr < NULL_NBR or nbr + 1 >= f_bm.shape[0]:
        return False
    return f_bm[nbr + 1, w] & bit(k) != ZERO
