"""Open files of a push: a bounded set of descriptors, and whole positional reads and writes."""

import errno
import os
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

MAX_OPEN_FDS = 64

K = TypeVar("K", bound=Hashable)


class FdCache(Generic[K]):
    """Keeps the most recently used descriptors open, at most `limit`; owns and closes them."""

    def __init__(self, opener: Callable[[K], int], limit: int = MAX_OPEN_FDS) -> None:
        self._opener = opener
        self._limit = limit
        self._fds: OrderedDict[K, int] = OrderedDict()

    def fd(self, key: K) -> int:
        """Return the open descriptor of the key; valid until the next call."""
        if key in self._fds:
            self._fds.move_to_end(key)
            return self._fds[key]
        while len(self._fds) >= self._limit:
            os.close(self._fds.popitem(last=False)[1])
        self._fds[key] = fd = self._opener(key)
        return fd

    def close(self) -> None:
        """Close all; the cache can be used again."""
        while self._fds:
            os.close(self._fds.popitem()[1])


def read_full(fd: int, view: memoryview, offset: int) -> int:
    """Fill the view from the offset on; return the bytes read, fewer only at the end."""
    done = 0
    while done < len(view):
        n = os.preadv(fd, [view[done:]], offset + done)
        if n == 0:
            break
        done += n
    return done


def write_full(fd: int, view: memoryview, offset: int) -> None:
    """Write the whole view at the offset."""
    done = 0
    while done < len(view):
        done += os.pwrite(fd, view[done:], offset + done)


def is_hole(fd: int, offset: int, size: int) -> bool:
    """Whether nothing was ever written there, so that it reads as zeros."""
    try:
        return os.lseek(fd, offset, os.SEEK_DATA) >= offset + size
    except OSError as error:
        if error.errno == errno.ENXIO:  # no data behind the offset
            return True
        raise
