"""Where fluid flows: one path, a tree, or all equal-cost paths evenly.

Letters: H = hosts, R = routers, L = links, F = messages or flows, M = links of the longest
path. Routers are numbered from 0 here; router r is node H + r of the net.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.kernels.bift import Birt, port_down, port_of
from fanfold.kernels.jit import i64, kernel

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
F64 = NDArray[np.float64]
NONE = -1
FAR = 2**14
"""As topo/routes.py has it."""


Ways = Birt
"""What kernels need of a net and its routes."""


class Desk(NamedTuple):
    """Room to work. heads: (M + 1,), nexts: (R,) routers by hops to go. load: (R,).

    share: (L,), met: (L,) touched links and what they carry. best: (L,), listed: (L,).
    """

    heads: I64
    nexts: I64
    load: F64
    share: F64
    met: I64
    best: F64
    listed: I64


@kernel
def nearest(ways: Ways, host: int, g: int) -> int:
    """Fewest hops to a group from the routers of a host."""
    best = i64(ways.hops[ways.dst[ways.first_out[host]] - ways.n_hosts, g])
    for at in range(ways.first_out[host], ways.first_out[host + 1]):
        best = min(best, i64(ways.hops[ways.dst[at] - ways.n_hosts, g]))
    return best


@kernel
def n_up(ways: Ways, host: int, g: int, best: int) -> int:
    """How many links of a host lead to a router with as many hops."""
    n = 0
    for at in range(ways.first_out[host], ways.first_out[host + 1]):
        if ways.hops[ways.dst[at] - ways.n_hosts, g] == best:
            n += 1
    return n


@kernel
def up_link(ways: Ways, host: int, g: int, best: int, pick: int) -> int:
    """Take the pick-th of those links."""
    for at in range(ways.first_out[host], ways.first_out[host + 1]):
        if ways.hops[ways.dst[at] - ways.n_hosts, g] == best:
            if pick == 0:
                return at
            pick -= 1
    return NONE


@kernel
def down_link(ways: Ways, r: int, host: int) -> int:
    """Link of a router to a host that hangs on it."""
    node = ways.n_hosts + r
    return ways.first_out[node] + port_down(ways, node, host) - 1


@kernel
def leave_by(ways: Ways, src: I64, dst: I64, turn: I64, nic: I64) -> int:
    """First link of each pair of hosts: in turn over those that begin a shortest path.

    Args:
        src, dst, turn: (F,). nic: (F,), filled.

    Returns:
        A pair without a path, or NONE.
    """
    for f in range(src.size):
        g = i64(ways.group[dst[f]])
        best = nearest(ways, src[f], g)
        n = n_up(ways, src[f], g, best)
        if best >= FAR:
            return f
        nic[f] = up_link(ways, src[f], g, best, turn[f] % n)
    return NONE


@kernel
def walk(ways: Ways, dst: I64, nic: I64, code: I64, path: I32) -> None:
    """One path for each message, as the digits of its code say: the last one first.

    Args:
        dst, code: (F,). nic: (F,) first links. path: (F, M), filled with links, NONE beyond the
            last.
    """
    for f in range(dst.size):
        g = i64(ways.group[dst[f]])
        at, left = nic[f], code[f]
        for i in range(path.shape[1]):
            path[f, i] = at
            if at == NONE or ways.dst[at] == dst[f]:
                at = NONE
                continue
            r = i64(ways.dst[at]) - ways.n_hosts
            if ways.hops[r, g] == 1:
                at = down_link(ways, r, dst[f])
            else:
                k = ways.way[r, g]
                n = ways.first[k + 1] - ways.first[k]
                at = i64(ways.link[ways.first[k] + left % n])
                left = left // n


@kernel
def fan_out(ways: Ways, src: I64, dst: I64, table: int, path: I32) -> int:
    """Path of a fan to each of its receivers, from its source's first link.

    Receivers that cannot be reached over the first link are reached over the nearest other one.

    Args:
        src, dst: (F,) or (1,), repeated. path: (F, M), filled with links, NONE beyond the last.

    Returns:
        A path that does not exist, or NONE.
    """
    for f in range(path.shape[0]):
        source, host = src[f % src.size], dst[f % dst.size]
        g = i64(ways.group[host])
        at = i64(ways.first_out[source])
        if ways.hops[ways.dst[at] - ways.n_hosts, g] >= FAR:
            best = nearest(ways, source, g)
            if best >= FAR:
                return f
            at = up_link(ways, source, g, best, 0)
        lead(ways, at, host, table, path[f])
    return NONE


@kernel
def fan_down(ways: Ways, r: int, dst: I64, table: int, path: I32) -> int:
    """Path of a result from router r to each of its receivers, by the tables of BFRs.

    Args:
        dst: (F,) hosts. path: (F, M), filled with links, NONE beyond the last.

    Returns:
        A path that does not exist, or NONE.
    """
    for f in range(dst.size):
        left = i64(ways.hops[r, ways.group[dst[f]]])
        if left >= FAR:
            return f
        at = next_link(ways, ways.n_hosts + r, dst[f], table)
        lead(ways, at, dst[f], table, path[f])
    return NONE


@kernel
def lead_all(ways: Ways, at: int, dst: I64, table: int, path: I32) -> None:
    """Paths of a fan by link ``at``, from which all receivers can be reached.

    Args:
        dst: (F,). path: (F, M), filled with links, NONE beyond the last.
    """
    for f in range(dst.size):
        lead(ways, at, dst[f], table, path[f])


@kernel
def lead(ways: Ways, at: int, host: int, table: int, path: I32) -> None:
    """Fill in the links to a host from link ``at`` on."""
    for i in range(path.size):
        path[i] = at
        if at == NONE or ways.dst[at] == host:
            at = NONE
        else:
            at = next_link(ways, i64(ways.dst[at]), host, table)


@kernel
def next_link(ways: Ways, node: int, host: int, table: int) -> int:
    """Link of a router toward a host in a BIFT."""
    return ways.first_out[node] + port_of(ways, node, host, table) - 1


@kernel
def flood(ways: Ways, desk: Desk, host: int, g: int) -> int:
    """Spread one unit from a host evenly over all shortest paths to a group.

    Fills ``met`` and ``share`` with the links between routers that carry a part. The routers
    of the group keep their part in ``load``, in the list ``heads[1]``, until ``clear``.

    Returns:
        Links in ``met``.
    """
    for i in range(desk.heads.size):
        desk.heads[i] = NONE
    best = nearest(ways, host, g)
    n = n_up(ways, host, g, best)
    for i in range(n):
        r = i64(ways.dst[up_link(ways, host, g, best, i)]) - ways.n_hosts
        put(desk, r, best, 1 / n)
    n_met = 0
    for level in range(best, 1, -1):
        r = desk.heads[level]
        while r != NONE:
            k = ways.way[r, g]
            n = ways.first[k + 1] - ways.first[k]
            part = desk.load[r] / n
            for i in range(ways.first[k], ways.first[k + 1]):
                at = ways.link[i]
                desk.met[n_met] = at
                desk.share[n_met] = part
                n_met += 1
                to = i64(ways.dst[at]) - ways.n_hosts
                put(desk, to, i64(ways.hops[to, g]), part)
            desk.load[r] = 0
            r = desk.nexts[r]
    return n_met


@kernel
def put(desk: Desk, r: int, level: int, part: float) -> None:
    """Add to what a router passes on."""
    if desk.load[r] == 0:
        desk.nexts[r] = desk.heads[level]
        desk.heads[level] = r
    desk.load[r] += part


@kernel
def clear(desk: Desk) -> None:
    """Take away what arrived."""
    r = desk.heads[1]
    while r != NONE:
        desk.load[r] = 0
        r = desk.nexts[r]


@kernel
def worst_load(
    ways: Ways, desk: Desk, host: I64, group: I64, run: I64, cap: F64, worst: F64
) -> None:
    """Most that links between routers can ever carry, when hosts fill their own links.

    Hosts of one group send, or receive, no more than their links carry, whichever pairs are
    active: each group counts with its largest share of a link.

    Args:
        host, group: (P,) one host that sends, and the group it sends to, sorted by ``run``.
        run: (P,) number of the group that limits the pair. cap: by run. worst: (L,) added to.
    """
    n_listed = 0
    for p in range(host.size):
        n_met = flood(ways, desk, host[p], group[p])
        clear(desk)
        for i in range(n_met):
            at = desk.met[i]
            if desk.best[at] == 0:
                desk.listed[n_listed] = at
                n_listed += 1
            desk.best[at] = max(desk.best[at], desk.share[i])
        if p + 1 == host.size or run[p + 1] != run[p]:
            for i in range(n_listed):
                at = desk.listed[i]
                worst[at] += cap[run[p]] * desk.best[at]
                desk.best[at] = 0
            n_listed = 0


@kernel
def keep_binding(desk: Desk, n_met: int, may_bind: NDArray[np.bool_]) -> int:
    """Of the links in ``met`` keep those that may bind; how many."""
    n = 0
    for j in range(n_met):
        if may_bind[desk.met[j]]:
            desk.met[n], desk.share[n] = desk.met[j], desk.share[j]
            n += 1
    return n


@kernel
def lay(
    ways: Ways,
    desk: Desk,
    src: I64,
    dst: I64,
    order: I64,
    may_bind: NDArray[np.bool_],
    first: I64,
    link: I64,
    weight: F64,
) -> int:
    """Entries of sprayed flows: links of hosts, and those between routers that may bind.

    Args:
        src, dst: (F,) hosts. order: (F,) flows with equal pairs of groups side by side.
        may_bind: (L,). first: (F,) where entries of a flow begin; without room in ``link`` it
            is filled with their number instead. link, weight: (E,) or empty.

    Returns:
        Entries of all flows.
    """
    n_all, n_met, start = 0, 0, 0
    for i in range(order.size):
        f = order[i]
        g = i64(ways.group[dst[f]])
        is_same = False
        if i > 0:
            before = order[i - 1]
            is_same = ways.group[src[f]] == ways.group[src[before]]
            is_same = is_same and ways.group[dst[before]] == g
        if not is_same:
            if i > 0:
                clear(desk)
            n_met = keep_binding(desk, flood(ways, desk, src[f], g), may_bind)
        fills = link.size > 0
        e = first[f] if fills else 0
        start = e
        best = nearest(ways, src[f], g)
        n = n_up(ways, src[f], g, best)
        for u in range(n):
            if fills:
                link[e], weight[e] = up_link(ways, src[f], g, best, u), 1 / n
            e += 1
        for j in range(n_met):
            if fills:
                link[e], weight[e] = desk.met[j], desk.share[j]
            e += 1
        r = desk.heads[1]
        while r != NONE:
            if fills:
                link[e], weight[e] = down_link(ways, r, dst[f]), desk.load[r]
            e += 1
            r = desk.nexts[r]
        if not fills:
            first[f] = e
        n_all += e - start
    if order.size > 0:
        clear(desk)
    return n_all
