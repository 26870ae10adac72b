"""Where the chunks of a push lie: stream positions to pieces of files.

The stream is the concatenation of the files; empty files have no place in it. Lengths in bytes.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple


class Piece(NamedTuple):
    """size bytes of a chunk, from its byte `at` on, are the file's bytes from `offset` on."""

    entry: int
    offset: int
    size: int
    at: int


class Layout:
    """The sizes of the files in stream order, cut into chunks."""

    def __init__(self, sizes: Iterable[int], chunk_bytes: int) -> None:
        self._entries = array("q")
        self._starts = array("q")
        self.chunk_bytes = chunk_bytes
        self.total_bytes = 0
        for entry, size in enumerate(sizes):
            if size:
                self._entries.append(entry)
                self._starts.append(self.total_bytes)
                self.total_bytes += size
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
        while position < end:
            stop = min(end, self._end(k))
            offset = position - self._starts[k]
            pieces.append(Piece(self._entries[k], offset, stop - position, position - start))
            position = stop
            k += 1
        return pieces

    def start_of(self, entry: int) -> int:
        """First stream byte of an entry; of an empty one that of whatever comes next."""
        k = bisect_left(self._entries, entry)
        return self._starts[k] if k < len(self._starts) else self.total_bytes

    def _end(self, k: int) -> int:
        return self._starts[k + 1] if k + 1 < len(self._starts) else self.total_bytes
