"""Where nothing is lost nothing is sent twice, no slot goes up early and nobody is given up.

Whatever the rates, from 1 Mbit/s to 800 Gbit/s, and delays, from 1 us to 150 ms: waits of
senders, slots and ranks go by round trips, and by what stands in the queues of a crowd.
``FANFOLD_HUNT=1000`` runs so many more.
"""

import os
import random

import pytest
from msgspec.structs import replace
from twin_world import mixed

from fanfold.kernels.jit import JIT
from fanfold.scenario.settings import Settings
from fanfold.schemes.catalog import scheme_of
from fanfold.schemes.tree_fans import Site
from fanfold.sim.simulate import SUMS, simulate
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes
from fanfold.trees.settings import TreeSettings
from fanfold.work.collective import Collective

N_CASES = int(os.environ.get("FANFOLD_HUNT", "60" if JIT else "3"))
GROUP = 30 if JIT else 3
SIZES = (4096, 65_536, *((400_000, 1_500_000) if JIT else ()))
TREES = TreeSettings()
NETS = (
    *("star:hosts=6", "leaf-spine:leaves=3,spines=2,hosts=6", "fat-tree:k=4"),
    *("rail:servers=3,gpus=3,spines=2", "torus:dims=3x3", "ring:hosts=5"),
    *("wan:sites=3,hosts=4,leaves=2", "dragonfly:a=3,p=2,h=1"),
)
RATES = (10**6, 10**7, 10**8, 10**9, 3 * 10**9, 10**10, 10**11, 4 * 10**11, 8 * 10**11)
DELAYS = (10**6, 10**7, 10**8, 10**9, 10**10, 15 * 10**10)
SCHEMES = {
    "unicast": ("broadcast", "all_reduce"),
    "direct": ("all_reduce",),
    "ring": ("all_reduce",),
    "binary-tree": ("all_reduce",),
    "double-binary-tree": ("broadcast",),
    "halving-doubling": ("all_reduce",),
    "parameter-server": ("all_reduce",),
    "bier": ("broadcast", "all_gather", "all_reduce"),
    "mldp": ("broadcast", "all_gather"),
    "pim-sm": ("broadcast",),
    "sr-p2mp": ("broadcast",),
    "fanfold": ("broadcast", "all_gather", "all_reduce", "reduce"),
}
FANS = ("bier", "mldp", "pim-sm", "sr-p2mp")


def lines_of(net, rng):
    """All links alike, of neighbouring rates, or of any."""
    spread = rng.choice((1, 3, len(RATES)))
    lowest = rng.randrange(len(RATES) - spread + 1)
    rates = RATES[lowest : lowest + spread]
    delays = DELAYS if spread == len(RATES) else (rng.choice(DELAYS),)
    return mixed(net, rng, rates, delays)


def scenario(seed):
    rng = random.Random(seed)
    net = lines_of(build_named_net(rng.choice(NETS), seed), rng)
    scheme = rng.choice(tuple(SCHEMES))
    kind, n = rng.choice(SCHEMES[scheme]), rng.randint(2, net.n_hosts)
    if scheme == "halving-doubling":
        n = 1 << n.bit_length() - 1
    size = rng.choice(SIZES) // n * n
    settings = Settings(
        routing=rng.choice(("spray", "ecmp")),
        feedback=rng.choice(("auto", "packet", "nack")) if scheme in FANS else "auto",
        tree_start="standing",
        block_psns=rng.choice((64, 16)),
        payload_bytes=rng.choice((4096, 1024, 8192)),
    )
    work = Collective(kind, size, tuple(range(n)))
    program = scheme_of(scheme).build(work, site=Site(net, TREES, "standing"))
    return net, program, settings, (scheme, kind, n, size)


@pytest.mark.parametrize("first", range(0, N_CASES, GROUP))
def test_without_a_loss_nothing_is_sent_twice_at_any_rate(first):
    for seed in range(first, first + GROUP):
        net, program, settings, what = scenario(seed)
        out = simulate(net, build_routes(net), program, settings, seed=seed, whole=SUMS)
        assert out.stuck == (), (seed, what)
        assert (out.repairs, out.n_folds[1:]) == ((0, 0), (0, 0)), (seed, what)
        assert out.arrays[1:] == (0, 0), (seed, what)


def test_messages_that_could_be_lost_wait_for_queues_where_links_are_alike():
    """Timers run; where inner links are slower than hosts' ports they may go off early."""
    n_runs = 0
    for seed in range(60 if JIT else 12):
        net, program, settings, what = scenario(seed)
        if len(set(net.bps.tolist())) > 1 or program.fans or program.sums:
            continue
        n_runs += 1
        timed = replace(settings, queue_bytes=2**40)
        out = simulate(net, build_routes(net), program, timed, seed=seed)
        assert (out.stuck, out.repairs) == ((), (0, 0)), (seed, what)
    assert n_runs > (10 if JIT else 0)


def incast(n, n_bytes):
    work = Collective("all_reduce", n_bytes, tuple(range(n)))
    return scheme_of("parameter-server").build(work)


@pytest.mark.parametrize("rate", ["1Gbps", "400Gbps"])
def test_a_queue_at_a_receiver_is_no_loss(rate):
    """Timers run, as packets could be lost; 64 round trips stand in the server's queue."""
    n = 64 if JIT else 16
    net = build_named_net(f"fat-tree:k=8,rate={rate}")
    routes, program = build_routes(net), incast(n, (1 << 20) if JIT else 1 << 16)
    free = simulate(net, routes, program, Settings(), seed=1)
    timed = simulate(net, routes, program, Settings(queue_bytes=2**40), seed=1)
    assert (timed.repairs, timed.end_ps) == ((0, 0), free.end_ps)
