"""Trees over ranks with rank 0 at the root: who is whose parent, and the messages on them.

Letters: n = ranks. A parent array is (n,) with parent[0] = NO_PARENT. A chain is a tree too.
"""

import numpy as np

from fanfold.schemes.draft import I64, Draft

NO_PARENT = -1


def chain_parents(n: int) -> I64:
    """Each rank below the one before it."""
    return np.arange(-1, n - 1)


def in_order_parents(n: int) -> I64:
    """Rank 0 above a binary tree of 1..n-1, numbered in order.

    Sanders, Speck and Traeff 2009: a rank's lowest one-bit is its height, odd ranks are leaves.
    Where the parent lies beyond the last rank, the next one on the left takes its place.
    """
    rank = np.arange(n)
    low = rank & -rank
    above = (rank ^ low) | low << 1
    above = np.where(above < n, above, rank ^ low)
    above[0] = NO_PARENT
    return above


def second_parents(n: int) -> I64:
    """The second tree of Sanders, Speck and Traeff: no rank but 0 is inside both.

    The first one mirrored where n - 1 is even, else shifted by one: odd and even change roles.
    """
    place = np.arange(n)
    if n % 2:
        place[1:] = n - place[1:]
    else:
        place[1:] = (place[1:] - 2) % (n - 1) + 1
    rank_at = np.argsort(place)
    parent = rank_at[in_order_parents(n)[place]]
    parent[0] = NO_PARENT
    return parent


def depth_of(parent: I64) -> int:
    """Links from the root to the deepest rank."""
    depth, at = 0, np.arange(parent.size)
    if (parent == chain_parents(parent.size)).all():
        return parent.size - 1
    while (at > 0).any():
        at = np.where(at > 0, parent[at], 0)
        depth += 1
    return depth


def add_down(draft: Draft, parent: I64, begin: int, n_bytes: int) -> I64:
    """A copy from each parent to its children, after its own has come.

    Returns:
        (n - 1,) ids, of ranks 1..n-1.
    """
    rank = np.arange(1, parent.size)
    ids = draft.send(parent[rank], rank, begin, n_bytes)
    below = parent[rank] > 0
    draft.wait(ids[parent[rank][below] - 1], ids[below])
    return ids


def add_up(draft: Draft, parent: I64, begin: int, n_bytes: int) -> I64:
    """A sum from each rank to its parent, after those of its own children.

    Returns:
        (n - 1,) ids, of ranks 1..n-1.
    """
    rank = np.arange(1, parent.size)
    ids = draft.send(rank, parent[rank], begin, n_bytes, adds=True)
    below = parent[rank] > 0
    draft.wait(ids[below], ids[parent[rank][below] - 1])
    return ids


def add_tree(draft: Draft, kind: str, parent: I64, begin: int, n_bytes: int) -> None:
    """Messages of a broadcast, reduce or all_reduce on one tree."""
    at_root = parent[1:] == 0
    up = down = np.zeros(0, np.int64)
    if kind != "broadcast":
        up = add_up(draft, parent, begin, n_bytes)
    if kind != "reduce":
        down = add_down(draft, parent, begin, n_bytes)
    if kind == "all_reduce":
        draft.wait_for_all(up[at_root], down[at_root])
