"""Arrays of which few rows are ever used: memory is taken for what is touched, page by page.

numpy asks for pages of 2 MiB for large arrays, so that one row in each would fill them all.
"""

import mmap
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", bound=np.generic)
LEAST_BYTES = 2**22
"""Below it numpy asks for no large pages either."""


def sparse(shape: tuple[int, ...], dtype: type[T]) -> NDArray[T]:
    """Zeros of a shape, of small pages where the system can do that."""
    n_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    if n_bytes < LEAST_BYTES or not hasattr(mmap, "MADV_NOHUGEPAGE"):
        return np.zeros(shape, dtype)
    pages = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(pages, dtype).reshape(shape)
