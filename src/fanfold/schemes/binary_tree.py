"""One binary tree, numbered in order, pipelined; rank 0 stands above its root."""

from fanfold.schemes.draft import Draft, SchemePlan
from fanfold.schemes.options import SchemeOptions, pick_chunks
from fanfold.schemes.tree_shape import add_tree, depth_of, in_order_parents
from fanfold.work.collective import Collective


def plan(work: Collective, options: SchemeOptions) -> SchemePlan:
    """Broadcast, reduce, all_reduce (up, then down); pieces as ``pick_chunks`` says.

    A rank inside the tree sends each piece twice on the way down, once on the way up.
    """
    n = len(work.hosts)
    parent = in_order_parents(n)
    draft = Draft(work)
    add_tree(draft, work.kind, parent, 0, work.n_bytes)
    is_both = work.kind == "all_reduce"
    chunks = pick_chunks(
        options,
        work.n_bytes,
        work.n_bytes,
        depth=depth_of(parent) * (1 + is_both),
        load=2 + is_both,
        n_items=(n - 1) * (1 + is_both),
    )
    return draft.finish(options, chunks=chunks)
