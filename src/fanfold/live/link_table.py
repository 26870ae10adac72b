"""Sessions with keys of one node, as rows and arrays that compiled code works on.

Letters: R = sessions at most, W = words of a replay window, N = packets of one call.
"""

from typing import NamedTuple

import numpy as np

from fanfold.kernels.layout import MAX_PSN
from fanfold.kernels.state import I64, U8, U64, Rows
from fanfold.kernels.umac import (
    BLOCK_BYTES,
    FIRST_WORDS,
    GROUP_BYTES,
    LATER_WORDS,
    N_HASHES,
    U32,
)

WINDOW_PKTS = 8192
"""A packet is taken that is so far behind the newest one, and came not yet (RFC 6479)."""
WINDOW_WORDS = 256
"""A power of two, more than WINDOW_PKTS bits: words ahead of the newest are cleared whole."""
MOST_BLOCKS = 65
"""Of 1,024 octets, in the longest packet."""
ROW_BITS = 12
"""Of the number that the other end writes into trailers: which row; the rest is drawn."""
N_IOV = 2 * MAX_PSN + 4

NONE, NEW, LIVE = 0, 1, 2
"""States: NEW hears, and speaks from its first sound packet on (the other end has the key)."""

LINK_ROW = np.dtype(
    [
        ("state", np.int64),
        ("id", np.int64),  # what comes with it says so,
        ("peer_id", np.int64),  # and what leaves
        ("port", np.int64),
        ("dport", np.int64),  # UDP port that the other end hears on
        ("sends", np.int64),  # 1: of the sessions with that end the one that is spoken by
        ("cipher_out", np.uint64),  # AES contexts of libcrypto
        ("cipher_in", np.uint64),
        ("sent", np.int64),  # counter of the last packet,
        ("top", np.int64),  # and of the newest one that came
        ("n_in", np.int64),  # packets that were sound
        ("heard_ps", np.int64),
        ("spoke_ps", np.int64),  # when something left of which nothing was heard since
    ]
)


class LinkTable(NamedTuple):
    """Keys, windows, and room for one call's work."""

    rows: Rows  # (R,) of LINK_ROW
    first: U32  # (R, 2, FIRST_WORDS): UMAC keys out and in
    later: U64  # (R, 2, LATER_WORDS)
    seen: U64  # (R, W)
    octets: U8  # of a packet that is hashed,
    words: U32  # the same memory
    blocks: U64
    hashes: U64  # (N_HASHES,)
    nonces: U64  # (2 N,)
    pads: U64  # (2 N,)
    tails: U64  # (3 N,): trailers
    plain: U64  # (2 N_IOV,): iovecs as they were
    sizes: I64  # (N,)
    told: I64  # (1,) what libcrypto says


def build_links(n_links: int) -> LinkTable:
    """Room for so many sessions; none is there."""
    n = max(n_links, 1)
    octets = np.zeros(BLOCK_BYTES + 2 * GROUP_BYTES, np.uint8)
    return LinkTable(
        rows=np.zeros(n, LINK_ROW),
        first=np.zeros((n, 2, FIRST_WORDS), np.uint32),
        later=np.zeros((n, 2, LATER_WORDS), np.uint64),
        seen=np.zeros((n, WINDOW_WORDS), np.uint64),
        octets=octets,
        words=octets.view(np.uint32),
        blocks=np.zeros(N_HASHES * MOST_BLOCKS, np.uint64),
        hashes=np.zeros(N_HASHES, np.uint64),
        nonces=np.zeros(2 * MAX_PSN, np.uint64),
        pads=np.zeros(2 * MAX_PSN, np.uint64),
        tails=np.zeros(3 * MAX_PSN, np.uint64),
        plain=np.zeros(2 * N_IOV, np.uint64),
        sizes=np.zeros(MAX_PSN, np.int64),
        told=np.zeros(1, np.int64),
    )
