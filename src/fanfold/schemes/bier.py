"""BIER: one copy on each link on the way down; the feedback of every receiver comes unfolded.

all_gather is a fan from each rank. all_reduce adds up by unicast along a binary tree to rank 0
and fans the sums out, piece by piece.
"""

from fanfold.schemes.draft import Draft, SchemePlan, check_items, shard_bounds
from fanfold.schemes.options import SchemeOptions, pick_chunks
from fanfold.schemes.tree_shape import add_up, depth_of, in_order_parents
from fanfold.work.collective import Collective


def plan(work: Collective, options: SchemeOptions, *, folds: bool = False) -> SchemePlan:
    """Broadcast, all_gather, all_reduce; pieces of the latter as ``pick_chunks`` says."""
    draft = Draft(work)
    n = len(work.hosts)
    chunks = 1
    if work.kind == "broadcast":
        draft.fan(0, 0, work.n_bytes)
    elif work.kind == "all_gather":
        check_items(n, n * (n - 1))
        bounds = shard_bounds(work.n_bytes, n).tolist()
        for rank in range(n):
            draft.fan(rank, bounds[rank], bounds[rank + 1] - bounds[rank])
    else:
        parent = in_order_parents(n)
        up = add_up(draft, parent, 0, work.n_bytes)
        draft.wait(up[parent[1:] == 0], draft.fan(0, 0, work.n_bytes))
        depth = depth_of(parent) + 1
        chunks = pick_chunks(
            options, work.n_bytes, work.n_bytes, depth=depth, load=2, n_items=n
        )
    return draft.finish(options, chunks=chunks, folds=folds)
