import msgspec
import numpy as np
import pytest

from fanfold.errors import ConfigError
from fanfold.kernels.jit import JIT
from fanfold.topo.fabric_net import fabric_net
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes
from fanfold.topo.sketch import Line

PODS = "multi-plane:planes=2,leaves=2,spines=4,hosts=16"


def ends(net, tier_a, tier_b):
    """Links up from one tier to another."""
    return (net.tier[net.src] == tier_a) & (net.tier[net.dst] == tier_b)


def test_rate_and_delay_are_those_of_the_name():
    net = build_named_net("fat-tree:k=4,rate=400Gbps,delay=250ns")
    assert set(net.bps.tolist()) == {400 * 10**9}
    assert set(net.prop_ps.tolist()) == {250_000}
    net = build_named_net("fat-tree:k=4")
    assert (set(net.bps.tolist()), set(net.prop_ps.tolist())) == ({10**11}, {10**6})
    assert net.name == "fat-tree:k=4"


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("fat-tre:k=4", "topology: got 'fat-tre'; did you mean fat-tree?"),
        ("nonsense", "allowed: fat-tree, leaf-spine, rail"),
        ("", "topology: got ''"),
        ("fat-tree", "topology fat-tree.k: got 'nothing', allowed: fat-tree:k=..."),
        ("fat-tree:k=5", "k: got 5, allowed: an even number in 2..64"),
        ("fat-tree:k=66", "topology fat-tree.k: got '66', allowed: 2..64"),
        ("fat-tree:k=0", "allowed: 2..64"),
        ("fat-tree:k=-2", "topology fat-tree.k: got '-2'"),
        ("fat-tree:k=four", "topology fat-tree.k: got 'four'"),
        ("fat-tree:k=4,K=4", "topology fat-tree: got 'K'; did you mean k?"),
        ("fat-tree:k=4,rat=4", "topology fat-tree: got 'rat'; did you mean rate?"),
        ("fat-tree:k=4,k=6", "topology fat-tree.k: got '6', allowed: one value, not 4 too"),
        ("fat-tree:4", "topology: got '4', allowed: KEY=VALUE"),
        ("fat-tree:k=4,rate=0Gbps", "topology fat-tree.rate: got '0Gbps'"),
        ("fat-tree:k=4,delay=5", "topology fat-tree.delay: got '5'"),
        (
            "leaf-spine:leaves=3,spines=1,hosts=16",
            "hosts: got 16, allowed: a multiple of leaves",
        ),
        ("multi-plane:planes=2,leaves=3,spines=1,hosts=16", "a multiple of leaves = 3"),
        (f"{PODS},pods=2,cores=0", "cores: got 0, allowed: 0 for one pod, some for several"),
        (f"{PODS},pods=1,cores=4", "cores: got 4, allowed: 0 for one pod, some for several"),
        (f"{PODS},pods=3,cores=4", "hosts: got 16, allowed: a multiple of pods x leaves = 6"),
        (f"{PODS},pods=2,cores=3", "cores: got 3, allowed: a multiple of leaves = 2"),
        (f"{PODS},pods=2,cores=6", "spines: got 4, allowed: a multiple of cores / leaves = 3"),
        ("rail:servers=3,spines=1,unit=2", "servers: got 3, allowed: a multiple of unit = 2"),
        ("superpod:gpus=65", "gpus: got 65, allowed: at most 64"),
        ("clustered:clusters=5,hosts=16", "hosts: got 16, allowed: a multiple of clusters = 5"),
        ("wan:sites=2,hosts=3,leaves=2", "hosts: got 3, allowed: a multiple of leaves = 2"),
        ("torus:dims=4xx4", "topology torus.dims: got ''"),
        ("torus:dims=100x100", "topology torus.dims: got '100x100', allowed: at most 8192"),
        ("ring:hosts=2", "topology ring.hosts: got '2', allowed: 3..8192"),
        ("random:hosts=5,degree=3", "degree: got 3, allowed: an even number"),
        ("random:hosts=4,degree=4", "degree: got 4, allowed: below hosts = 4"),
        ("star:hosts=131073", "topology star.hosts: got '131073', allowed: 1..131072"),
        ("dragonfly:a=128,p=128,h=128", "hosts: got"),
        (
            "leaf-spine:leaves=9999,spines=9999,hosts=9999",
            "got '99990000 cables', allowed: at most",
        ),
        (
            "import:net.png",
            "topology import: got 'net.png', allowed: a file that ends in .json",
        ),
        ("import:none.json", "none.json: got 'No such file or directory'"),
        ("import:none.json,rate=fast", "topology import.rate: got 'fast'"),
    ],
)
def test_names_that_cannot_be_are_refused_with_field_value_and_what_is_allowed(name, what):
    with pytest.raises(ConfigError) as caught:
        build_named_net(name)
    assert what in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_host_of_a_fat_tree_hangs_on_the_edge_switch_of_its_number():
    net = build_named_net("fat-tree:k=8")
    up = net.dst[ends(net, 0, 1)]
    assert (up == 128 + np.arange(128) // 4).all()
    assert net.tier[128:].tolist() == [1] * 32 + [2] * 32 + [3] * 16
    assert [net.node_name(n) for n in (0, 127, 128, 160, 207)] == [
        *("h0", "h127", "edge0", "agg0", "core15")
    ]
    assert net.rack.tolist() == [h // 4 for h in range(128)]
    assert net.pod.tolist() == [h // 16 for h in range(128)]


@pytest.mark.skipif(not JIT, reason="a million steps for each host are for compiled code")
def test_a_fat_tree_of_65536_hosts_takes_every_shortest_path():
    net = build_named_net("fat-tree:k=64")
    routes = build_routes(net)
    assert net.n_hosts == 65536
    edge, far = 0, routes.n_groups - 1
    assert routes.hops[edge, far] == 5
    k = routes.ecmp[edge, far]
    assert routes.first[k + 1] - routes.first[k] == 32


def test_a_superpod_has_two_legs_of_400g_in_each_of_four_planes():
    net = build_named_net("superpod")
    assert np.diff(net.first_out).tolist() == [8] * 64 + [128] * 4
    assert set(net.bps.tolist()) == {400 * 10**9}
    mine = slice(0, 8)
    assert net.dst[mine].tolist() == [64, 64, 65, 65, 66, 66, 67, 67]
    assert net.plane[mine].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert build_routes(net).n_groups == 1


def test_planes_meet_nowhere_but_in_hosts():
    net = build_named_net("multi-plane:planes=3,leaves=2,spines=2,hosts=4")
    of_node = {}
    for node, plane in zip(net.src.tolist(), net.plane.tolist(), strict=True):
        of_node.setdefault(node, set()).add(plane)
    assert all(of_node[h] == {0, 1, 2} for h in range(4))
    assert all(len(of_node[r]) == 1 for r in range(4, net.n_nodes))


def test_planes_of_pods_have_five_stages_and_every_port_of_a_spine_is_used():
    net = build_named_net(f"{PODS},pods=2,cores=4")
    routes = build_routes(net)
    degree = np.diff(net.first_out)
    for tier, n, ports in ((1, 2 * 4, 4 + 4), (2, 2 * 8, 2 + 2), (3, 2 * 4, 2 * 2)):
        assert degree[net.tier == tier].tolist() == [ports] * n
    assert net.pod.tolist() == [0] * 8 + [1] * 8
    assert routes.longest == 6
    assert set(routes.hops[:, routes.group[0]].tolist()) == {1, 2, 3, 4, 5}
    inside, across = (len(paths(net, routes, 0, host)) for host in (4, 15))
    assert (inside, across) == (2 * 4, 2 * 4 * 2 * 2)


def paths(net, routes, source, goal):
    """Routers of all shortest paths."""
    group, found = int(routes.group[goal]), []
    at = [[int(x)] for x in net.dst[net.first_out[source] : net.first_out[source + 1]]]
    while at:
        way = at.pop()
        k = int(routes.ecmp[way[-1] - net.n_hosts, group])
        if routes.hops[way[-1] - net.n_hosts, group] == 1:
            found.append(tuple(way))
            continue
        links = routes.link[routes.first[k] : routes.first[k + 1]]
        at += [[*way, int(net.dst[x])] for x in links]
    return set(found)


def test_a_gpu_hangs_on_its_server_and_on_the_leaf_of_its_rail():
    net = build_named_net("rail:servers=4,gpus=2,spines=1,unit=2")
    homes = [net.dst[net.first_out[h] : net.first_out[h + 1]].tolist() for h in range(8)]
    inner, leaf = 8, 12
    assert homes == [[inner + h // 2, leaf + h // 4 * 2 + h % 2] for h in range(8)]
    assert net.bps[: 2 * 8].tolist() == [3600 * 10**9, 400 * 10**9] * 8


def test_every_two_groups_of_a_dragonfly_share_one_cable_and_ports_are_used_up():
    net = build_named_net("dragonfly:a=4,p=2,h=3")
    group = np.full(net.n_nodes, -1)
    group[net.n_hosts :] = np.arange(13 * 4) // 4
    away = (group[net.src] >= 0) & (group[net.dst] >= 0) & (group[net.src] != group[net.dst])
    pairs = list(zip(group[net.src[away]].tolist(), group[net.dst[away]].tolist(), strict=True))
    assert sorted(pairs) == [(i, j) for i in range(13) for j in range(13) if i != j]
    assert set(np.bincount(net.src[away], minlength=net.n_nodes)[net.n_hosts :].tolist()) == {3}


def test_a_torus_joins_the_next_in_every_dimension():
    net = build_named_net("torus:dims=5x1x2")
    routers = (net.src >= 10) & (net.dst >= 10)
    pairs = {
        (int(a) - 10, int(b) - 10)
        for a, b in zip(net.src[routers], net.dst[routers], strict=True)
    }
    want = set()
    for x in range(5):
        for y in range(2):
            want |= {(2 * x + y, 2 * ((x + 1) % 5) + y), (2 * x + y, 2 * x + 1 - y)}
    assert pairs == want | {(b, a) for a, b in want}
    assert routers.sum() == len(pairs)


def test_random_graphs_are_of_their_seed():
    one, same, other = (build_named_net("random:hosts=40,degree=5", s) for s in (1, 1, 2))
    assert (one.dst == same.dst).all()
    assert (one.dst != other.dst).any()
    assert set(np.diff(one.first_out)[40:].tolist()) == {6}
    routers = one.src >= 40
    pairs = list(zip(one.src[routers].tolist(), one.dst[routers].tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)


def test_lines_of_a_wan_differ_and_stay_on_the_map():
    net = build_named_net("wan:sites=8,hosts=2,km=1000", 5)
    between = ends(net, 2, 2)
    assert len(set(net.prop_ps[between].tolist())) > 4
    assert net.prop_ps[between].max() <= 1415 * 5_000_000
    assert len(set(net.bps[between].tolist())) > 1
    again = build_named_net("wan:sites=8,hosts=2,km=1000", 6)
    assert again.prop_ps.tolist() != net.prop_ps.tolist()


def test_ports_of_a_fabric_are_the_links_of_its_net_in_order():
    lab = leaf_spine(3, 2, 14)
    fabric = msgspec.structs.replace(lab, nodes=lab.nodes[3::-1] + lab.nodes[:3:-1])
    net = fabric_net(fabric, Line(10**9, 5_000_000))
    names = [net.node_name(n) for n in range(net.n_nodes)]
    hosts = [n.name for n in fabric.nodes if n.role == "host"]
    assert names == [*hosts, *(n.name for n in fabric.nodes if n.role == "bfr")]
    assert net.n_hosts == 15
    for n, name in enumerate(names):
        near = net.dst[net.first_out[n] : net.first_out[n + 1]].tolist()
        assert [names[x] for x in near] == list(fabric.neighbours[name])
        for x in near:
            assert net.dst[net.first_out[n] + fabric.port_to(name, names[x]) - 1] == x
    tiers = {"h": 0, "l": 1, "s": 2}
    assert net.tier.tolist() == [tiers[name[0]] for name in names]
    homes = [fabric.neighbours[name] for name in hosts]
    assert len(set(zip(homes, net.rack.tolist(), strict=True))) == 3
    assert set(net.bps.tolist()) == {10**9}
