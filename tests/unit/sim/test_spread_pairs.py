"""What every group sends to every other is dealt out as message by message."""

import tracemalloc

import numpy as np
import pytest

from fanfold.sim.fluid_counts import spread_evenly, spread_pairs
from fanfold.sim.fluid_flows import paths_by
from fanfold.streams import stream
from fanfold.topo.birt import build_birt
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes


@pytest.mark.parametrize("topology", ["fat-tree:k=6", "random:hosts=18,degree=3"])
@pytest.mark.parametrize("by_sender", [True, False])
def test_pairs_are_dealt_out_as_messages(topology, by_sender):
    net = build_named_net(topology)
    routes = build_routes(net)
    ways = build_birt(net, routes, 4)
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


def test_memory_of_pairs_and_paths_stays_small():
    net = build_named_net("leaf-spine:leaves=32,spines=2,hosts=64")
    routes = build_routes(net)
    ways = build_birt(net, routes, 4)
    hosts, n_of = np.arange(0, 64, 2), np.full(32, 2)
    sorts = np.tile([0, 1, 100], (32, 1))
    src, dst = (x.ravel() for x in np.meshgrid(np.arange(64), np.arange(64)))
    src, dst = src[src != dst], dst[src != dst]
    nic = net.first_out[src]
    spread_pairs(net, routes, ways, hosts, sorts, n_of, True)  # compiled by now
    paths_by(routes, ways, 1, (src, dst, nic))
    tracemalloc.start()
    spread_pairs(net, routes, ways, hosts, sorts, n_of, True)
    of_pairs = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    paths_by(routes, ways, 1, (src, dst, nic))
    of_paths = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert of_pairs < 32 * 31 * 24  # less than a row for each pair
    assert of_paths < 100 * src.size
