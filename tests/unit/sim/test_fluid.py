"""Flow fidelity against closed forms; times in picoseconds, links of 100 Gb/s and 1 us."""

import numpy as np
import pytest
from fluid_cases import (
    BYTE_PS,
    FULL,
    KIB,
    MIB,
    US,
    alone_ps,
    back_ps,
    collective,
    messages,
    permutation,
)

from fanfold.errors import ConfigError
from fanfold.results.outcome import ACK, DATA, FEEDBACK
from fanfold.scenario.settings import Failure, Settings
from fanfold.schemes import catalog
from fanfold.schemes.program import ACKED, RECEIVED, Fan, build_program
from fanfold.schemes.tree_fans import Site
from fanfold.sim.fluid import run_fluid
from fanfold.sim.simulate import simulate
from fanfold.topo.fat_tree import fat_tree
from fanfold.topo.hypercube import hypercube
from fanfold.topo.leaf_spine import leaf_spine
from fanfold.topo.multi_plane import multi_plane
from fanfold.topo.placement import place_hosts
from fanfold.topo.routes import build_routes
from fanfold.topo.sketch import Line, Sketch
from fanfold.trees.settings import TreeSettings
from fanfold.work.collective import Collective

PLAIN = Settings()
PKT = 4096
NO_EDGES = np.zeros((0, 2), np.int64)
NO_MESSAGES = np.zeros((0, 4), np.int64)


@pytest.fixture(scope="module")
def tree4():
    return on(fat_tree(4))


@pytest.fixture(scope="module")
def tree8():
    return on(fat_tree(8))


def on(net):
    """A function that runs programs on a net."""
    routes = build_routes(net)

    def run(program, settings=PLAIN, **more):
        return run_fluid(net, routes, program, settings, seed=1, **more)

    run.net = net
    return run


@pytest.mark.parametrize(("dst", "links"), [(1, 2), (2, 4), (4, 6)])
@pytest.mark.parametrize("n", [1, 2, 128, 256, 512])
def test_one_message_alone_takes_what_arithmetic_says(tree4, dst, links, n):
    for tail in (4096, 1):
        out = tree4(messages([(0, dst, (n - 1) * PKT + tail)]))
        got = alone_ps(n, links, tail)
        assert out.host_ps[dst] == got
        assert out.item_ps.tolist() == [got + back_ps(links)]
        assert out.end_ps == got + back_ps(links)


def test_the_anchors_of_one_message(tree8):
    assert tree8(messages([(0, 127, 256 * PKT)])).end_ps == 98_891_520
    assert tree8(messages([(0, 1, 256 * PKT)])).end_ps == 89_539_840
    assert tree8(messages([(0, 127, PKT)])).end_ps == 14_027_520


def test_cut_through_and_switches_have_their_time(tree4):
    cut = tree4(messages([(0, 4, 10 * PKT)]), Settings(cut_through=True, switch_ps=500))
    assert cut.host_ps[4] == 10 * FULL + 5 * 64 * BYTE_PS + 6 * US + 5 * 500


def test_a_slow_link_sets_the_pace():
    sketch = Sketch(2)
    router = sketch.add("r", 1, 1)
    sketch.cable(0, router, Line())
    sketch.cable(1, router, Line(bps=25_000_000_000))
    out = on(sketch.build("two"))(messages([(0, 1, 10 * PKT), (1, 0, 10 * PKT, 10**9)]))
    assert out.host_ps[1] == 10 * 4 * FULL + FULL + 2 * US
    assert out.host_ps[0] == 10**9 + 10 * 4 * FULL + FULL + 2 * US


def test_broadcast_by_copies_and_by_a_fan(tree8):
    copies = tree8(collective("unicast", "broadcast", MIB, 128))
    assert copies.end_ps == 10_833_688_320
    assert copies.link_pkts[:, DATA].sum() == copies.link_pkts[:, ACK].sum() == 185_856
    fan = tree8(collective("fanfold", "broadcast", MIB, 128))
    assert fan.link_pkts[:, DATA].sum() == 43_008
    # 100 B of headers; 256 packets, 5 more links, 6 us; FEEDBACK of 140 B over 6 links
    got = (256 + 5) * 4196 * BYTE_PS + 6 * US
    assert fan.host_ps.max() == got
    assert fan.end_ps == got + 6 * (140 * BYTE_PS + US)
    assert fan.feedback_at_source.tolist() == [4]
    # a slot in each BFR for each block of 64: 1 + 3 edges, 1 agg, ... one for each copy in
    assert fan.n_folds == (4 * (168 - 127), 0, 0)
    plain = tree8(collective("bier", "broadcast", MIB, 128))
    assert plain.host_ps.tolist() == fan.host_ps.tolist()
    assert plain.feedback_at_source.tolist() == [4 * 127]
    assert plain.end_ps == fan.end_ps + 126 * 140 * BYTE_PS
    source = tree8.net.reverse[0]
    assert fan.link_pkts[source, FEEDBACK] == 4
    assert plain.link_pkts[source, FEEDBACK] == 4 * 127
    assert plain.link_bytes[:, FEEDBACK].sum() == 4 * 140 * (3 * 2 + 12 * 4 + 112 * 6)


def test_incast_shares_the_last_link(tree8):
    n = 32
    out = tree8(messages([(i, 0, 64 * PKT) for i in range(1, n + 1)]))
    assert n * 64 * FULL + 2 * US < out.host_ps[0] < n * 64 * FULL + 5 * FULL + 6.1 * US
    # hosts 1..3 are two links away, 4..15 four, the rest six
    assert out.link_pkts[:, DATA].sum() == 64 * (3 * 2 + 12 * 4 + 17 * 6)


def test_acks_take_their_part_of_a_link(tree4):
    one_way = tree4(permutation(16, 256 * PKT, 8)).end_ps
    alone = tree4(messages([(0, 8, 256 * PKT)])).end_ps
    assert one_way - alone == pytest.approx(256 * FULL * 64 / 4160, rel=0.05)


def test_two_from_one_host_take_half_each_and_the_second_then_all(tree4):
    out = tree4(messages([(0, 4, 100 * PKT), (0, 8, 300 * PKT)]))
    far = alone_ps(1, 6) - FULL
    assert out.host_ps[4] == pytest.approx(200 * FULL + far, abs=FULL)
    assert out.host_ps[8] == pytest.approx(400 * FULL + far, abs=FULL)


def test_messages_of_one_pair_go_one_after_the_other(tree4):
    out = tree4(messages([(0, 4, 100 * PKT), (0, 4, 100 * PKT), (0, 4, 100 * PKT, 10**9)]))
    first = alone_ps(100, 6)
    assert (out.item_ps - back_ps(6)).tolist() == [first, first + 100 * FULL, 10**9 + first]


@pytest.mark.parametrize("when", [RECEIVED, ACKED])
def test_a_dependent_waits_for_the_last_byte_or_for_its_ack(tree4, when):
    out = tree4(messages([(0, 4, 10 * PKT), (4, 8, 10 * PKT)], [(0, 1)], on=when))
    first = alone_ps(10, 6) + (back_ps(6) if when == ACKED else 0)
    assert out.host_ps[8] == first + alone_ps(10, 6)


def test_a_full_spine_is_shared_by_all_that_cross_it():
    run = on(leaf_spine(2, 1, 8))
    out = run(messages([(i, 4 + i, 100 * PKT) for i in range(4)]))
    assert out.host_ps[4:].tolist() == [400 * FULL + 3 * FULL + 4 * US] * 4
    wide = on(leaf_spine(2, 4, 8))(messages([(i, 4 + i, 100 * PKT) for i in range(4)]))
    assert wide.host_ps[4:].tolist() == [alone_ps(100, 4)] * 4


def test_one_path_each_collides_where_spraying_does_not():
    run = on(leaf_spine(2, 4, 32))
    program = messages([(i, 16 + i, 100 * PKT) for i in range(4)])
    sprayed, hashed = run(program), run(program, Settings(routing="ecmp"))
    used = hashed.link_pkts[:, DATA][run.net.src >= 32]
    assert set(used.tolist()) <= {0, 100, 200, 300, 400}
    assert sprayed.link_pkts[:, DATA].sum() == hashed.link_pkts[:, DATA].sum() == 4 * 4 * 100
    most = used.max() // 100
    assert hashed.host_ps.max() == most * 100 * FULL + 3 * FULL + 4 * US
    assert most > 1  # of these four pairs
    assert sprayed.host_ps.max() == alone_ps(100, 4)


def test_a_host_uses_all_its_planes():
    run = on(multi_plane(4, 2, 2, 8, 1, 0))
    out = run(messages([(0, 7, 400 * PKT)]))
    assert out.link_pkts[:4, DATA].tolist() == [100] * 4
    assert out.host_ps[7] == pytest.approx(alone_ps(100, 4), abs=4 * FULL)
    down = run.net.dst == 7
    assert out.link_pkts[down, DATA].tolist() == [100] * 4


def test_a_window_limits_the_rate(tree4):
    out = tree4(messages([(0, 4, 100 * PKT)]), Settings(window_pkts=2))
    rtt = alone_ps(1, 6) + back_ps(6)
    assert out.end_ps == pytest.approx(50 * rtt, rel=0.05)


def test_packets_are_dealt_out_evenly_and_none_is_lost(tree8):
    out = tree8(messages([(0, 127, 37 * PKT + 5)]))
    net = tree8.net
    first = np.nonzero((net.src == net.dst[0]) & (net.dst >= net.n_hosts))[0]
    assert sorted(out.link_pkts[first, DATA].tolist()) == [9, 9, 10, 10]
    assert out.link_pkts[:, DATA].sum() == 6 * 38
    assert out.link_bytes[:, DATA].sum() == 6 * (37 * PKT + 5 + 38 * 64)
    assert out.link_bytes[:, ACK].sum() == 6 * 38 * 64
    assert out.link_bytes[net.dst == 127, DATA].tolist() == [37 * PKT + 5 + 38 * 64]


def test_receivers_in_more_sets_take_more_copies(tree8):
    settings = Settings(bitstring_bits=64)
    program = collective("bier", "broadcast", MIB, 128)
    out = tree8(program, settings)
    assert out.link_pkts[0, DATA] == 2 * 256
    assert out.feedback_at_source.tolist() == [4 * 127]
    folded = tree8(collective("fanfold", "broadcast", MIB, 128), settings)
    assert folded.feedback_at_source.tolist() == [4 * 2]
    one_rack = build_program(NO_MESSAGES, NO_EDGES, fans=(Fan(0, (1, 64, 65), MIB),))
    assert tree8(one_rack, settings).link_pkts[0, DATA] == 2 * 256
    jobs = place_hosts(tree8.net, "job", 64, [(0, 1, 64, 65)])
    assert tree8(one_rack, settings, placement=jobs).link_pkts[0, DATA] == 256


def test_copies_never_meet_again_in_a_flat_net():
    """In a hypercube the order of dimensions makes a tree of the ways to all receivers."""
    run = on(hypercube(4))
    out = run(collective("bier", "broadcast", PKT, 16))
    links = out.link_pkts[:, DATA]
    assert (links[run.net.dst < 16] == 1).sum() == 15
    assert links[(run.net.src >= 16) & (run.net.dst >= 16)].sum() == 15


@pytest.mark.parametrize("name", ["chain", "binary-tree", "double-binary-tree"])
@pytest.mark.parametrize("kind", ["broadcast", "reduce"])
def test_the_steady_state_of_a_pipeline_is_near_its_events(tree4, name, kind):
    assert_alike(tree4, name, kind, rel=0.01)


@pytest.mark.parametrize("name", ["bier", "mldp", "fanfold"])
@pytest.mark.parametrize("net", [leaf_spine(4, 4, 16), fat_tree(4)], ids=["leaves", "tree"])
def test_words_of_short_fans_come_after_their_data(net, name):
    """Pieces of 16 bytes: their words hold no data back, as packets show."""
    routes, settings = build_routes(net), Settings(tree_start="standing")
    work = Collective("all_gather", 256, tuple(range(16)))
    site = Site(net, TreeSettings(), "standing")
    program = catalog.scheme_of(name).build(work, site=site)
    fluid = run_fluid(net, routes, program, settings, seed=1)
    packets = simulate(net, routes, program, settings, seed=1)
    assert fluid.host_ps.max() == pytest.approx(packets.host_ps.max(), rel=0.02)
    assert fluid.end_ps == pytest.approx(packets.end_ps, rel=0.05)


@pytest.mark.parametrize("name", ["binary-tree", "bier", "parameter-server"])
def test_two_pipelines_in_a_row_are_near_their_events(tree4, name, monkeypatch):
    monkeypatch.setattr(catalog, "MAX_MESSAGES", 0)
    assert_alike(tree4, name, "all_reduce", rel=0.15)


def assert_alike(run, name, kind, rel):
    plain = run(collective(name, kind, 2 * MIB, 16, chunks=32))
    compact = run(collective(name, kind, 2 * MIB, 16, chunks=32, compact=True))
    assert "pipelines of 32 pieces in their steady state" in compact.reason
    assert compact.end_ps == pytest.approx(plain.end_ps, rel=rel)
    assert compact.got_bytes.tolist() == plain.got_bytes.tolist()
    for side in (DATA, ACK, FEEDBACK):
        assert compact.link_pkts[:, side].sum() == plain.link_pkts[:, side].sum()
        assert compact.link_bytes[:, side].sum() == plain.link_bytes[:, side].sum()


def test_a_chain_in_its_steady_state_is_arithmetic(tree4):
    """Pieces of 10 packets along 0, 4, 8: (2 - 1 + C) steps with nobody in the way."""
    rows, edges = [(0, 4, 160 * PKT), (4, 8, 160 * PKT)], [(0, 1)]
    program = messages(rows, edges)._replace(chunks=16)
    out = tree4(program)
    slower = 1 + 64 / 4160  # at host 4 each meets the other's ACKs
    assert out.host_ps[4] == pytest.approx(160 * FULL * slower + 5 * FULL + 6 * US, rel=1e-3)
    want = 170 * FULL * slower + 2 * (5 * FULL + 6 * US)
    assert out.host_ps[8] == pytest.approx(want, rel=1e-3)


def test_ring_takes_its_two_rounds(tree4):
    out = tree4(collective("ring", "all_reduce", 16 * MIB, 16))
    # 30 steps of 1 MiB; each host's uplink also carries the ACKs of what it gets
    step = 256 * FULL * (1 + 64 / 4160)
    assert 30 * step < out.end_ps < 30 * (step + 5 * FULL + 6 * US)
    assert out.got_bytes.tolist() == [30 * MIB] * 16


def test_what_is_left_out_is_said(tree4):
    program = messages([(0, 4, PKT)])
    assert tree4(program).reason == "every item is done"
    lossy = Settings(loss_ppb=10, failures=(Failure(5, "h0", "edge0"),), queue_bytes=10**5)
    assert (
        "loss and failures left out; limits of queues left out" in tree4(program, lossy).reason
    )


def test_no_path_is_refused_by_name():
    sketch = Sketch(4)
    left, right = sketch.add("r", 2, 1)
    sketch.cable(np.arange(2), left, Line())
    sketch.cable(np.arange(2, 4), right, Line())
    run = on(sketch.build("apart"))
    with pytest.raises(ConfigError, match="no path from h0 to h3"):
        run(messages([(0, 1, PKT), (0, 3, PKT)]))
    with pytest.raises(ConfigError, match="no path from h1 to h2"):
        run(build_program(NO_MESSAGES, NO_EDGES, fans=(Fan(1, (0, 2), PKT),)))


def test_an_empty_program_ends_at_once(tree4):
    out = tree4(build_program(NO_MESSAGES, NO_EDGES))
    assert (out.end_ps, out.n_hops, out.reason) == (0, 0, "every item is done")


def test_all_to_all_fills_every_link_alike(tree4):
    out = tree4(collective("direct", "all_to_all", MIB, 16))
    up = out.link_pkts[:16, DATA]
    assert (up == 15 * 16).all()
    assert out.end_ps == pytest.approx(15 * 16 * FULL * (1 + 64 / 4160), rel=0.2)
    assert out.got_bytes.tolist() == [15 * 64 * KIB] * 16
