"""A group over planes is a group of the network in each, by a number that leads over it."""

import msgspec
import pytest

from fanfold.errors import ConfigError
from fanfold.group.strands import strands_of
from fanfold.group.ways import elements_of, first_hop, tree_of
from fanfold.topo.fabric import Fabric
from fanfold.topo.lab_fabric import lab_fabric
from fanfold.topo.nets import build_named_net

POD = lab_fabric(build_named_net("superpod:gpus=8,planes=4")).fabric
HOSTS = ("h1", "h2", "h5", "h6")
FAST, SLOW = "100Mbps", "50Mbps"


def without(plane: int, host: str) -> Fabric:
    ends = {f"leaf{plane}", host}
    links = [link for link in POD.links if {link.a, link.b} != ends]
    return msgspec.structs.replace(POD, links=tuple(links))


def test_each_strand_stays_in_its_plane_for_arrays_and_for_watchers() -> None:
    strands = strands_of(POD, HOSTS, 77, "auto")
    assert [strand.plane for strand in strands] == [0, 1, 2, 3]
    assert len({n for strand in strands for n in (strand.group, strand.watch)}) == 8
    for strand in strands:
        for number in (strand.group, strand.watch):
            assert {first_hop(POD, host, number) for host in HOSTS} == {f"leaf{strand.plane}"}
            tree = tree_of(POD, HOSTS, number)
            assert tree is not None
            leaves = {e for way in tree.down for e in elements_of(way) if e.startswith("leaf")}
            assert all(f"leaf{strand.plane}" in e for e in leaves)


def test_named_planes_only_and_all_ranks_work_out_the_same() -> None:
    every = strands_of(POD, HOSTS, 77, "auto")
    assert strands_of(POD, HOSTS, 77, "3,1") == [every[1], every[3]]
    assert strands_of(POD, HOSTS, 78, "1") != [every[1]]


def test_weights_are_the_least_rate_of_a_member() -> None:
    links = tuple(
        msgspec.structs.replace(
            link, rate="50Mbps" if "leaf2" in (link.a, link.b) else "100Mbps"
        )
        for link in POD.links
    )
    slow = msgspec.structs.replace(POD, links=links)
    assert [strand.weight for strand in strands_of(slow, HOSTS, 7, "auto")] == [2, 2, 1, 2]


def test_a_plane_that_a_member_lacks_is_left_out_or_refused() -> None:
    pod = without(2, "h5")
    strands = strands_of(pod, HOSTS, 7, "auto")
    assert [strand.plane for strand in strands] == [0, 1, 3]
    for strand in strands:
        assert {first_hop(pod, host, strand.group) for host in HOSTS} == {f"leaf{strand.plane}"}
    with pytest.raises(ConfigError) as caught:
        strands_of(pod, HOSTS, 7, "1,2", "FANFOLD_PLANES")
    assert str(caught.value).endswith(
        "FANFOLD_PLANES: got '1,2', allowed: auto, or planes that lead to all hosts: 0, 1, 3"
    )
    with pytest.raises(ConfigError, match="planes: got '4', allowed: auto, or of the planes"):
        strands_of(pod, HOSTS, 7, "4")
