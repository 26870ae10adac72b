"""Trees as schemes: a small fabric, programs on it, runs of them."""

from functools import cache

import numpy as np
from census import take_census

from fanfold.results.outcome import DATA
from fanfold.scenario.settings import Settings
from fanfold.schemes.catalog import CATALOG, scheme_of
from fanfold.schemes.options import SchemeOptions
from fanfold.schemes.tree_fans import Site
from fanfold.sim.simulate import Simulation
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes
from fanfold.trees.settings import TreeSettings
from fanfold.work.collective import Collective

NAMES = tuple(scheme.name for scheme in CATALOG if scheme.protocol)
K4 = "fat-tree:k=4"
PKT = 4096
HEAD = 20 + 8 + 16  # IPv4, UDP, DATA
WORD = 20 + 8 + 24  # IPv4, UDP, FEEDBACK
QUICK = TreeSettings(
    process_ps=10**6, install_ps=10**7, detect_ps=2 * 10**8, reroute_ps=10**8, offer_ps=10**7
)


@cache
def fabric(name=K4):
    net = build_named_net(name)
    return net, build_routes(net)


def program_of(name, kind="broadcast", n_bytes=20 * PKT, hosts=None, site=None, topology=K4):
    net, _ = fabric(topology)
    hosts = tuple(range(net.n_hosts)) if hosts is None else hosts
    site = Site(net, TreeSettings()) if site is None else site
    return scheme_of(name).build(Collective(kind, n_bytes, hosts), SchemeOptions(), site)


def simulation(program, settings=None, seed=1, segment_pkts=1, topology=K4):
    net, routes = fabric(topology)
    settings = Settings() if settings is None else settings
    return Simulation(net, routes, program, settings, seed=seed, segment_pkts=segment_pkts)


def play(sim):
    while sim.step():
        assert sim.progress().n_events < 20_000_000
    assert take_census(sim) == []
    return sim.outcome()


def run(program, settings=None, **more):
    return play(simulation(program, settings, **more))


def check_whole(outcome):
    assert outcome.stuck == ()
    assert outcome.got_bytes.tolist() == outcome.due_bytes.tolist()
    assert (outcome.host_ps >= 0).all()


def data_pkts(outcome):
    return np.asarray(outcome.link_pkts[:, DATA])
