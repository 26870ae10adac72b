"""Flows of a program as the max-min solver sees them: which links each takes how much of.

Letters: F = messages, M = fans, K = flows (connections, fans, sums), E = entries, L = links.
Links between routers that can never be full, whatever pairs of hosts are active, are left out:
in a sprayed fat tree that is all of them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import NO_TREE, Fan, Program
from fanfold.sim.build import path_codes
from fanfold.sim.fan_sizes import fan_head_bytes
from fanfold.sim.fan_trees import trace_branches
from fanfold.sim.loop.maxmin import ENTRY_ROW, NONE
from fanfold.sim.loop.ways import Desk, Ways, fan_out, lay, leave_by, walk, worst_load
from fanfold.topo.byte_time import byte_times
from fanfold.topo.net import Net
from fanfold.topo.routes import Routes

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
F64 = NDArray[np.float64]
Rows = NDArray[np.void]
SLACK_PPM = 10
"""Rounding that makes no link full."""


class Tree(NamedTuple):
    """Links of one fan.

    copies: (L,) of each packet on a link, one for a set. words: (L,) FEEDBACK for a block on a
    link: folded one for each copy the other way, unfolded one for each receiver whose way home
    it is. path: (R, links) of each receiver. hosts: (R,) receivers in that order. n_sets: of
    them. labels: (L,) bytes that a packet has on a link beside those on the source's. is_tree:
    of a tree protocol, not of BIER.
    """

    copies: I64
    words: I64
    path: I32
    hosts: I64
    n_sets: int
    labels: I64
    is_tree: bool


class Taken(NamedTuple):
    """What a sum takes of some links, as parts of what a rank of it sends.

    link, weight, ack_weight: (E,). ack: bytes of acknowledgements for a byte.
    """

    link: I64
    weight: F64
    ack_weight: F64
    ack: float


class Wires(NamedTuple):
    """Connections and where they lead.

    src, dst: (C,) hosts. of: (F,) connection of each message. path: (C, links) its path, or
    when sprayed one of its paths. seed: of paths.
    """

    src: I64
    dst: I64
    of: I64
    path: I32
    seed: int


def build_desk(net: Net, routes: Routes) -> Desk:
    """Room to work."""
    n_routers, n_links = net.n_nodes - net.n_hosts, net.n_links
    return Desk(
        np.full(routes.longest + 1, NONE, np.int64),
        np.full(n_routers, NONE, np.int64),
        np.zeros(n_routers),
        np.zeros(n_links),
        np.zeros(n_links, np.int64),
        np.zeros(n_links),
        np.zeros(n_links, np.int64),
    )


def build_wires(
    net: Net, routes: Routes, ways: Ways, program: Program, settings: Settings, seed: int
) -> Wires:
    """Connections of all messages; in the compact form each message has one of its own.

    With one path each, messages of hosts with several links take these in turn.

    Raises:
        ConfigError: no path between two hosts.
    """
    turn = np.zeros(program.src.size, np.int64)
    n_out = int(np.diff(net.first_out[: net.n_hosts + 1]).max(initial=1))
    if settings.routing == "ecmp" and n_out > 1:
        columns = (program.n_bytes, program.start_ps, program.dst, program.src)
        turn[np.lexsort((np.arange(turn.size), *columns))] = np.arange(turn.size)
    nic = first_links(net, ways, program.src, program.dst, turn)
    key = (nic - net.first_out[program.src]) + n_out * (program.src * net.n_hosts + program.dst)
    _, at, of = np.unique(key, return_index=True, return_inverse=True)
    if program.chunks > 1:  # all are moving at once
        at = of = np.arange(program.src.size)
    src, dst = program.src[at], program.dst[at]
    path = paths_by(routes, ways, seed, (src, dst, nic[at]))
    return Wires(src, dst, of.reshape(-1).astype(np.int64), path, seed)


def first_links(net: Net, ways: Ways, src: I64, dst: I64, turn: I64) -> I64:
    """Link by which each message leaves its host.

    Raises:
        ConfigError: no path between two hosts.
    """
    nic = np.empty(src.size, np.int64)
    lost = leave_by(ways, src, dst, turn, nic)
    if lost != NONE:
        refuse_pair(net, int(src[lost]), int(dst[lost]))
    return nic


def refuse_pair(net: Net, src: int, dst: int) -> None:
    """Say that there is no path."""
    ends = f"{net.node_name(src)} to {net.node_name(dst)}"
    raise ConfigError("receiver", f"no path from {ends}", "hosts that are connected")


def paths_by(routes: Routes, ways: Ways, seed: int, ends: tuple[I64, I64, I64]) -> I32:
    """Path of each source, destination and first link: the one its stream takes as packets."""
    src, dst, nic = ends
    path = np.empty((src.size, routes.longest), np.int32)
    walk(ways, dst, nic, path_codes(src, dst, nic, seed), path)
    return path


def build_tree(
    net: Net,
    routes: Routes,
    ways: Ways,
    program: Program,
    fan: Fan,
    set_of: I64,
    n_ecmp: int,
) -> Tree:
    """Links of a fan of a program, which has an entropy: that of every fidelity.

    Raises:
        ConfigError: no path to a receiver.
    """
    hosts, source = np.array(fan.receivers, np.int64), np.array([fan.source])
    labels = np.zeros(net.n_links, np.int64)
    if fan.tree != NO_TREE:
        phase = program.trees[fan.tree].phases[-1]
        labels[list(phase.links)] = phase.labels
        path = trace_branches(net, phase, hosts).path
        if (path[:, 0] < 0).any():
            refuse_pair(net, fan.source, int(hosts[np.argmax(path[:, 0] < 0)]))
        copies = np.zeros(net.n_links, np.int64)
        copies[path[path >= 0]] = 1
        words = _words_home(net, routes, ways, hosts, source)
        return Tree(copies, words, path, hosts, 1, labels, True)
    table = fan.entropy % n_ecmp
    path = np.empty((hosts.size, routes.longest), np.int32)
    lost = fan_out(ways, source, hosts, table, path)
    if lost != NONE:
        refuse_pair(net, fan.source, int(hosts[lost]))
    copies = _count_copies(path, set_of[hosts], net.n_links)
    words = copies[net.reverse]
    if not program.folds:
        words = _words_home(net, routes, ways, hosts, source)
    return Tree(copies, words, path, hosts, np.unique(set_of[hosts]).size, labels, False)


def _words_home(net: Net, routes: Routes, ways: Ways, hosts: I64, source: I64) -> I64:
    """(L,) receivers whose way home a link is."""
    home = np.empty((hosts.size, routes.longest), np.int32)
    lost = fan_out(ways, hosts, source, 0, home)
    if lost != NONE:
        refuse_pair(net, int(hosts[lost]), int(source[0]))
    return np.bincount(home[home >= 0], minlength=net.n_links)


def _count_copies(path: I32, set_of: I64, n_links: int) -> I64:
    """(L,) copies of a packet: receivers share one as far as set and way are the same."""
    order = np.lexsort((*path.T[::-1], set_of))
    path, set_of = path[order], set_of[order]
    is_same = np.zeros(path.shape, np.bool_)
    is_same[1:] = path[1:] == path[:-1]
    is_same[1:] &= (set_of[1:] == set_of[:-1])[:, None]
    shared = np.logical_and.accumulate(is_same, axis=1)
    return np.bincount(path[~shared & (path >= 0)], minlength=n_links).astype(np.int64)


def build_entries(
    net: Net,
    routes: Routes,
    ways: Ways,
    wires: Wires,
    trees: list[Tree],
    sums: list[Taken],
    settings: Settings,
) -> tuple[I64, Rows]:
    """Entries of all flows: (K + 1,) where each begins, (E,) ENTRY_ROW."""
    fan_links = [np.nonzero(tree.copies)[0] for tree in trees]
    cap = byte_times(net).bytes_a_ps()
    fans = np.zeros(net.n_links)
    for tree, links in zip(trees, fan_links, strict=True):
        first = tree.path[0, 0]
        fans[links] += cap[first] * tree.copies[links] / tree.copies[first]
    for one in sums:
        fans[one.link] += cap[one.link].min() * one.weight
    if settings.routing == "spray":
        count, link, weight = _sprayed(net, routes, ways, wires, fans, cap)
    else:
        count, link, weight = _hashed(net, wires, fans, cap)
    sizes = np.array([*(x.size for x in fan_links), *(x.link.size for x in sums)], np.int64)
    n_wires = int(count.sum())
    first_entry = np.concatenate([[0], np.cumsum(np.concatenate([count, sizes]))])
    rows = np.zeros(int(first_entry[-1]), ENTRY_ROW)
    rows["flow"] = np.repeat(np.arange(first_entry.size - 1), np.diff(first_entry))
    rows["link"][:n_wires], rows["weight"][:n_wires] = link, weight
    rows["ack_weight"][:n_wires] = weight
    rows["after"] = rows["before"] = NONE
    at = n_wires
    for tree, links in zip(trees, fan_links, strict=True):
        mine = rows[at : at + links.size]
        mine["link"], mine["weight"] = links, tree.copies[links]
        full = settings.payload_bytes + fan_head_bytes(settings, is_tree=tree.is_tree)
        mine["weight"] *= 1 + tree.labels[links] / full
        mine["ack_weight"] = tree.words[net.reverse[links]]
        at += links.size
    for one in sums:
        mine = rows[at : at + one.link.size]
        mine["link"], mine["weight"], mine["ack_weight"] = one.link, one.weight, one.ack_weight
        at += one.link.size
    return first_entry.astype(np.int64), rows


def _sprayed(
    net: Net, routes: Routes, ways: Ways, wires: Wires, fans: F64, cap: F64
) -> tuple[I64, I64, F64]:
    """Number of entries of each connection, their links and weights: evenly over all paths."""
    desk = build_desk(net, routes)
    group = routes.group.astype(np.int64)
    worst = np.zeros((2, net.n_links))
    for i, (mine, other) in enumerate(((wires.src, wires.dst), (wires.dst, wires.src))):
        pair = group[mine] * routes.n_groups + group[other]
        _, at = np.unique(pair, return_index=True)
        run = group[mine[at]]
        limit = _group_caps(net, routes, np.unique(mine), cap)
        worst_load(ways, desk, wires.src[at], group[wires.dst[at]], run, limit, worst[i])
    may_bind = worst.min(axis=0) + fans > cap * (1 + SLACK_PPM / 1e6)
    order = np.argsort(group[wires.src] * routes.n_groups + group[wires.dst], kind="stable")
    count = np.zeros(wires.src.size, np.int64)
    none, no_weight = np.zeros(0, np.int64), np.zeros(0)
    n = lay(ways, desk, wires.src, wires.dst, order, may_bind, count, none, no_weight)
    link, weight = np.zeros(n, np.int64), np.zeros(n)
    first = np.cumsum(count) - count
    if n:
        lay(ways, desk, wires.src, wires.dst, order, may_bind, first, link, weight)
    return count, link, weight


def _group_caps(net: Net, routes: Routes, hosts: I64, cap: F64) -> F64:
    """(G,) what the links of some hosts carry together."""
    mine = np.repeat(np.arange(net.n_hosts), np.diff(net.first_out[: net.n_hosts + 1]))
    is_in = np.isin(mine, hosts)
    of_link = routes.group[mine[is_in]]
    sums = np.bincount(of_link, cap[: mine.size][is_in], minlength=routes.n_groups)
    return np.asarray(sums, np.float64)


def _hashed(net: Net, wires: Wires, fans: F64, cap: F64) -> tuple[I64, I64, F64]:
    """Number of entries of each connection, their links and weights: one path each."""
    used = wires.path >= 0
    count = used.sum(axis=1)
    link = wires.path[used].astype(np.int64)
    flow = np.repeat(np.arange(count.size), count)
    is_host = (net.src[link] < net.n_hosts) | (net.dst[link] < net.n_hosts)
    worst = np.zeros((2, net.n_links))
    for i, host in enumerate((wires.src, wires.dst)):
        once = np.unique(link * net.n_hosts + host[flow])
        at, end = np.divmod(once, net.n_hosts)
        worst[i] = np.bincount(at, cap[net.first_out[end]], minlength=net.n_links)
    keep = is_host | (worst.min(axis=0) + fans > cap * (1 + SLACK_PPM / 1e6))[link]
    count = np.bincount(flow[keep], minlength=count.size).astype(np.int64)
    return count, link[keep], np.ones(int(keep.sum()))
