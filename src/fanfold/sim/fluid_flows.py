"""Flows of a program as the max-min solver sees them: which links each takes how much of.

Letters: F = messages, M = fans, K = flows (connections, then fans), E = entries, L = links.
Links between routers that can never be full, whatever pairs of hosts are active, are left out:
in a sprayed fat tree that is all of them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.kernels.layout import (
    BITS_AT,
    FAN_BYTES,
    FEEDBACK_BYTES,
    INNER_BYTES,
    UNDERLAY_BYTES,
)
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import Program
from fanfold.sim.loop.maxmin import ENTRY_ROW, NONE
from fanfold.sim.loop.ways import Desk, Ways, come_home, grow, lay, walk, worst_load
from fanfold.topo.net import Net
from fanfold.topo.routes import FAR, Routes

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
    them.
    """

    copies: I64
    words: I64
    path: I32
    hosts: I64
    n_sets: int


class Wires(NamedTuple):
    """Connections and where they lead.

    src, dst: (C,) hosts. of: (F,) connection of each message. path: (C, links) its path, or
    when sprayed one of its paths.
    """

    src: I64
    dst: I64
    of: I64
    path: I32


def build_ways(net: Net, routes: Routes) -> Ways:
    """What kernels need of a net."""
    return Ways(
        net.n_hosts,
        net.first_out,
        net.dst,
        net.reverse,
        routes.group,
        routes.hops,
        routes.ecmp,
        routes.first,
        routes.link,
    )


def longest(routes: Routes) -> int:
    """Links of the longest path between two hosts."""
    hops = routes.hops[routes.hops < FAR]
    return int(hops.max(initial=1)) + 1


def build_desk(net: Net, routes: Routes) -> Desk:
    """Room to work."""
    n_routers, n_links = net.n_nodes - net.n_hosts, net.n_links
    return Desk(
        np.full(longest(routes) + 1, NONE, np.int64),
        np.full(n_routers, NONE, np.int64),
        np.zeros(n_routers),
        np.zeros(n_links),
        np.zeros(n_links, np.int64),
        np.zeros(n_links),
        np.zeros(n_links, np.int64),
    )


def build_wires(net: Net, routes: Routes, ways: Ways, program: Program) -> Wires:
    """Connections of all messages; in the compact form each message has one of its own.

    Raises:
        ConfigError: no path between two hosts.
    """
    key, of = np.unique(program.src * net.n_hosts + program.dst, return_inverse=True)
    src, dst = np.divmod(key, net.n_hosts)
    if program.chunks > 1:  # all are moving at once
        src, dst, of = program.src, program.dst, np.arange(program.src.size)
    path = np.empty((src.size, longest(routes)), np.int32)
    lost = walk(ways, src, dst, path_codes(net, src, dst), path)
    if lost != NONE:
        refuse_pair(net, int(src[lost]), int(dst[lost]))
    return Wires(src, dst, of.reshape(-1).astype(np.int64), path)


def refuse_pair(net: Net, src: int, dst: int) -> None:
    """Say that there is no path."""
    ends = f"{net.node_name(src)} to {net.node_name(dst)}"
    raise ConfigError("receiver", f"no path from {ends}", "hosts that are connected")


def path_codes(net: Net, src: I64, dst: I64) -> I64:
    """Number that picks a connection's path, the same at every fidelity (sim/build.py)."""
    nic = net.first_out[src]
    code = (src * 1_000_003 + dst * 7919 + nic * 31).astype(np.uint64)
    code = (code ^ (code >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    code = (code ^ (code >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((code ^ (code >> np.uint64(31))) >> np.uint64(20)).astype(np.int64)


def build_tree(
    net: Net,
    routes: Routes,
    ways: Ways,
    program: Program,
    number: int,
    set_of: I64,
    n_ecmp: int,
) -> Tree:
    """Links of fan ``number`` of a program; its entropy is the one of every fidelity.

    Raises:
        ConfigError: no path to a receiver.
    """
    fan = program.fans[number]
    hosts = np.array(fan.receivers, np.int64)
    hosts = hosts[np.argsort(set_of[hosts], kind="stable")]
    _, sets = np.unique(set_of[hosts], return_inverse=True)
    path = np.empty((hosts.size, longest(routes)), np.int32)
    tree = np.zeros((3, net.n_links), np.int64)
    table = (number * 7 + fan.source * 3) % 2**20 % n_ecmp
    lost = grow(ways, fan.source, hosts, sets.astype(np.int64), table, n_ecmp, path, tree)
    if lost != NONE:
        refuse_pair(net, fan.source, int(hosts[lost]))
    words = tree[0][net.reverse]
    if not program.folds:
        home = np.zeros((3, net.n_links), np.int64)
        come_home(ways, hosts, np.array([fan.source]), n_ecmp, path[:1].copy(), home)
        words = home[1]
    return Tree(tree[0], words, path, hosts, int(sets.max()) + 1)


def fan_head_bytes(settings: Settings) -> int:
    """Headers of a fan's packet: underlay, BIER, inner UDP, DATA."""
    l_bytes = settings.bitstring_bits // 8
    return UNDERLAY_BYTES + BITS_AT + l_bytes + INNER_BYTES + FAN_BYTES


def feedback_bytes(settings: Settings) -> int:
    """FEEDBACK without rows: the same headers, then ``heard`` and ``done``."""
    l_bytes = settings.bitstring_bits // 8
    return UNDERLAY_BYTES + BITS_AT + l_bytes + INNER_BYTES + FEEDBACK_BYTES + 2 * l_bytes


def build_entries(
    net: Net,
    routes: Routes,
    ways: Ways,
    wires: Wires,
    trees: list[Tree],
    settings: Settings,
) -> tuple[I64, Rows]:
    """Entries of all flows: (K + 1,) where each begins, (E,) ENTRY_ROW."""
    fan_links = [np.nonzero(tree.copies)[0] for tree in trees]
    cap = 1 / (8e12 // net.bps)
    fans = np.zeros(net.n_links)
    for tree, links in zip(trees, fan_links, strict=True):
        first = tree.path[0, 0]
        fans[links] += cap[first] * tree.copies[links] / tree.copies[first]
    if settings.routing == "spray":
        count, link, weight = _sprayed(net, routes, ways, wires, fans, cap)
    else:
        count, link, weight = _hashed(net, wires, fans, cap)
    sizes = np.array([links.size for links in fan_links], np.int64)
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
        mine["ack_weight"] = tree.words[net.reverse[links]]
        at += links.size
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
