"""The packet simulator against its slow twin, scenarios of chance: equal to the picosecond.

``make twins`` runs 200 of them; FANFOLD_TWINS says how many.
"""

import os

import numpy as np
import pytest
from msgspec.structs import replace
from twin_world import FANS as SENDS_FANS
from twin_world import case

from fanfold.kernels.jit import JIT
from fanfold.sim.simulate import FANS, simulate
from fanfold.topo.routes import build_routes

GROUP = 10
N_CASES = int(os.environ.get("FANFOLD_TWINS", "60" if JIT else "10"))


def both(seed):
    """What each of the two says: ends, hosts, acknowledged items, every link."""
    one = case(seed)
    out = simulate(
        *(one.net, build_routes(one.net), one.program(), one.settings), seed=seed, whole=FANS
    )
    assert (out.stuck, out.repairs, out.n_folds[1:]) == ((), (0, 0), (0, 0))
    slow = one.slow()
    pkts, n_bytes = out.link_pkts.sum(axis=1), out.link_bytes.sum(axis=1)
    carried = np.stack([pkts, n_bytes], axis=1).tolist()
    fast = (int(out.end_ps), out.host_ps.tolist(), sorted(out.item_ps.tolist()), carried)
    return fast, (max(slow.item_ps), slow.host_ps, sorted(slow.item_ps), slow.carried), one


@pytest.mark.parametrize("first", range(0, N_CASES, GROUP))
def test_packets_are_where_the_twin_has_them(first):
    for seed in range(first, first + GROUP):
        fast, slow, one = both(seed)
        assert fast == slow, one


@pytest.mark.parametrize("first", range(0, N_CASES, GROUP))
def test_a_queue_that_is_never_full_changes_nothing(first):
    """Timers run then; nothing is lost, so nothing is sent twice, whatever stands in queues."""
    for seed in range(first, first + GROUP):
        one = case(seed)
        if one.scheme in SENDS_FANS:
            continue
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
