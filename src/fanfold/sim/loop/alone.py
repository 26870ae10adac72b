"""Words of receivers that nothing on the way reads: what they say stands in packets' rows.

Where receivers speak of losses only, no BFR folds; a word goes through to its source as it is.
Of such a packet ``path`` is FIRST_ALONE - its receiver's bit, ``stamp`` the rest of its header,
and its PSNs are the first word of its BitString's row (senders.pkt_bits).
"""

from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.layout import BITS_AT, FEEDBACK_BYTES, INNER_BYTES, ROW_BYTES
from fanfold.sim.loop.rows import I64, N_WORDS

FIRST_ALONE = -2
"""``path`` of a word of bit 0; below it others, above it rows of bytes."""
OF_ROUND, OF_QUEUE, OF_BEHIND = 8, 8 << 8, 8 << 16


@kernel
def say_alone(
    rnd: int, queue: int, behind: int, is_first: bool, is_whole: bool, is_part: bool
) -> int:
    """Header of a word's packet. is_whole: word of a whole block. is_part: more follows."""
    flags = 4 * i64(is_part) + 2 * i64(is_first) + i64(is_whole)
    return i64(behind * OF_BEHIND + queue * OF_QUEUE + rnd * OF_ROUND + flags)


@kernel
def size_of(q: I64, n_rows: int) -> int:
    """Bytes of a word's packet with so many gaps, without underlay, as FEEDBACK is."""
    step = 8 * q[N_WORDS]
    return i64(BITS_AT + 3 * step + INNER_BYTES + FEEDBACK_BYTES + n_rows * (ROW_BYTES + step))


def told_alone(stamp: int) -> tuple[int, int, int, int, bool, bool]:
    """Round, queue, blocks behind, words merged; of a whole block, and whether more follows."""
    behind, rest = divmod(stamp, OF_BEHIND)
    queue, rest = divmod(rest, OF_QUEUE)
    rnd, flags = divmod(rest, OF_ROUND)
    return rnd, queue, behind, flags >> 1 & 1, bool(flags & 1), bool(flags & 4)
