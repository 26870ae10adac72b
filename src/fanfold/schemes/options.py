"""What can be asked of a scheme, and how many pieces a pipeline is cut into."""

from math import isqrt

import msgspec

from fanfold.errors import ConfigError

LATENCY_BYTES = 2**16
"""What a 100 Gb/s link carries in 5.2 us, about the way of one packet through a fat tree."""
LEAST_CHUNK_BYTES = 4096
"""A full packet: a smaller piece costs as many packets."""
MAX_MESSAGES = 2**20
"""Pieces a program may have in its plain form, unless chunks are asked for."""


class SchemeOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """chunks: of a pipeline, 0 = by ``pick_chunks``. compact: leave it in the compact form."""

    chunks: int = 0
    compact: bool = False


def pick_chunks(
    options: SchemeOptions, n_bytes: int, smallest: int, *, depth: int, load: int, n_items: int
) -> int:
    """Pieces of a pipelined operation.

    A pipeline of ``depth`` stages ends after depth - 1 + C steps, each of a latency and load
    times n_bytes / C bytes on the busiest host link. The product is least at
    C = sqrt((depth - 1) * load * n_bytes / latency), with the latency as bytes of a link
    (Sanders, Speck and Traeff, Parallel Computing 35, 2009). No piece gets smaller than a full
    packet, and in the plain form there are at most MAX_MESSAGES of them.

    Args:
        n_bytes: the whole vector. smallest: bytes of the smallest item.
        depth: stages. load: vectors that cross the busiest host link. n_items: messages that
            are cut.

    Raises:
        ConfigError: chunks asked for that are more than the bytes of an item.
    """
    if options.chunks:
        if not 1 <= options.chunks <= smallest:
            raise ConfigError("chunks", options.chunks, f"1..{smallest}")
        return options.chunks
    best = isqrt(max(depth - 1, 0) * load * n_bytes // LATENCY_BYTES)
    most = smallest // LEAST_CHUNK_BYTES
    if not options.compact:
        most = min(most, MAX_MESSAGES // n_items)
    return max(1, min(best, most))
