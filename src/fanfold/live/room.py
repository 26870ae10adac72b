"""Scratch memory that is kept."""

import numpy as np

from fanfold.kernels.state import U8


class Room:
    """Bytes of no value that are kept from one operation to the next.

    Fresh memory for each operation costs a fault for each page of it.
    """

    def __init__(self) -> None:
        self._bytes = np.zeros(0, np.uint8)

    def of(self, n: int) -> U8:
        """So many of them."""
        if len(self._bytes) < n:
            self._bytes = np.empty(n, np.uint8)
        return self._bytes[:n]
