"""Two binary trees, each with half of the vector: who is inside one is a leaf of the other.

Sanders, Speck and Traeff, Parallel Computing 35, 2009; NCCL does the same for all_reduce.
Rank 0 stands above both roots.
"""

from fanfold.errors import ConfigError
from fanfold.schemes.draft import Draft, SchemePlan
from fanfold.schemes.options import SchemeOptions, pick_chunks
from fanfold.schemes.tree_shape import add_tree, depth_of, in_order_parents, second_parents
from fanfold.work.collective import Collective


def plan(work: Collective, options: SchemeOptions) -> SchemePlan:
    """Broadcast, reduce, all_reduce; pieces of each half as ``pick_chunks`` says.

    Every rank sends and receives the vector about once each way.
    """
    n, half = len(work.hosts), work.n_bytes // 2
    if half < 1:
        raise ConfigError("workload.n_bytes", work.n_bytes, "at least 2")
    first, second = in_order_parents(n), second_parents(n)
    draft = Draft(work)
    add_tree(draft, work.kind, first, 0, work.n_bytes - half)
    add_tree(draft, work.kind, second, work.n_bytes - half, half)
    is_both = work.kind == "all_reduce"
    chunks = pick_chunks(
        options,
        work.n_bytes,
        half,
        depth=max(depth_of(first), depth_of(second)) * (1 + is_both),
        load=1 + is_both,
        n_items=2 * (n - 1) * (1 + is_both),
    )
    return draft.finish(options, chunks=chunks)
