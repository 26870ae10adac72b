"""What ranks at one host share, and what each of them keeps beside (ADR 0070).

The memory: a page of RANK_BYTES for each rank with its words, each in a line of its own; then
for each place of the window and each rank a line (which operation a block is of, whether it has
one; what was found in its part); then the blocks as ranks wrote them, by place and rank; then
the results, by place. Blocks are numbered through all operations, g modulo window is the place.

Letters: N = ranks, w = window, B = bytes of a block, E = values of a part.
"""

from typing import NamedTuple

import numpy as np

from fanfold.kernels.jit import kernel, load_word
from fanfold.kernels.reduce import F64, build_pow2
from fanfold.kernels.state import I64, U8
from fanfold.live.rank_state import N_COLUMNS

# Words of a rank, where others look.
POSTED_AT = 0
"""Blocks written so far."""
END_AT = 8
"""Number of the block past this operation; before it: IS_WHOLE_AT."""
IS_WHOLE_AT = 16
"""1: in this operation ranks join whole blocks for themselves, and wait for no parts."""
GAVE_UP_AT = 24
HERE_AT = 32
"""1: the rank has been here."""
JOINED_AT = 64
"""Blocks of which the rank has joined its part."""
TAKEN_AT = 128
"""Blocks whose results it has read, and that it looks at no more."""
ASLEEP_AT = 192
RANK_BYTES = 256
LINE = 64

# Words of a line for each block of a rank.
ASKED_AT = 0
HAS_AT = 8
FLAGS_AT = 16

# Integers of one rank.
RANK = 0
N_RANKS = 1
WINDOW = 2
BLOCK_BYTES = 3
BASE = 4
"""Number of the operation's first block."""
N_BLOCKS = 5
POSTED = 6
JOINED = 7
TAKEN = 8
KIND = 9
OP = 10
WORD = 11
ASKED = 12
"""A number for what is asked for: the same for equal operations only."""
IS_WHOLE = 13
IS_CHECKED = 14
"""All ranks were asked for the same."""
CALLED = 15
"""1: somebody calls this rank out of its sleep."""
FLAGS = 16
N_BAD = 17
"""Parts with values that are not finite."""
N_SLEEPS = 18
N_INTS = 19

PART_WORDS = 2048
"""Values that are joined at a time: all they need stays in the nearest cache."""
WIDE_BYTES = 8192 + 16 * PART_WORDS
"""Scratch of ``pack_values``."""
MOST_BYTES = 256 << 10
LEAST_BYTES = 16 << 10
MEMORY_BYTES = 8 << 20
"""Of the blocks of all ranks: the caches of a processor hold as much, or nearly."""
PLACES = 4


class HostState(NamedTuple):
    """What a rank's loop works on.

    ints: (N_INTS,); mem: what is shared; blocks: (n, N_COLUMNS) of rank_state; src, dst: bytes
    of the arrays; codes: (2, 2 E) and words: (2, 8 E), of one rank and of all; wide, marks:
    scratch; share: (1,), what sums of floats are multiplied by; spec: (2,) scratch of a clock.
    """

    ints: I64
    mem: U8
    blocks: I64
    src: U8
    dst: U8
    codes: U8
    words: U8
    wide: U8
    marks: U8
    pow2: F64
    share: F64
    spec: I64


def block_bytes_of(n_ranks: int) -> int:
    """Bytes of a block: less where many ranks have one under way."""
    room = MEMORY_BYTES // (PLACES * n_ranks)
    return max(min(1 << room.bit_length() - 1, MOST_BYTES), LEAST_BYTES)


def memory_bytes_of(n_ranks: int) -> int:
    """Bytes that so many ranks share."""
    lines = (RANK_BYTES + PLACES * LINE) * n_ranks
    return lines + PLACES * (n_ranks + 1) * block_bytes_of(n_ranks)


def build_host(rank: int, n_ranks: int, mem: U8) -> HostState:
    """State of a rank that has nothing to do yet."""
    ints = np.zeros(N_INTS, np.int64)
    ints[RANK], ints[N_RANKS] = rank, n_ranks
    ints[WINDOW], ints[BLOCK_BYTES] = PLACES, block_bytes_of(n_ranks)
    return HostState(
        ints=ints,
        mem=mem,
        blocks=np.zeros((0, N_COLUMNS), np.int64),
        src=np.zeros(0, np.uint8),
        dst=np.zeros(0, np.uint8),
        codes=np.zeros((2, 2 * PART_WORDS), np.uint8),
        words=np.zeros((2, 8 * PART_WORDS), np.uint8),
        wide=np.zeros(WIDE_BYTES, np.uint8),
        marks=np.zeros(PART_WORDS, np.uint8),
        pow2=build_pow2(),
        share=np.ones(1, np.float64),
        spec=np.zeros(2, np.int64),
    )


@kernel
def place_of(host: HostState, at: int) -> np.uint64:
    """Address of an offset of the memory."""
    return np.uint64(host.mem.ctypes.data) + np.uint64(at)


@kernel
def word_place(host: HostState, rank: int, what: int) -> np.uint64:
    """Address of a word of a rank."""
    return place_of(host, rank * RANK_BYTES + what)


@kernel
def line_place(host: HostState, g: int, rank: int, what: int) -> np.uint64:
    """Address of a word of a rank's block."""
    n, place = host.ints[N_RANKS], g % host.ints[WINDOW]
    return place_of(host, n * RANK_BYTES + (place * n + rank) * LINE + what)


@kernel
def block_at(host: HostState, g: int, rank: int) -> int:
    """Offset of a rank's block; of the result where ``rank`` is the number of ranks."""
    n, w = host.ints[N_RANKS], host.ints[WINDOW]
    row = (g % w) * n + rank if rank < n else w * n + g % w
    at: int = n * (RANK_BYTES + w * LINE) + row * host.ints[BLOCK_BYTES]
    return at


@kernel
def least_of(host: HostState, what: int) -> int:
    """Least of a word of all ranks."""
    least = load_word(word_place(host, 0, what))
    for r in range(1, host.ints[N_RANKS]):
        least = min(least, load_word(word_place(host, r, what)))
    return least
