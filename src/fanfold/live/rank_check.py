"""The secret of ranks that check their sums, as coefficients and masks (kernels/check.py)."""

import hashlib
from collections.abc import Sequence

import numpy as np

from fanfold.kernels.check import AES_BLOCKS, PRIMES, Check, no_check
from fanfold.live import libcrypto
from fanfold.topo.fabric import Fabric

LABEL = b"fanfold sums 1"
KEY_BYTES = 16
LEAST_WORD = 4
"""Bytes of the smallest word that has a coefficient."""
DRAWN = 8
"""Bytes of a coefficient before it is reduced: none is likelier than others by 2**-33."""


def build_check(
    fabric: Fabric, members: Sequence[str], group: int, secret: bytes, block_bytes: int
) -> Check:
    """What a rank writes and checks check words with; none without a secret.

    Another group with the same secret has other coefficients. ``free_check`` gives it back.

    Raises:
        EnvironmentLack: no libcrypto.
    """
    if not secret:
        return no_check()
    n, n_ranks = block_bytes // LEAST_WORD, len(members)
    seed = LABEL + group.to_bytes(4, "big") + secret
    drawn = hashlib.shake_256(seed).digest(KEY_BYTES + len(PRIMES) * n * DRAWN)
    words = np.frombuffer(drawn[KEY_BYTES:], "<u8").reshape(len(PRIMES), n)
    coeffs = np.stack([row % np.uint64(p) for row, p in zip(words, PRIMES, strict=True)])
    bits = [(fabric.by_name[m].bfr_id - 1) % fabric.bitstring_bits for m in members]
    aes = [libcrypto.load().update_at, libcrypto.make_cipher(drawn[:KEY_BYTES])]
    return Check(
        coeffs=coeffs,
        bits=np.array(bits, np.int64),
        aes=np.array(aes, np.uint64),
        nonces=np.zeros(2 * AES_BLOCKS * n_ranks, np.uint64),
        pads=np.zeros(2 * AES_BLOCKS * n_ranks, np.uint64),
        told=np.zeros(1, np.int64),
    )


def free_check(check: Check) -> None:
    """Give what libcrypto made back."""
    if check.aes[1]:
        libcrypto.free_cipher(int(check.aes[1]))
        check.aes[1] = 0
