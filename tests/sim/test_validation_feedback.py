"""Folded feedback: one packet for each block at the source, however many receivers.

What depth costs is a word's time on each further link, on the way up as on the way down.
"""

import pytest
from validation_world import BYTE_PS, MIB, PKT, US, alone, down_link, fabric, fan

from fanfold.kernels.jit import JIT
from fanfold.scenario.settings import Settings
from fanfold.sim.simulate import simulate
from fanfold.topo.nets import build_named_net

for_compiled = pytest.mark.skipif(not JIT, reason="packet by packet this is for compiled code")
BITS = 1024
ONE_SI = Settings(bitstring_bits=BITS)
BLOCKS = MIB // (64 * PKT)
HEAD_BYTES = 84 + BITS // 8
"""Of DATA: underlay 28, BIER 12 and a BitString, IPv4 and UDP 28, DATA's own 16."""
WORD_BYTES = 92 + 3 * BITS // 8
"""Of FEEDBACK on a whole block: the same with 24 of its own, and BitStrings heard and done."""
DATA_PS, WORD_PS = (PKT + HEAD_BYTES) * BYTE_PS, WORD_BYTES * BYTE_PS
RECEIVERS = [8, 64, 512, 1023]


def farthest(n):
    """Links to the farthest of hosts 1..n in a fat tree of 8 hosts an edge, 64 a pod."""
    return 2 if n < 8 else 4 if n < 64 else 6


def check(out, n, links):
    down = (BLOCKS * 64 + links - 1) * DATA_PS + links * US
    assert out.stuck == ()
    assert out.host_ps[1 : n + 1].max() == down
    assert out.end_ps == down + links * (WORD_PS + US)
    assert out.feedback_at_source.tolist() == [BLOCKS]
    assert out.n_folds[1:] == (0, 0)
    assert out.repairs == (0, 0)


@for_compiled
@pytest.mark.parametrize("n", RECEIVERS)
def test_a_star_hears_one_word_a_block(n):
    net = build_named_net(f"star:hosts={n + 1}")
    out = alone(net, fan(n, MIB), ONE_SI)
    check(out, n, 2)
    assert out.n_folds[0] == BLOCKS
    assert out.link_pkts[down_link(net), 3] == BLOCKS


@for_compiled
@pytest.mark.parametrize("n", RECEIVERS)
def test_a_fat_tree_hears_one_word_a_block(n):
    net, routes = fabric("fat-tree:k=16")
    out = simulate(net, routes, fan(n, MIB), ONE_SI, seed=1)
    check(out, n, farthest(n))
    assert out.link_pkts[down_link(net), 3] == BLOCKS
    # On no link more than one word a block, and as many as data has links.
    used = out.link_pkts[:, 0] > 0
    assert (out.link_pkts[used, 0] == BLOCKS * 64).all()
    assert (out.link_pkts[net.reverse[used], 3] == BLOCKS).all()
    assert out.link_pkts[:, 3].sum() == BLOCKS * used.sum()


@for_compiled
@pytest.mark.parametrize("n", RECEIVERS)
@pytest.mark.parametrize("topology", ["star", "fat-tree:k=16"])
def test_unfolded_it_would_be_one_word_a_receiver(topology, n):
    net, routes = fabric(f"star:hosts={n + 1}" if topology == "star" else topology)
    out = simulate(net, routes, fan(n, MIB, folds=False), ONE_SI, seed=1)
    assert out.stuck == ()
    assert out.feedback_at_source.tolist() == [n * BLOCKS]
    assert out.link_pkts[down_link(net), 3] == n * BLOCKS
    folded = simulate(net, routes, fan(n, MIB), ONE_SI, seed=1)
    assert out.end_ps >= folded.end_ps
    if n >= 512:  # the words of all no longer fit beside the data
        assert out.end_ps > folded.end_ps + 10 * US


@for_compiled
def test_depth_costs_latency_and_no_messages():
    n = 1023
    shallow = alone(build_named_net(f"star:hosts={n + 1}"), fan(n, MIB), ONE_SI)
    net, routes = fabric("fat-tree:k=16")
    deep = simulate(net, routes, fan(n, MIB), ONE_SI, seed=1)
    assert deep.feedback_at_source.tolist() == shallow.feedback_at_source.tolist()
    assert deep.end_ps - shallow.end_ps == 4 * (DATA_PS + US) + 4 * (WORD_PS + US) == 9_530_880


def test_eight_receivers_in_one_star_without_a_compiler():
    settings = Settings(block_psns=4, bitstring_bits=64)
    out = alone(build_named_net("star:hosts=9"), fan(8, 8 * PKT), settings)
    assert out.feedback_at_source.tolist() == [2]
    assert out.link_pkts.sum(axis=0).tolist() == [9 * 8, 0, 0, 9 * 2]
    unfolded = alone(build_named_net("star:hosts=9"), fan(8, 8 * PKT, folds=False), settings)
    assert unfolded.feedback_at_source.tolist() == [16]


def test_receivers_of_two_sets_are_two_packets_and_two_words():
    settings = Settings(block_psns=4, bitstring_bits=64)
    net = build_named_net("star:hosts=70")
    out = alone(net, fan(69, 8 * PKT), settings)
    assert out.stuck == ()
    assert out.got_bytes[1:].tolist() == [8 * PKT] * 69
    assert out.link_pkts[net.first_out[0]].tolist() == [2 * 8, 0, 0, 0]
    assert out.link_pkts[down_link(net)].tolist() == [0, 0, 0, 2 * 2]
    assert out.n_folds == (4, 0, 0)
