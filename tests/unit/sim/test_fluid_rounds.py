"""Ring and direct exchange among many ranks, without a message for each step or pair."""

import numpy as np
import pytest

from fanfold.errors import ConfigError
from fanfold.results.outcome import ACK, DATA
from fanfold.scenario.fidelity import choose
from fanfold.scenario.settings import Settings
from fanfold.schemes import direct, halving_doubling, ring
from fanfold.schemes.catalog import scheme_of
from fanfold.schemes.options import SchemeOptions
from fanfold.schemes.program import expand
from fanfold.sim.fluid import ring_ps, run_fluid
from fanfold.sim.fluid_exchange import run_exchange
from fanfold.sim.loop.pipeline import go_round
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes
from fanfold.work.collective import Collective

PLAIN = Settings()
COMPACT = SchemeOptions(compact=True)
FULL_PS = 4160 * 80  # of a packet at 100 Gbit/s
ACK_PS = 64 * 80
PLANES = "multi-plane:planes=2,leaves=2,spines=2,hosts=16"
US = 10**6


@pytest.fixture
def short(monkeypatch):
    """Every program counts as too long to be spelled out."""
    monkeypatch.setattr(ring, "MAX_SPELLED", 1)
    monkeypatch.setattr(direct, "MAX_SPELLED", 1)
    monkeypatch.setattr(halving_doubling, "MAX_SPELLED", 1)


def both(name, kind, n_bytes, topology, n=0):
    """A program in rounds, and message by message, through the flow rung."""
    net = build_named_net(topology)
    routes = build_routes(net)
    work = Collective(kind, n_bytes, tuple(range(n or net.n_hosts)))
    scheme = scheme_of(name)
    made = scheme.plan(work, COMPACT).program, scheme.plan(work, SchemeOptions()).program
    return net, made, [play(net, routes, each) for each in made]


def play(net, routes, program):
    """As a comparison does."""
    if program.exchange is not None:
        return run_exchange(net, routes, program.exchange, PLAIN, seed=1)
    return run_fluid(net, routes, program, PLAIN, seed=1)


@pytest.mark.parametrize("topology", ["fat-tree:k=4", "torus:dims=3x3", "star:hosts=9"])
@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter"])
def test_a_ring_by_steps_is_the_ring_by_messages(short, topology, kind) -> None:
    net, (compact, _), (a, b) = both("ring", kind, 144 * 4096, topology)
    assert compact.src.size == net.n_hosts
    assert compact.shift == 1
    assert a.link_bytes.tolist() == b.link_bytes.tolist()
    assert a.due_bytes.tolist() == b.due_bytes.tolist()
    assert abs(a.end_ps - b.end_ps) <= b.end_ps // 100


def test_a_ring_of_uneven_shards_sends_as_many_bytes(short) -> None:
    _, _, (a, b) = both("ring", "all_reduce", 144 * 4096 + 5, "star:hosts=9")
    assert a.due_bytes.sum() == b.due_bytes.sum()


def test_a_ring_in_a_star_takes_its_steps_and_nothing_else(short) -> None:
    _, (compact, _), (a, _) = both("ring", "all_reduce", 9 * 4096, "star:hosts=9")
    # 16 steps of one packet over 2 links; each direction's ACKs share the link
    step = round(FULL_PS * 4224 / 4160) + FULL_PS + 2 * US
    assert compact.chunks == 16
    assert abs(a.host_ps.max() - 16 * step) <= 16


def test_the_spelled_out_ring_waits_as_the_ring_does(short) -> None:
    _, (compact, plain), _ = both("ring", "all_reduce", 144 * 4096, "star:hosts=9")
    spelled = expand(compact)
    assert spelled.n_items == plain.n_items
    assert sorted(spelled.n_needs.tolist()) == sorted(plain.n_needs.tolist())
    net = build_named_net("star:hosts=9")
    ends = [
        run_fluid(net, build_routes(net), each, PLAIN, seed=1).end_ps
        for each in (spelled, plain)
    ]
    assert ends[0] == ends[1]


@pytest.mark.parametrize("n", [2, 3, 7, 16])
def test_the_closed_form_of_a_ring_is_its_steps(n) -> None:
    rest = np.random.default_rng(n).integers(0, 1000, n)
    for pieces in (1, 2, n - 1, n, n + 1, 2 * (n - 1), 3 * n + 1):
        sent = np.full(n, 5)
        closed = ring_ps(sent.copy(), np.full(n, 77), rest, pieces)
        go_round(sent, np.empty_like(sent), np.full(n, 77), rest, pieces)
        assert closed.tolist() == sent.tolist()


def test_a_slow_link_holds_the_pieces_of_a_ring() -> None:
    sent = np.zeros(3, np.int64)
    go_round(sent, np.empty_like(sent), np.array([10, 1000, 10]), np.array([1, 1, 1]), 3)
    assert sent.tolist() == [1022, 3000, 2011]  # 10, 21; 1000, 2000; 10, 1011 before


@pytest.mark.parametrize("n", [0, 13])
@pytest.mark.parametrize("topology", ["fat-tree:k=4", "leaf-spine:leaves=4,spines=2,hosts=16"])
@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
@pytest.mark.parametrize("each", [4096, 100])
def test_an_exchange_in_rounds_is_the_exchange_by_messages(
    short, topology, kind, n, each
) -> None:
    n_bytes = each * 16 * 13 + (5 if kind == "all_reduce" and each > 100 else 0)
    _, (compact, plain), (a, b) = both("direct", kind, n_bytes, topology, n)
    assert compact.src.size == 0
    assert compact.n_messages == plain.src.size
    assert a.link_pkts[:, [DATA, ACK]].sum() == b.link_pkts[:, [DATA, ACK]].sum()
    assert a.link_bytes.sum(axis=0).tolist() == b.link_bytes.sum(axis=0).tolist()
    assert a.due_bytes.tolist() == b.due_bytes.tolist()
    assert abs(a.end_ps - b.end_ps) <= b.end_ps // 100


@pytest.mark.parametrize(
    "topology", ["fat-tree:k=4", "star:hosts=16", "torus:dims=4x4", PLANES]
)
@pytest.mark.parametrize(
    "kind", ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"]
)
@pytest.mark.parametrize("each", [4096, 100])
def test_halves_and_doubles_in_rounds_are_those_by_messages(
    short, topology, kind, each
) -> None:
    is_odd = kind in ("all_reduce", "broadcast", "reduce") and each > 100
    n_bytes = each * 16 * 13 + (5 if is_odd else 0)
    _, (compact, plain), (a, b) = both("halving-doubling", kind, n_bytes, topology)
    assert compact.src.size == 0
    assert compact.n_messages == plain.src.size
    assert a.link_pkts[:, [DATA, ACK]].sum() == b.link_pkts[:, [DATA, ACK]].sum()
    assert a.link_bytes.sum(axis=0).tolist() == b.link_bytes.sum(axis=0).tolist()
    assert a.due_bytes.tolist() == b.due_bytes.tolist()
    assert (a.host_ps > 0).tolist() == (b.host_ps > 0).tolist()
    assert abs(a.end_ps - b.end_ps) <= b.end_ps // 45


def test_an_exchange_is_as_fast_as_its_fullest_link(short) -> None:
    """16 hosts, 4 to a leaf, over spines that carry a quarter of what hosts do."""
    topology = "leaf-spine:leaves=4,spines=1,hosts=16,rate=100Gbps"
    _, _, (a, _) = both("direct", "all_gather", 16 * 4096, topology)
    # by each leaf's one uplink: 4 hosts to 12 others, and ACKs of as many
    busy = 4 * 12 * (FULL_PS + ACK_PS)
    rest = 3 * FULL_PS + 4 * US
    assert a.host_ps.max() == busy + rest
    assert a.end_ps == busy + rest + 4 * (ACK_PS + US)


def test_only_the_flow_rung_takes_rounds(short) -> None:
    net = build_named_net("fat-tree:k=4")
    work = Collective("all_gather", 16 * 4096, tuple(range(16)))
    program = scheme_of("direct").plan(work, COMPACT).program
    choice = choose("auto", net, build_routes(net), program, PLAIN)
    assert choice.rung == "flow"
    assert "240 messages in rounds" in choice.why


def test_hosts_with_several_links_are_refused_by_name(short) -> None:
    net = build_named_net("multi-plane:planes=2,leaves=2,spines=1,hosts=4")
    work = Collective("all_gather", 4 * 4096, tuple(range(4)))
    program = scheme_of("direct").plan(work, COMPACT).program
    with pytest.raises(ConfigError, match="4 hosts with several links each"):
        play(net, build_routes(net), program)
