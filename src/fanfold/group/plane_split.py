"""Blocks of an operation cut into one run for each plane, by weight."""

from collections.abc import Sequence

import numpy as np

from fanfold.kernels.state import I64, U8
from fanfold.live.rank_state import B_BYTES, B_DST, B_SRC, NOTHING

Run = tuple[int, int]
"""First block, and the one behind the last."""


def split(sizes: I64, weights: Sequence[int]) -> list[Run]:
    """A run of blocks for each plane; parts of its weight to one block.

    Blocks stay whole, so that values have the exponents that they have on one plane.

    Args:
        sizes: bytes of each block. weights: of each plane, 0 or more, one at least above 0.
    """
    ends = np.cumsum(sizes)
    total, whole = int(ends[-1]) if len(ends) else 0, sum(weights)
    runs, first, weight = [], 0, 0
    for own in weights:
        weight += own
        last = int(np.searchsorted(ends, total * weight // whole, side="right"))
        runs.append((first, last))
        first = last
    return runs


def pieces(sizes: I64, most: int) -> list[Run]:
    """Runs of ``most`` bytes or less, of one block at least; one run where there is none."""
    ends, runs, first, at = np.cumsum(sizes), [], 0, 0
    while first < len(sizes):
        last = max(int(np.searchsorted(ends, at + most, side="right")), first + 1)
        runs.append((first, last))
        first, at = last, int(ends[last - 1])
    return runs or [(0, 0)]


def span(blocks: I64, column: int) -> Run:
    """First byte of what blocks send or keep, and the one behind the last; (0, 0): none do."""
    rows = blocks[blocks[:, column] != NOTHING]
    if not len(rows):
        return 0, 0
    return int(rows[:, column].min()), int((rows[:, column] + rows[:, B_BYTES]).max())


def packed(blocks: I64, src: U8) -> tuple[I64, U8, int]:
    """Blocks, a copy of what they send, bytes of what they keep.

    In these both are byte behind byte: what lies between is nobody's business.
    """
    rows, sizes = blocks.copy(), blocks[:, B_BYTES]
    sends, keeps = blocks[:, B_SRC] != NOTHING, blocks[:, B_DST] != NOTHING
    rows[sends, B_SRC] = np.cumsum(sizes[sends]) - sizes[sends]
    rows[keeps, B_DST] = np.cumsum(sizes[keeps]) - sizes[keeps]
    first, last = span(blocks, B_SRC)
    if last - first == int(sizes[sends].sum()) and (np.diff(blocks[sends, B_SRC]) > 0).all():
        return rows, src[first:last].copy(), int(sizes[keeps].sum())
    pairs = zip(blocks[sends, B_SRC].tolist(), sizes[sends].tolist(), strict=True)
    parts = [src[at : at + n] for at, n in pairs]
    own = np.concatenate(parts) if parts else np.zeros(0, np.uint8)
    return rows, own, int(sizes[keeps].sum())
