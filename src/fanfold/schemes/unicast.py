"""The source sends a copy to each receiver; sums go to rank 0, which adds them all up."""

import numpy as np

from fanfold.schemes.draft import Draft, SchemePlan
from fanfold.schemes.exchange import add_exchange
from fanfold.schemes.options import SchemeOptions
from fanfold.work.collective import Collective


def plan(work: Collective, options: SchemeOptions) -> SchemePlan:
    """Any collective. all_gather, reduce_scatter, all_to_all: every rank to every other."""
    draft = Draft(work)
    others = np.arange(1, len(work.hosts))
    if work.kind == "broadcast":
        draft.send(0, others, 0, work.n_bytes)
    elif work.kind in ("reduce", "all_reduce"):
        sums = draft.send(others, 0, 0, work.n_bytes, adds=True)
        if work.kind == "all_reduce":
            draft.wait_for_all(sums, draft.send(0, others, 0, work.n_bytes))
    else:
        add_exchange(draft, work)
    return draft.finish(options)
