"""Sums as fluid against the packet simulator: times within 3 %, every link's counts equal.

In a torus and on rails ranks that are armed early ask for the first result once too often,
packet by packet: there times are compared, and what hosts got.
"""

import numpy as np
import pytest

from fanfold.kernels.jit import JIT
from fanfold.results.outcome import ACK, DATA
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import Sum, build_program
from fanfold.sim.fluid import run_fluid
from fanfold.sim.simulate import simulate
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes

pytestmark = pytest.mark.skipif(not JIT, reason="packet by packet this is for compiled code")
TOLERANCE = 0.03
MIB = 2**20
RAILS = "rail:servers=4,gpus=4,spines=2,unit=2"


def program(*sums, edges=()):
    table = np.array(edges, np.int64).reshape(-1, 2)
    return build_program(np.zeros((0, 4), np.int64), table, sums=sums)


def all_of(n, n_bytes, **more):
    return Sum(tuple(range(n)), n_bytes, **more)


CASES = {
    "8 ranks of a star": ("star:hosts=8", program(all_of(8, 4 * MIB)), Settings()),
    "a leaf and its neighbour": ("fat-tree:k=4", program(all_of(3, MIB)), Settings()),
    "16 ranks, integers": (
        "fat-tree:k=4",
        program(all_of(16, 4 * MIB)),
        Settings(sum_numbers="integer"),
    ),
    "32 slots, integers": (
        "fat-tree:k=4",
        program(all_of(16, 2 * MIB)),
        Settings(array_slots=32, sum_numbers="integer"),
    ),
    "16 ranks": ("fat-tree:k=4", program(all_of(16, 4 * MIB)), Settings()),
    "128 ranks": ("fat-tree:k=8", program(all_of(128, 2 * MIB)), Settings()),
    "for one": ("fat-tree:k=4", program(all_of(16, 2 * MIB, to_all=False)), Settings()),
    "a few blocks": ("fat-tree:k=4", program(all_of(16, 5 * 4096 + 1)), Settings()),
    "a window of eight": (
        "fat-tree:k=4",
        program(all_of(16, 2 * MIB, window=8)),
        Settings(),
    ),
    "32 slots": ("fat-tree:k=4", program(all_of(16, 2 * MIB)), Settings(array_slots=32)),
    "two sums side by side": (
        "fat-tree:k=4",
        program(all_of(16, 2 * MIB), Sum(tuple(range(15, -1, -1)), 2 * MIB)),
        Settings(),
    ),
    "three that compete for 128 slots": (
        "fat-tree:k=4",
        program(*(all_of(16, 2 * MIB, start_ps=a * 20_000_000) for a in range(3))),
        Settings(array_slots=128),
    ),
    "a BFR without slots": (
        "fat-tree:k=4",
        program(Sum((2, 3), MIB), Sum((3, 2), MIB), all_of(4, MIB, start_ps=20_000_000)),
        Settings(array_slots=1024),
    ),
    "hosts of eight links": (
        "superpod:gpus=64",
        program(*(Sum(tuple(range(g, 64, 8)), MIB) for g in range(3))),
        Settings(),
    ),
    "one server of eight": ("superpod:gpus=64", program(all_of(8, MIB)), Settings()),
    "two planes": (
        "multi-plane:planes=2,leaves=4,spines=2,hosts=16",
        program(all_of(16, MIB)),
        Settings(),
    ),
    "a dragonfly": ("dragonfly:a=4,p=2,h=2", program(all_of(32, MIB)), Settings()),
    "four groups": (
        "fat-tree:k=4",
        program(*(Sum(tuple(range(g, 16, 4)), MIB) for g in range(4))),
        Settings(),
    ),
    "one after the other": (
        "fat-tree:k=4",
        program(all_of(16, MIB), all_of(16, MIB), edges=[(0, 1)]),
        Settings(),
    ),
}


def both(topology, sums, settings):
    net = build_named_net(topology)
    routes = build_routes(net)
    packet = simulate(net, routes, sums, settings, seed=1)
    return packet, run_fluid(net, routes, sums, settings, seed=1)


@pytest.mark.parametrize("topology", ["torus:dims=4x3x2", RAILS])
def test_times_are_near_where_a_rank_asks_too_early(topology):
    groups = program(*(Sum(tuple(range(g, 16, 4)), MIB) for g in range(4)))
    packet, flow = both(topology, groups, Settings())
    assert flow.end_ps == pytest.approx(packet.end_ps, rel=TOLERANCE)
    assert flow.got_bytes.tolist() == packet.got_bytes.tolist()
    assert flow.arrays == packet.arrays
    assert packet.repairs == (0, 0)


@pytest.mark.parametrize("name", CASES)
def test_flow_is_near_packet(name):
    packet, flow = both(*CASES[name])
    assert flow.end_ps == pytest.approx(packet.end_ps, rel=TOLERANCE)
    assert flow.host_ps.max() == pytest.approx(packet.host_ps.max(), rel=TOLERANCE)
    assert flow.got_bytes.tolist() == packet.got_bytes.tolist()
    assert flow.arrays == packet.arrays
    assert flow.sum_slots == packet.sum_slots
    for side in (DATA, ACK):
        assert flow.link_pkts[:, side].tolist() == packet.link_pkts[:, side].tolist()
        assert flow.link_bytes[:, side].tolist() == packet.link_bytes[:, side].tolist()
