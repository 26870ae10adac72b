"""Packets and bytes on every link, in whole numbers, of messages as fluid.

Letters: F = messages, L = links, R = routers, M = links of the longest path. A message is
``full`` packets of one size and ``short`` packets with together so many bytes. Sprayed, they
are dealt out over the links of each ECMP set, none getting more than one packet above another.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.kernels.jit import i64, kernel
from fanfold.sim.loop.ways import NONE, Ways, n_up, nearest, up_link

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
FULL, SHORT, SHORT_BYTES, N_SORTS = range(4)


class Table(NamedTuple):
    """Room to work. heads: (M + 1,), nexts: (R,) routers by hops to go, ``listed`` 1 if in one.

    load: (R, N_SORTS) to pass on. due: (H, N_SORTS) to be delivered, ``hosts`` (H,) in a list.
    links: (L, N_SORTS) the sum.
    """

    heads: I64
    nexts: I64
    listed: I64
    load: I64
    due: I64
    hosts: I64
    links: I64


@kernel
def tally(ways: Ways, table: Table, src: I64, dst: I64, sorts: I64) -> None:
    """Add sprayed messages to ``table.links``.

    Args:
        src, dst: (F,) sorted by the group of dst. sorts: (F, N_SORTS).
    """
    n_hosts = 0
    for i in range(table.heads.size):
        table.heads[i] = NONE
    for f in range(src.size):
        g = i64(ways.group[dst[f]])
        n_hosts = send_off(ways, table, src[f], dst[f], sorts[f], n_hosts)
        if f + 1 == src.size or ways.group[dst[f + 1]] != g:
            pass_down(ways, table, g)
            deliver(ways, table, n_hosts)
            n_hosts = 0


@kernel
def tally_pairs(
    ways: Ways, table: Table, hosts: I64, sorts: I64, n_of: I64, by_sender: bool, what: I64
) -> None:
    """Add what every group sends to every other, all sprayed, to ``table.links``.

    Args:
        hosts: (G,) one of each group, which stands for it. sorts: (G, N_SORTS) of a group that
            sends (``by_sender``) or receives, for one host of the other. n_of: (G,) hosts.
            what: (N_SORTS,) room to work.
    """
    for i in range(table.heads.size):
        table.heads[i] = NONE
    for to in range(hosts.size):
        n_hosts = 0
        for by in range(hosts.size):
            if by != to:
                one, other = (by, to) if by_sender else (to, by)
                for j in range(N_SORTS):
                    what[j] = sorts[one, j] * n_of[other]
                n_hosts = send_off(ways, table, hosts[by], hosts[to], what, n_hosts)
        pass_down(ways, table, i64(ways.group[hosts[to]]))
        deliver(ways, table, n_hosts)


@kernel
def send_off(ways: Ways, table: Table, src: int, dst: int, what: I64, n_hosts: int) -> int:
    """Deal a message over its host's links; receivers of the group by now."""
    g = i64(ways.group[dst])
    best = nearest(ways, src, g)
    n = n_up(ways, src, g, best)
    parts = split(what, n)
    for u in range(n):
        at = up_link(ways, src, g, best, u)
        r = i64(ways.dst[at]) - ways.n_hosts
        enlist(table, r, best)
        deal(table, parts, n, u, at, table.load[r])
    is_new = True
    for j in range(N_SORTS):
        is_new = is_new and table.due[dst, j] == 0
    if is_new:
        table.hosts[n_hosts] = dst
        n_hosts += 1
    for j in range(N_SORTS):
        table.due[dst, j] += what[j]
    return n_hosts


@kernel
def enlist(table: Table, r: int, level: int) -> None:
    """Let a router pass on what it is given."""
    if table.listed[r] == 0:
        table.listed[r] = 1
        table.nexts[r] = table.heads[level]
        table.heads[level] = r


@kernel
def split(what: I64, n: int) -> tuple[int, int, int, int, int, int]:
    """Parts of packets for n links.

    Returns:
        Full packets of each and how many links get one more, short ones likewise, bytes of a
        short one, and those that only the first has.
    """
    full, short = i64(what[FULL]), i64(what[SHORT])
    size = i64(what[SHORT_BYTES]) // short if short > 0 else 0
    odd = i64(what[SHORT_BYTES]) - size * short if short > 0 else 0
    return full // n, full % n, short // n, short % n, size, odd


@kernel
def deal(
    table: Table,
    parts: tuple[int, int, int, int, int, int],
    n: int,
    place: int,
    at: int,
    load: I64,
) -> None:
    """Give one of n links its part of the packets, and the router behind it.

    Short packets start where the full ones stopped.
    """
    full, more_full, short, more_short, size, odd = parts
    if place < more_full:
        full += 1
    turn = place - more_full
    if turn < 0:
        turn += n
    if turn < more_short:
        short += 1
    n_bytes = short * size
    if place == 0:
        n_bytes += odd
    table.links[at, FULL] += full
    table.links[at, SHORT] += short
    table.links[at, SHORT_BYTES] += n_bytes
    load[FULL] += full
    load[SHORT] += short
    load[SHORT_BYTES] += n_bytes


@kernel
def pass_down(ways: Ways, table: Table, g: int) -> None:
    """Routers far from a group first."""
    for level in range(table.heads.size - 1, 1, -1):
        r = table.heads[level]
        while r != NONE:
            k = ways.way[r, g]
            a, n = ways.first[k], ways.first[k + 1] - ways.first[k]
            parts = split(table.load[r], n)
            place = r % n
            for i in range(n):
                at = i64(ways.link[a + place])
                place += 1
                if place == n:
                    place = 0
                other = i64(ways.dst[at]) - ways.n_hosts
                enlist(table, other, i64(ways.hops[other, g]))
                deal(table, parts, n, i, at, table.load[other])
            for j in range(N_SORTS):
                table.load[r, j] = 0
            table.listed[r] = 0
            r = table.nexts[r]
        table.heads[level] = NONE


@kernel
def deliver(ways: Ways, table: Table, n_hosts: int) -> None:
    """Give hosts what is due, over their routers in turn as far as those have it."""
    for i in range(n_hosts):
        host = table.hosts[i]
        for j in range(N_SORTS):
            left = table.due[host, j]
            table.due[host, j] = 0
            n_routers = ways.first_out[host + 1] - ways.first_out[host]
            fair = -(-left // n_routers)
            for turn in range(2):  # an even part from each, then what is left
                for up in range(ways.first_out[host], ways.first_out[host + 1]):
                    r = i64(ways.dst[up]) - ways.n_hosts
                    part = min(left, table.load[r, j])
                    if turn == 0:
                        part = min(part, fair)
                    table.links[ways.reverse[up], j] += part
                    table.load[r, j] -= part
                    left -= part
    r = table.heads[1]
    while r != NONE:
        table.listed[r] = 0
        r = table.nexts[r]
    table.heads[1] = NONE


@kernel
def tally_paths(path: I32, flow: I64, sorts: I64, links: I64) -> None:
    """Add messages that keep to the path of their flow, path[flow]."""
    for f in range(flow.size):
        for i in range(path.shape[1]):
            at = path[flow[f], i]
            if at == NONE:
                break
            for j in range(N_SORTS):
                links[at, j] += sorts[f, j]
