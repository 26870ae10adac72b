"""UMAC against the vectors of RFC 4418 and a twin in Python integers."""

import struct
from random import Random

import numpy as np
import pytest
from umac_twin import P36, P64, twin

from fanfold.kernels.umac import (
    BLOCK_BYTES,
    FIRST_WORDS,
    GROUP_BYTES,
    LATER_WORDS,
    N_HASHES,
    end_hash,
    hash_block,
)
from fanfold.seals.umac import UmacKeys, aes_words, umac_keys

KEY, NONCE = b"abcdefghijklmnop", b"bcdefghi"
RFC_4418 = {
    b"": "32FEDB100C79AD58F07FF764",
    b"a" * 3: "185E4FE905CBA7BD85E4C2DC",
    b"a" * 2**10: "7A54ABE04AF82D60FB298C3C",
    b"a" * 2**15: "7B136BD911E4B734286EF2BE",
    b"abc": "883C3D4B97A61976FFCF2323",
    b"abc" * 500: "8824A260C53C66A36C9260A6",
}
"""Appendix: tags of 96 bits of this key and nonce."""


def hashed(keys: UmacKeys, message: bytes) -> tuple[int, ...]:
    first, later = np.array(keys.first, np.uint32), np.array(keys.later, np.uint64)
    n_blocks = max(-(-len(message) // BLOCK_BYTES), 1)
    blocks, out = np.zeros(N_HASHES * n_blocks, np.uint64), np.zeros(N_HASHES, np.uint64)
    for i in range(n_blocks):
        part = message[BLOCK_BYTES * i : BLOCK_BYTES * (i + 1)]
        padded = part.ljust(max(-(-len(part) // GROUP_BYTES), 1) * GROUP_BYTES, b"\0")
        words = np.frombuffer(padded, "<u4").copy()
        hash_block(words, len(part), first, blocks, N_HASHES * i)
    end_hash(blocks, n_blocks, later, out)
    return tuple(map(int, out))


def tag(key: bytes, nonce: bytes, message: bytes) -> bytes:
    keys = umac_keys(key)
    mask = struct.unpack("!3I", aes_words(keys.pad, nonce.ljust(16, b"\0"))[:12])
    return struct.pack(
        "!3I", *(h ^ m for h, m in zip(hashed(keys, message), mask, strict=True))
    )


@pytest.mark.parametrize("message", RFC_4418, ids=lambda m: f"{len(m)}")
def test_tags_are_those_of_the_rfc(message: bytes) -> None:
    assert tag(KEY, NONCE, message).hex().upper() == RFC_4418[message]


def test_keys_have_the_size_that_kernels_read() -> None:
    keys = umac_keys(KEY)
    assert (len(keys.first), len(keys.later)) == (FIRST_WORDS, LATER_WORDS)


@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 88, 96, 1023, 1024, 1025, 2048, 9000])
def test_hashes_are_those_of_the_twin(size: int) -> None:
    random = Random(size)
    keys, message = umac_keys(random.randbytes(16)), random.randbytes(size)
    assert hashed(keys, message) == twin(keys, message)


@pytest.mark.parametrize("value", [0, 2**64 - 2**32 - 1, 2**64 - 2**32, 2**64 - 59, 2**64 - 1])
def test_polynomials_of_large_words_are_those_of_the_rfc(value: int) -> None:
    keys = umac_keys(KEY)
    later, out = np.array(keys.later, np.uint64), np.zeros(N_HASHES, np.uint64)
    values = [value, 7, value, 2**64 - 1]
    blocks = np.array([v for v in values for _ in range(N_HASHES)], np.uint64)
    end_hash(blocks, len(values), later, out)
    for t in range(N_HASHES):
        k64, *inner, mask = keys.later[6 * t : 6 * t + 6]
        y = 1
        for m64 in values:
            if m64 >= 2**64 - 2**32:
                y = (k64 * y + P64 - 1) % P64
            y = (k64 * y + m64 - 59 * (m64 >= 2**64 - 2**32)) % P64
        words = struct.unpack("!4H", y.to_bytes(8, "big"))
        total = sum(a * b for a, b in zip(words, inner, strict=True))
        assert int(out[t]) == total % P36 % 2**32 ^ mask
