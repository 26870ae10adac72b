"""Keys of UMAC (RFC 4418) from one of 16 octets: words that kernels/umac.py reads.

The tags that it makes are of 96 bits; its cipher is AES-128. Section 3.2.1 there derives keys,
section 3.3.1 the word that a tag is masked with; the driver has AES make many of them at once.
"""

import struct
from typing import NamedTuple

KEY_BYTES = 16
N_HASHES = 3
FIRST_BYTES = 1024 + 16 * (N_HASHES - 1)
_MASK64 = 0x01FFFFFF01FFFFFF
_P36 = (1 << 36) - 5


class UmacKeys(NamedTuple):
    """first: 32-bit words of the first layer. later: six words for each hash. pad: AES key.

    key: all of it stands for this.
    """

    first: tuple[int, ...]
    later: tuple[int, ...]
    pad: bytes
    key: bytes


def umac_keys(key: bytes) -> UmacKeys:
    """All keys that a key of KEY_BYTES stands for."""
    first = _derive(key, 1, FIRST_BYTES)
    poly, inner = _derive(key, 2, 24 * N_HASHES), _derive(key, 3, 64 * N_HASHES)
    masks = struct.unpack(f"!{N_HASHES}I", _derive(key, 4, 4 * N_HASHES))
    later: list[int] = []
    for t in range(N_HASHES):
        later.append(int.from_bytes(poly[24 * t : 24 * t + 8], "big") & _MASK64)
        words = struct.unpack("!4Q", inner[64 * t + 32 : 64 * t + 64])
        later += [word % _P36 for word in words]
        later.append(masks[t])
    words32 = struct.unpack(f"!{FIRST_BYTES // 4}I", first)
    return UmacKeys(words32, tuple(later), _derive(key, 0, KEY_BYTES), key)


def _derive(key: bytes, index: int, n_bytes: int) -> bytes:
    """KDF of RFC 4418 section 3.2.1."""
    blocks = (struct.pack("!QQ", index, i + 1) for i in range(-(-n_bytes // 16)))
    return aes_words(key, b"".join(blocks))[:n_bytes]


def aes_words(key: bytes, words: bytes) -> bytes:
    """AES-128 of each 16 octets by themselves, which are never the same twice."""
    from cryptography.hazmat.primitives.ciphers import (  # noqa: PLC0415 - only with keys
        Cipher,
        algorithms,
        modes,
    )

    # One block each, and no two alike: this is the block cipher itself, no mode.
    made = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305
    return made.update(words) + made.finalize()
