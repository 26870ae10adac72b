"""Aggregation trees: figure 1 of draft-song-ina-00, broken rules, least cost, quotas."""

from itertools import combinations, product
from pathlib import Path

import pytest

from fanfold.errors import ConfigError
from fanfold.streams import stream
from fanfold.topo import vat_build
from fanfold.topo.net_catalog import NET_CATALOG
from fanfold.topo.nets import build_named_net
from fanfold.topo.vat import FAR, NONE, Vat, VatNode, Ways, edges, figures, hosts_of, mask_of
from fanfold.topo.vat_build import Job, build_vats
from fanfold.topo.vat_rules import VatRule, check_vat, check_vats

FIGURE_1 = f"import:{Path(__file__).parents[3] / 'examples' / 'figure1.json'}"
BITS = {name: 1 << i for i, name in enumerate(("w1", "w2", "w3", "w4", "w5", "w6", "w7", "w8"))}
SMALL = (
    "leaf-spine:leaves=3,spines=2,hosts=6",
    "ring:hosts=6",
    "random:hosts=6,degree=3",
    "rail:servers=2,gpus=3,spines=2",
    "torus:dims=3x2",
    FIGURE_1,
)


def bits(text):
    return sum(1 << i for i, bit in enumerate(text) if bit == "1")


def tree_of(net, rows, workers="w1 w2 w3 w4", quota=1):
    """Rows: at, parent or empty, A-BM as draft-song-ina-00 writes it."""
    index = {net.node_name(node): node for node in range(net.n_nodes)}
    nodes = tuple(
        VatNode(index[at], index[parent] if parent else NONE, bits(a_bm))
        for at, parent, a_bm in rows
    )
    return Vat("job", tuple(index[w] for w in workers.split()), nodes, quota)


FIGURE = [("s6", "", "11110000"), ("s1", "s6", "11000000"), ("s7", "s6", "00110000")]


def test_figure_1_keeps_all_rules_and_costs_twelve_links():
    net = build_named_net(FIGURE_1)
    vat = tree_of(net, FIGURE)
    assert check_vats(net, [vat], 1) == ()
    told = figures(Ways(net), vat)
    assert (told.n_links, told.n_unicast_links) == (2 + 3 + 2 * 3 + 1, 16)
    assert (told.n_nodes, told.depth, told.fan_in) == (3, 2, 2)
    senders = {(net.node_name(a), net.node_name(b)) for a, b, _ in edges(vat)}
    assert senders == {
        *(("w1", "s1"), ("w2", "s1"), ("w3", "s7"), ("w4", "s7")),
        *(("s1", "s6"), ("s7", "s6")),
    }


def test_its_tree_up_is_not_the_tree_down():
    """From s6 the copies for w1 and w2 pass s7, which sums nothing of theirs."""
    net = build_named_net(FIGURE_1)
    index = {net.node_name(node): node for node in range(net.n_nodes)}
    way = Ways(net).way(index["s6"], index["w1"])
    assert [net.node_name(node) for node in way] == ["s6", "s7", "s5", "s1", "w1"]


BROKEN = [
    (VatRule.TWICE, [*FIGURE, ("s7", "s1", "10000000")], {}),
    (VatRule.NO_ROOT, [*FIGURE, ("s4", "", "11110000")], {}),
    (VatRule.NO_ROOT, [*FIGURE, ("s2", "s5", "00110000"), ("s5", "s2", "00110000")], {}),
    (VatRule.NO_PARENT, [*FIGURE[:2], ("s7", "s3", "00110000")], {}),
    (VatRule.NOT_A_SWITCH, [*FIGURE[:2], ("w5", "s6", "00110000")], {}),
    (VatRule.EMPTY, [*FIGURE, ("s4", "s6", "00000000")], {}),
    (VatRule.OVERLAP, [FIGURE[0], FIGURE[1], ("s7", "s6", "01110000")], {}),
    (VatRule.NOT_A_SUPERSET, [*FIGURE, ("s2", "s1", "00100000")], {}),
    (VatRule.NOT_THE_WORKERS, FIGURE, {"workers": "w1 w2 w3 w4 w5"}),
    (VatRule.STARVED, [*FIGURE, ("s2", "s6", "00110000")], {}),
    (VatRule.OUT_OF_ORDER, [FIGURE[0], FIGURE[1], ("s3", "s6", "00110000")], {}),
    (VatRule.TOO_FEW_SLOTS, FIGURE, {"quota": 3}),
]


@pytest.mark.parametrize(("rule", "rows", "extra"), BROKEN, ids=lambda x: str(x)[:16])
def test_each_broken_rule_is_named_alone(rule, rows, extra):
    net = build_named_net(FIGURE_1)
    faults = check_vats(net, [tree_of(net, rows, **extra)], 2)
    assert {fault.rule for fault in faults} == {rule}
    assert all(fault.text for fault in faults)


def test_a_node_without_a_way_to_its_parent_is_told():
    """Without its cable to s7 nothing leads from s5 to s6; the rest of the tree is sound."""
    net = build_named_net(FIGURE_1)
    names = {net.node_name(node): node for node in range(net.n_nodes)}
    ways = Ways(net)
    for a, b in (("s5", "s7"), ("s7", "s5")):
        ways.near[names[a]].remove(names[b])
    faults = check_vat(ways, tree_of(net, FIGURE))
    assert {fault.rule for fault in faults} == {VatRule.NO_PATH}
    assert (names["s1"], names["s6"]) in {fault.nodes for fault in faults}


def test_equal_masks_on_one_way_are_in_order_only_from_below():
    net = build_named_net(FIGURE_1)
    rows = [FIGURE[0], ("s5", "s6", "11110000"), ("s1", "s5", "11000000")]
    assert check_vats(net, [tree_of(net, rows)], 1) == ()
    turned = [FIGURE[0], ("s1", "s6", "11110000"), ("s5", "s1", "11110000")]
    assert {f.rule for f in check_vats(net, [tree_of(net, turned)], 1)} == {
        VatRule.OUT_OF_ORDER
    }


def links_between(net):
    """(V, V) links of shortest ways that no host is inside, by relaxation."""
    far = 10**6
    d = [[0 if a == b else far for b in range(net.n_nodes)] for a in range(net.n_nodes)]
    for a, b in zip(net.src.tolist(), net.dst.tolist(), strict=True):
        d[a][b] = 1
    for via in range(net.n_hosts, net.n_nodes):
        for a, b in product(range(net.n_nodes), repeat=2):
            d[a][b] = min(d[a][b], d[a][via] + d[via][b])
    return d


def least_cost(net, workers, roots, allowed):
    """(links, VAT nodes) of the best tree: all sets of switches below the root, all parents."""
    d = links_between(net)
    best = (10**9, 0)
    for root in roots:
        others = [at for at in allowed if at != root]
        for size in range(min(len(workers), 4)):
            for chosen in combinations(others, size):
                nodes = (root, *chosen)
                leaves = sum(min(d[w][at] for at in nodes) for w in workers)
                for parents in product(nodes, repeat=size):
                    above = dict(zip(chosen, parents, strict=True))
                    if leads_to_root(above, root):
                        links = leaves + sum(d[at][up] for at, up in above.items())
                        best = min(best, (links, size + 1))
    return best


def leads_to_root(above, root):
    for at in above:
        node = at
        for _ in above:
            node = above.get(node, root)
        if node != root:
            return False
    return True


def cases(name, n):
    net = build_named_net(name, 3)
    rng = stream(7, name)
    for _ in range(n):
        workers = tuple(sorted(rng.choice(net.n_hosts, 4, replace=False).tolist()))
        routers = range(net.n_hosts, net.n_nodes)
        full = {int(x) for x in rng.choice(list(routers), 2, replace=False)}
        ways = Ways(net)
        near = [at for at in routers if max(ways.hops(w, at) for w in workers) < FAR]
        root = int(rng.choice([*near, NONE, workers[0], net.n_hosts - 1]))
        yield net, workers, NONE if root in full else root, full


@pytest.mark.parametrize("name", SMALL, ids=lambda name: name.partition(":")[0])
def test_no_tree_of_a_small_net_costs_less(name):
    """Two full switches pass packets on; a job that came first stands on them."""
    for net, workers, root, full in cases(name, 12):
        allowed = [at for at in range(net.n_hosts, net.n_nodes) if at not in full]
        found = build_beside(net, Job("job", workers, root), full)
        told = figures(Ways(net), found)
        roots = [root] if root != NONE else allowed
        assert (told.n_links, told.n_nodes) == least_cost(net, workers, roots, allowed)
        assert check_vats(net, [found], 1) == ()
        assert not full.intersection(node.at for node in found.nodes)


def build_beside(net, job, full, exact=True):
    """Tree of a job where some switches have no slot left."""
    used = [int(at in full) for at in range(net.n_nodes)]
    return vat_build._build(Ways(net), job, used, 1, exact)


@pytest.mark.parametrize("name", SMALL, ids=lambda name: name.partition(":")[0])
def test_a_grown_tree_costs_no_less_and_at_most_a_third_more(name):
    for net, workers, root, full in cases(name, 40):
        ways = Ways(net)
        links = [
            figures(ways, build_beside(net, Job("job", workers, root), full, exact)).n_links
            for exact in (True, False)
        ]
        assert links[0] <= links[1] <= links[0] * 4 // 3


@pytest.mark.parametrize("row", NET_CATALOG, ids=lambda row: row.name)
@pytest.mark.parametrize("exact", [True, False])
def test_trees_on_every_net_keep_all_rules_and_save_links(row, exact):
    net = build_named_net(f"{row.name}:{row.example}", 1)
    hosts = list(range(net.n_hosts))
    jobs = [Job("a", tuple(hosts[::2])), Job("b", tuple(hosts[1::2]) or (0,), root=hosts[0])]
    vats = build_vats(net, jobs, 1, exact=exact)
    assert check_vats(net, vats, 1) == ()
    ways = Ways(net)
    for vat in vats:
        told = figures(ways, vat)
        assert told.n_links <= told.n_unicast_links
        (root,) = vat.roots
        assert hosts_of(root.a_bm) == vat.workers


def test_jobs_share_switches_by_quota_and_go_elsewhere_when_it_is_used_up():
    net = build_named_net("leaf-spine:leaves=2,spines=3,hosts=4")
    jobs = [Job(f"job{j}", (0, 1, 2, 3), quota=2) for j in range(3)]
    vats = build_vats(net, jobs, 4)
    assert check_vats(net, vats, 4) == ()
    on_leaves = [sum(net.tier[node.at] == 1 for node in vat.nodes) for vat in vats]
    assert on_leaves == [2, 2, 0]
    faults = check_vats(net, [*vats, vats[0]], 4)
    assert {fault.rule for fault in faults} == {VatRule.TOO_FEW_SLOTS}
    with pytest.raises(ConfigError, match=r"job3\.quota.*at most 4 slots"):
        build_vats(net, [*jobs, Job("job3", (0, 1), quota=5)], 4)


def test_what_cannot_be_built_is_refused_by_name():
    net = build_named_net("leaf-spine:leaves=2,spines=1,hosts=4")
    leaf = net.n_hosts
    with pytest.raises(ConfigError, match="no workers"):
        build_vats(net, [Job("job", ())], 1)
    taken = Job("first", (0, 1), root=leaf)
    with pytest.raises(ConfigError, match=r"second\.root.*has 0"):
        build_vats(net, [taken, Job("second", (2, 3), root=leaf)], 1)


def test_a_server_may_be_root_and_worker_and_needs_no_slot():
    net = build_named_net("leaf-spine:leaves=2,spines=1,hosts=4")
    (vat,) = build_vats(net, [Job("job", (0, 1, 2, 3), root=0, quota=9)], 1)
    assert [(node.at, node.a_bm) for node in vat.nodes] == [(0, 0b1111)]
    assert check_vats(net, [vat], 1) == ()
    assert figures(Ways(net), vat).n_links == 0 + 2 + 4 + 4


def test_masks_are_sets_of_hosts():
    assert hosts_of(mask_of((0, 5, 70))) == (0, 5, 70)
    assert hosts_of(0) == ()
