"""Search from 64 groups of targets at once, one bit of a word for each, by rising cost.

Letters: R = routers, G = groups, E = links between routers, K = ECMP sets, S = slots of the
hash table (a power of two, more than K), F = fronts kept (a power of two, more than the
greatest cost of a link). Links of router r are ``first[r]`` to ``first[r + 1]`` of the E.

A level is a cost. A router is reached at the level that the front of a neighbour was at, and
the cost of the link more; the fronts of the last F levels are kept (Dial 1969).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.octets import ZERO
from fanfold.kernels.replicate import bit, lowest_bit

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
I32 = NDArray[np.int32]
MAX_COST = 2**14 - 1
NO_ROOM = -1
TOO_FAR = -2
EMPTY = -1
_LOW = np.uint64(0xFFFFFFFF)


class Arcs(NamedTuple):
    """Links between routers: first (R + 1,); (E,) each: where to, a random code, the cost."""

    first: I64
    to: I32
    code: U64
    cost: I32


class Sets(NamedTuple):
    """ECMP sets found so far.

    first: (K + 1,). arc: links of set k at first[k]..first[k + 1], as indices of the E. key:
    (K,) the codes of its links, xored. slot: (S,) set or EMPTY. n: (1,) sets in use.
    """

    first: I64
    arc: I32
    key: U64
    slot: I32
    n: I64


class Batch(NamedTuple):
    """Bits of 64 groups: seen (R,), fronts (F, R); set of each (64,): key, size, an arc low."""

    seen: U64
    fronts: U64
    key: U64
    size: I64
    low: I64


@kernel
def search(
    arcs: Arcs, batch: Batch, sets: Sets, g0: int, hops: NDArray[np.int16], ecmp: I32
) -> int:
    """Hops and ECMP sets of up to 64 groups from g0 on.

    Args:
        arcs: links between routers.
        batch: seen holds the bits of groups that hang on a router, fronts are all zero; the
            rest is overwritten.
        sets: found before; new ones are added.
        g0: group of bit 0.
        hops: (R, G), columns of the batch filled where there is a path beyond 1.
        ecmp: (R, G), the same columns.

    Returns:
        Sets in use, TOO_FAR, or NO_ROOM; then call again with more room, ``batch`` as it was.
    """
    n_routers = arcs.first.size - 1
    n_fronts = batch.fronts.shape[0]
    mask = ZERO
    for r in range(n_routers):
        batch.fronts[1 & (n_fronts - 1), r] = batch.seen[r]
        mask |= batch.seen[r]
    level = last = 1
    while level - last < n_fronts - 1:
        level += 1
        if level > MAX_COST:
            return TOO_FAR
        front = batch.fronts[level & (n_fronts - 1)]
        for r in range(n_routers):
            new = ZERO
            missing = mask & ~batch.seen[r]
            if missing != ZERO:
                for e in range(arcs.first[r], arcs.first[r + 1]):
                    new |= _front(arcs, batch, level, e) & missing
                    if new == missing:
                        break
            front[r] = new
            if new != ZERO:
                last = level
                batch.seen[r] |= new
                if _settle(arcs, batch, sets, r, g0, level, hops, ecmp) == NO_ROOM:
                    return NO_ROOM
    return i64(sets.n[0])


@kernel
def _front(arcs: Arcs, batch: Batch, level: int, e: int) -> np.uint64:
    """Groups that a link leads to by a path of the cost of a level."""
    at = (level - arcs.cost[e]) & (batch.fronts.shape[0] - 1)
    return batch.fronts[at, arcs.to[e]]


@kernel
def _settle(
    arcs: Arcs,
    batch: Batch,
    sets: Sets,
    r: int,
    g0: int,
    level: int,
    hops: NDArray[np.int16],
    ecmp: I32,
) -> int:
    """Write hops and sets of a router for the groups that it reaches at this level."""
    new = batch.fronts[level & (batch.fronts.shape[0] - 1), r]
    n_all, key_of_all = _sum_up(arcs, batch, r, level, new)
    k_of_all = EMPTY
    while new != ZERO:
        b = lowest_bit(new)
        is_all = batch.size[b] == 0
        if is_all and k_of_all != EMPTY:
            k = k_of_all
        else:
            if n_all > 0:
                batch.low[b] = arcs.first[r]
            batch.size[b] += n_all
            batch.key[b] ^= key_of_all
            k = _intern(arcs, batch, sets, r, level, b)
            if k == NO_ROOM:
                return NO_ROOM
            if is_all:
                k_of_all = k
        hops[r, g0 + b] = level
        ecmp[r, g0 + b] = k
        new &= ~bit(b)
    return 0


@kernel
def _sum_up(
    arcs: Arcs, batch: Batch, r: int, level: int, new: np.uint64
) -> tuple[int, np.uint64]:
    """Size and key of the set of each new group; links that lead to all of them stand apart.

    Returns:
        Number and key of the links that lead to all; they are not in size and key of a group.
    """
    left = new
    while left != ZERO:
        b = lowest_bit(left)
        batch.key[b] = ZERO
        batch.size[b] = 0
        left &= ~bit(b)
    key = ZERO
    n_all = 0
    for e in range(arcs.first[r], arcs.first[r + 1]):
        served = new & _front(arcs, batch, level, e)
        if served == new:
            key ^= arcs.code[e]
            n_all += 1
        else:
            while served != ZERO:
                b = lowest_bit(served)
                if batch.size[b] == 0:
                    batch.low[b] = e
                batch.key[b] ^= arcs.code[e]
                batch.size[b] += 1
                served &= ~bit(b)
    return n_all, key


@kernel
def _intern(arcs: Arcs, batch: Batch, sets: Sets, r: int, level: int, b: int) -> int:
    """Index of the set of links that serve bit b at router r: found, or added."""
    last = sets.slot.size - 1
    s = i64(batch.key[b] & _LOW) & last
    while sets.slot[s] != EMPTY:
        k = i64(sets.slot[s])
        if sets.key[k] == batch.key[b] and _serves(arcs, batch, sets, k, level, b):
            return k
        s = (s + 1) & last
    k = i64(sets.n[0])
    at = i64(sets.first[k])
    end = at + i64(batch.size[b])
    if k == sets.key.size or end > sets.arc.size:
        return NO_ROOM
    for e in range(batch.low[b], arcs.first[r + 1]):
        if at == end:
            break
        if _front(arcs, batch, level, e) & bit(b) != ZERO:
            sets.arc[at] = e
            at += 1
    sets.first[k + 1] = at
    sets.key[k] = batch.key[b]
    sets.slot[s] = k
    sets.n[0] = k + 1
    return k


@kernel
def _serves(arcs: Arcs, batch: Batch, sets: Sets, k: int, level: int, b: int) -> bool:
    """Whether set k is the set of bit b: as many links, and each of them leads on.

    Equal keys alone prove nothing.
    """
    if sets.first[k + 1] - sets.first[k] != batch.size[b]:
        return False
    for i in range(sets.first[k], sets.first[k + 1]):
        if _front(arcs, batch, level, i64(sets.arc[i])) & bit(b) == ZERO:
            return False
    return True


@kernel
def refill(sets: Sets) -> None:
    """Enter all sets into an empty hash table."""
    last = sets.slot.size - 1
    for k in range(sets.n[0]):
        s = i64(sets.key[k] & _LOW) & last
        while sets.slot[s] != EMPTY:
            s = (s + 1) & last
        sets.slot[s] = k
