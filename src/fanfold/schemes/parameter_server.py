"""Parameter server: ranks push pieces to a server, which sends a sum back when all have come.

The server is on rank 0's host. As in Li et al., Scaling distributed machine learning with the
parameter server (2014), ranges of a vector are pushed and pulled on their own, so pushes
and pulls fill both directions of the server's link at once. ``unicast`` is the same without
pieces, ``direct`` the same with a server on every rank for its share.
"""

import numpy as np

from fanfold.schemes.draft import Draft, SchemePlan
from fanfold.schemes.options import SchemeOptions, pick_chunks
from fanfold.work.collective import Collective


def plan(work: Collective, options: SchemeOptions) -> SchemePlan:
    """All_reduce; pieces as ``pick_chunks`` says, of two stages with n - 1 vectors each."""
    draft = Draft(work)
    others = np.arange(1, len(work.hosts))
    chunks = pick_chunks(
        options,
        work.n_bytes,
        work.n_bytes,
        depth=2,
        load=others.size,
        n_items=2 * others.size,
    )
    pushes = draft.send(others, 0, 0, work.n_bytes, adds=True)
    pulls = draft.send(0, others, 0, work.n_bytes)
    draft.wait_for_all(pushes, pulls, n_alike=chunks)
    return draft.finish(options, chunks=chunks)
