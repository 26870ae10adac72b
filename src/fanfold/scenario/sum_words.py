"""What fanfold's sums are sent as: words of values, as live ranks choose them (ADR 0033)."""

from fanfold.kernels import reduce as r
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import NO_TREE, Sum

VALUE_BYTES = 4
"""Of the array, whatever its words have."""


def sum_word(one: Sum, settings: Settings) -> int:
    """Word of a value, of kernels/reduce.py; an installed tree has values as they are."""
    if settings.sum_numbers == "integer" or one.tree != NO_TREE:
        return r.WORD_I32
    if len(one.hosts) > r.MOST_NARROW:
        return r.WORD_FIX64
    return r.WORD_FIX32 if settings.sum_numbers == "value" else r.WORD_I32


def words_bytes(one: Sum, settings: Settings) -> int:
    """Words of a full packet, in whose room the exponents of as many values are too."""
    word, room = sum_word(one, settings), settings.payload_bytes
    if not r.CODE_BYTES_OF[word]:
        return room
    width = r.WORD_BYTES_OF[word]
    n = room // (width + r.CODE_BYTES_OF[word])
    return width * (n & ~7 or max(n, 1))


def n_blocks(one: Sum, settings: Settings) -> int:
    """Packets of an array, one a block."""
    n_bytes = one.n_bytes * r.WORD_BYTES_OF[sum_word(one, settings)] // VALUE_BYTES
    return -(-n_bytes // words_bytes(one, settings))
