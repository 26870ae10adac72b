"""What a sum weighs on the wire: arrays, headers, and how many blocks are under way.

By fanfold a packet has the underlay, the BIER header with its BitString, inner IPv4 and UDP,
FOLD, exponents of the values of a later block, and words (docs/wire/fold.md, ADR 0033). In an
installed tree it has the header of any message, and the values as they are.
"""

from typing import NamedTuple

from fanfold.kernels import reduce as r
from fanfold.kernels.layout import BITS_AT, FOLD_BYTES, INNER_BYTES
from fanfold.scenario.settings import Settings
from fanfold.scenario.sum_words import VALUE_BYTES, n_blocks, sum_word, words_bytes
from fanfold.schemes.program import NO_TREE, Sum
from fanfold.sim.loop.sum_rows import AGREED_WORDS


class SumSizes(NamedTuple):
    """What one rank sends of a sum, and gets back.

    n_agreed: blocks before the array's, in which ranks agree; agreed: bytes of all of these;
    n_first: those of exponents alone.
    n_blocks: packets of the array, one a block. head: bytes of each beside words and exponents.
    full: bytes of the largest one that is followed by others. wire: bytes of those of the
    array, headers included. first: bytes of exponents in blocks of their own, after those that
    tell what is asked. ahead: bytes of exponents in packets of the array.
    """

    n_agreed: int
    agreed: int
    n_blocks: int
    head: int
    full: int
    wire: int
    first: int = 0
    ahead: int = 0
    n_first: int = 0

    @property
    def asked(self) -> int:
        """Bytes in which ranks agree on what is asked."""
        return self.agreed + self.wire - self.flow

    @property
    def flow(self) -> int:
        """Bytes of exponents alone and of the array, all headers included."""
        return self.first + self.n_first * self.head + self.wire

    @property
    def empty(self) -> int:
        """Bytes of results for who gets no array."""
        return self.n_blocks * self.head + self.ahead


def sum_head_bytes(settings: Settings) -> int:
    """Headers of FOLD; ARM, CLOSE and empty arrays are just these."""
    bits = settings.bitstring_bits // 8
    return settings.underlay_bytes + BITS_AT + bits + INNER_BYTES + FOLD_BYTES


def sum_window(one: Sum, settings: Settings) -> int:
    """Blocks of a rank under way at most."""
    return one.window or settings.sum_window


def sum_sizes(one: Sum, settings: Settings, window: int = 0) -> SumSizes:
    """Sizes of a sum; settings that know the length of BitStrings.

    Args:
        window: granted, 0: as much as the sum asks for.
    """
    room, most = settings.payload_bytes, sum_window(one, settings)
    if one.tree != NO_TREE:
        n = -(-one.n_bytes // room)
        head = settings.header_bytes
        full = head + (room if n > 1 else one.n_bytes)
        return SumSizes(0, 0, n, head, full, one.n_bytes + n * head)
    head, word = sum_head_bytes(settings), sum_word(one, settings)
    window = window or most
    width, code = r.WORD_BYTES_OF[word], r.CODE_BYTES_OF[word]
    n_bytes, block = one.n_bytes * width // VALUE_BYTES, words_bytes(one, settings)
    n = n_blocks(one, settings)
    asked = 4 * (AGREED_WORDS + most)
    near = min(n_bytes, window * block) // width * code
    first = max(near - (4 * most if code == 1 else 0), 0)
    ahead = n_bytes // width * code - near
    n_first = -(-first // room)
    n_agreed = -(-asked // room) + n_first
    full = head + (block + (block // width * code if ahead else 0) if n > 1 else n_bytes)
    wire, agreed = n_bytes + ahead + n * head, asked + first + n_agreed * head
    return SumSizes(n_agreed, agreed, n, head, full, wire, first, ahead, n_first)
