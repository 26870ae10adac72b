"""Direct exchange: every rank to every other at once, all_reduce in two such steps."""

import numpy as np

from fanfold.schemes.draft import Draft, Plan
from fanfold.schemes.exchange import add_exchange, add_gather, add_scatter, peers
from fanfold.schemes.options import SchemeOptions
from fanfold.work.collective import Collective


def plan(work: Collective, options: SchemeOptions) -> Plan:
    """A rank's sum goes out when all contributions to it are there (``wait_for_all``)."""
    draft = Draft(work)
    n = len(work.hosts)
    if work.kind == "all_reduce":
        scattered = add_scatter(draft, work.n_bytes, n)
        gathered = add_gather(draft, work.n_bytes, n)
        to = np.argsort(peers(n).ravel(), kind="stable").reshape(n, n - 1)
        for rank in range(n):
            draft.wait_for_all(scattered.ravel()[to[rank]], gathered[rank], n_alike=n)
    else:
        add_exchange(draft, work)
    return draft.finish(options)
