from collections import deque

import numpy as np
import pytest
from reach import no_path

from fanfold.errors import ConfigError
from fanfold.topo.fat_tree import fat_tree
from fanfold.topo.net import Net
from fanfold.topo.routes import FAR, build_routes
from fanfold.topo.sketch import LINE, Sketch
from fanfold.topo.torus import torus


def random_net(seed: int, n_hosts: int, n_routers: int, n_cables: int) -> Net:
    """Hosts on one to three routers each; any cables between routers, some of them twice."""
    draw = np.random.default_rng(seed)
    sketch = Sketch(n_hosts)
    routers = sketch.add("r", n_routers, 1)
    for host in sketch.hosts:
        sketch.cable(host, draw.choice(routers, draw.integers(1, 4)), LINE)
    a, b = draw.choice(routers, (2, n_cables))
    sketch.cable(a[a != b], b[a != b], LINE)
    return sketch.build("random")


def out_links(net: Net, node: int) -> range:
    return range(net.first_out[node], net.first_out[node + 1])


def naive_hops(net: Net, host: int) -> dict[int, int]:
    """Links from each node to a host, none through another host."""
    hops, todo = {host: 0}, deque([host])
    while todo:
        node = todo.popleft()
        if node != host and node < net.n_hosts:
            continue
        for link in out_links(net, node):
            if (to := int(net.dst[link])) not in hops:
                hops[to] = hops[node] + 1
                todo.append(to)
    return hops


def naive_costs(net: Net, host: int) -> dict[int, int]:
    """Least cost from each router to a host over links that are up: relaxed to the end."""
    first = out_links(net, host)
    costs = {int(net.dst[k]): 1 for k in first if net.is_up[k]}
    is_done = False
    while not is_done:
        is_done = True
        for k in range(net.n_links):
            a, b = int(net.src[k]), int(net.dst[k])
            cost = costs.get(b, FAR) + int(net.weight[k])
            if min(a, b) >= net.n_hosts and net.is_up[k] and cost < costs.get(a, FAR):
                costs[a], is_done = cost, False
    return costs


@pytest.mark.parametrize("most", [1, 2, 7, 200])
def test_weights_and_links_that_are_cut_make_other_paths(most):
    net = random_net(most, 20, 15, 30)
    draw = np.random.default_rng(most)
    weight, is_up = draw.integers(1, most, net.n_links, endpoint=True), net.is_up.copy()
    is_up[draw.choice(net.n_links, 12)] = 0
    net = net._replace(weight=np.where(weight > 6, most, weight), is_up=is_up)
    routes = build_routes(net)
    for host in range(net.n_hosts):
        costs, g = naive_costs(net, host), routes.group[host]
        for r in range(net.n_nodes - net.n_hosts):
            node = net.n_hosts + r
            assert routes.hops[r, g] == costs.get(node, FAR)
            if 1 < costs.get(node, FAR) < FAR:
                k = routes.ecmp[r, g]
                onward = [
                    link
                    for link in out_links(net, node)
                    if net.is_up[link]
                    and net.dst[link] >= net.n_hosts
                    and costs.get(int(net.dst[link]), FAR) + net.weight[link] == costs[node]
                ]
                assert routes.link[routes.first[k] : routes.first[k + 1]].tolist() == onward


def test_a_path_beyond_all_costs_is_refused():
    net = torus((3, 9))
    with pytest.raises(ConfigError, match="a cost of at most 16383"):
        build_routes(net._replace(weight=np.full(net.n_links, 5000)))


@pytest.mark.parametrize("seed", range(6))
def test_hops_and_sets_are_those_of_a_plain_search(seed):
    net = random_net(seed, 90, 75, 40 + 40 * seed)
    routes = build_routes(net)
    for host in range(net.n_hosts):
        hops, g = naive_hops(net, host), routes.group[host]
        for r in range(net.n_nodes - net.n_hosts):
            node = net.n_hosts + r
            assert routes.hops[r, g] == hops.get(node, FAR)
            if 1 < hops.get(node, FAR) < FAR:
                k = routes.ecmp[r, g]
                onward = [
                    link
                    for link in out_links(net, node)
                    if net.dst[link] >= net.n_hosts
                    and hops.get(int(net.dst[link]), FAR) == hops[node] - 1
                ]
                assert routes.link[routes.first[k] : routes.first[k + 1]].tolist() == onward


def test_hosts_of_one_group_hang_on_the_same_routers():
    net = random_net(1, 200, 6, 9)
    routes = build_routes(net)
    homes = [frozenset(int(net.dst[i]) for i in out_links(net, h)) for h in range(200)]
    assert routes.n_groups == len(set(homes)) > 20
    assert len(set(zip(homes, routes.group.tolist(), strict=True))) == routes.n_groups
    assert [routes.group.tolist().index(g) for g in range(routes.n_groups)] == sorted(
        homes.index(h) for h in set(homes)
    )


def test_a_set_that_two_groups_share_is_kept_once():
    routes = build_routes(fat_tree(4))
    sets = {
        tuple(routes.link[a:b].tolist())
        for a, b in zip(routes.first, routes.first[1:], strict=False)
    }
    # an edge switch goes up, or down to its own hosts; aggregation: up and two down; core: four
    assert len(sets) == routes.first.size - 1 == 8 * 1 + 8 * 3 + 4 * 4


def test_more_sets_than_there_was_room_for_at_first():
    n = 7
    sketch = Sketch(1 << n)
    routers = sketch.add("r", 1 << n, 1)
    sketch.cable(sketch.hosts, routers, LINE)
    for d in range(n):
        low = np.nonzero(~sketch.hosts & (1 << d))[0]
        sketch.cable(routers[low], routers[low | 1 << d], LINE)
    routes = build_routes(sketch.build("cube"))
    away = np.bitwise_count(sketch.hosts[:, None] ^ sketch.hosts)
    assert (routes.hops == away + 1).all()
    assert routes.first.size - 1 == (1 << n) * ((1 << n) - 1)
    size = np.diff(routes.first)[routes.ecmp]
    assert (size[away > 0] == away[away > 0]).all()


def test_a_set_that_two_groups_share_is_kept_once_after_growth():
    # 64 groups a batch: the second batch meets the sets of the first again, after more room
    routes = build_routes(torus((3, 3, 15)))
    assert routes.n_groups == 135
    sets = {
        tuple(routes.link[a:b].tolist())
        for a, b in zip(routes.first, routes.first[1:], strict=False)
    }
    assert len(sets) == routes.first.size - 1 > 4 * 135 + 64


def test_hosts_without_a_way_over_routers_stay_far():
    sketch = Sketch(4)
    routers = sketch.add("r", 2, 1)
    sketch.cable(sketch.hosts, routers[[0, 0, 1, 1]], LINE)
    net = sketch.build("two islands")
    assert no_path(net, build_routes(net)) == ("h0", "h2")
    sketch.cable(0, routers[1], LINE)
    net = sketch.build("a host that stands between them passes nothing on")
    assert no_path(net, build_routes(net)) == ("h1", "h2")
    sketch.cable(routers[0], routers[1], LINE)
    net = sketch.build("one")
    assert no_path(net, build_routes(net)) is None


def test_a_host_needs_a_router():
    sketch = Sketch(3)
    sketch.cable([0, 1], sketch.add("r", 1, 1), LINE)
    with pytest.raises(ConfigError, match="h2 has no link"):
        build_routes(sketch.build("one apart"))
    sketch.cable(0, 2, LINE)
    with pytest.raises(ConfigError, match="h0 and h2"):
        build_routes(sketch.build("two hosts joined"))
