"""Which blocks a collective is made of: what each rank sends, keeps, and who gets the array.

Every collective is one run of blocks of the same group. A rank that has nothing to say to a
block sends an empty array, and a result goes as an array to whom it is meant for only, as a
header to the rest: all ranks keep step, and all repair is the same.
"""

import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fanfold.kernels.state import I64
from fanfold.live.rank_state import (
    B_BYTES,
    B_DST,
    B_ONLY,
    B_SCOPE,
    B_SRC,
    N_COLUMNS,
    NOTHING,
)
from fanfold.wire.fold import FoldScope

EVERYBODY = -1
LARGE_BLOCKS = 4
"""An array of so many blocks has blocks of its own beside others: a fifth more at most."""


class Segment(NamedTuple):
    """A run of bytes that belong together, cut into blocks in its turn.

    src, dst: offsets in this rank's arrays, NOTHING where it does not send or keep. n_bytes: of
    its values, the same on all ranks. scope, only: who gets the array, by BFR-id. sender: the
    rank that sends, EVERYBODY where all do.
    """

    src: int
    dst: int
    n_bytes: int
    scope: int = FoldScope.ALL
    only: int = 0
    sender: int = EVERYBODY


def build_blocks(segments: Sequence[Segment], block_bytes: int, *, mixed: bool = False) -> I64:
    """Rows of ``RankState.blocks``.

    Args:
        block_bytes: of values in a full block. mixed: one block of each segment in turn, so
            that all uplinks are busy when each segment has another sender.
    """
    if len(segments) == 1:
        return _cut(segments[0], block_bytes)
    counts = np.array([-(-seg.n_bytes // block_bytes) for seg in segments], np.int64)
    n = int(counts.sum())
    blocks = np.zeros((n, N_COLUMNS), np.int64)
    which = np.repeat(np.arange(len(segments)), counts)
    starts = np.cumsum(counts) - counts
    place = np.arange(n) - np.repeat(starts, counts)
    if mixed:
        order = np.lexsort((which, place))
        which, place = which[order], place[order]
    rows = np.array(segments, np.int64).reshape(-1, 6)[which] if n else np.zeros((0, 6), int)
    at = place * block_bytes
    blocks[:, B_SRC] = np.where(rows[:, 0] == NOTHING, NOTHING, rows[:, 0] + at)
    blocks[:, B_DST] = np.where(rows[:, 1] == NOTHING, NOTHING, rows[:, 1] + at)
    blocks[:, B_BYTES] = np.minimum(rows[:, 2] - at, block_bytes)
    blocks[:, B_SCOPE], blocks[:, B_ONLY] = rows[:, 3], rows[:, 4]
    return blocks


def _cut(segment: Segment, block_bytes: int) -> I64:
    """Rows of one segment: most operations are one, and none pays for sorting several."""
    n = -(-segment.n_bytes // block_bytes)
    blocks = np.empty((n, N_COLUMNS), np.int64)
    if n == 0:
        return blocks
    blocks[:] = segment.src, segment.dst, block_bytes, segment.scope, segment.only
    at = np.arange(0, n * block_bytes, block_bytes)
    for column in (B_SRC, B_DST):
        if blocks[0, column] != NOTHING:
            blocks[:, column] += at
    blocks[-1, B_BYTES] = segment.n_bytes - (n - 1) * block_bytes
    return blocks


def all_reduce(n_bytes: int) -> list[Segment]:
    """Everybody sends everything and keeps everything."""
    return [Segment(0, 0, n_bytes)]


def reduce(n_bytes: int, root: int, rank: int, ids: Sequence[int]) -> list[Segment]:
    """Everybody sends; the root keeps."""
    dst = 0 if rank == root else NOTHING
    return [Segment(0, dst, n_bytes, FoldScope.ONLY, ids[root])]


def broadcast(
    n_bytes: int, root: int, rank: int, ids: Sequence[int], at: int = 0
) -> list[Segment]:
    """The root sends; everybody else keeps; at: offset in either's array."""
    src, dst = (at, NOTHING) if rank == root else (NOTHING, at)
    return [Segment(src, dst, n_bytes, FoldScope.BUT, ids[root], root)]


def all_gather(sizes: Sequence[int], rank: int, ids: Sequence[int]) -> list[Segment]:
    """Each rank sends its array, the others keep it behind those of lower ranks."""
    segments, at = [], 0
    for r, size in enumerate(sizes):
        src, dst = (0, NOTHING) if r == rank else (NOTHING, at)
        segments.append(Segment(src, dst, size, FoldScope.BUT, ids[r], r))
        at += size
    return segments


def gather(size: int, root: int, rank: int, ids: Sequence[int]) -> list[Segment]:
    """Each rank but the root sends its array; the root keeps it."""
    return [
        Segment(
            0 if r == rank else NOTHING,
            r * size if rank == root else NOTHING,
            size,
            FoldScope.ONLY,
            ids[root],
            r,
        )
        for r in range(len(ids))
        if r != root
    ]


def scatter(size: int, root: int, rank: int, ids: Sequence[int]) -> list[Segment]:
    """The root sends each other rank its part."""
    return [
        Segment(
            r * size if rank == root else NOTHING,
            0 if r == rank else NOTHING,
            size,
            FoldScope.ONLY,
            ids[r],
            root,
        )
        for r in range(len(ids))
        if r != root
    ]


def reduce_scatter(sizes: Sequence[int], rank: int, ids: Sequence[int]) -> list[Segment]:
    """Everybody sends everything; rank r keeps part r."""
    segments, at = [], 0
    for r, size in enumerate(sizes):
        dst = 0 if r == rank else NOTHING
        segments.append(Segment(at, dst, size, FoldScope.ONLY, ids[r]))
        at += size
    return segments


def all_to_all(sizes: Sequence[Sequence[int]], rank: int, ids: Sequence[int]) -> list[Segment]:
    """Rank i sends part j to rank j; ``sizes[i][j]`` bytes. Neighbours in rank go first."""
    n = len(ids)
    out_at = np.cumsum([0, *sizes[rank]])
    in_at = np.cumsum([0, *(row[rank] for row in sizes)])
    return [
        Segment(
            int(out_at[j]) if i == rank else NOTHING,
            int(in_at[i]) if j == rank else NOTHING,
            sizes[i][j],
            FoldScope.ONLY,
            ids[j],
            i,
        )
        for step in range(1, n)
        for i in range(n)
        for j in ((i + step) % n,)
    ]


def checksum(segments: Sequence[Segment], ids: Sequence[int]) -> int:
    """What all ranks' layouts have in common, as a number: sizes, in order, and for whom."""
    text = ",".join(f"{seg.n_bytes}/{seg.scope}/{seg.only}" for seg in segments)
    return zlib.crc32(f"{text}|{','.join(map(str, ids))}".encode())
