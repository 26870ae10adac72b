"""One seed, one independent random stream for each name (ADR 0003).

A new component draws from a new name, so it never changes what the others draw.
"""

import hashlib

import numpy as np

Generator = np.random.Generator
"""What draws; made by ``stream``, handed to whatever draws."""


def stream(seed: int, name: str) -> np.random.Generator:
    """Generator for one named component, for example ``link/leaf1-h3/loss``."""
    return np.random.Generator(np.random.Philox(key=stream_key(seed, name)))


def stream_key(seed: int, name: str) -> int:
    """128-bit key of a named stream; compiled loops seed their own counter with it."""
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=16).digest()
    return int.from_bytes(digest)
