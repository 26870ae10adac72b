"""What a sum weighs on the wire: arrays, headers, and how many blocks are under way.

By fanfold a packet has the underlay, the BIER header with its BitString, inner IPv4 and UDP,
and FOLD (docs/wire/fold.md). In an installed tree it has the header of any message.
"""

from typing import NamedTuple

from fanfold.kernels.layout import BITS_AT, FOLD_BYTES, INNER_BYTES, UNDERLAY_BYTES
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import NO_TREE, Sum
from fanfold.sim.loop.sum_rows import AGREED_WORDS


class SumSizes(NamedTuple):
    """What one rank sends of a sum, and gets back.

    n_agreed: blocks before the array's, in which ranks agree; agreed: bytes of all of these.
    n_blocks: packets of the array, one a block. head: bytes of each beside its words.
    last_bytes: payload of the last one. wire: bytes of those of the array, headers included.
    first: bytes of exponents in blocks of their own, after those that tell what is asked.
    """

    n_agreed: int
    agreed: int
    n_blocks: int
    head: int
    last_bytes: int
    wire: int
    first: int = 0


def sum_head_bytes(settings: Settings) -> int:
    """Headers of FOLD; ARM, CLOSE and empty arrays are just these."""
    bits = settings.bitstring_bits // 8
    return UNDERLAY_BYTES + BITS_AT + bits + INNER_BYTES + FOLD_BYTES


def sum_window(one: Sum, settings: Settings) -> int:
    """Blocks of a rank under way at most."""
    return one.window or settings.sum_window


def words_bytes(settings: Settings) -> int:
    """Words of a full packet; with exponents a fifth of it is theirs (group/values.py)."""
    block = settings.payload_bytes
    return 4 * (block // 5 & ~7) if settings.sum_exponents else block


def sum_sizes(one: Sum, settings: Settings) -> SumSizes:
    """Sizes of a sum; settings that know the length of BitStrings."""
    block, room = words_bytes(settings), settings.payload_bytes
    if one.tree != NO_TREE:
        block = room
    n = -(-one.n_bytes // block)
    last = one.n_bytes - (n - 1) * block
    if one.tree != NO_TREE:
        head = settings.header_bytes
        return SumSizes(0, 0, n, head, last, one.n_bytes + n * head)
    head = sum_head_bytes(settings)
    window = sum_window(one, settings)
    asked = 4 * (AGREED_WORDS + window)
    wire = one.n_bytes + n * head
    first = 0
    if settings.sum_exponents:
        near = min(one.n_bytes, window * block) // 4
        first = max(near - 4 * window, 0)
        wire += one.n_bytes // 4 - near
    n_agreed = -(-asked // room) - (-first // room)
    return SumSizes(n_agreed, asked + first + n_agreed * head, n, head, last, wire, first)
