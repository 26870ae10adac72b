"""A pipelined chain: each rank passes pieces on to the next; a sum travels the other way."""

from fanfold.schemes.draft import Draft, SchemePlan
from fanfold.schemes.options import SchemeOptions, pick_chunks
from fanfold.schemes.tree_shape import add_tree, chain_parents
from fanfold.work.collective import Collective


def plan(work: Collective, options: SchemeOptions) -> SchemePlan:
    """Broadcast and reduce; pieces as ``pick_chunks`` says for n - 1 stages."""
    n = len(work.hosts)
    draft = Draft(work)
    add_tree(draft, work.kind, chain_parents(n), 0, work.n_bytes)
    chunks = pick_chunks(
        options, work.n_bytes, work.n_bytes, depth=n - 1, load=1, n_items=n - 1
    )
    return draft.finish(options, chunks=chunks)
