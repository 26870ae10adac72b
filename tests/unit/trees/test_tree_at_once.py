"""All join at once: compiled loops give, to the picosecond, what the machines give."""

import tracemalloc

import msgspec
import numpy as np
import pytest

from fanfold.errors import ConfigError
from fanfold.kernels.jit import JIT
from fanfold.streams import stream
from fanfold.topo.net import Net
from fanfold.topo.nets import build_named_net
from fanfold.trees import at_once, standing
from fanfold.trees.at_once import NO_PROBES, NUMBER, Probes, can_join_at_once, join_at_once
from fanfold.trees.catalog import CATALOG, protocol_of
from fanfold.trees.settings import TreeSettings
from fanfold.trees.standing import stand, stand_at_once
from fanfold.trees.tree_run import centre_of
from fanfold.trees.world import Machine, World

compiled = pytest.mark.skipif(not JIT, reason="many messages: for compiled code")
PROTOCOLS = tuple(row.name for row in CATALOG)
TOPOLOGIES = (
    "fat-tree:k=4",
    "torus:dims=4x3",
    "ring:hosts=7",
    "random:hosts=20,degree=3",
    "dragonfly:a=2,p=2,h=1",
    "wan:sites=4,hosts=2",
    "star:hosts=8",
    "rail:servers=4,spines=2",
)
SETTINGS = (
    TreeSettings(),
    TreeSettings(group=1, switch_over=False, process_ps=7_000_000, forward_ps=900_000),
    TreeSettings(group=3, install_ps=50_000, compute_ps=300_000_000, rp="", packet_bytes=9000),
)
by_every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


def both(protocol, net, source, members, settings):
    others = [host for host in members if host != source]
    assert can_join_at_once(protocol, net, settings)
    assert len(others) < standing.AT_ONCE_FROM  # so the machines it is
    right = stand(protocol, net, source, members, settings)
    assert stand_at_once(protocol, net, source, others, settings) == right


def uneven(net: Net) -> Net:
    """Cables of five rates and of any length: no two messages come at one time."""
    draw = stream(7, "uneven")
    bps = draw.choice([10, 40, 100, 300, 800], net.n_links) * 10**9
    prop_ps = draw.integers(1, 2_000_000, net.n_links)
    first = np.minimum(np.arange(net.n_links), net.reverse)
    return net._replace(bps=bps[first], prop_ps=prop_ps[first])


def test_every_protocol_has_its_loop():
    assert set(NUMBER) == set(PROTOCOLS)
    assert sorted(NUMBER.values()) == list(range(len(PROTOCOLS)))


@by_every_protocol
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_loops_give_what_machines_give(protocol, topology):
    net = build_named_net(topology)
    for i, settings in enumerate(SETTINGS):
        both(protocol, net, i * net.n_hosts // 3, range(0, net.n_hosts, 1 + i % 2), settings)


@by_every_protocol
@pytest.mark.parametrize("topology", ["fat-tree:k=4", "random:hosts=20,degree=3"])
def test_loops_give_it_on_cables_that_differ(protocol, topology):
    net = uneven(build_named_net(topology))
    both(protocol, net, 5, range(net.n_hosts), TreeSettings())


@pytest.mark.parametrize("protocol", ["pim-sm", "pim-dm"])
@pytest.mark.parametrize("n_probes", [(2, 20), (3, 5, 9, 40)])
def test_loops_give_it_where_more_packets_are_sent_ahead(protocol, n_probes, monkeypatch):
    monkeypatch.setattr(standing, "PROBES", n_probes)
    both(protocol, build_named_net("torus:dims=3x3"), 0, range(9), TreeSettings())


@by_every_protocol
def test_loops_give_it_where_lanes_are_short(protocol, monkeypatch):
    monkeypatch.setattr(at_once, "_LANE", 4)
    both(protocol, build_named_net("fat-tree:k=4"), 0, range(16), TreeSettings())


@compiled
@by_every_protocol
def test_loops_give_it_at_a_larger_size(protocol):
    both(protocol, build_named_net("fat-tree:k=8"), 77, range(128), TreeSettings())


@pytest.mark.parametrize(
    ("protocol", "more"),
    [
        ("mldp-p2mp", {"process_ps": 0}),
        ("pim-sm", {"install_ps": 0}),
        ("bidir-pim", {"n_offers": 0}),
        ("bidir-pim", {"offer_ps": 1000}),
        ("bidir-pim", {"offer_ps": 30 * 10**12}),
    ],
)
def test_machines_run_where_one_instant_sees_several_trees(protocol, more):
    net = build_named_net("fat-tree:k=4")
    settings = msgspec.structs.replace(TreeSettings(), **more)
    assert stand_at_once(protocol, net, 0, range(1, 16), settings) is None


def test_what_cannot_be_is_refused_as_by_machines(monkeypatch):
    net = build_named_net("fat-tree:k=4")
    with pytest.raises(ConfigError, match="a host that is no member"):
        stand_at_once("pim-sm", net, 0, [1, 2, 1], TreeSettings())
    monkeypatch.setattr(standing, "PROBES", (1,))
    with pytest.raises(ConfigError, match="changes on and on"):
        stand_at_once("pim-dm", net, 0, range(1, 16), TreeSettings())


def test_from_a_number_of_members_on_loops_are_taken(monkeypatch):
    net = build_named_net("fat-tree:k=4")
    right = stand("pim-sm", net, 0, range(16), TreeSettings())
    monkeypatch.setattr(standing, "AT_ONCE_FROM", 15)
    monkeypatch.setattr(standing, "build_tree", None)
    assert stand("pim-sm", net, 0, range(16), TreeSettings()) == right


@compiled
@by_every_protocol
def test_events_and_memory_grow_as_links_do(protocol):
    costs = []
    for k in (8, 16):
        net, settings = build_named_net(f"fat-tree:k={k}"), TreeSettings()
        world = World(net, settings)
        row = protocol_of(protocol)
        world.machine = row.machine(world, 0, centre_of(net, row, settings))
        others = range(1, net.n_hosts)
        makes_state = row.machine.on_data is not Machine.on_data
        probes = Probes(8, 5 * 10**9, 2 * 10**9) if makes_state else NO_PROBES
        join_at_once(protocol, net, world.machine, others, probes)
        tracemalloc.start()
        told = join_at_once(protocol, net, world.machine, others, probes)
        costs.append((told.n_events, tracemalloc.get_traced_memory()[1], net.n_links))
        tracemalloc.stop()
        assert told.n_reached == len(others)
    (events, octets, links), (more_events, more_octets, more_links) = costs
    assert more_events / events < 1.3 * more_links / links
    assert more_octets / octets < 1.3 * more_links / links
