"""Packets are lost on every link; every collective of every scheme ends with all its bytes."""

import pytest
from census import take_census
from validation_world import MIB, PKT, fabric, messages

from fanfold.kernels.jit import JIT
from fanfold.results.outcome import NOT_DONE
from fanfold.scenario.settings import Settings
from fanfold.schemes.catalog import CATALOG, scheme_of
from fanfold.schemes.tree_fans import Site
from fanfold.sim.simulate import Simulation
from fanfold.trees.settings import TreeSettings
from fanfold.work.collective import Collective

heavy = pytest.mark.skipif(not JIT, reason="millions of packet hops: for compiled code")
N_HOSTS = 16
LOSSES = {"1 in 100,000": 10_000, "1 in 1,000": 1_000_000, "1 in 100": 10_000_000}
MOST_EVENTS = 60_000_000
FLOW_ONLY = "sharp"
CASES = [(s.name, kind) for s in CATALOG for kind in s.kinds if s.name != FLOW_ONLY]
UNICAST = ("plain", "roce", "ndp")


def run(name, kind, settings, seed):
    """A collective worked through to its end; what was lost, and the outcome."""
    work = Collective(kind, MIB, tuple(range(N_HOSTS)))
    site = Site(fabric("fat-tree:k=4")[0], TreeSettings())
    return run_program(scheme_of(name).build(work, site=site), settings, seed)


def run_program(program, settings, seed):
    net, routes = fabric("fat-tree:k=4")
    sim = Simulation(net, routes, program, settings, seed=seed)
    while sim.step():
        assert sim.progress().n_events < MOST_EVENTS
    assert take_census(sim) == []
    return int(sim.world.links["lost"].sum()), sim.outcome()


def check_whole(outcome):
    assert outcome.stuck == ()
    assert outcome.reason == "every item is done"
    assert outcome.got_bytes.tolist() == outcome.due_bytes.tolist()
    assert (outcome.host_ps != NOT_DONE).all()
    assert (outcome.item_ps != NOT_DONE).all()


@heavy
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_every_collective_ends(name, kind, loss):
    lost, outcome = run(name, kind, Settings(loss_ppb=LOSSES[loss]), seed=1)
    check_whole(outcome)
    if loss == "1 in 100":
        assert lost > 0
        assert outcome.repairs[0] > 0


@heavy
@pytest.mark.parametrize("transport", UNICAST)
@pytest.mark.parametrize("routing", ["spray", "ecmp"])
def test_every_transport_mends(transport, routing):
    window, limit = (8, 12 * 4160) if transport == "ndp" else (0, 0)
    settings = Settings(
        transport=transport,
        routing=routing,
        window_pkts=window,
        queue_bytes=limit,
        loss_ppb=LOSSES["1 in 100"],
    )
    for name, kind in (("direct", "all_to_all"), ("ring", "all_reduce")):
        lost, outcome = run(name, kind, settings, seed=2)
        check_whole(outcome)
        assert lost > 0


@heavy
@pytest.mark.parametrize("name", ["bier", "fanfold"])
@pytest.mark.parametrize("seed", range(5))
def test_three_packets_of_a_hundred_may_be_lost_on_each_link(name, seed):
    lost, outcome = run(name, "broadcast", Settings(loss_ppb=30_000_000), seed)
    check_whole(outcome)
    assert lost > 0


@heavy
@pytest.mark.parametrize("name", ["bier", "fanfold", "unicast"])
def test_repairs_cost_about_what_was_lost(name):
    lost, outcome = run(name, "broadcast", Settings(loss_ppb=LOSSES["1 in 1,000"]), seed=4)
    check_whole(outcome)
    assert outcome.repairs[0] <= 8 * max(lost, 1)


@pytest.mark.parametrize("seed", range(3))
def test_what_waits_to_be_sent_again_and_has_come_is_let_be(seed):
    """ACKs overtake each other: a record counts as lost, and its ACK comes before its turn."""
    pairs = [(a, b, 16 * PKT) for a in range(8) for b in range(8) if a != b]
    settings = Settings(routing="ecmp", loss_ppb=LOSSES["1 in 100"], rto_ps=50_000_000)
    _, outcome = run_program(messages(*pairs), settings, seed)
    check_whole(outcome)
