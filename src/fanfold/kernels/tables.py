"""Forwarding tables as kernels read them; filled by ``kernels.bift``.

Letters: T = BIFT-ids a node accepts, N = tables, the ``n_ecmp`` of all BIFT-ids in a row,
BITS = bits of a BitString, W = its words, P = ports.

Word 0 holds bit positions 1..64: bit index k is bit k % 64 of word k // 64. A packet of row t
uses table ``first[t] + entropy % n_ecmp[t]`` for all its bits (RFC 8279 section 6.7.2).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

WORD_BITS = 64
NULL_NBR = -1
"""BFR-NBR of an unused or unreachable BFR-id: copies for it are dropped."""
SELF_NBR = 0
"""BFR-NBR of the node's own BFR-id: copies for it are delivered."""


class Bifts(NamedTuple):
    """All BIFTs of one node, RFC 8279 section 6.4.

    ids: (T,) BIFT-ids this node accepts.
    n_words: (T,) words of the BitString.
    n_ecmp: (T,) tables of the BIFT-id.
    first: (T,) index of its first table.
    nbr_of: (N, BITS) BFR-NBR of each bit index: NULL_NBR, SELF_NBR, or a port from 1.
    f_bm: (N, P + 2, W) F-BM by [table, BFR-NBR + 1]; all rows of one BFR-NBR share it.
    behind: (T, P + 1, W) BFERs that a shortest path leads to through each port, whatever the
        table; port 0 has the node itself. (0, 0, 0) where nobody is checked: a simulated node.
    may: (T, P + 1) 1 where packets of a BIFT-id may come in by a port: not another tenant's by
        that of a host. (0, 0) where nobody is checked: a fabric without tenants.
    """

    ids: NDArray[np.int64]
    n_words: NDArray[np.int64]
    n_ecmp: NDArray[np.int64]
    first: NDArray[np.int64]
    nbr_of: NDArray[np.int64]
    f_bm: NDArray[np.uint64]
    behind: NDArray[np.uint64]
    may: NDArray[np.uint8] = np.zeros((0, 0), np.uint8)


def build_unchecked() -> NDArray[np.uint64]:
    """``behind`` of a node that believes every port."""
    return np.zeros((0, 0, 0), np.uint64)
