"""The packet simulator against its slow twin, scenarios of chance: equal to the picosecond.

Messages by slow_sim.py alone; all schemes by it and what adds fans, trees and sums to it.
``make twins`` runs 200 of each; FANFOLD_TWINS says how many.
"""

import os

import numpy as np
import pytest
from msgspec.structs import replace
from twin_world import MOSTLY, OF_MESSAGES, case

from fanfold.kernels.jit import JIT
from fanfold.sim.simulate import FANS, simulate
from fanfold.topo.routes import build_routes

GROUP = 10
N_CASES = int(os.environ.get("FANFOLD_TWINS", "60" if JIT else "10"))


def both(one):
    """What each of the two says: ends, hosts, acknowledged items, every link."""
    out = simulate(
        *(one.net, build_routes(one.net), one.program(), one.settings),
        seed=one.seed,
        whole=FANS,
    )
    assert (out.stuck, out.repairs, out.n_folds[1:]) == ((), (0, 0), (0, 0))
    slow = one.slow()
    pkts, n_bytes = out.link_pkts.sum(axis=1), out.link_bytes.sum(axis=1)
    carried = np.stack([pkts, n_bytes], axis=1).tolist()
    fast = (int(out.end_ps), out.host_ps.tolist(), sorted(out.item_ps.tolist()), carried)
    return fast, (max(slow.item_ps), slow.host_ps, sorted(slow.item_ps), slow.carried)


@pytest.mark.parametrize("first", range(0, N_CASES, GROUP))
@pytest.mark.parametrize("schemes", [OF_MESSAGES, MOSTLY], ids=["messages", "all"])
def test_packets_are_where_the_twin_has_them(schemes, first):
    for seed in range(first, first + GROUP):
        one = case(seed, schemes)
        fast, slow = both(one)
        assert fast == slow, one


@pytest.mark.parametrize("first", range(0, N_CASES, GROUP))
def test_a_queue_that_is_never_full_changes_nothing(first):
    """Timers run then; nothing is lost, so nothing is sent twice, whatever stands in queues."""
    for seed in range(first, first + GROUP):
        one = case(seed, OF_MESSAGES)
        told = []
        for queue_bytes in (0, 2**33):
            settings = replace(one.settings, queue_bytes=queue_bytes, cut_through=False)
            out = simulate(
                *(one.net, build_routes(one.net), one.program(), settings),
                seed=seed,
                whole=FANS,
            )
            assert (out.stuck, out.repairs) == ((), (0, 0)), one
            told.append((int(out.end_ps), out.host_ps.tolist(), out.link_bytes.tolist()))
        assert told[0] == told[1], one
