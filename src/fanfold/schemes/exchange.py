"""Every rank to every other, what the other is to have; nothing waits."""

import numpy as np

from fanfold.schemes.draft import I64, Draft, check_items, shard_bounds
from fanfold.work.collective import Collective


def peers(n: int) -> I64:
    """(n, n - 1) the others of each rank, the next one first: no two start with the same."""
    check_items(n, n * (n - 1))
    return (np.arange(n)[:, None] + np.arange(1, n)) % n


def add_exchange(draft: Draft, work: Collective) -> I64:
    """Messages of all_gather, reduce_scatter or all_to_all.

    Returns:
        (n, n - 1) ids, rows by sender.
    """
    n = len(work.hosts)
    rank, other = np.arange(n)[:, None], peers(n)
    if work.kind == "all_to_all":
        shard = work.n_bytes // n
        return draft.send(rank, other, rank * work.n_bytes + other * shard, shard)
    if work.kind == "all_gather":
        return add_gather(draft, work.n_bytes, n)
    return add_scatter(draft, work.n_bytes, n)


def add_scatter(draft: Draft, n_bytes: int, n: int) -> I64:
    """Each rank adds to every other's shard: (n, n - 1) ids, rows by sender."""
    bounds, other = shard_bounds(n_bytes, n), peers(n)
    sizes = np.diff(bounds)
    return draft.send(np.arange(n)[:, None], other, bounds[other], sizes[other], adds=True)


def add_gather(draft: Draft, n_bytes: int, n: int) -> I64:
    """Each rank gives its shard to every other: (n, n - 1) ids, rows by sender."""
    bounds, rank = shard_bounds(n_bytes, n), np.arange(n)[:, None]
    return draft.send(rank, peers(n), bounds[rank], np.diff(bounds)[rank])
