"""Node protection of mLDP (RFC 7715): copies for a lost node go to those behind it."""

import msgspec

from fanfold.topo.nets import build_named_net
from fanfold.trees.group_events import GroupEvent
from fanfold.trees.settings import TreeSettings
from fanfold.trees.tree_run import build_tree
from fanfold.units import PS_PER_MS, PS_PER_SECOND

NET = build_named_net("fat-tree:k=4")
NODES = {NET.node_name(n): n for n in range(NET.n_nodes)}
AT_PS = 10 * PS_PER_SECOND
PLAIN = TreeSettings(rp="core3", local_repair=True)
NODE = msgspec.structs.replace(PLAIN, node_bypass=True)
LINK = msgspec.structs.replace(PLAIN, link_bypass=True)
NOTICED_PS = AT_PS + PLAIN.detect_ps + 1
MENDED_PS = AT_PS + PLAIN.detect_ps + PLAIN.reroute_ps + 100 * PS_PER_MS


def trees(settings, a, b):
    """Hosts of the tree just before a failure, after it is noticed, and once it is mended."""
    joins = [GroupEvent(0, "join", host) for host in range(1, NET.n_hosts)]
    fail = GroupEvent(AT_PS, "fail", nodes=(NODES[a], NODES[b]))
    looks = [AT_PS - 1, AT_PS + 1, NOTICED_PS, MENDED_PS]
    run = build_tree("mldp-p2mp", NET, 0, [*joins, fail], settings, looks=looks)
    return run.trees[:-1]


def hosts(tree):
    return set(tree.hosts)


ALL = set(range(1, NET.n_hosts))
POD = {1, 2, 3}


def test_a_dead_core_is_gone_round_as_soon_as_it_is_noticed():
    before, at_once, noticed, mended = trees(NODE, "core0", "core0")
    assert hosts(before) == ALL
    assert hosts(at_once) == POD
    assert hosts(noticed) == ALL
    assert set(noticed.hosts.values()) == {1}  # nobody has it twice
    assert noticed.inner  # in tunnels
    assert hosts(mended) == ALL


def test_a_tunnel_to_a_dead_neighbour_helps_nobody():
    _, _, noticed, mended = trees(LINK, "core0", "core0")
    assert hosts(noticed) == POD
    assert hosts(mended) == ALL


def test_without_protection_new_paths_are_waited_for():
    _, _, noticed, mended = trees(PLAIN, "core0", "core0")
    assert hosts(noticed) == POD
    assert hosts(mended) == ALL


def test_members_of_the_lost_node_are_led_round_the_link():
    """The node beside cannot tell a dead link from a dead node; its members hang on it."""
    tree = trees(NODE, "core0", "core0")[0]
    into = {int(NET.dst[k]): int(NET.src[k]) for k in tree.links}
    edge = NODES["edge7"]
    beside = NET.node_name(into[edge])
    before, at_once, noticed, _ = trees(NODE, beside, "edge7")
    assert hosts(before) == ALL
    assert hosts(at_once) == ALL - {14, 15}
    assert hosts(noticed) == ALL
    assert set(noticed.hosts.values()) == {1}
