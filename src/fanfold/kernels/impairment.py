"""Impairments of an arriving block: drop, duplicate, reorder, corrupt, delay, limit.

Chances are out of 2**32. One counter-based random word for each decision (SplitMix64), seeded
from a named stream, so a port's impairments depend on its own packets only.
H = packets that can be held at once.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.kernels.codes import DROP_HELD_FULL, DROP_IMPAIRED, DROP_RATE_FULL
from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.octets import copy_octets, plus, times
from fanfold.kernels.slots import NEVER_PS
from fanfold.kernels.state import I64, U8, Row

MISHAP_ROW = np.dtype(
    [
        ("active", np.int64),
        ("drop", np.int64),
        ("duplicate", np.int64),
        ("reorder", np.int64),
        ("corrupt", np.int64),
        ("delay_ps", np.int64),
        ("reorder_ps", np.int64),  # how long a reordered packet is held back
        ("rate_bps", np.int64),  # 0: no limit
        ("queue_ps", np.int64),  # what may wait for the limited link, as time at its rate
        ("free_ps", np.int64),  # when the limited link is free again
        ("rng", np.uint64),
    ]
)
HELD_ROW = np.dtype(
    [("used", np.int64), ("port", np.int64), ("size", np.int64), ("due_ps", np.int64)]
)
PS_PER_SECOND = 1_000_000_000_000
RELEASE_BYTES = 65_400
LOST = -1

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MUL1, _MUL2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S32 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(32)


class Impairments(NamedTuple):
    """Impairments by port (P,), held packets (H,) and their bytes (H, bytes).

    n_held: (2,), packets held now, and the row where the next one goes: held packets lie in a
    ring, so that those of equal delay come out in the order they came in.
    """

    ports: NDArray[np.void]
    held: NDArray[np.void]
    bytes: U8
    n_held: I64


def build_impairments(
    n_ports: int, n_held: int = 2048, packet_bytes: int = 9216
) -> Impairments:
    """No impairment on any port."""
    return Impairments(
        ports=np.zeros(n_ports, MISHAP_ROW),
        held=np.zeros(n_held, HELD_ROW),
        bytes=np.zeros((n_held, packet_bytes), np.uint8),
        n_held=np.zeros(2, np.int64),
    )


@kernel
def draw(row: Row) -> np.uint64:
    """Next random word of a port."""
    z = plus(row["rng"], _GOLDEN)
    row["rng"] = z
    z = times(z ^ (z >> _S30), _MUL1)
    z = times(z ^ (z >> _S27), _MUL2)
    return z ^ (z >> _S31)


@kernel
def chance(row: Row, out_of_2_32: int) -> bool:
    """True with the given chance; draws nothing when it is 0."""
    return out_of_2_32 > 0 and i64(draw(row) >> _S32) < out_of_2_32


@kernel
def hold(impairments: Impairments, buf: U8, at: int, size: int, port: int, due_ps: int) -> bool:
    """Keep a copy of a packet until ``due_ps``; False when there is no room."""
    if size > impairments.bytes.shape[1]:
        return False
    n_rows = impairments.held.shape[0]
    for i in range(n_rows):
        h = (impairments.n_held[1] + i) % n_rows
        row = impairments.held[h]
        if row["used"] == 0:
            row["used"], row["port"], row["size"], row["due_ps"] = 1, port, size, due_ps
            copy_octets(impairments.bytes[h], 0, buf, at, size)
            impairments.n_held[0] += 1
            impairments.n_held[1] = (h + 1) % n_rows
            return True
    return False


@kernel
def leaves_at(row: Row, size: int, came_ps: int) -> int:
    """When a packet has left a port's limited link, LOST where its queue is full.

    A queue by departure times: each packet leaves when those before it have, and as long after
    that as it takes at the rate. They count from when packets came, so that a process that was
    paused finds them as far as a link would have brought them.
    """
    if row["rate_bps"] == 0:
        return came_ps
    row["free_ps"] = max(row["free_ps"], came_ps)
    if row["free_ps"] - came_ps > row["queue_ps"]:
        return LOST
    row["free_ps"] += size * 8 * PS_PER_SECOND // row["rate_bps"]
    left_ps: int = row["free_ps"]
    return left_ps


@kernel
def impair(
    buf: U8,
    n: int,
    seg: int,
    port: int,
    now_ps: int,
    impairments: Impairments,
    drops: I64,
    came_ps: int,
) -> int:
    """Let impairments befall a block in place; what is left is moved together.

    Args:
        buf, n, seg: the block. port: where it came in. now_ps: time. came_ps: when it came, at
            most ``now_ps``. drops: counted there.

    Returns:
        Bytes left in the block; held packets come out of ``release`` later.
    """
    row = impairments.ports[port]
    kept = 0
    at = 0
    while at < n:
        size = min(seg, n - at)
        is_dropped = chance(row, row["drop"])
        left_ps = LOST if is_dropped else leaves_at(row, size, came_ps)
        if left_ps == LOST:
            drops[DROP_IMPAIRED if is_dropped else DROP_RATE_FULL] += 1
            at += seg
            continue
        due = left_ps + row["delay_ps"]
        if chance(row, row["corrupt"]):
            word = draw(row)
            where = at + i64(word >> _S32) % size
            buf[where] = i64(buf[where]) ^ (1 << i64(word & np.uint64(7)))
        if chance(row, row["duplicate"]):
            hold(impairments, buf, at, size, port, due)
        if chance(row, row["reorder"]):
            due += row["reorder_ps"]
        if due > now_ps:
            if not hold(impairments, buf, at, size, port, due):
                drops[DROP_HELD_FULL] += 1
        else:
            if kept != at:
                copy_octets(buf, kept, buf, at, size)
            kept += size
        at += seg
    return kept


@kernel
def release(buf: U8, now_ps: int, impairments: Impairments, found: I64) -> int:
    """Move held packets of one port and one size that are due into ``buf``, oldest first.

    Args:
        found: (3,), filled with port, packet size, and the next due time of what stays held.

    Returns:
        Bytes moved, 0 when nothing is due.
    """
    found[0], found[1], found[2] = -1, 0, NEVER_PS
    n = 0
    n_rows = impairments.held.shape[0]
    for i in range(n_rows):
        h = (impairments.n_held[1] + i) % n_rows
        row = impairments.held[h]
        if row["used"] == 0:
            continue
        same = found[0] < 0 or (row["port"] == found[0] and row["size"] == found[1])
        is_full = n > 0 and n + row["size"] > RELEASE_BYTES  # a large packet goes alone
        if row["due_ps"] > now_ps or not same or is_full:
            found[2] = min(found[2], row["due_ps"])
            continue
        found[0], found[1] = row["port"], row["size"]
        copy_octets(buf, n, impairments.bytes[h], 0, row["size"])
        n += row["size"]
        row["used"] = 0
        impairments.n_held[0] -= 1
    return n
