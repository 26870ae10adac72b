"""What paths carry over each plane, as cut by hand; planes as they are asked for."""

from fractions import Fraction

import numpy as np
import pytest

from fanfold.errors import ConfigError
from fanfold.streams import stream
from fanfold.topo.nets import build_named_net
from fanfold.topo.plane_paths import PlanePaths, planes_asked
from fanfold.topo.routes import FAR, build_routes

G = 10**9
PODS = "multi-plane:planes=2,leaves=2,spines=4,hosts=16"


def without(net, *cables):
    """The net without some cables; each is its two ends and which of several."""
    names = [net.node_name(n) for n in range(net.n_nodes)]
    is_up = net.is_up.copy()
    for a, b, number in cables:
        links = [
            k for k in range(net.n_links) if (names[net.src[k]], names[net.dst[k]]) == (a, b)
        ]
        is_up[[links[number], net.reverse[links[number]]]] = 0
    return net._replace(is_up=is_up)


def carried(net, source, goal):
    found = PlanePaths(net, build_routes(net)).carried(source, goal, (0, 1, 2, 3))
    return {plane: bps / G for plane, bps in found.items()}


def test_a_whole_pod_carries_both_legs_of_each_plane():
    net = build_named_net("superpod:gpus=3,planes=3")
    assert carried(net, 0, 2) == {0: 800, 1: 800, 2: 800}


def test_a_leg_at_either_end_halves_a_plane_and_legs_of_both_do_not_quarter_it():
    net = build_named_net("superpod:gpus=3,planes=3")
    assert carried(without(net, ("h2", "leaf1", 0)), 0, 2) == {0: 800, 1: 400, 2: 800}
    cut = without(net, ("h0", "leaf1", 1), ("h2", "leaf1", 0))
    assert carried(cut, 0, 2) == {0: 800, 1: 400, 2: 800}
    assert carried(cut, 1, 0) == {0: 800, 1: 400, 2: 800}


def test_a_plane_without_a_port_at_one_end_has_no_path():
    net = build_named_net("superpod:gpus=3,planes=3")
    cut = without(net, ("h2", "leaf1", 0), ("h2", "leaf1", 1))
    assert carried(cut, 0, 2) == carried(cut, 2, 0) == {0: 800, 2: 800}
    assert carried(cut, 0, 1) == {0: 800, 1: 800, 2: 800}


def test_of_two_tiers_a_plane_carries_what_its_narrowest_part_does():
    net = build_named_net("multi-plane:planes=2,leaves=2,spines=2,hosts=4,rate=100Gbps")
    assert carried(net, 0, 3) == {0: 100, 1: 100}
    names = [net.node_name(n) for n in range(net.n_nodes)]
    spines = [name for name in names if name.startswith("p1.spine")]
    leaf = next(
        names[net.dst[k]] for k in range(net.n_links) if net.src[k] == 0 and net.plane[k] == 1
    )
    one = without(net, (leaf, spines[0], 0))
    assert carried(one, 0, 3) == {0: 100, 1: 100}  # a host's port is no wider than one spine
    none = without(net, *((leaf, spine, 0) for spine in spines))
    assert carried(none, 0, 3) == {0: 100}


def plainly(net, routes, node, goal):
    """What paths of a router carry to a host, by search from node to node."""
    group = int(routes.group[goal])
    hops = routes.hops[node - net.n_hosts, group]
    to = {}
    for k in range(net.first_out[node], net.first_out[node + 1]):
        end = int(net.dst[k])
        nearer = end == goal or (
            end >= net.n_hosts and hops > 1 and routes.hops[end - net.n_hosts, group] < hops
        )
        if net.is_up[k] and nearer:
            to[end] = to.get(end, 0) + int(net.bps[k])
    return sum(
        bps if end == goal else min(bps, plainly(net, routes, end, goal))
        for end, bps in to.items()
    )


@pytest.mark.parametrize("seed", range(12))
def test_what_is_carried_is_what_a_plain_search_finds_on_nets_with_cuts(seed):
    rng = stream(seed, "cuts")
    name = ("superpod:gpus=5,planes=3", f"{PODS},pods=2,cores=4", f"{PODS}")[seed % 3]
    net = build_named_net(name)
    is_up, bps = net.is_up.copy(), net.bps.copy()
    for link in rng.choice(np.flatnonzero(net.src < net.dst), 6, replace=False).tolist():
        both = [link, net.reverse[link]]
        is_up[both], bps[both] = int(rng.integers(2)), net.bps[link] // int(rng.integers(1, 4))
    net = net._replace(is_up=is_up, bps=bps)
    routes = build_routes(net)
    known = PlanePaths(net, routes)
    for goal in range(net.n_hosts):
        carried = known.to_host(goal)
        for router in np.flatnonzero(routes.hops[:, routes.group[goal]] < FAR).tolist():
            node = net.n_hosts + router
            assert carried[node] == plainly(net, routes, node, goal), (goal, node)


@pytest.mark.parametrize("seed", range(6))
def test_hosts_that_hang_alike_share_a_look_and_no_others_do(seed):
    """Each pair of hosts, asked of one object, as a plain search from its own links has it."""
    rng = stream(seed, "cuts of hosts")
    net = build_named_net((f"{PODS},pods=2,cores=4", "superpod:gpus=6,planes=2")[seed % 2])
    is_up, bps = net.is_up.copy(), net.bps.copy()
    ups = np.flatnonzero(net.src < net.n_hosts)
    for link in rng.choice(ups, 3, replace=False).tolist():
        is_up[[link, net.reverse[link]]] = 0
    slow = rng.choice(ups, 3, replace=False)
    bps[slow] //= 4  # one way: what a host sends is no longer what it gets
    net = net._replace(is_up=is_up, bps=bps)
    routes = build_routes(net)
    known = PlanePaths(net, routes)
    for source, goal in rng.integers(0, net.n_hosts, (150, 2)).tolist():
        if source == goal:
            continue
        to = dict[int, dict[int, int]]()
        for k in range(net.first_out[source], net.first_out[source + 1]):
            if net.is_up[k]:
                row = to.setdefault(int(net.plane[k]), {})
                row[int(net.dst[k])] = row.get(int(net.dst[k]), 0) + int(net.bps[k])
        plain = {
            plane: sum(min(n, plainly(net, routes, at, goal)) for at, n in row.items())
            for plane, row in to.items()
        }
        assert known.carried(source, goal, (0, 1)) == {p: n for p, n in plain.items() if n}


def test_planes_are_asked_for_by_number_or_all():
    net = build_named_net("superpod:gpus=3,planes=3")
    assert planes_asked("", net) is None
    assert planes_asked("auto", net) == (0, 1, 2)
    assert planes_asked("2,0,2", net) == (0, 2)
    with pytest.raises(ConfigError, match=r"settings.planes: got '0,3'.*auto.*0, 1, 2"):
        planes_asked("0,3", net)


def test_bandwidth_is_exact():
    net = build_named_net("superpod:gpus=3,planes=2,rate=25Gbps")
    found = PlanePaths(net, build_routes(net)).carried(0, 1, (0,))
    assert found == {0: Fraction(50 * G)}
