"""The ring: shards go round, n - 1 steps to add them up and n - 1 to hand out the sums.

Patarasuk and Yuan, J. Parallel and Distributed Computing 69, 2009. In step t a rank sends on
what it received in step t - 1. Broadcast and reduce run along the ring as a pipeline of n - 1
stages. Among many ranks the compact form says of each rank what it sends in all, a shard a
step; its shards differ by a byte from those of the plain form where they do not divide.
"""

import numpy as np

from fanfold.schemes.chain import plan as chain_plan
from fanfold.schemes.draft import I64, MAX_SPELLED, Draft, SchemePlan, check_items, shard_bounds
from fanfold.schemes.options import SchemeOptions
from fanfold.work.collective import Collective

ROUNDS = ((True, "all_gather"), (False, "reduce_scatter"))
"""Whether a round adds, and the collective that does without it."""


def plan(work: Collective, options: SchemeOptions) -> SchemePlan:
    """Any collective but all_to_all."""
    if work.kind in ("broadcast", "reduce"):
        return chain_plan(work, options)
    draft = Draft(work)
    n, bounds = len(work.hosts), shard_bounds(work.n_bytes, len(work.hosts))
    rounds = [adds for adds, other in ROUNDS if work.kind != other]
    n_steps = len(rounds) * (n - 1)
    if options.compact and n * n_steps > MAX_SPELLED:
        _add_steps(draft, n, bounds, rounds)
        return draft.finish(options, chunks=n_steps, shift=1)
    check_items(n, n * n_steps)
    before = None
    for adds in rounds:
        before = _add_round(draft, n, bounds, before, adds=adds)
    return draft.finish(options)


def _add_steps(draft: Draft, n: int, bounds: I64, rounds: list[bool]) -> None:
    """All steps of each rank as one item; each round leaves out one shard of a rank."""
    rank, sizes = np.arange(n), np.diff(bounds)
    n_bytes = sum(bounds[-1] - np.roll(sizes, 0 if adds else -1) for adds in rounds)
    ids = draft.send(rank, (rank + 1) % n, 0, n_bytes)
    draft.wait(np.roll(ids, 1), ids)


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
