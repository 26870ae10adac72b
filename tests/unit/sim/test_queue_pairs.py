"""Queue pairs: packets by weight, entropies, addresses; order as a plain search finds it."""

from itertools import pairwise

import numpy as np
import pytest

from fanfold.scenario.settings import Settings
from fanfold.sim.build import FLOWLET_STEP
from fanfold.sim.loop import rows as r
from fanfold.sim.loop.nic import path_of
from fanfold.sim.loop.unicast import note_order
from fanfold.sim.queue_pairs import QueuePairs, counts_of, deal_messages
from fanfold.streams import stream
from fanfold.study.plane_use import idle_ports
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes

NET = build_named_net("superpod:gpus=6,planes=4")
ROUTES = build_routes(NET)


def pairs(net=NET, seed=1, **settings):
    return QueuePairs(
        net, build_routes(net), Settings(**{"routing": "flows", **settings}), seed
    )


def by_plane(net, lanes):
    found = dict[int, int]()
    for lane in lanes:
        plane = int(net.plane[lane.nic])
        found[plane] = found.get(plane, 0) + lane.weight
    return found


@pytest.mark.parametrize("seed", range(40))
def test_counts_are_within_one_of_their_share_and_add_up(seed):
    rng = stream(seed, "counts")
    weights = rng.integers(1, 257, rng.integers(1, 9)).tolist()
    n, phase = int(rng.integers(1, 500)), int(rng.integers(0, 2**63))
    counts = counts_of(n, weights, phase)
    assert sum(counts) == n
    for count, weight in zip(counts, weights, strict=True):
        assert abs(count - n * weight / sum(weights)) < 1


def test_small_messages_of_many_phases_are_dealt_by_weight():
    total = np.sum([counts_of(1, [2, 1, 2, 2], phase) for phase in range(7)], axis=0)
    assert total.tolist() == [2, 1, 2, 2]


def test_a_pair_has_a_queue_pair_for_each_sub_port_of_each_plane():
    lanes = pairs().lanes(0, 5)
    assert len({lane.pair for lane in lanes}) == len(lanes) == 4 * 2
    assert len({lane.path for lane in lanes}) == len(lanes)
    assert by_plane(NET, lanes) == {0: 2, 1: 2, 2: 2, 3: 2}
    assert len(pairs(queue_pairs=3).lanes(0, 5)) == 24


def test_packets_have_one_queue_pair_for_each_plane_over_all_its_links():
    lanes = pairs(routing="packets").lanes(0, 5)
    assert sorted(lane.nic for lane in lanes) == list(range(8))
    assert len({lane.pair for lane in lanes}) == 4


def test_half_a_cable_at_either_end_halves_the_plane_and_its_queue_pairs_stay_even():
    for host in (0, 5):
        up = NET.is_up.copy()
        down = [k for k in range(NET.n_links) if NET.src[k] == host and NET.plane[k] == 2][1]
        up[[down, NET.reverse[down]]] = 0
        net = NET._replace(is_up=up)
        lanes = pairs(net).lanes(0, 5)
        assert by_plane(net, lanes) == {0: 4, 1: 4, 2: 2, 3: 4}
        assert len({lane.weight for lane in lanes if net.plane[lane.nic] == 2}) == 1
        assert all(up[lane.nic] for lane in lanes)
        bound = pairs(net, bound_pairs=True).lanes(0, 5)
        assert by_plane(net, bound) == {0: 4, 1: 4, 2: 2, 3: 4}
        assert sum(net.plane[lane.nic] == 2 for lane in bound) == 1


def test_bound_pairs_take_sub_ports_in_turn_at_both_ends():
    lanes = pairs(bound_pairs=True).lanes(0, 5)
    assert sorted(lane.nic for lane in lanes) == list(range(8))
    assert len({lane.last for lane in lanes}) == 8
    assert {int(NET.dst[lane.last]) for lane in lanes} == {5}


def test_entropies_differ_by_seed_and_pair_and_stay_by_themselves():
    first = pairs().lanes(0, 5)
    other_first = pairs()
    other_first.lanes(1, 2)
    again = other_first.lanes(0, 5)
    assert [lane[0::3] for lane in first] == [lane[0::3] for lane in again]
    assert [lane.path for lane in first] != [lane.path for lane in pairs(seed=2).lanes(0, 5)]
    assert [lane.path for lane in first] != [lane.path for lane in pairs().lanes(5, 0)]


def test_dealt_messages_have_all_their_packets_and_rows_of_a_pair_side_by_side():
    src, dst = np.array([0, 0, 3]), np.array([5, 5, 1])
    dealt = deal_messages(pairs(routing="packets"), src, dst, np.array([100, 1, 33]))
    assert np.bincount(dealt.owner, dealt.n_pkts).tolist() == [100, 1, 33]
    for row, (first, n) in enumerate(zip(dealt.first, dealt.n, strict=True)):
        mine = slice(int(first), int(first + n))
        assert first <= row < first + n
        assert len(set(dealt.pair[mine].tolist())) == 1
    assert all(a <= b for a, b in pairwise(dealt.owner.tolist()))


def test_a_flowlet_keeps_its_path_and_one_after_a_pause_takes_another():
    rows, q = np.zeros(1, r.STREAM_ROW), np.zeros(r.HEAD_FIELDS, np.int64)
    rows["path"], rows["path_step"], q[r.FLOWLET_PS] = 7, FLOWLET_STEP, 100
    found = []
    for now in (0, 100, 200, 301, 350, 451):
        q[r.NOW] = now
        found.append(int(path_of(q, rows[0])))
    first, second, third = found[0], found[3], found[5]
    assert found == [first] * 3 + [second] * 2 + [third]
    assert len({first, second, third}) == 3
    assert len({path % 32 for path in (7 + k * FLOWLET_STEP for k in range(32))}) == 32


def test_without_flowlets_each_record_takes_the_next_path_or_all_the_same():
    q = np.zeros(r.HEAD_FIELDS, np.int64)
    for step in (0, 1):
        rows = np.zeros(1, r.STREAM_ROW)
        rows["path"], rows["path_step"] = 7, step
        assert [int(path_of(q, rows[0])) for _ in range(3)] == [7, 7 + step, 7 + 2 * step]


@pytest.mark.parametrize("seed", range(20))
def test_order_is_what_a_plain_search_finds(seed):
    """A queue pair of one to three streams: records in any order, each once."""
    rng = stream(seed, "order")
    n_streams, n = int(rng.integers(1, 4)), int(rng.integers(1, 150))
    rows = np.zeros(n_streams, r.STREAM_ROW)
    rows["qp_n"] = n_streams
    rows["n_recs"] = [len(range(k, n, n_streams)) for k in range(n_streams)]
    rows["n_words"] = 3
    rows["bits_at"] = np.arange(n_streams) * 9
    bits = np.zeros(9 * n_streams, np.uint64)
    near = np.arange(n) + rng.uniform(0, 12, n)
    got, most = set[int](), 0
    for number in np.argsort(near, kind="stable").tolist():
        s, record = number % n_streams, number // n_streams
        bits[9 * s + 6 + (record >> 6)] |= np.uint64(1) << np.uint64(record & 63)
        note_order(rows, bits, s, record)
        rows["n_got"][s] += 1
        got.add(number)
        awaited = next((k for k in range(n) if k not in got), n)
        most = max(most, len(got) - awaited)
        assert rows["depth"].max() == most


def test_links_of_routers_that_hashes_leave_idle_are_counted():
    """h0's leaf has four spines in a plane: three queue pairs by two of them, one idle."""
    net = build_named_net("multi-plane:planes=1,leaves=2,spines=4,hosts=2")
    routes = build_routes(net)
    rows = np.zeros(3, r.STREAM_ROW)
    rows["nic"], rows["dst"], rows["dst_group"] = net.first_out[0], 1, routes.group[1]
    for paths, idle in (((0, 1, 5), 1), ((0, 4, 8), 2), ((0, 1, 2), 0), ((0, 5, 2), 0)):
        rows["path"] = paths
        assert idle_ports(net, routes, rows) == idle
    rows["path_step"] = 1
    assert idle_ports(net, routes, rows) == 0
    assert idle_ports(net, routes, rows[:0]) == 0


def test_each_router_on_the_way_picks_by_a_digit_of_its_own():
    """Five stages: leaf and spine have two choices each, so paths 0 to 3 are four ways."""
    net = build_named_net(
        "multi-plane:planes=1,leaves=2,spines=2,hosts=4,pods=2,cores=2,rate=1Gbps"
    )
    routes = build_routes(net)
    rows = np.zeros(4, r.STREAM_ROW)
    rows["nic"], rows["dst"], rows["dst_group"] = net.first_out[0], 3, routes.group[3]
    rows["path"] = 0, 1, 2, 3  # leaf by the first digit, spine by the second
    assert idle_ports(net, routes, rows) == sum((0, 0, 0, 2))  # cores by the third, which is 0
    rows["path"] = 0, 1, 0, 1
    assert idle_ports(net, routes, rows) == sum((0, 1, 1, 1))  # at each spine, at the one core
