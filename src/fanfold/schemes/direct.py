"""Direct exchange: every rank to every other at once, all_reduce in two such steps."""

import numpy as np

from fanfold.schemes.draft import I64, MAX_SPELLED, Draft, SchemePlan, shard_bounds
from fanfold.schemes.exchange import add_exchange, add_gather, add_scatter, peers
from fanfold.schemes.options import SchemeOptions
from fanfold.schemes.program import Exchange, build_program
from fanfold.work.collective import Collective


def plan(work: Collective, options: SchemeOptions) -> SchemePlan:
    """A rank's sum goes out when all contributions to it are there (``wait_for_all``)."""
    n = len(work.hosts)
    n_rounds = 2 if work.kind == "all_reduce" else 1
    if options.compact and n_rounds * n * (n - 1) > MAX_SPELLED:
        return _in_rounds(work)
    draft = Draft(work)
    if work.kind == "all_reduce":
        scattered = add_scatter(draft, work.n_bytes, n)
        gathered = add_gather(draft, work.n_bytes, n)
        to = np.argsort(peers(n).ravel(), kind="stable").reshape(n, n - 1)
        for rank in range(n):
            draft.wait_for_all(scattered.ravel()[to[rank]], gathered[rank], n_alike=n)
    else:
        add_exchange(draft, work)
    return draft.finish(options)


def _in_rounds(work: Collective) -> SchemePlan:
    """The same without a message for each pair."""
    hosts = np.array(work.hosts, np.int64)
    sizes: I64 = np.diff(shard_bounds(work.n_bytes, hosts.size))
    by_sender = {"all_reduce": (False, True), "all_gather": (True,)}.get(work.kind, (False,))
    none = np.zeros((0, 4), np.int64)
    program = build_program(none, none[:, :2])
    exchange = Exchange(hosts, (sizes,) * len(by_sender), by_sender)
    return SchemePlan(program._replace(exchange=exchange), none[:, 0], none[:, 0] > 0)
