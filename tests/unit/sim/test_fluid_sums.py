"""Sums as fluid, worked out by hand on a star: 100 Gb/s is 80 ps a byte, a link flies 1 us.

With BitStrings of 64 bits the headers are 28 + 12 + 8 + 28 + 24 = 100 bytes, a full packet is
4,196 bytes and 335,680 ps, the headers alone 8,000 ps.
"""

import numpy as np
import pytest

from fanfold.errors import ConfigError
from fanfold.results.outcome import ACK, DATA, FEEDBACK
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import Sum, build_program
from fanfold.schemes.sharp import install
from fanfold.sim.fluid import run_fluid
from fanfold.sim.sum_links import sum_links
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes

US, FULL, HEAD = 1_000_000, 335_680, 8_000
ROUND = 2 * (FULL + US)
ARMED = 2 * (HEAD + US)
AGREED = 2 * (1188 * 80 + US)  # 4 * (16 + 256) bytes and their headers


def sums(*rows, edges=()):
    table = np.array(edges, np.int64).reshape(-1, 2)
    return build_program(np.zeros((0, 4), np.int64), table, sums=rows)


def integers(**more):
    """4,096 bytes of an array are a block."""
    return Settings(sum_numbers="integer", **more)


def run(program, settings=None, net="star:hosts=4"):
    fabric = build_named_net(net)
    return run_fluid(fabric, build_routes(fabric), program, settings or integers(), seed=0)


def test_arm_then_agreement_then_all_blocks_and_the_last_result():
    out = run(sums(Sum((0, 1, 2), 10 * 4096)))
    # ten packets leave, then the last one's flight, and the result's packet and flight
    assert out.end_ps == ARMED + AGREED + 10 * FULL + US + FULL + US
    assert out.item_ps.tolist() == [out.end_ps]
    assert out.got_bytes.tolist() == [40960, 40960, 40960, 0]
    assert out.host_ps.tolist() == [out.end_ps] * 3 + [0]


def test_what_links_carry():
    out = run(sums(Sum((0, 1, 2), 10 * 4096)))
    net = build_named_net("star:hosts=4")
    for host in range(3):
        up = int(net.first_out[host])
        for link in (up, int(net.reverse[up])):
            assert out.link_pkts[link, DATA] == 11
            assert out.link_bytes[link, DATA] == 40960 + 10 * 100 + 1188
            assert out.link_pkts[link, FEEDBACK] == 0
        # ARM and two CLOSE go up from rank 0, ARM and CLOSE down to all
        assert out.link_pkts[up, ACK] == (3 if host == 0 else 0)
        assert out.link_bytes[net.reverse[up], ACK] == 2 * 100
    assert out.link_pkts[net.first_out[3]].sum() == 0


def test_a_sum_for_one_goes_whole_to_it_and_as_headers_to_the_rest():
    out = run(sums(Sum((1, 0, 2), 10 * 4096, to_all=False)))
    net = build_named_net("star:hosts=4")
    down = net.reverse[net.first_out[:3]]
    assert out.link_bytes[down, DATA].tolist() == [2188, 40960 + 2188, 2188]
    assert out.got_bytes.tolist() == [0, 40960, 0, 0]
    assert out.host_ps[[0, 2, 3]].tolist() == [0, 0, 0]


def test_a_window_that_is_too_small_waits_for_each_round():
    out = run(sums(Sum((0, 1), 10 * 4096)), integers(sum_window=4))
    agreed = 2 * ((4 * 20 + 100) * 80 + US)
    # four and four blocks, then two
    assert out.end_ps == ARMED + agreed + 2 * ROUND + FULL + ROUND
    own = run(sums(Sum((0, 1), 10 * 4096, window=4)))
    assert own.end_ps == out.end_ps


def test_windows_grow_from_sixteen_blocks_by_half():
    far = "star:hosts=2,delay=20us"
    n = 16 + 24 + 36 + 54 + 81 + 121 + 5
    out = run(sums(Sum((0, 1), n * 4096)), net=far)
    flight = 20 * US
    round_ps = 2 * (FULL + flight)
    alone = 2 * (HEAD + flight) + 2 * (1188 * 80 + flight)
    # 121 blocks last 54,080 ps less than a round; the window after that is more than one
    assert out.end_ps == alone + 6 * round_ps + 5 * FULL + flight + FULL + flight


def test_slots_are_granted_in_halves_down_to_eight():
    ten = Sum((0, 1, 2), 10 * 4096)
    # 512 are asked for, 256, 128, 64, 32, 16: a window of eight, 14 ns more than a round
    few = run(sums(ten), integers(array_slots=16))
    assert few.end_ps == 6 * ARMED + AGREED + 10 * FULL + US + FULL + US
    assert few.link_pkts[0, ACK] == 6 + 2
    assert few.arrays == (3 * 11, 0, 0)
    assert run(sums(ten), integers(group_slots=31)).end_ps == few.end_ps
    assert run(sums(ten), integers(array_slots=8)).end_ps > few.end_ps
    with pytest.raises(ConfigError, match="sum 0, which no switch has slots left for"):
        run(sums(ten), integers(array_slots=7))
    with pytest.raises(ConfigError, match=r"8 or more slots .*: raise settings\.array_slots"):
        run(sums(ten), integers(array_slots=7))
    with pytest.raises(ConfigError, match=r"8 or more slots .*: raise settings\.group_slots"):
        run(sums(ten), integers(group_slots=7))


def test_sums_compete_for_slots_in_the_order_in_which_they_start():
    late, early = Sum((0, 1), 40960, start_ps=5), Sum((2, 3), 40960)
    # 32 of 48 go to the first, 16 to the other
    out = run(sums(late, early), integers(array_slots=48))
    assert out.item_ps[1] == run(sums(early), integers(array_slots=32)).end_ps
    assert out.item_ps[0] == run(sums(late), integers(array_slots=16)).end_ps
    with pytest.raises(ConfigError, match="sum 0, which no switch has slots left for"):
        run(sums(late, early), integers(array_slots=32))


def test_a_bfr_without_slots_passes_on_what_comes():
    # hosts 0..3 are pod 0 of the fat tree: leaves edge0, edge1 below agg0
    net = build_named_net("fat-tree:k=4")
    crowd = [Sum((2, 3), 10 * 4096) for _ in range(2)]
    wide = Sum((0, 1, 2, 3), 10 * 4096)
    out = run(sums(*crowd, wide), integers(array_slots=1024), "fat-tree:k=4")
    up = int(net.first_out[net.n_hosts + 1])
    links = [k for k in range(net.n_links) if net.node_name(int(net.src[k])) == "edge1"]
    ups = [k for k in links if net.node_name(int(net.dst[k])).startswith("agg")]
    assert out.arrays == (2 * 2 * 11 + 2 * 11 + 3 * 11, 2 * 11, 0)
    assert sorted(out.link_pkts[ups, DATA].tolist()) == [0, 22]
    assert up in links


def test_two_sums_share_links_and_one_that_waits_has_them_alone():
    one = Sum((0, 1, 2), 400 * 4096)
    alone = run(sums(one)).end_ps
    both = run(sums(one, one._replace(hosts=(2, 1, 0)))).end_ps
    assert both == pytest.approx(alone + 400 * FULL, rel=1e-3)
    after = run(sums(one, one._replace(hosts=(2, 1, 0)), edges=[(0, 1)]))
    assert after.item_ps.tolist() == [alone, 2 * alone]


def test_depth_costs_latency_only():
    fat = "fat-tree:k=4"
    near, pod, far = (
        run(sums(Sum(hosts, 100 * 4096)), net=fat) for hosts in ((0, 1), (0, 2), (0, 15))
    )
    hop = 2 * (FULL + US) + 2 * (HEAD + US) + 2 * (1188 * 80 + US)
    assert pod.end_ps - near.end_ps == hop
    # over six links the first sixteen blocks are out before a result is back
    assert far.end_ps - pod.end_ps == hop + 3 * ROUND - 16 * FULL
    for out, links in ((near, 2), (pod, 4), (far, 6)):
        assert (out.link_pkts[:, DATA] == 101).sum() == 2 * links


def test_an_installed_tree_acknowledges_each_hop_and_says_nothing_else():
    net = build_named_net("star:hosts=4")
    program = install(sums(Sum((0, 1, 2), 10 * 4096)), net, waits=True)
    out = run(program)
    full = 4160 * 80
    # what goes the other way takes 64 of 4,160 bytes from each direction of a link
    paced = 10 * full * 4224 / 4160
    assert out.end_ps == pytest.approx(program.setup.ps + paced + US + full + US, abs=1000)
    links = [int(net.first_out[host]) for host in range(3)]
    for link in (*links, *net.reverse[links].tolist()):
        assert out.link_pkts[link].tolist() == [10, 0, 10, 0]
        assert out.link_bytes[link].tolist() == [41600, 0, 640, 0]


def test_installed_trees_take_a_slot_for_each_block_under_way():
    net = build_named_net("star:hosts=4")
    program = install(sums(*(Sum((0, 1, 2), 40960) for _ in range(2))), net, waits=False)
    out = run(program, integers(array_slots=10, sum_window=8))
    assert out.sum_slots == (8, 2)
    alone = run(install(sums(Sum((0, 1), 40960)), net, waits=False), integers(array_slots=2))
    full = 4160 * 80
    # two blocks a round of 2 x (full + 1 us), the last two without waiting
    assert alone.end_ps == 4 * 2 * (full + US) + full + 2 * (full + US)
    with pytest.raises(ConfigError, match="sum 1, which no switch has slots left for"):
        run(program, integers(array_slots=8))
    with pytest.raises(ConfigError, match="allowed: 1 or more slots for each sum: raise"):
        run(program, integers(array_slots=8))


def test_a_sum_for_one_comes_back_to_it_alone_in_an_installed_tree():
    net = build_named_net("star:hosts=4")
    out = run(install(sums(Sum((0, 1, 2), 40960, to_all=False)), net, waits=False))
    down = net.reverse[net.first_out[:3]]
    assert out.link_pkts[down, DATA].tolist() == [10, 0, 0]
    assert out.link_pkts[down, ACK].tolist() == [10, 10, 10]
    assert out.link_pkts[net.first_out[:3], ACK].tolist() == [10, 0, 0]


def test_members_without_a_path_are_refused():
    with pytest.raises(ConfigError, match="sum 0"):
        run(sums(Sum((0, 9), 10)))


def test_members_take_part_by_a_link_that_leads_to_all():
    rail = "rail:servers=2,gpus=4,spines=1,unit=2"
    net = build_named_net(rail)  # four GPUs a server, their first links within it
    routes = build_routes(net)
    near, far = sum_links(net, routes, Sum((0, 1), 1)), sum_links(net, routes, Sum((0, 4), 1))
    assert net.first_out[[0, 1]].tolist() == near.tolist()
    assert (net.first_out[[0, 4]] + 1).tolist() == far.tolist()
    assert run(sums(Sum((0, 4), 4096)), net=rail).got_bytes.sum() == 2 * 4096
