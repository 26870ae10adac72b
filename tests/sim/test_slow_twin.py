"""The packet simulator against its slow twin, scenarios of chance: equal to the picosecond.

``make twins`` runs 200 of them; FANFOLD_TWINS says how many.
"""

import os

import numpy as np
import pytest
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
