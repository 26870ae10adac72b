"""Trains against packets: equal for what is alone, within a stated bound elsewhere.

A router starts a record when its first packet is there, so a record alone costs what its
packets cost. Where messages meet at a port, whole records take turns: in the cases here each
link of a path adds up to two times n - 1 packets (docs/simulator.md section 7).
"""

import pytest
from fluid_cases import collective, permutation
from validation_world import FULL, MIB, PKT, US, alone, chain, fabric, fan, messages

from fanfold.kernels.jit import JIT
from fanfold.scenario.settings import Settings
from fanfold.sim.simulate import simulate

for_compiled = pytest.mark.skipif(not JIT, reason="packet by packet this is for compiled code")
LENGTHS = [2, 8, 64]


def both(name, program, n, settings=None):
    net, routes = fabric(name)
    given = settings or Settings()
    packets = simulate(net, routes, program, given, seed=1)
    trains = simulate(net, routes, program, given, seed=1, segment_pkts=n)
    assert (packets.fidelity, trains.fidelity) == ("packet", "train")
    assert trains.n_hops == packets.n_hops
    assert trains.got_bytes.tolist() == packets.got_bytes.tolist()
    assert trains.link_pkts.sum(axis=0).tolist() == packets.link_pkts.sum(axis=0).tolist()
    assert trains.link_bytes.sum(axis=0).tolist() == packets.link_bytes.sum(axis=0).tolist()
    return packets, trains


@for_compiled
@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("n_bytes", [MIB, 5 * MIB + 77])
@pytest.mark.parametrize("folds", [False, True])
def test_a_fan_is_the_same(n, n_bytes, folds):
    packets, trains = both("fat-tree:k=8", fan(127, n_bytes, folds=folds), n)
    assert trains.host_ps.tolist() == packets.host_ps.tolist()
    assert trains.link_pkts.tolist() == packets.link_pkts.tolist()
    assert trains.feedback_at_source.tolist() == packets.feedback_at_source.tolist()
    if folds:
        assert trains.item_ps.tolist() == packets.item_ps.tolist()
    assert trains.n_events * 3 < packets.n_events or n == 2


@for_compiled
@pytest.mark.parametrize("cuts", [False, True])
@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("n_bytes", [1, PKT, MIB, MIB + 5])
def test_a_message_is_received_at_the_same_time(n, n_bytes, cuts):
    settings = Settings(cut_through=cuts)
    packets, trains = both("fat-tree:k=8", messages((0, 127, n_bytes)), n, settings)
    assert trains.host_ps.tolist() == packets.host_ps.tolist()
    # The ACKs of a record travel as one: a short last one may come behind a long one.
    late = trains.end_ps - packets.end_ps
    assert late == 0 or (n_bytes == MIB + 5 and late < n * 6 * 5120)


def test_a_message_over_links_of_any_rate():
    net = chain((25 * 10**9, 7), (100 * 10**9, US), (400 * 10**9, US), (100 * 10**9, US))
    for cuts in (False, True):
        settings = Settings(cut_through=cuts)
        packets = alone(net, messages((0, 1, 16 * PKT)), settings)
        trains = alone(net, messages((0, 1, 16 * PKT)), settings, segment_pkts=8)
        assert abs(trains.host_ps[1] - packets.host_ps[1]) <= 8 * FULL


CROWDS = {
    "next rack": lambda: permutation(128, 2 * MIB, 3),
    "next pod": lambda: permutation(128, 2 * MIB, 37),
    "incast": lambda: messages(*((i, 0, MIB) for i in range(1, 33))),
    "copies": lambda: messages(*((0, i, MIB) for i in range(1, 128))),
}


@for_compiled
@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("name", CROWDS)
def test_the_end_of_a_crowd_is_late_by_trains_at_each_link(name, n):
    packets, trains = both("fat-tree:k=8", CROWDS[name](), n)
    # Packets of one message meet others' by chance, trains keep account of even shares.
    early = packets.end_ps // 50
    assert -early <= trains.end_ps - packets.end_ps <= 6 * 2 * (n - 1) * FULL
    if name in ("incast", "copies"):
        assert trains.end_ps == packets.end_ps  # its one port is never idle


@for_compiled
def test_long_messages_hardly_notice():
    """The tool takes trains where messages are long: 16 MiB, trains of 8, 2 %."""
    packets, trains = both("fat-tree:k=4", permutation(16, 16 * MIB, 5), 8)
    assert trains.end_ps == pytest.approx(packets.end_ps, rel=0.02)
    program = collective("ring", "all_reduce", 16 * MIB, 16)
    packets, trains = both("fat-tree:k=4", program, 8)
    assert trains.end_ps == pytest.approx(packets.end_ps, rel=0.01)
