import pytest

from fanfold.topo.net_catalog import NET_CATALOG
from fanfold.topo.nets import build_named_net
from fanfold.topo.portrait import build_portrait
from fanfold.topo.routes import build_routes


def portrait_of(name, n_jobs=4):
    net = build_named_net(name)
    return build_portrait(net, build_routes(net), n_jobs)


def cables_of(portrait):
    return {(c.low_tier, c.high_tier): c for c in portrait.cables}


@pytest.mark.parametrize("row", NET_CATALOG, ids=lambda row: row.name)
def test_tiers_and_cables_of_every_net_add_up(row):
    portrait = portrait_of(f"{row.name}:{row.example}")
    assert sum(t.n_nodes for t in portrait.tiers) == portrait.n_hosts + portrait.n_routers
    assert sum(c.n_cables for c in portrait.cables) == portrait.n_cables
    assert 2 <= portrait.diameter < 20
    assert len(portrait.packets) == 6


def test_fat_tree():
    portrait = portrait_of("fat-tree:k=8")
    assert (portrait.diameter, portrait.n_groups, portrait.most_paths) == (6, 32, 4)
    assert [(t.n_nodes, t.names) for t in portrait.tiers] == [
        (128, ("h0 .. h127",)),
        (32, ("edge0 .. edge31",)),
        (32, ("agg0 .. agg31",)),
        (16, ("core0 .. core15",)),
    ]
    cables = cables_of(portrait)
    assert {c.n_cables for c in cables.values()} == {128}
    assert [c.down_to_up for c in cables.values()] == ["", "1:1", "1:1"]


def test_what_goes_down_is_held_against_what_goes_up_of_the_same_switches():
    cables = cables_of(portrait_of("leaf-spine:leaves=4,spines=2,hosts=32,spine-rate=400Gbps"))
    assert cables[1, 2].down_to_up == "1:1"
    # the inner switches have no way up and do not count
    assert cables_of(portrait_of("rail:servers=8,gpus=4,spines=2"))[1, 2].down_to_up == "4:1"


def test_bisection_of_direct_networks():
    assert cables_of(portrait_of("hypercube:n=5"))[1, 1].halves == 16
    assert cables_of(portrait_of("torus:dims=4x4x4"))[1, 1].halves == 2 * 16
    assert cables_of(portrait_of("ring:hosts=10"))[1, 1].halves == 2
    assert cables_of(portrait_of("full-mesh:hosts=8"))[1, 1].halves == 16


def test_hosts_are_far_apart_only_where_there_are_two():
    assert portrait_of("star:hosts=1", 1).diameter == 0
    assert portrait_of("star:hosts=2", 1).diameter == 2
    assert portrait_of("ring:hosts=3", 1).diameter == 3


def test_packets_by_placement():
    portrait = portrait_of("leaf-spine:leaves=10,spines=1,hosts=500", n_jobs=2)
    packets = {(p.bitstring_bits, p.placement): p for p in portrait.packets}
    # 50 hosts of a rack, 5 racks in 256 bits; jobs of 250 hosts
    assert packets[256, "naive"].to_a_rack == 2
    assert packets[256, "rack"].to_a_rack == 1
    assert [packets[256, kind].to_a_job for kind in ("naive", "rack", "job")] == [2, 2, 1]
    assert [packets[1024, kind].to_all for kind in ("naive", "rack", "job")] == [1, 1, 1]
    assert packets[256, "rack"].to_all == 2
    assert {p.sub_domains for p in portrait.packets} == {1}


def test_more_hosts_than_ids_take_a_second_sub_domain():
    portrait = portrait_of("star:hosts=65536")
    assert {p.sub_domains for p in portrait.packets} == {2}
    assert portrait.packets[0].to_all == 257
