"""Forwarding tables of the simulator are those of the live node: each table, each bit.

Fabrics of the lab in several shapes, more than one SI, and a net whose file mixes its nodes.
"""

import numpy as np
import pytest
from fabric_run import fabric_ids

from fanfold.kernels.jit import JIT
from fanfold.kernels.tables import NULL_NBR
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import Fan, build_program
from fanfold.sim.loop.tables import look_up
from fanfold.sim.simulate import Simulation
from fanfold.topo.bift import build_bifts
from fanfold.topo.clos import leaf_spine
from fanfold.topo.fabric import Fabric, Link, Node
from fanfold.topo.fabric_net import fabric_net
from fanfold.topo.graph import Paths
from fanfold.topo.routes import build_routes
from fanfold.wire.bitstring import bift_id, bsl_of_bits

SHAPES = [(2, 2, 8), (4, 2, 8), (3, 3, 7), (1, 0, 3), (2, 4, 5), (2, 8, 3)]


def build(fabric):
    """A simulation of one fan over all hosts of a fabric, and its net."""
    net = fabric_net(fabric)
    hosts = tuple(range(1, net.n_hosts))
    none = np.zeros((0, 4), np.int64)
    program = build_program(
        none, np.zeros((0, 2), np.int64), fans=(Fan(0, hosts, 1),), folds=True
    )
    settings = Settings(bitstring_bits=fabric.bitstring_bits, n_ecmp=fabric.n_ecmp)
    ids = fabric_ids(fabric, net)
    return Simulation(net, build_routes(net), program, settings, seed=1, bfr_ids=ids), net


def fabric_of(name, pairs, n_ecmp):
    """Fabric of pairs of names; those with an h are hosts."""
    names = sorted({end for pair in pairs for end in pair})
    nodes = []
    for i, end in enumerate(names):
        role = ("host", i + 1) if end[0] == "h" else ("bfr", 0)
        nodes.append(Node(end, f"127.90.0.{i + 1}", *role))
    return Fabric(name, tuple(nodes), tuple(Link(*pair) for pair in pairs), n_ecmp=n_ecmp)


def check(fabric):
    sim, net = build(fabric)
    paths = Paths(fabric)
    bsl = bsl_of_bits(fabric.bitstring_bits)
    n_si, n_ecmp, tables = sim.fans.n_si, fabric.n_ecmp, sim.fans.bier.tables
    links, nodes = sim.world.links, sim.world.nodes
    hosts = {i for i, node in fabric.by_bfr_id.items() if node.role == "host"}
    for r in range(net.n_nodes - net.n_hosts):
        name = net.node_name(net.n_hosts + r)
        live = build_bifts(paths, name)
        n_rows = len(fabric.neighbours[name]) + 2
        for si in range(n_si):
            known = np.flatnonzero(live.ids == bift_id(bsl, fabric.sub_domain, si))
            for table in range(n_ecmp):
                mine = look_up(sim.q, links, nodes, tables, r, si, table)
                if known.size == 0:  # no BFER of this SI
                    assert (tables.nbr_of[mine] == NULL_NBR).all()
                    continue
                theirs = int(live.first[known[0]]) + table
                assert tables.nbr_of[mine].tolist() == live.nbr_of[theirs].tolist(), name
                assert np.array_equal(tables.f_bm[mine, :n_rows], live.f_bm[theirs]), name
                assert not tables.f_bm[mine, n_rows:].any()
    assert hosts == set(sim.fans.bfr_ids.tolist())


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_each_bit_of_each_table_leads_out_of_the_same_port(shape):
    check(leaf_spine(*shape))


@pytest.mark.skipif(not JIT, reason="many tables: for compiled code")
def test_receivers_of_two_sets_lead_out_of_the_same_ports():
    lab = leaf_spine(3, 2, 70)
    check(Fabric("wide", lab.nodes, lab.links, bitstring_bits=64, n_ecmp=4))


def test_nodes_may_stand_in_any_order_of_the_file():
    lab = leaf_spine(3, 2, 6)
    nodes = tuple(sorted(lab.nodes, key=lambda node: node.address[::-1]))
    check(Fabric("mixed", nodes, lab.links[::-1], n_ecmp=2))


def test_two_tiers_in_a_row_do_not_read_the_same_part_of_the_entropy():
    pods = [(f"leaf{p}{i}", f"agg{p}{j}") for p in (0, 1) for i in (0, 1) for j in (0, 1)]
    top = [(f"agg{p}{j}", f"core{j}{k}") for p in (0, 1) for j in (0, 1) for k in (0, 1)]
    below = [(f"h{p}{i}", f"leaf{p}{i}") for p in (0, 1) for i in (0, 1)]
    check(fabric_of("pods", [*pods, *top, *below], n_ecmp=4))


def test_in_a_ring_of_bfrs_every_one_goes_round_the_same_way():
    n = 6
    round_it = [(f"b{i}", f"b{(i + 1) % n}") for i in range(n)]
    check(fabric_of("ring", round_it + [(f"h{i}", f"b{i}") for i in range(n)], n_ecmp=4))
