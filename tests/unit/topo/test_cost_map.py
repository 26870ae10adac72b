"""Cost maps: what paths carry, worked out by hand, and the form of RFC 7285."""

import re

import msgspec
import pytest

from fanfold.errors import ConfigError
from fanfold.topo.cost_map import (
    Group,
    groups_of,
    maps_of,
    pids_of,
    tables_of,
)
from fanfold.topo.fabric_net import fabric_net
from fanfold.topo.lab_fabric import lab_fabric
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes

GBPS = 10**9


def tables(net, **how):
    groups = groups_of(net, **how)
    return (pids_of(groups), *tables_of(net, build_routes(net), groups))


def test_planes_add_up_and_each_leg_counts():
    names, costs, bandwidths = tables(build_named_net("superpod:gpus=4,planes=4"))
    assert names == ["h0", "h1", "h2", "h3"]
    assert costs["h0"] == {"h1": 2, "h2": 2, "h3": 2}  # to itself it costs nothing
    assert bandwidths["h3"]["h0"] == 4 * 2 * 400 * GBPS


def test_racks_are_groups_and_a_rack_has_a_cost_to_itself():
    names, costs, bandwidths = tables(build_named_net("fat-tree:k=4,rate=100Gbps"))
    assert names == [f"rack{n}" for n in range(8)]
    assert [costs["rack0"][f"rack{n}"] for n in range(4)] == [2, 4, 6, 6]
    assert set(bandwidths["rack0"].values()) == {100 * GBPS}  # of a host's one link


def test_a_link_that_is_down_or_slow_bounds_what_leads_over_it():
    fabric = lab_fabric(build_named_net("superpod:gpus=3,planes=2,rate=100Gbps")).fabric
    links = tuple(
        msgspec.structs.replace(link, up=False)
        if (link.a, link.b) == ("h1", "leaf0")
        else msgspec.structs.replace(link, rate="30Gbps")
        if (link.a, link.b) == ("h2", "leaf1")
        else link
        for link in fabric.links
    )
    net = fabric_net(msgspec.structs.replace(fabric, links=links))
    _, _, bandwidths = tables(net, by_host=True)
    whole = 100 * GBPS  # a fabric has one of the two legs
    assert bandwidths["h0"] == {"h1": whole, "h2": whole + 30 * GBPS}
    assert bandwidths["h1"] == {"h0": whole, "h2": 30 * GBPS}


def test_who_cannot_be_reached_is_in_no_map():
    fabric = lab_fabric(build_named_net("superpod:gpus=3,planes=1")).fabric
    links = tuple(msgspec.structs.replace(x, up=x.a != "h1") for x in fabric.links)
    net = fabric_net(msgspec.structs.replace(fabric, links=links))
    _, costs, bandwidths = tables(net, by_host=True)
    assert costs == {"h0": {"h2": 2}, "h1": {}, "h2": {"h0": 2}}
    assert bandwidths.keys() == costs.keys()


def test_maps_have_the_members_of_rfc_7285():
    addresses = {"h0": ["10.81.0.1"], "h1": ["10.81.0.2"]}
    told = maps_of(addresses, {"h0": {"h1": 2}}, {"h0": {"h1": 5}}, "nominal")
    network = told["application/alto-networkmap+json"]
    assert network["network-map"]["h1"] == {"ipv4": ["10.81.0.2/32"]}
    vtag = network["meta"]["vtag"]
    assert re.fullmatch(r"[!-~]{1,64}", vtag["tag"])  # section 10.3
    maps = told["application/alto-costmap+json"]
    assert [each["meta"]["dependent-vtags"] for each in maps] == [[vtag], [vtag]]
    types = [each["meta"]["cost-type"] for each in maps]
    assert [each["cost-metric"] for each in types] == ["routingcost", "bw-available"]
    assert {each["cost-mode"] for each in types} == {"numerical"}
    assert [each["cost-map"] for each in maps] == [{"h0": {"h1": 2}}, {"h0": {"h1": 5}}]
    other = maps_of({"h0": ["10.81.0.9"]}, {}, {}, "nominal")
    assert other["application/alto-networkmap+json"]["meta"]["vtag"] != vtag


def test_names_of_groups_are_pids():
    groups = [Group(name, (0,)) for name in ("a.b", "a-b", "h0", "Zürich", "x" * 90, "")]
    pids = pids_of(groups)
    assert pids[:4] == ["a-b-0", "a-b-1", "h0", "Z-rich"]
    assert len(set(pids)) == len(pids)
    assert all(re.fullmatch(r"[0-9A-Za-z:@_-]{1,64}", pid) for pid in pids)  # section 10.1


def test_more_groups_than_a_map_holds_are_refused():
    net = build_named_net("leaf-spine:leaves=257,spines=1,hosts=257")
    with pytest.raises(ConfigError, match="257 groups of hosts"):
        groups_of(net)
    assert len(groups_of(build_named_net("leaf-spine:leaves=256,spines=1,hosts=256"))) == 256
