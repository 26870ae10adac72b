import pytest

from fanfold.topo.fabric import Fabric, Link, Node
from fanfold.topo.fabric_routes import FabricRoutes
from fanfold.topo.lab_fabric import leaf_spine


def test_hops_and_next_hops_in_a_leaf_spine():
    paths = FabricRoutes(leaf_spine(2, 3, 4))
    assert paths.hops("h0", "h0") == 0
    assert paths.hops("h0", "h1") == 2
    assert paths.hops("h0", "h4") == 4
    assert paths.hops("leaf1", "h4") == 3
    assert paths.next_hops("leaf1", "h4") == ("spine1", "spine2", "spine3")
    assert paths.next_hops("h0", "h4") == ("leaf1",)
    assert paths.next_hops("spine2", "h4") == ("leaf2",)
    assert paths.next_hops("h4", "h4") == ()


def test_no_path_leads_through_a_host():
    """Hosts x joins a and b directly; the long way round is the only one for others."""
    names = ("a", "b", "c", "d")
    nodes = [Node(n, f"127.0.0.{i}", "bfr") for i, n in enumerate(names, 1)]
    nodes.append(Node("x", "127.0.0.9", "host", 9))
    pairs = ("ac", "cd", "db", "ax", "bx")
    paths = FabricRoutes(Fabric("f", tuple(nodes), tuple(Link(*p) for p in pairs)))
    assert paths.hops("a", "b") == 3
    assert paths.next_hops("a", "b") == ("c",)
    assert paths.hops("x", "b") == paths.hops("b", "x") == 1
    assert paths.next_hops("c", "x") == ("a",)
    assert paths.next_hops("x", "c") == ("a",)


def test_no_path_is_none():
    nodes = (Node("a", "127.0.0.1", "bfr"), Node("b", "127.0.0.2", "host", 1))
    paths = FabricRoutes(Fabric("f", nodes, ()))
    assert paths.hops("a", "b") is None
    assert paths.next_hops("a", "b") == ()


@pytest.mark.parametrize("source", ["h0", "leaf2", "spine1"])
def test_every_next_hop_is_one_hop_nearer(source):
    fabric = leaf_spine(3, 2, 7)
    paths = FabricRoutes(fabric)
    for node in fabric.nodes:
        for near in paths.next_hops(source, node.name):
            assert paths.hops(near, node.name) == paths.hops(source, node.name) - 1
