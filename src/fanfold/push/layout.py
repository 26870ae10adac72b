"""Where the chunks of a push lie: stream positions to pieces of files.

The stream is the concatenation of the files; empty files have no place in it. Lengths in bytes.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np


class Piece(NamedTuple):
    """size bytes of a chunk, from its byte `at` on, are the file's bytes from `offset` on."""

    entry: int
    offset: int
    size: int
    at: int


class Layout:
    """The sizes of the files in stream order, cut into chunks."""

    def __init__(self, sizes: Iterable[int], chunk_bytes: int) -> None:
        every = np.array(tuple(sizes), np.int64)
        with_bytes = np.flatnonzero(every)
        self._every_start = np.cumsum(every) - every
        self._entries = array("q", with_bytes.tobytes())
        self._starts = array("q", self._every_start[with_bytes].tobytes())
        self.chunk_bytes = chunk_bytes
        self.total_bytes = int(every.sum())
        self.n_chunks = -(-self.total_bytes // chunk_bytes)  # rounds up

    def chunk_size(self, i: int) -> int:
        """Bytes of chunk i; 0 when there is no such chunk."""
        if not 0 <= i < self.n_chunks:
            return 0
        return min(self.chunk_bytes, self.total_bytes - i * self.chunk_bytes)

    def pieces(self, i: int) -> list[Piece]:
        """The pieces of chunk i in stream order."""
        start = position = i * self.chunk_bytes
        end = start + self.chunk_size(i)
        k = bisect_right(self._starts, position) - 1
        pieces = []
        entries, starts = self._entries, self._starts
        while position < end:
            stop = starts[k + 1] if k + 1 < len(starts) else self.total_bytes
            stop = stop if stop < end else end
            pieces.append(
                Piece(entries[k], position - starts[k], stop - position, position - start)
            )
            position = stop
            k += 1
        return pieces

    def starts(self) -> list[int]:
        """First stream byte of each entry, as ``start_of`` has it."""
        starts: list[int] = self._every_start.tolist()
        return starts

    def start_of(self, entry: int) -> int:
        """First stream byte of an entry; of an empty one that of whatever comes next."""
        k = bisect_left(self._entries, entry)
        return self._starts[k] if k < len(self._starts) else self.total_bytes
