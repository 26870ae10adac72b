"""Weights of the planes of a host, BIFTs that lead over each, and planes that are named."""

from itertools import pairwise

import msgspec
import pytest

from fanfold.errors import ConfigError
from fanfold.topo.fabric import Fabric, Link, Node
from fanfold.topo.fabric_routes import FabricRoutes
from fanfold.topo.lab_fabric import lab_fabric, leaf_spine
from fanfold.topo.nets import build_named_net
from fanfold.topo.planes import chosen_planes, plane_ways, planes_of
from fanfold.topo.predict import receivers_behind

POD = lab_fabric(build_named_net("superpod:gpus=8,planes=4")).fabric
WIDE = lab_fabric(build_named_net("multi-plane:planes=2,leaves=2,spines=2,hosts=8")).fabric
OTHERS = [f"h{i}" for i in range(1, 8)]


def changed(fabric: Fabric, **changes: dict[str, object]) -> Fabric:
    """The fabric with other fields of links, by "a_b"."""
    links = tuple(
        msgspec.structs.replace(link, **changes.get(f"{link.a}_{link.b}", {}))
        for link in fabric.links
    )
    return msgspec.structs.replace(fabric, links=links)


def weights(fabric, targets=OTHERS, chosen=(0, 1, 2, 3), failed=frozenset()):
    ways = plane_ways(fabric, "h0", targets, chosen, failed)
    return {way.plane: way.weight for way in ways}


def test_a_lab_has_all_planes_and_bifts_for_each():
    assert planes_of(POD, "h0") == [0, 1, 2, 3]
    assert planes_of(POD, "leaf2") == [2]
    assert POD.n_ecmp == 16
    assert planes_of(leaf_spine(2, 2, 4), "h0") == [0]
    assert {link.plane for link in WIDE.links} == {0, 1}


@pytest.mark.parametrize("fabric", [POD, WIDE], ids=["superpod", "multi-plane"])
@pytest.mark.parametrize("source", ["h0", "h5"])
def test_packets_of_a_plane_reach_all_receivers_by_it_once(fabric, source):
    planes = planes_of(fabric, source)
    targets = [f"h{i}" for i in range(8) if f"h{i}" != source]
    plane_of = {frozenset((x.a, x.b)): x.plane for x in fabric.links}
    used = set()
    for way in plane_ways(fabric, source, targets, planes):
        assert way.weight == 1
        for table in way.tables:
            behind = receivers_behind(fabric, source, table, set(targets))
            assert {plane_of[frozenset(link)] for link in behind} == {way.plane}
            ends = [to for _, to in behind]
            assert len(ends) == len(set(ends))
            assert set(targets) <= set(ends)
            used.add(table)
    assert used == set(range(fabric.n_ecmp))


def test_a_weight_is_the_least_rate_of_the_source_and_the_receivers():
    assert weights(POD) == {0: 1, 1: 1, 2: 1, 3: 1}
    twice = changed(POD, **{f"h{i}_leaf0": {"rate": "800Gbps"} for i in range(8)})
    assert weights(twice) == {0: 2, 1: 1, 2: 1, 3: 1}
    half = changed(POD, h0_leaf1={"rate": "200Gbps"}, h3_leaf2={"rate": "100Gbps"})
    assert weights(half) == {0: 4, 1: 2, 2: 1, 3: 4}
    assert weights(half, ["h1", "h2"]) == {0: 2, 1: 1, 2: 2, 3: 2}
    silent = changed(half, h0_leaf3={"rate": ""})
    assert weights(silent) == {0: 4, 1: 2, 2: 1, 3: 4}


def test_a_plane_in_which_somebody_has_no_link_carries_nothing():
    down = changed(POD, h3_leaf2={"up": False}, h0_leaf0={"up": False})
    assert weights(down) == {0: 0, 1: 1, 2: 0, 3: 1}
    assert weights(down, ["h1"]) == {0: 0, 1: 1, 2: 1, 3: 1}
    none = changed(POD, **{f"h{i + 1}_leaf{i}": {"up": False} for i in range(4)})
    assert weights(none) == {0: 1, 1: 1, 2: 1, 3: 1}


def test_a_bift_keeps_its_plane_for_all_who_are_in_it():
    down = changed(POD, h3_leaf2={"up": False})
    routes = FabricRoutes(down)
    for table in range(down.n_ecmp):
        hops = {to: routes.next_hop("h0", to, table) for to in OTHERS}
        assert len({hop for to, hop in hops.items() if to != "h3"}) == 1
        assert hops["h3"] != "leaf2"
    ways = {way.plane: way.tables for way in plane_ways(down, "h0", OTHERS, [0, 1, 2, 3])}
    assert sorted(len(tables) for tables in ways.values()) == [4, 4, 4, 4]


def test_planes_that_are_down_come_last_and_keep_their_weight():
    failed = frozenset({frozenset({"h0", "leaf0"}), frozenset({"leaf1", "h3"})})
    ways = plane_ways(POD, "h0", OTHERS, [0, 1, 2, 3], failed)
    assert [(way.plane, way.is_down) for way in ways] == [
        (2, False), (3, False), (0, True), (1, True),
    ]  # fmt: skip
    assert {way.weight for way in ways} == {1}
    ways = plane_ways(POD, "h0", ["h1"], [0, 1, 2, 3], failed)
    assert [way.plane for way in ways if way.is_down] == [0]


def test_planes_by_name():
    assert chosen_planes(POD, "h0", "auto") == [0, 1, 2, 3]
    assert chosen_planes(POD, "h0", "3, 1") == [1, 3]
    for text in ("7", "1,7", "one", "", "-1"):
        with pytest.raises(ConfigError, match=r"--planes: got .*, allowed: auto, or of the pl"):
            chosen_planes(POD, "h0", text)


def test_a_host_of_two_links_in_one_plane_has_one_plane():
    nodes = [Node("h0", "10.0.0.1", "host", 1), Node("h1", "10.0.0.2", "host", 2)]
    nodes += [Node("a", "10.0.0.3", "bfr"), Node("b", "10.0.0.4", "bfr")]
    links = [Link(x, y) for x in ("h0", "h1") for y in ("a", "b")]
    fabric = Fabric("two", tuple(nodes), tuple(links), n_ecmp=2)
    assert planes_of(fabric, "h0") == [0]
    assert all(a != b for a, b in pairwise(sorted(fabric.neighbours["h0"])))
