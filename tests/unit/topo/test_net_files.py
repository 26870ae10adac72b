import json

import numpy as np
import pytest
from msgspec.structs import replace
from reach import no_path
from topo_samples import TOPO

from fanfold.errors import ConfigError
from fanfold.topo.fabric import Fabric, Link, Node
from fanfold.topo.fabric_file import save_fabric
from fanfold.topo.fabric_net import fabric_net
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes
from fanfold.topo.sketch import Line

GRAPHML = """<?xml version="1.0"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="k0" for="node" attr.name="role" attr.type="string"/>
  <key id="k1" for="edge" attr.name="LinkSpeedRaw" attr.type="double"/>
  <key id="k2" for="edge" attr.name="delay" attr.type="string"/>
  <graph edgedefault="undirected">
    <node id="s"><data key="k0">switch</data></node>
    <node id="b"><data key="k0">host</data></node>
    <node id="a"><data key="k0">host</data></node>
    <edge source="a" target="s"><data key="k1">10000000000.0</data></edge>
    <edge source="s" target="b"><data key="k2">5ms</data></edge>
  </graph>
</graphml>
"""


def node_link(**changes):
    table = {
        "directed": False,
        "nodes": [
            {"id": 0},
            {"id": "x", "role": "router"},
            {"id": "g", "type": "gpu"},
            {"id": 3},
        ],
        "links": [
            {"source": "g", "target": "x", "rate": "400Gbps", "delay": 700},
            {"source": "x", "target": 0, "bps": 10**9},
            {"source": 3, "target": 0},
        ],
    }
    table["nodes"][3]["kind"] = "Host"
    return json.dumps(table | changes)


def test_node_link_json(tmp_path):
    (tmp_path / "a,b.json").write_text(node_link())
    net = build_named_net(f"import:{tmp_path}/a,b.json,rate=5Gbps,delay=3us")
    names = [net.node_name(n) for n in range(4)]
    assert names == ["g", "3", "0", "x"]
    assert net.n_hosts == 2
    links = {
        (names[a], names[b]): (bps, prop_ps)
        for a, b, bps, prop_ps in zip(net.src, net.dst, net.bps, net.prop_ps, strict=True)
    }
    assert links["g", "x"] == links["x", "g"] == (400 * 10**9, 700)
    assert links["x", "0"] == (10**9, 3 * 10**6)
    assert links["3", "0"] == (5 * 10**9, 3 * 10**6)
    assert net.tier.tolist() == [0, 0, 1, 1]
    assert net.rack.tolist() == [1, 0]


def test_directed_pairs_are_one_cable_and_parallel_cables_stay(tmp_path):
    ways = [("g", "x"), ("x", "g"), ("x", 0), ("x", 0), (0, "x"), (0, "x"), (3, 0)]
    links = [{"source": a, "target": b} for a, b in ways]
    path = tmp_path / "net.json"
    path.write_text(node_link(links=links, directed=True))
    assert build_named_net(f"import:{path}").n_links == 2 * 4
    path.write_text(node_link(links=links))
    assert build_named_net(f"import:{path}").n_links == 2 * 7


def test_a_graph_that_names_no_host_gets_one_for_each_node(tmp_path):
    path = tmp_path / "net.json"
    nodes = [{"id": name} for name in "abc"]
    edges = [{"source": "a", "target": "b"}, {"source": "b", "target": "c"}]
    path.write_text(json.dumps({"nodes": nodes, "edges": edges}))
    net = build_named_net(f"import:{path}")
    assert [net.node_name(n) for n in range(6)] == ["a.h", "b.h", "c.h", "a", "b", "c"]
    routes = build_routes(net)
    assert no_path(net, routes) is None
    assert routes.hops.max() == 3


def test_graphml(tmp_path):
    path = tmp_path / "net.graphml"
    path.write_text(GRAPHML)
    net = build_named_net(f"import:{path}")
    assert [net.node_name(n) for n in range(3)] == ["b", "a", "s"]
    assert net.bps[:2].tolist() == [10**11, 10**10]
    assert net.prop_ps[:2].tolist() == [5 * 10**9, 10**6]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{", "node-link JSON"),
        ("[]", "node-link JSON"),
        (node_link(nodes=[{}]), "nodes[0].id: got None"),
        (
            node_link(nodes=[{"id": 0}, {"id": "0"}]),
            "nodes[1]: got '0', allowed: a node that is",
        ),
        (node_link(links=[{"source": 0, "target": 9}]), "links[0]: got '9', allowed: the name"),
        (node_link(links=[{"source": 0}]), "links[0].target: got None"),
        (node_link(links=[{"source": 0, "target": 3, "rate": 0}]), "links[0].rate: got 0"),
        (node_link(links=[{"source": 0, "target": 3, "rate": 0.5}]), "links[0].rate: got 0.5"),
        (
            node_link(links=[{"source": 0, "target": 3, "rate": True}]),
            "links[0].rate: got True",
        ),
        (
            node_link(links=[{"source": 0, "target": 3, "delay": "5"}]),
            "links[0].delay: got '5'",
        ),
        (node_link(links=[{"source": 0, "target": 3, "delay": -1}]), "links[0].delay: got -1"),
        (node_link(links=[{"source": 0, "target": 3}]), "got 'host g without a link'"),
        (node_link(links=[{"source": "g", "target": 3}]), "got 'a link from host g to host 3'"),
        (
            node_link(links=[{"source": "g", "target": "x"}, {"source": 3, "target": 0}]),
            "got 'no path from g to 3', allowed: hosts that are connected",
        ),
        (json.dumps({"nodes": []}), "1..131072 hosts"),
    ],
)
def test_faults_of_a_node_link_file_are_named_by_their_place(tmp_path, text, what):
    path = tmp_path / "net.json"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        build_named_net(f"import:{path}")
    assert what in str(caught.value)
    assert str(caught.value).startswith(f"{path}")


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("</graphml>", "", "GraphML"),
        ("graphml", "graph", "GraphML with one <graph>"),
        ('target="b"', "", "edge[1].target: got None"),
        ('target="b"', 'target="c"', "edge[1]: got 'c'"),
        ('<node id="s">', "<node>", "node[0].id: got None"),
        ("10000000000.0", "fast", "edge[0].LinkSpeedRaw: got 'fast'"),
        ("10000000000.0", "nan", "edge[0].LinkSpeedRaw: got nan"),
    ],
)
def test_faults_of_a_graphml_file_are_named_by_their_place(tmp_path, old, new, what):
    path = tmp_path / "net.graphml"
    path.write_text(GRAPHML.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        build_named_net(f"import:{path}")
    assert what in str(caught.value)


def test_htsim_topology_file(tmp_path):
    path = tmp_path / "eight.topo"
    path.write_text(TOPO)
    net = build_named_net(f"import:{path}")
    assert np.bincount(net.tier).tolist() == [8, 4, 4, 4]
    degree = np.diff(net.first_out)
    assert [set(degree[net.tier == t].tolist()) for t in range(4)] == [{1}, {4}, {6}, {4}]
    rates = {
        (int(net.tier[a]), int(net.tier[b])): (int(bps), int(prop_ps))
        for a, b, bps, prop_ps in zip(net.src, net.dst, net.bps, net.prop_ps, strict=True)
    }
    assert rates == {
        (0, 1): (200 * 10**9, 1_000_000),
        (1, 0): (200 * 10**9, 1_000_000),
        (1, 2): (200 * 10**9, 2_030_000),
        (2, 1): (200 * 10**9, 2_000_000),
        (2, 3): (100 * 10**9, 3_000_000),
        (3, 2): (100 * 10**9, 3_030_000),
    }
    pairs = set(zip(net.src.tolist(), net.dst.tolist(), strict=True))
    assert net.n_links - len(pairs) == 2 * 8  # each aggregation switch has two cables to a core
    assert net.pod.tolist() == [0] * 4 + [1] * 4
    assert no_path(net, build_routes(net)) is None


def test_an_htsim_fat_tree_is_the_fat_tree_of_the_same_size(tmp_path):
    path = tmp_path / "small.topo"
    tier = "Downlink_speed_Gbps 100\nDownlink_Latency_ns 1000\nRadix_Down {}\nRadix_Up {}\n"
    tiers = [tier.format(*radix) for radix in ((4, 4), (4, 4), (8, 4))]
    text = "".join(f"Tier {i}\n{tier}" for i, tier in enumerate(tiers))
    path.write_text("Nodes 128\nTiers 3\nPodsize 16\n" + text)
    ours, theirs = build_named_net("fat-tree:k=8"), build_named_net(f"import:{path}")
    for a, b in zip(ours[1:-2], theirs[1:-2], strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("Nodes 8", "", "nodes: got 'nothing'"),
        ("Nodes 8", "Nodes 9", "nodes: got 9, allowed: a multiple of podsize = 4"),
        ("Nodes 8", "Nodes many", "line 2 Nodes: got 'many'"),
        ("Nodes 8", "Nodes 8 9", "line 2 Nodes: got '8 9'"),
        ("Tiers 3", "Tiers 4", "tiers: got 4, allowed: 2, 3"),
        ("Tiers 3", "Tiers 2", "tiers described: got [0, 1, 2]"),
        ("Podsize 4", "Podsize 3", "nodes: got 8, allowed: a multiple of podsize = 3"),
        ("Tier 0\n", "", "line 6: got 'Downlink_speed_Gbps'"),
        (
            "Radix_Down 2\nRadix_Up 2",
            "Radix_Dwon 2",
            "'Radix_Dwon'; did you mean radix_down?",
        ),
        ("Radix_Down 2\nRadix_Up 2", "Radix_Down 2", "Tier 0 Radix_Up: got 0"),
        ("Radix_Down 2\nRadix_Up 2", "Radix_Down 3\nRadix_Up 2", "podsize: got 4"),
        ("Radix_Up 4", "Radix_Up 3", "Tier 1 Radix_Up: got 3, allowed: a multiple of Tier 2"),
        ("Radix_Down 4", "Radix_Down 3", "Tier 2 Radix_Down: got 3, allowed: 4: 2 switches"),
        ("Bundle 2", "Bundle 0", "Tier 2 Bundle: got 0"),
        ("Bundle 2", "Bundle 2\nBundle 2", "Bundle: got 2, allowed: one value"),
        ("Queue_Down", "Oversubscribed 2\nQueue_Down", "Tier 1 Oversubscribed: got 2"),
    ],
)
def test_faults_of_an_htsim_file_are_named(tmp_path, old, new, what):
    path = tmp_path / "eight.topo"
    path.write_text(TOPO.replace(old, new, 1))
    with pytest.raises(ConfigError) as caught:
        build_named_net(f"import:{path}")
    assert what in str(caught.value)


def test_a_lab_s_fabric_is_the_net_of_its_ports(tmp_path):
    fabric = leaf_spine(3, 2, 6)
    save_fabric(fabric, tmp_path / "lab.toml")
    net = build_named_net(f"import:{tmp_path}/lab.toml,rate=5Gbps,delay=3us")
    due = fabric_net(fabric, Line(5 * 10**9, 3 * 10**6))
    assert (net.n_hosts, net.n_nodes) == (7, 12)
    assert [net.node_name(n) for n in range(12)] == [due.node_name(n) for n in range(12)]
    for mine, other in zip(net, due, strict=True):
        if isinstance(other, np.ndarray):
            assert mine.tolist() == other.tolist()
    assert no_path(net, build_routes(net)) is None


def test_a_fabric_without_hosts_or_with_hosts_side_by_side_is_refused(tmp_path):
    path = tmp_path / "lab.toml"
    nodes = (Node("a", "127.0.0.1", "bfr", 1), Node("b", "127.0.0.2", "bfr", 2))
    fabric = Fabric(name="pair", nodes=nodes, links=(Link("a", "b"),))
    save_fabric(fabric, path)
    with pytest.raises(ConfigError, match=r"lab\.toml: got 'no node of role host'"):
        build_named_net(f"import:{path}")
    hosts = tuple(replace(node, role="host") for node in nodes)
    save_fabric(replace(fabric, nodes=hosts), path)
    with pytest.raises(ConfigError, match="a link from host a to host b"):
        build_named_net(f"import:{path}")
