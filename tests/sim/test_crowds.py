"""Many fans that meet, links of any rate: all is folded, nothing sent twice, none given up."""

import numpy as np
import pytest
from validation_world import MIB, NO_EDGES, PKT, alone

from fanfold.kernels.jit import JIT
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import Fan, build_program
from fanfold.topo.nets import build_named_net
from fanfold.topo.sketch import Line, Sketch

KIB = 2**10
NO_MESSAGES = np.zeros((0, 4), np.int64)
RAIL = "rail:servers=2,gpus=8,spines=8,unit=2,rate=400Gbps"
BLOCK = 64 * PKT


def fans(*some):
    return build_program(NO_MESSAGES, NO_EDGES, fans=some, folds=True)


def all_gather(n, n_bytes):
    return fans(*(Fan(i, tuple(j for j in range(n) if j != i), n_bytes) for i in range(n)))


GATHERS = [
    *(("star:hosts=16", 16, kib) for kib in (44, 64, 256)),
    ("star:hosts=64", 64, 32),
    ("fat-tree:k=4", 16, 256),
    (RAIL, 16, 64),
]


@pytest.mark.parametrize(("topology", "n", "kib"), GATHERS if JIT else GATHERS[1:2])
def test_words_of_a_crowd_are_folded(topology, n, kib):
    """Data waits in the receivers' queues; the slots wait as long, so no word passes by."""
    out = alone(build_named_net(topology), all_gather(n, kib * KIB), Settings())
    assert out.stuck == ()
    assert (out.n_folds[1:], out.repairs) == ((0, 0), (0, 0))
    n_words = n * -(-kib * KIB // BLOCK)
    branches = 2 if topology == RAIL else 1  # a host there has two links, one into its server
    assert out.feedback_at_source.sum() == branches * n_words


@pytest.mark.parametrize("seed", range(3) if JIT else range(1))
def test_fans_to_a_few_others_on_rails_repair_nothing_without_a_loss(seed):
    """Tokens, each to eight hosts: they meet at ports of 400 Gbit/s, not inside a server."""
    net = build_named_net("rail:servers=8,gpus=8,spines=8,unit=8,rate=400Gbps")
    draw = np.random.default_rng(seed)
    some = []
    for source in range(64):
        others = np.array([h for h in range(64) if h != source])
        for _ in range(32 if JIT else 4):
            to = sorted(draw.choice(others, 8, replace=False).tolist())
            some.append(Fan(source, tuple(to), 7392))
    out = alone(net, fans(*some), Settings())
    assert (out.stuck, out.repairs, out.link_drops.sum()) == ((), (0, 0), 0)


def star_of(*gbps):
    """Hosts on one router, by the rate of their cables; 1 us each."""
    sketch = Sketch(len(gbps))
    (router,) = sketch.add("r", 1, 1)
    for host, rate in enumerate(gbps):
        sketch.cable(host, router, Line(rate * 10**9, 10**6))
    return sketch.build("star")


@pytest.mark.parametrize("n_slow", [1, 3] if JIT else [1])
@pytest.mark.parametrize("gbps", [2, 5, 20])
def test_a_slow_receiver_gets_all_at_the_rate_of_its_line(gbps, n_slow):
    rates = [100] * 5
    rates[2 : 2 + n_slow] = [gbps] * n_slow
    n_bytes = (64 if JIT else 1) * MIB
    out = alone(star_of(*rates), fans(Fan(0, (1, 2, 3, 4), n_bytes)), Settings())
    assert out.stuck == ()
    assert out.got_bytes[1:].tolist() == [n_bytes] * 4
    line_ps = n_bytes // PKT * (PKT + 92) * 8 * 1000 // gbps
    assert line_ps < out.host_ps[2] < line_ps * 5 // 4
