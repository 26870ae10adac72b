"""Sets of routers by weight: what each link carries, worked out by hand."""

from collections import Counter

import numpy as np
import pytest

from fanfold.topo.nets import build_named_net
from fanfold.topo.plane_paths import PlanePaths
from fanfold.topo.routes import build_routes
from fanfold.topo.sketch import LINE, Line, Sketch
from fanfold.topo.weighted_sets import weighted_sets

G = 10**9
PODS = "multi-plane:planes=1,leaves=2,spines=2,hosts=8,pods=2,cores=2"


def cut(net, *slow, by=0):
    """The net with links between two routers at a part of their rate; by: 0 are down."""
    names = [net.node_name(n) for n in range(net.n_nodes)]
    bps, is_up = net.bps.copy(), net.is_up.copy()
    for a, b in slow:
        (link,) = [
            k for k in range(net.n_links) if (names[net.src[k]], names[net.dst[k]]) == (a, b)
        ]
        both = [link, net.reverse[link]]
        is_up[both] = int(by > 0)
        bps[both] = net.bps[link] // max(by, 1)
    return net._replace(bps=bps, is_up=is_up)


def turns(net, routes, router, host):
    """Neighbours in the order in which a router takes them for a host."""
    names = [net.node_name(n) for n in range(net.n_nodes)]
    k = routes.ecmp[names.index(router) - net.n_hosts, routes.group[host]]
    return [names[net.dst[x]] for x in routes.link[routes.first[k] : routes.first[k + 1]]]


def test_a_whole_net_has_its_routes_as_they_were():
    net = build_named_net(PODS)
    routes = build_routes(net)
    assert weighted_sets(net, routes) is routes


def test_a_spine_that_lost_half_of_a_link_on_the_far_side_gets_half_as_much():
    net = cut(build_named_net(PODS), ("p0.leaf3", "p0.spine2"), by=2)
    routes = weighted_sets(net, build_routes(net))
    far, near = net.n_hosts - 1, 0
    core_to = [turns(net, routes, f"p0.core{c}", far) for c in range(2)]
    for found in core_to:
        assert Counter(found) == {"p0.spine2": 1, "p0.spine3": 2}
    assert turns(net, routes, "p0.leaf0", far) == ["p0.spine0", "p0.spine1"]
    found = turns(net, routes, "p0.leaf3", near)
    assert Counter(found) == {"p0.spine2": 1, "p0.spine3": 2}


def test_what_is_cut_off_further_on_is_no_part_of_a_weight():
    """Both cores of spine0 at a quarter: 200 of 400 Gbit/s; of spine1 all 800, so 400."""
    net = cut(build_named_net(PODS), *(("p0.spine0", f"p0.core{c}") for c in range(2)), by=4)
    routes = weighted_sets(net, build_routes(net))
    assert Counter(turns(net, routes, "p0.leaf0", 7)) == {"p0.spine0": 1, "p0.spine1": 2}
    assert turns(net, routes, "p0.leaf0", 3) == ["p0.spine0", "p0.spine1"]  # same pod


def test_cables_side_by_side_count_together_and_no_further_than_what_is_beyond_them():
    """leaf0 has two cables to spine0, leaf1 one: 100 of 200 Gbit/s go on, as by spine1."""
    sketch = Sketch(2)
    leaf, spine = sketch.add("leaf", 2, 1), sketch.add("spine", 2, 2)
    sketch.cable(sketch.hosts, leaf, Line(400 * G, LINE.prop_ps))
    sketch.cable(leaf[:, None], spine[np.newaxis], LINE)
    sketch.cable(leaf[0], spine[0], LINE)
    net = sketch.build("side-by-side", sketch.hosts)
    routes = build_routes(net)
    known = PlanePaths(net, routes)
    assert known.to_host(1)[[*leaf, *spine]].tolist() == [200 * G, 400 * G, 100 * G, 100 * G]
    assert known.to_host(0)[[*leaf, *spine]].tolist() == [400 * G, 200 * G, 200 * G, 100 * G]
    assert Counter(turns(net, routes, "leaf0", 1)) == {"spine0": 2, "spine1": 1}
    net = net._replace(bps=np.where(net.src == spine[1], 50 * G, net.bps))
    dealt = weighted_sets(net, build_routes(net))
    assert Counter(turns(net, dealt, "leaf0", 1)) == {"spine0": 2, "spine1": 1}
    even = net._replace(bps=np.where(net.src == spine[0], 50 * G, net.bps))
    found = turns(even, weighted_sets(even, build_routes(even)), "leaf0", 1)
    assert Counter(found) == {"spine0": 2, "spine1": 2}


@pytest.mark.parametrize("by", [0, 3])
def test_every_link_of_a_set_stays_in_it_and_none_joins(by):
    net = cut(
        build_named_net(PODS), ("p0.leaf0", "p0.spine0"), ("p0.leaf3", "p0.spine3"), by=by
    )
    routes = build_routes(net)
    dealt = weighted_sets(net, routes)
    for router, group in zip(*np.nonzero(routes.ecmp >= 0), strict=True):
        k, j = routes.ecmp[router, group], dealt.ecmp[router, group]
        before = routes.link[routes.first[k] : routes.first[k + 1]]
        after = dealt.link[dealt.first[j] : dealt.first[j + 1]]
        assert set(before.tolist()) == set(after.tolist())
    assert (dealt.first.size > routes.first.size) == (by > 0)
