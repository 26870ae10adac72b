from pathlib import Path

import numpy as np
import pytest
from reach import no_path

import fanfold.topo
from fanfold.topo.fabric_file import load_fabric, save_fabric
from fanfold.topo.fabric_net import fabric_net
from fanfold.topo.fabric_routes import FabricRoutes
from fanfold.topo.lab_fabric import lab_fabric
from fanfold.topo.net_catalog import FILE_CATALOG, NET_CATALOG
from fanfold.topo.net_rules import check_net
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import FAR, build_routes

MACHINERY = {
    *(
        "__init__",
        "fabric",
        "fabric_file",
        "fabric_rules",
        "fabric_routes",
        "lab_fabric",
        "planes",
    ),
    *("field_rules", "labels", "tenant_rules"),
    *("birt", "bift", "byte_time", "predict"),
    *("net", "net_catalog", "net_rules", "nets", "sketch", "routes", "search", "limits"),
    *(
        "cost_map",
        "fan_weights",
        "lab_addresses",
        "path_weights",
        "plane_paths",
        "plane_plan",
        "plane_rib",
        "relays",
    ),
    *("placement", "portrait", "way_back", "weighted_sets"),
    "openness",
    *("graph_net", "text_lines", "yml_lists", "ib_topo", "ns3_topo"),
    *(
        "vat",
        "vat_build",
        "vat_exact",
        "vat_file",
        "vat_grow",
        "vat_laid",
        "vat_rules",
        "vat_shape",
    ),
}

# name: hosts, routers by tier, cables, links between the two hosts farthest apart,
# least and greatest degree of a router by tier
SHAPES = {
    "fat-tree": (16, {1: 8, 2: 8, 3: 4}, 48, 6, {1: (4, 4), 2: (4, 4), 3: (4, 4)}),
    "leaf-spine": (16, {1: 4, 2: 2}, 24, 4, {1: (6, 6), 2: (4, 4)}),
    "rail": (16, {1: 12, 2: 2}, 48, 4, {1: (4, 4), 2: (8, 8)}),
    "superpod": (64, {1: 4}, 512, 2, {1: (128, 128)}),
    "multi-plane": (16, {1: 8, 2: 4}, 48, 4, {1: (6, 6), 2: (4, 4)}),
    "dragonfly": (72, {1: 36}, 72 + 9 * 6 + 36, 5, {1: (7, 7)}),
    "torus": (24, {1: 24}, 24 + 24 + 24 + 12, 2 + 2 + 1 + 1, {1: (6, 6)}),
    "hypercube": (16, {1: 16}, 16 + 32, 6, {1: (5, 5)}),
    "full-mesh": (8, {1: 8}, 8 + 28, 3, {1: (8, 8)}),
    "star": (8, {1: 1}, 8, 2, {1: (8, 8)}),
    "ring": (9, {1: 9}, 18, 6, {1: (3, 3)}),
    "random": (20, {1: 20}, 20 + 30, None, {1: (4, 4)}),
    "clustered": (12, {1: 3}, 12 + 3, 3, {1: (6, 6)}),
    "wan": (20, {1: 10, 2: 5}, None, None, {1: (3, 3), 2: (4, 6)}),
}


def test_folder_and_catalogs_agree():
    files = {p.stem for p in Path(fanfold.topo.__file__).parent.glob("*.py")}
    builders = [row.build for row in NET_CATALOG]
    loaders = [row.load for row in FILE_CATALOG]
    listed = {f.__module__.rpartition(".")[2] for f in (*builders, *loaders)}
    assert files - MACHINERY == listed
    assert len({row.name for row in NET_CATALOG}) == len(NET_CATALOG)


@pytest.mark.parametrize("row", NET_CATALOG, ids=lambda row: row.name)
def test_every_net_is_a_lab_whose_file_is_the_same_net(row, tmp_path):
    net = build_named_net(f"{row.name}:{row.example}", seed=3)
    fabric, notes = lab_fabric(net)
    save_fabric(fabric, tmp_path / "lab.toml")
    assert load_fabric(tmp_path / "lab.toml") == fabric
    names = [n.name for n in fabric.by_bfr_id.values()]
    assert names == [net.node_name(h) for h in range(net.n_hosts)]
    routes = FabricRoutes(fabric)
    assert all(routes.hops(a, b) for a in names[:9] for b in names if a != b)
    again = fabric_net(fabric)
    if row.name == "superpod":  # two legs of a cable are one link of a lab
        assert notes == ("256 cables beside one between the same nodes are left out",)
        assert again.n_links * 2 == net.n_links
        return
    assert notes == ()
    for name in (*("src", "dst", "bps", "prop_ps", "reverse"), "weight", "plane", "is_up"):
        assert np.array_equal(getattr(again, name), getattr(net, name)), name
    assert names + [again.node_name(n) for n in range(net.n_hosts, net.n_nodes)] == [
        net.node_name(n) for n in range(net.n_nodes)
    ]


def test_every_net_has_a_shape_to_be_held_against():
    assert SHAPES.keys() == {row.name for row in NET_CATALOG}


@pytest.mark.parametrize("row", NET_CATALOG, ids=lambda row: row.name)
def test_every_net_has_the_hosts_routers_cables_and_degrees_of_its_kind(row):
    net = build_named_net(f"{row.name}:{row.example}", seed=3)
    hosts, routers, cables, _, degrees = SHAPES[row.name]
    assert row.summary
    assert net.n_hosts == hosts
    assert not net.tier[:hosts].any()
    assert {t: int((net.tier == t).sum()) for t in set(net.tier[hosts:].tolist())} == routers
    assert cables is None or net.n_links == 2 * cables
    degree = np.diff(net.first_out)
    for tier, (low, high) in degrees.items():
        of_tier = degree[net.tier == tier]
        assert low <= of_tier.min()
        assert of_tier.max() <= high
    names = [net.node_name(n) for n in range(net.n_nodes)]
    assert len(set(names)) == len(names)
    assert names[:hosts] == [f"h{i}" for i in range(hosts)]


@pytest.mark.parametrize("row", NET_CATALOG, ids=lambda row: row.name)
def test_links_of_every_net_are_sorted_and_have_a_twin_the_other_way(row):
    net = build_named_net(f"{row.name}:{row.example}")
    assert (np.diff(net.src) >= 0).all()
    assert (net.src == np.repeat(np.arange(net.n_nodes), np.diff(net.first_out))).all()
    back = net.reverse
    assert (back[back] == np.arange(net.n_links)).all()
    assert (net.src[back] == net.dst).all()
    for column in (net.bps, net.prop_ps, net.plane):
        assert (column[back] == column).all()
    assert (net.bps > 0).all()
    assert net.rack.size == net.pod.size == net.n_hosts
    assert set(net.rack.tolist()) == set(range(int(net.rack.max()) + 1))


@pytest.mark.parametrize("row", NET_CATALOG, ids=lambda row: row.name)
def test_routers_of_every_net_have_a_way_to_every_group_and_hosts_to_every_host(row):
    net = build_named_net(f"{row.name}:{row.example}")
    check_net(net, row.name)
    routes = build_routes(net)
    assert no_path(net, routes) is None
    reached = routes.hops < FAR
    if row.name != "rail":  # the switch inside a server leads to nobody outside
        assert reached.all()
    router, group = np.nonzero(reached & (routes.hops > 1))
    sets = routes.ecmp[router, group]
    for r, g, k in zip(router.tolist(), group.tolist(), sets.tolist(), strict=True):
        links = routes.link[routes.first[k] : routes.first[k + 1]]
        assert links.size
        assert (net.src[links] == net.n_hosts + r).all()
        onward = routes.hops[net.dst[links] - net.n_hosts, g]
        assert (onward == routes.hops[r, g] - 1).all()


@pytest.mark.parametrize("row", NET_CATALOG, ids=lambda row: row.name)
def test_the_farthest_hosts_of_every_net_are_as_far_as_its_kind_says(row):
    routes = build_routes(build_named_net(f"{row.name}:{row.example}"))
    hangs = routes.hops == 1
    far = max(
        1 + int(routes.hops[hangs[:, g]].min(axis=0).max()) for g in range(routes.n_groups)
    )
    assert SHAPES[row.name][3] in (None, far)
