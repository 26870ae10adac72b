"""What every group sends to every other is dealt out as message by message."""

import numpy as np
import pytest

from fanfold.sim.fluid_counts import spread_evenly, spread_pairs
from fanfold.sim.fluid_flows import build_ways
from fanfold.streams import stream
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes


@pytest.mark.parametrize("topology", ["fat-tree:k=6", "random:hosts=18,degree=3"])
@pytest.mark.parametrize("by_sender", [True, False])
def test_pairs_are_dealt_out_as_messages(topology, by_sender):
    net = build_named_net(topology)
    routes = build_routes(net)
    ways = build_ways(net, routes)
    group = routes.group[: net.n_hosts]
    some, at, n_of = np.unique(group, return_index=True, return_counts=True)
    draw = stream(3, "pairs")
    sorts = draw.integers(0, 7, (some.size, 3)) * [1, 1, 0]
    sorts[:, 2] = sorts[:, 1] * 100 + draw.integers(0, 50, some.size) * (sorts[:, 1] > 0)
    by, to = np.nonzero(~np.eye(some.size, dtype=bool))
    one, other = (by, to) if by_sender else (to, by)
    what = sorts[one] * n_of[other][:, None]
    right = spread_evenly(net, routes, ways, at[by], at[to], what)
    assert right.any()
    pairs = spread_pairs(net, routes, ways, at, sorts, n_of, by_sender)
    assert (pairs == right).all()
