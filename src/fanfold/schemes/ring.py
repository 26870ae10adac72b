"""The ring: shards go round, n - 1 steps to add them up and n - 1 to hand out the sums.

Patarasuk and Yuan, J. Parallel and Distributed Computing 69, 2009. In step t a rank sends on
what it received in step t - 1. Broadcast and reduce run along the ring as a pipeline of n - 1
stages.
"""

import numpy as np

from fanfold.schemes.chain import plan as chain_plan
from fanfold.schemes.draft import I64, Draft, Plan, check_items, shard_bounds
from fanfold.schemes.options import SchemeOptions
from fanfold.work.collective import Collective


def plan(work: Collective, options: SchemeOptions) -> Plan:
    """Any collective but all_to_all."""
    if work.kind in ("broadcast", "reduce"):
        return chain_plan(work, options)
    draft = Draft(work)
    n, bounds = len(work.hosts), shard_bounds(work.n_bytes, len(work.hosts))
    check_items(n, 2 * n * (n - 1))
    before = None
    if work.kind != "all_gather":
        before = _add_round(draft, n, bounds, before, adds=True)
    if work.kind != "reduce_scatter":
        _add_round(draft, n, bounds, before, adds=False)
    return draft.finish(options)


def _add_round(draft: Draft, n: int, bounds: I64, before: I64 | None, *, adds: bool) -> I64:
    """Take n - 1 steps round the ring; the shard of a rank's number ends, or begins, there.

    Args:
        before: (n,) ids that each rank's first step waits for, by receiver, None for nothing.

    Returns:
        (n,) ids of the last step, by receiver.
    """
    rank, step = np.arange(n), np.arange(n - 1)[:, None]
    shard = (rank - int(adds) - step) % n
    ids = draft.send(rank, (rank + 1) % n, bounds[shard], np.diff(bounds)[shard], adds=adds)
    by_receiver: I64 = np.roll(ids, 1, axis=1)
    draft.wait(by_receiver[:-1], ids[1:])
    if before is not None:
        draft.wait(before, ids[0])
    last: I64 = by_receiver[-1]
    return last
