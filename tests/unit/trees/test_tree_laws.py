"""What holds for every tree protocol on every net: one copy each, no loop, state in place."""

from functools import cache
from pathlib import Path

import pytest

import fanfold.trees
from fanfold.errors import ConfigError
from fanfold.topo.net import Net
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes
from fanfold.trees.catalog import CATALOG
from fanfold.trees.group_events import NOT_DONE, GroupEvent
from fanfold.trees.paths import FAR, Paths
from fanfold.trees.settings import TreeSettings
from fanfold.trees.tree import Tree, walk
from fanfold.trees.tree_run import TreeRun, build_tree
from fanfold.trees.world import World

SECOND = 10**12
TOPOLOGIES = (
    "fat-tree:k=4",
    "leaf-spine:leaves=4,spines=3,hosts=16",
    "torus:dims=4x3x2",
    "ring:hosts=9",
    "random:hosts=20,degree=3",
    "dragonfly:a=4,p=2,h=2",
    "wan:sites=6,hosts=4",
    "star:hosts=8",
    "rail:servers=4,spines=2",
    "multi-plane:planes=2,leaves=4,spines=2,hosts=16",
)
PROTOCOLS = tuple(row.name for row in CATALOG)
INFRASTRUCTURE = {"catalog", "group_events", "machine", "paths", "settings", "tree", "tree_run"}
INFRASTRUCTURE |= {"at_once", "many", "standing", "tree_summary", "world"}
on_every_net = pytest.mark.parametrize("topology", TOPOLOGIES)
by_every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


@cache
def net_of(topology: str) -> Net:
    return build_named_net(topology)


@cache
def grown(topology: str, protocol: str, group: int = 0) -> TreeRun:
    """Packets from the start, every second host joins at 1 s, the first leaves at 6 s."""
    net = net_of(topology)
    members = range(1, net.n_hosts, 2)
    events = [
        GroupEvent(0, "send", n=20, gap_ps=SECOND // 1000),
        *(GroupEvent(SECOND, "join", host) for host in members),
        GroupEvent(3 * SECOND, "send", n=5, gap_ps=SECOND // 10),
        GroupEvent(6 * SECOND, "leave", 1),
        GroupEvent(10 * SECOND, "send", n=2, gap_ps=SECOND // 1000),
    ]
    looks = [5 * SECOND]
    return build_tree(protocol, net, 0, events, TreeSettings(group=group), looks=looks)


@cache
def mended(topology: str, protocol: str) -> tuple[TreeRun, ...]:
    """Runs in which a cable between routers of the tree goes down at 2 s, one each."""
    net = net_of(topology)
    base = [GroupEvent(0, "join", host) for host in range(1, net.n_hosts, 2)]
    base.append(GroupEvent(SECOND, "send", n=300, gap_ps=SECOND // 100))
    (tree, _) = build_tree(protocol, net, 0, base, looks=[2 * SECOND]).trees
    inner = [(int(net.src[k]), int(net.dst[k])) for k in tree.links]
    cuts = [nodes for nodes in inner if min(nodes) >= net.n_hosts][:4]
    return tuple(
        build_tree(protocol, net, 0, [*base, GroupEvent(2 * SECOND, "fail", nodes=nodes)])
        for nodes in cuts
    )


def test_every_protocol_has_a_row():
    folder = Path(fanfold.trees.__file__).parent
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"} - INFRASTRUCTURE
    assert files == {name.replace("-", "_") for name in PROTOCOLS}


@by_every_protocol
@on_every_net
def test_every_member_is_reached_once_and_nobody_else(topology, protocol):
    members = [*range(1, net_of(topology).n_hosts, 2)]
    run = grown(topology, protocol)
    for tree, hosts in zip(run.trees, (members, members[1:]), strict=True):
        assert tree.hosts == dict.fromkeys(hosts, 1)
        assert tree.n_repeats == 0
        assert len(set(tree.links)) == len(tree.links)
    for packet in run.packets[-2:]:
        assert packet.n_expected == packet.n_delivered == packet.n_copies == len(members) - 1


@by_every_protocol
@on_every_net
def test_other_equal_paths_are_taken_by_another_group(topology, protocol):
    members = [*range(1, net_of(topology).n_hosts, 2)]
    tree = grown(topology, protocol, 1).trees[0]
    assert tree.hosts == dict.fromkeys(members, 1)
    is_rooted_at_source = protocol in ("pim-dm", "mldp-p2mp", "sr-p2mp")
    if topology.startswith("fat-tree") and is_rooted_at_source:
        assert tree.links != grown(topology, protocol).trees[0].links


@by_every_protocol
@on_every_net
def test_a_tree_without_members_carries_nothing_to_hosts(topology, protocol):
    net = net_of(topology)
    run = build_tree(protocol, net, 0, [GroupEvent(0, "send", n=30, gap_ps=SECOND // 1000)])
    assert run.trees[-1].hosts == {}
    assert all(packet.n_copies == 0 for packet in run.packets)


@by_every_protocol
@on_every_net
def test_state_is_only_where_the_protocol_keeps_it(topology, protocol):
    net, run = net_of(topology), grown(topology, protocol)
    tree = run.trees[0]
    routers = {int(net.dst[link]) for link in tree.links} - set(range(net.n_hosts))
    have = {state.node for state in run.states}
    if protocol == "pim-dm":
        paths, first = Paths(net, frozenset(), 0), int(net.dst[tree.links[0]])
        flooded = range(net.n_hosts, net.n_nodes)
        assert have == {node for node in flooded if paths.hops(node, first) < FAR}
    else:
        assert have <= routers
    if protocol in ("bidir-pim", "mldp-p2mp", "sr-p2mp"):
        assert all(state.n_entries == 1 for state in run.states)


@on_every_net
def test_replication_state_is_at_root_branches_and_leaves(topology):
    net, run = net_of(topology), grown(topology, "sr-p2mp")
    tree = run.trees[-1]
    outs: dict[int, set[int]] = {}
    for link in tree.links:
        outs.setdefault(int(net.src[link]), set()).add(int(net.dst[link]))
    first = int(net.dst[tree.links[0]])
    is_branch = {node for node, ends in outs.items() if len(ends) > 1}
    is_leaf = {node for node, ends in outs.items() if min(ends) < net.n_hosts}
    assert {s.node for s in run.states} == (is_branch | is_leaf | {first}) - {0}


@by_every_protocol
@on_every_net
def test_a_join_takes_no_less_than_its_hops(topology, protocol):
    net, run = net_of(topology), grown(topology, protocol)
    least = TreeSettings().process_ps
    for row in run.events:
        if row.what == "join":
            first = int(net.first_out[row.host])
            assert row.took_ps >= least + int(net.prop_ps[first])


@by_every_protocol
@pytest.mark.parametrize("topology", TOPOLOGIES[:5])
def test_a_cut_cable_is_mended_as_fast_as_its_protocol_can(topology, protocol):
    settings = TreeSettings()
    noticed = settings.detect_ps
    for run in mended(topology, protocol):
        row, tree = run.events[-1], run.trees[-1]
        hosts = range(1, net_of(topology).n_hosts, 2)
        assert tree.hosts == dict.fromkeys(hosts, 1)
        assert tree.n_repeats == 0
        assert row.n_affected > 0
        if protocol == "sr-p2mp":
            assert row.took_ps == noticed
        else:
            assert row.took_ps > noticed + settings.reroute_ps
        lost = sum(packet.n_expected - packet.n_delivered for packet in run.packets)
        assert lost >= row.took_ps // (SECOND // 100) - 1


@pytest.mark.parametrize("protocol", ["mldp-p2mp", "mldp-mp2mp"])
def test_a_bypass_mends_as_soon_as_the_cut_is_noticed(protocol):
    net, settings = net_of("torus:dims=4x3x2"), TreeSettings(link_bypass=True)
    base = [GroupEvent(0, "join", host) for host in range(1, net.n_hosts, 2)]
    tree = build_tree(protocol, net, 0, base, settings).trees[-1]
    ends = [(int(net.src[k]), int(net.dst[k])) for k in tree.links]
    nodes = next(pair for pair in ends if min(pair) >= net.n_hosts)
    fail = GroupEvent(SECOND, "fail", nodes=nodes)
    looks = [SECOND + settings.detect_ps + settings.reroute_ps // 2]
    run = build_tree(protocol, net, 0, [*base, fail], settings, looks=looks)
    assert run.events[-1].took_ps == settings.detect_ps
    for at in run.trees:
        assert at.hosts == tree.hosts
        assert at.n_repeats == 0
    assert len(run.trees[0].links) == len(tree.links) + 2  # round a square of the torus


def test_without_local_repair_the_controller_has_to_mend():
    net = net_of("fat-tree:k=4")
    slow = TreeSettings(local_repair=False)
    base = [GroupEvent(0, "join", 15)]
    (tree, _) = build_tree("sr-p2mp", net, 0, base, slow, looks=[SECOND]).trees
    nodes = next(
        (int(net.src[k]), int(net.dst[k])) for k in tree.links if net.src[k] >= net.n_hosts
    )
    fail = GroupEvent(SECOND, "fail", nodes=nodes)
    row = build_tree("sr-p2mp", net, 0, [*base, fail], slow).events[-1]
    assert row.took_ps > slow.detect_ps + slow.reroute_ps + slow.compute_ps


@by_every_protocol
def test_a_member_that_is_cut_off_for_good_is_told(protocol):
    net = net_of("fat-tree:k=4")
    cut = (15, int(net.dst[net.first_out[15]]))
    events = [GroupEvent(0, "join", 15), GroupEvent(SECOND, "send")]
    run = build_tree(protocol, net, 0, [*events, GroupEvent(SECOND, "fail", nodes=cut)])
    assert run.events[-1].took_ps == NOT_DONE
    assert run.events[-1].n_affected == 1


@pytest.mark.parametrize("protocol", ["pim-sm", "bidir-pim", "mldp-p2mp", "mldp-mp2mp"])
def test_what_is_said_over_a_dead_cable_is_lost(protocol):
    """Host 15 asks 1 ms after the cable of its router toward the root went down."""
    net = net_of("fat-tree:k=4")
    probe = build_tree(protocol, net, 0, [GroupEvent(0, "join", 15)]).sent
    router = int(net.dst[net.first_out[15]])
    above = next(row.dst for row in probe if row.src == router and row.cause == 0)
    cut_ps = SECOND
    events = [
        GroupEvent(cut_ps, "fail", nodes=(router, above)),
        GroupEvent(cut_ps + SECOND // 1000, "join", 15),
    ]
    settings = TreeSettings()
    run = build_tree(protocol, net, 0, events)
    heard = [row for row in run.sent if row.src == router and row.sent_ps > cut_ps]
    known_ps = cut_ps + settings.detect_ps + settings.reroute_ps
    assert heard
    assert min(row.sent_ps for row in heard) >= known_ps
    assert {row.dst for row in heard} & {above} == set()


@by_every_protocol
def test_who_comes_back_while_being_asked_about_stays(protocol):
    net = net_of("fat-tree:k=4")
    times = ((0, "join"), (SECOND, "leave"), (2 * SECOND, "join"))
    events = [GroupEvent(at, what, 15) for at, what in times]
    events.append(GroupEvent(5 * SECOND, "send"))
    run = build_tree(protocol, net, 0, events)
    assert run.trees[-1].hosts == {15: 1}
    assert run.packets[0].n_delivered == 1


@by_every_protocol
def test_a_run_is_the_same_each_time(protocol):
    grown.cache_clear()
    first = grown("random:hosts=20,degree=3", protocol)
    grown.cache_clear()
    assert grown("random:hosts=20,degree=3", protocol) == first


@by_every_protocol
def test_packets_before_the_tree_wait_or_are_lost_as_the_protocol_does(protocol):
    """The member joins as the first of a packet a 100 us is sent, far away."""
    net = net_of("fat-tree:k=4")
    packets = GroupEvent(0, "send", n=200, gap_ps=SECOND // 10_000)
    rows = build_tree(protocol, net, 0, [GroupEvent(0, "join", 15), packets]).packets
    n_lost = sum(row.n_delivered == 0 for row in rows)
    n_waited = sum(row.n_waited > 0 for row in rows)
    match protocol:
        case "pim-dm":  # flooded by processors until tables are there
            assert n_lost <= 2
            assert n_waited > 10
        case "pim-sm":  # registered meanwhile, lost until the shared tree is there
            assert n_lost > 10
            assert n_waited > 10
        case "sr-p2mp":
            assert n_lost > 100
            assert n_waited == 0
        case _:
            assert 10 < n_lost < 30
            assert n_waited == 0
    assert rows[-1].n_delivered == 1


@on_every_net
def test_hops_are_those_of_routes(topology):
    net = net_of(topology)
    routes, paths = build_routes(net), Paths(net, frozenset(), 0)
    for host in range(0, net.n_hosts, 5):
        link = paths.attach(host)
        if net.first_out[host + 1] - net.first_out[host] > 1:
            continue
        router = int(net.dst[link])
        for node in range(net.n_hosts, net.n_nodes):
            hops = routes.hops[node - net.n_hosts, routes.group[host]]
            assert paths.hops(node, router) == hops - 1


@pytest.mark.parametrize(
    ("events", "what"),
    [
        ([GroupEvent(0, "join", 16)], "events[0].host: got 16, allowed: hosts 0..15"),
        ([GroupEvent(0, "join", 0)], "not the source"),
        ([GroupEvent(0, "leave", 1)], "allowed: a member"),
        ([GroupEvent(0, "join", 1), GroupEvent(1, "join", 1)], "allowed: a host that is no"),
        ([GroupEvent(-1, "join", 1)], "events[0].at_ps: got -1"),
        ([GroupEvent(0, "send", n=0)], "events[0].n: got 0"),
        ([GroupEvent(0, "send", n=100_001)], "packets: got 100001, allowed: at most 100000"),
        ([GroupEvent(0, "fail", nodes=(0, 99))], "two nodes with a cable"),
    ],
)
def test_what_cannot_happen_is_refused(events, what):
    with pytest.raises(ConfigError) as error:
        build_tree("pim-sm", net_of("fat-tree:k=4"), 0, events)
    assert what in str(error.value)


@pytest.mark.parametrize(
    ("settings", "protocol", "what"),
    [
        (TreeSettings(rp="nowhere"), "pim-sm", "settings.rp: got 'nowhere'"),
        (TreeSettings(controller="h0"), "sr-p2mp", "settings.controller: got 'h0'"),
        (TreeSettings(), "pim", "protocol: got 'pim', allowed: pim-sm, pim-dm"),
    ],
)
def test_a_wrong_name_is_refused(settings, protocol, what):
    with pytest.raises(ConfigError) as error:
        build_tree(protocol, net_of("fat-tree:k=4"), 0, [], settings)
    assert what in str(error.value)


@by_every_protocol
@pytest.mark.parametrize("topology", ["fat-tree:k=4", "ring:hosts=9"])
def test_who_leaves_and_joins_again_gets_everything_again(topology, protocol):
    """Nothing of the first time is left that keeps a router from asking again."""
    net = net_of(topology)
    events = [GroupEvent(0, "join", host) for host in range(1, net.n_hosts, 2)]
    for turn in range(2):
        at = 20 * SECOND * turn
        events += [
            GroupEvent(at + 4 * SECOND, "send", n=10, gap_ps=SECOND // 10),
            GroupEvent(at + 6 * SECOND, "leave", 1),
            GroupEvent(at + 12 * SECOND, "send", n=10, gap_ps=SECOND // 10),
            GroupEvent(at + 16 * SECOND, "join", 1),
        ]
    events.append(GroupEvent(44 * SECOND, "send", n=10, gap_ps=SECOND // 10))
    looks = [at * SECOND for at in (5, 13, 25, 33, 45)]
    run = build_tree(protocol, net, 0, events, TreeSettings(), looks=looks)
    members = dict.fromkeys(range(1, net.n_hosts, 2), 1)
    without = {host: n for host, n in members.items() if host != 1}
    assert [tree.hosts for tree in run.trees[:5]] == [
        members,
        without,
        members,
        without,
        members,
    ]
    moves = [row for row in run.events if row.host == 1 and row.at_ps > 0]
    assert [row.what for row in moves] == ["leave", "join"] * 2
    assert all(row.took_ps != NOT_DONE for row in moves)


def test_an_install_that_is_lost_with_a_cable_is_sent_again():
    """Cables of the tree, each down while installs are on their way."""
    net = net_of("fat-tree:k=4")
    members = range(1, net.n_hosts, 2)
    base = [GroupEvent(0, "join", host) for host in members]
    base.append(GroupEvent(3 * SECOND, "send", n=5, gap_ps=SECOND // 100))
    whole = build_tree("sr-p2mp", net, 0, base, looks=[SECOND])
    times = sorted(row.sent_ps for row in whole.sent if row.kind == "install")
    ends = zip(net.src.tolist(), net.dst.tolist(), strict=True)
    inner = sorted({(min(e), max(e)) for e in ends if min(e) >= net.n_hosts})
    n_more = 0
    for nodes in inner[:16]:
        for at in (times[0], times[len(times) // 2]):
            cut = [*base, GroupEvent(at + 1, "fail", nodes=nodes)]
            run = build_tree("sr-p2mp", net, 0, cut)
            n_more += sum(row.kind == "install" for row in run.sent) > len(times)
            assert run.trees[-1].hosts == dict.fromkeys(members, 1)
    assert n_more > 0


@by_every_protocol
@pytest.mark.parametrize(
    "topology", ["fat-tree:k=4", "torus:dims=4x3x2", "wan:sites=4,hosts=2"]
)
def test_steps_that_are_kept_give_the_tree_of_a_walk_from_the_start(
    protocol, topology, monkeypatch
):
    net = net_of(topology)
    told = World.tree
    n_looks = 0

    def twice(self: World) -> Tree:
        nonlocal n_looks
        n_looks += 1
        tree = told(self)
        if self.machine.source_link not in self.down:
            ways = (self._ways, self.machine.source_link, self._find, self._route)
            assert tree == walk(*ways, {})
        return tree

    monkeypatch.setattr(World, "tree", twice)
    plain = grown.__wrapped__(topology, protocol)
    between = [k for k in plain.trees[0].links if net.src[k] >= net.n_hosts]
    cable = next(k for k in between if net.dst[k] >= net.n_hosts)
    members = range(1, net.n_hosts, 2)
    events = [
        *(GroupEvent(SECOND, "join", host) for host in members),
        GroupEvent(3 * SECOND, "send", n=20, gap_ps=SECOND // 1000),
        GroupEvent(5 * SECOND, "fail", nodes=(int(net.src[cable]), int(net.dst[cable]))),
        GroupEvent(8 * SECOND, "send", n=5, gap_ps=SECOND // 10),
        GroupEvent(12 * SECOND, "leave", 1),
    ]
    build_tree(protocol, net, 0, events, TreeSettings(), keeps_changes=True)
    assert n_looks > 20
