"""All members join one tree at once and nothing fails: the same messages, in compiled loops.

What a router does on which message is that of the machines beside this module, for all that can
happen while members only join; times, order, counts, state and the tree are those that they
give, which is tested. Sizes: a row for each node and each link, an event for each message.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.topo.net import Net
from fanfold.trees.loop import rows as r
from fanfold.trees.loop.run import run, start
from fanfold.trees.loop.search import search
from fanfold.trees.settings import (
    ASSERT_BYTES,
    IGMP_BYTES,
    JOIN_BYTES,
    LDP_BYTES,
    REGISTER_BYTES,
    REPORT_BYTES,
    STOP_BYTES,
    TreeSettings,
)
from fanfold.trees.tree import Tree
from fanfold.trees.world import SETUP_PS, Machine
from fanfold.units import NEVER, PS_PER_SECOND

I64 = NDArray[np.int64]
NUMBER = {
    "mldp-p2mp": r.MLDP,
    "mldp-mp2mp": r.MP2MP,
    "bidir-pim": r.BIDIR,
    "pim-sm": r.PIM_SM,
    "pim-dm": r.PIM_DM,
    "sr-p2mp": r.SR,
}
_BYTES = {r.MLDP: LDP_BYTES, r.MP2MP: LDP_BYTES, r.SR: REPORT_BYTES}
_ROOM = 4096
_LANE = 2**18


class Probes(NamedTuple):
    """Packets of the source: how many, when the first, from one to the next.

    look_ps: the tree is not looked at before, which may leave ``changed_ps`` and ``n_reached``
    of the run open.
    """

    n: int
    at_ps: int
    gap_ps: int
    look_ps: int = r.UNSEEN

    @property
    def late_ps(self) -> int:
        """When the last one is sent."""
        return self.at_ps + (self.n - 1) * self.gap_ps


NO_PROBES = Probes(0, 0, 0)


class Joined(NamedTuple):
    """A run.

    reached_ps: when the last member was first reached, -1 where none was. n_reached: members.
    changed_ps: of the last change of the tree, UNSEEN where it was not looked at. entries,
    shared_entries: by router with state.
    n_events: that were worked off.
    """

    reached_ps: int
    n_reached: int
    changed_ps: int
    tree: Tree
    n_messages: int
    n_bytes: int
    n_shared: int
    shared_bytes: int
    entries: dict[int, int]
    shared_entries: dict[int, int]
    n_events: int


def can_join_at_once(protocol: str, net: Net, settings: TreeSettings) -> bool:
    """Whether the compiled loop gives what the machines give.

    Not where a decision takes no time, so that one instant sees several trees; nor where
    forwarders of bidirectional PIM are not elected in time (bidir_pim.py): both ends of a link
    would forward, or the group would come first.
    """
    if protocol not in NUMBER or not (settings.process_ps and settings.install_ps):
        return False
    if protocol != "bidir-pim":
        return True
    inner = (net.src >= net.n_hosts) & (net.dst >= net.n_hosts)
    if not inner.any():
        return True
    most = int(np.bincount(net.src[inner]).max())
    cross_ps = int(_spans(net, JOIN_BYTES)[inner].max())
    heard_ps = cross_ps + most * settings.process_ps
    told_ps = settings.n_offers * settings.offer_ps
    rest_ps = cross_ps + most * (settings.n_offers + 2) * settings.process_ps
    return heard_ps < told_ps and told_ps + rest_ps < -SETUP_PS


def join_at_once(
    protocol: str,
    net: Net,
    machine: Machine,
    members: Sequence[int],
    probes: Probes = NO_PROBES,
) -> Joined:
    """Let all members join at 0, and the source send, until nothing is left to happen.

    Args:
        machine: of the protocol, which knows source, centre and settings. probes: packets of
            the source, the time of the first, and from one to the next, where data makes state
            (PIM with a tree of each source). A run whose tree
            changes when the last of them has been sent, or later, ends there.

    Raises:
        ConfigError: a member without a path.
    """
    w = _build(NUMBER[protocol], net, machine, probes)
    search(w, machine.centre, r.HOPS_C, r.NEXT_C)
    search(w, machine.first_hop, r.HOPS_S, r.NEXT_S)
    start(w)
    up = _attach(net, machine, np.array(members, np.int64), w.nodes)
    w.nodes[r.UP, : net.n_hosts] = 0
    w.nodes[r.UP, members] = 1
    w = _ask(w, net.reverse[up], probes.at_ps if probes.n else None)
    while run(w) == r.FULL:
        w = _enlarged(w)
    return _told(w, net)


def _build(number: int, net: Net, machine: Machine, probes: Probes) -> r.Loop:
    settings = machine.settings
    h = np.zeros(r.N_SCALARS, np.int64)
    nodes = np.zeros((r.N_NODE_ROWS, net.n_nodes + 1), np.int64)
    links = np.zeros((r.N_LINK_ROWS, net.n_links), np.int64)
    size_a = _BYTES.get(number, JOIN_BYTES)
    size_b = STOP_BYTES if number == r.PIM_SM else ASSERT_BYTES
    size_register = settings.packet_bytes + REGISTER_BYTES
    is_shared = number in (r.PIM_SM, r.BIDIR)
    for field, value in (
        (r.NOW, SETUP_PS),
        (r.PROTOCOL, number),
        (r.N_HOSTS, net.n_hosts),
        (r.N_LINKS, net.n_links),
        (r.N_NODES, net.n_nodes),
        (r.GROUP, settings.group),
        (r.FIRST_HOP, machine.first_hop),
        (r.SOURCE_LINK, machine.source_link),
        (r.CENTRE, machine.centre),
        (r.PROCESS_PS, settings.process_ps),
        (r.INSTALL_PS, settings.install_ps),
        (r.FORWARD_PS, settings.forward_ps),
        (r.COMPUTE_PS, settings.compute_ps),
        (r.SWITCHES, int(settings.switch_over)),
        (r.BYTES_A, size_a),
        (r.BYTES_B, size_b),
        (r.BYTES_IGMP, IGMP_BYTES),
        (r.BYTES_REGISTER, size_register),
        (r.IS_JOIN_SHARED, int(is_shared)),
        (r.N_PROBES, probes.n),
        (r.GAP_PS, probes.gap_ps),
        (r.LATE_PS, probes.late_ps if probes.n else NEVER),
        (r.LOOK_PS, probes.look_ps),
        (r.REACHED_PS, -1),
        (r.MARGIN, _margin(number, net, probes.n)),
    ):
        h[field] = value
    nodes[r.FIRST] = net.first_out
    nodes[r.FREE_PS] = SETUP_PS
    nodes[[r.UP, r.UP_S, r.UP_R, r.DOWN_HOPS, r.STAMP]] = r.NONE
    links[r.END], links[r.BACK] = net.dst, net.reverse
    for row, size in (
        (r.SPAN_A, size_a),
        (r.SPAN_B, size_b),
        (r.SPAN_IGMP, IGMP_BYTES),
        (r.SPAN_DATA, settings.packet_bytes),
        (r.SPAN_REGISTER, size_register),
    ):
        links[row] = _spans(net, size)
    lane = min(_LANE, 1 << net.n_links.bit_length())
    room = (_ROOM, 3), (_ROOM, 4), (r.N_LANES, lane, 3)
    return r.Loop(h, nodes, links, *(np.zeros(shape, np.int64) for shape in room))


def _spans(net: Net, n_bytes: int) -> I64:
    """(L,) serialisation, rounded up, and propagation: World.crossing_ps."""
    return np.asarray(-(-n_bytes * 8 * PS_PER_SECOND // net.bps) + net.prop_ps, np.int64)


def _margin(number: int, net: Net, n_probes: int) -> int:
    """What one event may add: changes and copies of a router, packets, orders to all."""
    ports = int(np.diff(net.first_out[net.n_hosts :]).max(initial=1))
    n_told = net.n_nodes - net.n_hosts if number == r.SR else 0
    return (r.N_KEYS + 2) * ports + n_probes + n_told + 64


def _attach(net: Net, machine: Machine, members: I64, nodes: I64) -> I64:
    """(M,) the link by which each member has the shortest way: Paths.attach."""
    is_central = machine.member_target() == machine.centre
    hops = nodes[r.HOPS_C if is_central else r.HOPS_S]
    first, end = net.first_out[members], net.first_out[members + 1]
    ports = int((end - first).max(initial=0))
    link = first[:, None] + np.arange(ports)
    is_there = link < end[:, None]
    away = np.where(is_there, hops[net.dst[np.minimum(link, net.n_links - 1)]], r.FAR)
    best = away.min(axis=1, initial=r.FAR)
    for host in members[best >= r.FAR][:1].tolist():
        machine.world.paths.attach(host, machine.member_target())  # says that there is no path
    ways = np.cumsum(away == best[:, None], axis=1)
    number = machine.settings.group % np.maximum(ways[:, -1], 1)
    return np.asarray(first + np.argmax(ways > number[:, None], axis=1), np.int64)


def _ask(w: r.Loop, outs: I64, probe_ps: int | None) -> r.Loop:
    """Joins, then packets, in the order in which a run asks for them."""
    h = w.h
    n, n_more = int(h[r.N_HEAP]), outs.size + (probe_ps is not None)
    w = _enlarged(w, n_more)
    heap = w.heap
    heap[n : n + n_more, 0] = 0
    heap[n : n + n_more, 1] = h[r.SEQ] + 1 + np.arange(n_more)
    heap[n : n + outs.size, 2] = r.EV_JOIN | outs << 24
    if probe_ps is not None:
        heap[n + outs.size] = probe_ps, h[r.SEQ] + n_more, r.EV_SEND
    h[r.SEQ] += n_more
    h[r.N_HEAP] += n_more
    return w  # sorted by time, so a heap


def _enlarged(w: r.Loop, n_more: int = 0) -> r.Loop:
    """The same with room for twice as much; changes that were made leave the list.

    Args:
        n_more: events that are to be added at once.
    """
    head, tail, margin = int(w.h[r.LOG_HEAD]), int(w.h[r.LOG_TAIL]), int(w.h[r.MARGIN])
    log = np.zeros((2 * (tail - head + margin), 4), np.int64)
    log[: tail - head] = w.log[head:tail]
    w.h[r.LOG_HEAD], w.h[r.LOG_TAIL] = 0, tail - head
    n = int(w.h[r.N_HEAP])
    heap = w.heap
    if heap.shape[0] - n - n_more < 2 * margin:
        heap = np.zeros((2 * (n + n_more + margin), 3), np.int64)
        heap[:n] = w.heap[:n]
    return w._replace(heap=heap, log=log)


def _told(w: r.Loop, net: Net) -> Joined:
    h, nodes, links = w.h, w.nodes, w.links
    has = nodes[r.HAS_PLAN : r.HAS_PLAN + r.N_KEYS, : net.n_nodes]
    (some,) = np.nonzero(has.any(axis=0))
    n_entries = has.sum(axis=0)
    if h[r.PROTOCOL] == r.MP2MP:
        n_entries += np.bincount(net.src, links[r.TOLD], net.n_nodes).astype(np.int64)
    shared = np.zeros(net.n_nodes, np.int64)
    if h[r.IS_JOIN_SHARED]:
        shared = has[r.K_STAR if h[r.PROTOCOL] == r.PIM_SM else 0]
    return Joined(
        int(h[r.REACHED_PS]),
        int(h[r.N_REACHED]),
        int(h[r.CHANGED_PS]),
        _tree(w, net),
        int(h[r.N_MESSAGES]),
        int(h[r.N_BYTES]),
        int(h[r.N_SHARED]),
        int(h[r.SHARED_BYTES]),
        dict(zip(some.tolist(), n_entries[some].tolist(), strict=True)),
        dict(zip(some.tolist(), shared[some].tolist(), strict=True)),
        int(h[r.N_EVENTS]),
    )


def _tree(w: r.Loop, net: Net) -> Tree:
    side = int(w.h[r.SIDE])
    count, inner = w.links[r.COUNT + side], w.links[r.INNER + side]
    copies = np.bincount(net.dst, count, net.n_nodes)[: net.n_hosts].astype(np.int64)
    (hosts,) = np.nonzero(copies)
    every = np.arange(net.n_links)
    return Tree(
        tuple(np.repeat(every, count).tolist()),
        dict(zip(hosts.tolist(), copies[hosts].tolist(), strict=True)),
        int(w.h[r.N_REPEATS + side]),
        tuple(np.repeat(every, inner).tolist()),
    )
