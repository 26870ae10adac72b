"""Repair by the nearest holder: what BFRs keep spares the source, and changes nothing else."""

import msgspec
import pytest
from validation_world import MIB

from fanfold.kernels.codes import N_STORE, STORE_HIT, STORE_KEPT
from fanfold.kernels.jit import JIT
from fanfold.scenario.settings import Settings
from fanfold.schemes.catalog import scheme_of
from fanfold.schemes.tree_fans import Site
from fanfold.sim.simulate import Simulation
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes
from fanfold.trees.settings import TreeSettings
from fanfold.work.collective import Collective

heavy = pytest.mark.skipif(not JIT, reason="some hundred thousand packet hops")
NEAREST = 16 << 20
LOSSY = Settings(loss_ppb=10_000_000, payload_bytes=8100, cache_bytes=0)
LEAVES = "leaf-spine:leaves=4,spines=2,hosts=16,rate=200Mbps"


def run(settings, seed=1, name="fanfold"):
    """16 MiB from one host to fifteen behind four leaves."""
    net = build_named_net(LEAVES)
    work = Collective("broadcast", 16 * MIB, tuple(range(net.n_hosts)))
    program = scheme_of(name).build(work, site=Site(net, TreeSettings()))
    sim = Simulation(net, build_routes(net), program, settings, seed=seed)
    while sim.step():
        pass
    told = sim.outcome()
    assert told.stuck == ()
    assert told.got_bytes.tolist() == told.due_bytes.tolist()
    return sim, told


def with_cache(settings, n_bytes=NEAREST):
    return msgspec.structs.replace(settings, cache_bytes=n_bytes)


def events(sim):
    return sim.fans.bier.store.events.reshape(-1, N_STORE).sum(axis=0)


@heavy
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_source_sends_again_what_was_lost_above_every_cache(seed):
    """1 % on each link: of 2,072 packets 21 are lost on the source's own link."""
    _, plain = run(LOSSY, seed)
    sim, near = run(with_cache(LOSSY), seed)
    assert plain.repairs[0] > 250
    assert near.repairs[0] < 75
    assert near.feedback_at_source.sum() < 33 * 5  # a word that is late is waited for
    assert events(sim)[STORE_HIT] > 250
    assert near.end_ps < plain.end_ps


@heavy
def test_a_gap_is_told_again_when_a_repair_can_have_come():
    """33 blocks of 21 ms behind 200 Mbit/s: a word for each branch, and not one every 3 ms."""
    _, plain = run(LOSSY)
    assert plain.feedback_at_source.sum() < 33 * 10


@heavy
def test_where_nothing_is_lost_nothing_is_kept_and_nothing_changes():
    settings = msgspec.structs.replace(LOSSY, loss_ppb=0)
    _, plain = run(settings)
    sim, near = run(with_cache(settings))
    assert events(sim)[STORE_KEPT] == 0
    assert (near.end_ps, near.n_hops) == (plain.end_ps, plain.n_hops)
    assert near.link_bytes.tolist() == plain.link_bytes.tolist()


@heavy
def test_a_cache_that_holds_no_block_leaves_repairs_to_the_source():
    """Eight packets of 64 KiB: gone when a block's words come."""
    sim, small = run(with_cache(LOSSY, 1 << 16))
    _, plain = run(LOSSY)
    assert events(sim)[STORE_KEPT] > 0
    assert small.repairs[0] > plain.repairs[0] // 2


@heavy
def test_no_scheme_without_folds_keeps_anything():
    _, plain = run(LOSSY, name="bier")
    _, near = run(with_cache(LOSSY), name="bier")
    assert near.end_ps == plain.end_ps
