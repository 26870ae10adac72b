"""Links with keys, simulated: packets of fanfold are a trailer longer, all else is as it is."""

import msgspec
import pytest

from fanfold.kernels.layout import TRAILER_BYTES
from fanfold.scenario.settings import Settings
from fanfold.schemes.catalog import scheme_of
from fanfold.schemes.tree_fans import Site
from fanfold.sim.simulate import Simulation
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes
from fanfold.trees.settings import TreeSettings
from fanfold.work.collective import Collective

NET = "leaf-spine:leaves=2,spines=1,hosts=4,rate=1Gbps"
PLAIN = Settings(payload_bytes=1000, bitstring_bits=256, block_psns=8, sum_window=8)
KEYED = msgspec.structs.replace(PLAIN, link_keys=True)


def outcome(settings, what, scheme="fanfold"):
    net = build_named_net(NET)
    work = Collective(what, 20_000, tuple(range(net.n_hosts)))
    program = scheme_of(scheme).build(work, site=Site(net, TreeSettings()))
    sim = Simulation(net, build_routes(net), program, settings, seed=1)
    while sim.step():
        pass
    told = sim.outcome()
    assert told.stuck == ()
    return told


@pytest.mark.parametrize("what", ["broadcast", "all_reduce"])
def test_each_packet_of_fans_and_sums_is_a_trailer_longer(what):
    plain, keyed = outcome(PLAIN, what), outcome(KEYED, what)
    assert plain.link_pkts.sum() > 0
    assert (keyed.link_pkts == plain.link_pkts).all()
    more = keyed.link_bytes - plain.link_bytes
    assert (more == TRAILER_BYTES * plain.link_pkts).all()


def test_messages_of_other_schemes_are_as_long_as_without():
    plain, keyed = outcome(PLAIN, "all_reduce", "ring"), outcome(KEYED, "all_reduce", "ring")
    assert (keyed.link_bytes == plain.link_bytes).all()
