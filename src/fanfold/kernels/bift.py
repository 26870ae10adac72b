"""BIRT to BIFT, RFC 8279 sections 6.3, 6.4 and 6.7.2: the one builder of both drivers.

Letters: N = nodes of a net, hosts first; H = hosts, R = routers, L = links, G = groups of
targets, K = ECMP sets, B = BFR-ids of all sets, W = words of a BitString, P = ports. A router r
is node H + r; port p of node n is link ``first_out[n] + p - 1``.

A BIRT row names the links on all shortest paths to a BFER. A BIFT names one of them; a
sub-domain has ``n_dealt`` BIFTs for each set identifier, and a packet's entropy picks one, so
equal entropy and BitString keep their path (RFC 8296 section 2.1.2).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.octets import ONE
from fanfold.kernels.tables import NULL_NBR, SELF_NBR, WORD_BITS

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
HERE = -2
"""Of ``way``: the target hangs on this router, or is this router."""
NONE = -1
"""Of ``way``, ``group`` and ``target_of``: no path, no target."""
NO_WAY = 1 << 30
"""Cost where there is no path."""


class Birt(NamedTuple):
    """BIRTs of all nodes of a net.

    n_hosts: H. n_dealt: BIFTs of one set identifier. is_flat: every router has hosts.
    has_planes: hosts have links of several planes, which BIFTs share, in flat nets too.
    first_out (N + 1,), dst, reverse, is_up (L,): of the net. group: (H,) or (N,), of a target.
    way: (R, G) ECMP set toward a group, HERE or NONE. hops: (R, G) cost of a path to
    the hosts of a group, 1 where way is HERE. first (K + 1,), link: links of set k rise from
    first[k] to first[k + 1]. target_of: (B,) node of each BFR-id - 1, NONE where nobody has it.
    """

    n_hosts: int
    n_dealt: int
    is_flat: bool
    has_planes: bool
    first_out: I64
    dst: I64
    reverse: I64
    is_up: NDArray[np.uint8]
    group: I32
    way: I32
    hops: NDArray[np.int16]
    first: I64
    link: I32
    target_of: I64


@kernel
def fill_bift(
    birt: Birt, node: int, si: int, e: int, nbr_of: I64, f_bm: NDArray[np.uint64]
) -> None:
    """Fill BIFT ``e`` of one set identifier at a node.

    Args:
        nbr_of: (bits,) overwritten, kernels/tables.py. f_bm: (P + 2, W), all zero before.
    """
    n_bits = nbr_of.shape[0]
    for k in range(n_bits):
        target = birt.target_of[si * n_bits + k]
        nbr = NULL_NBR
        if target >= 0:
            nbr = port_of(birt, node, target, e)
        nbr_of[k] = nbr
        f_bm[nbr + 1, k // WORD_BITS] |= ONE << np.uint64(k % WORD_BITS)


@kernel
def fill_behind(
    birt: Birt, node: int, si: int, n_bits: int, behind: NDArray[np.uint64]
) -> None:
    """BFERs of one set identifier behind each port: on any shortest path.

    Args:
        behind: (P + 1, W), all zero before.
    """
    for k in range(n_bits):
        target = birt.target_of[si * n_bits + k]
        if target >= 0:
            for e in range(n_ways(birt, node, target)):
                port = way_at(birt, node, target, e)
                behind[port, k // WORD_BITS] |= ONE << np.uint64(k % WORD_BITS)


@kernel
def port_of(birt: Birt, node: int, target: int, e: int) -> int:
    """Port of a node toward a target in BIFT ``e``: SELF_NBR, NULL_NBR, or from 1."""
    n = n_ways(birt, node, target)
    if n == 0:
        return NULL_NBR
    at = 0
    if n > 1:
        left = cost_of(birt, node, target)
        is_spread = birt.has_planes and node < birt.n_hosts
        is_flat = birt.is_flat and not is_spread
        at = pick_way(n, left, e, birt.n_dealt, node, is_flat)
        n_links = i64(birt.first_out[node + 1] - birt.first_out[node])
        if is_spread and n < n_links:
            own = pick_way(n_links, left, e, birt.n_dealt, node, is_flat) + 1
            if has_way(birt, node, target, own):
                return own
    return way_at(birt, node, target, at)


@kernel
def has_way(birt: Birt, node: int, target: int, port: int) -> bool:
    """Whether a port of a host is on a shortest path to a target.

    Each BIFT of a host of several planes has one port that it takes wherever it can: what
    leaves by one BIFT is one copy by one plane, whoever has lost another plane.
    """
    for at in range(n_ways(birt, node, target)):
        if way_at(birt, node, target, at) == port:
            return True
    return False


@kernel
def n_ways(birt: Birt, node: int, target: int) -> int:
    """Links of a node on shortest paths to a target; 1 at the target itself."""
    if node == target:
        return 1
    if node < birt.n_hosts:
        return _ways_of_host(birt, node, target, NO_WAY)
    k = NONE
    g = birt.group[target]
    if g != NONE:
        k = birt.way[node - birt.n_hosts, g]
    if k < 0:
        return 1 if k == HERE else 0
    return i64(birt.first[k + 1] - birt.first[k])


@kernel
def way_at(birt: Birt, node: int, target: int, at: int) -> int:
    """Port of the link at index ``at`` of these."""
    if node == target:
        return SELF_NBR
    if node < birt.n_hosts:
        return _ways_of_host(birt, node, target, at)
    k = i64(birt.way[node - birt.n_hosts, birt.group[target]])
    if k == HERE:
        return port_down(birt, node, target)
    return i64(birt.link[birt.first[k] + at]) - birt.first_out[node] + 1


@kernel
def cost_of(birt: Birt, node: int, target: int) -> int:
    """Cost of a shortest path: links, where each costs one; NO_WAY without a path."""
    if node == target:
        return 0
    if node >= birt.n_hosts:
        return _cost_of_router(birt, node, target)
    best = NO_WAY
    for u in range(birt.first_out[node], birt.first_out[node + 1]):
        best = min(best, _cost_by(birt, u, target))
    return best


@kernel
def pick_way(n: int, left: int, table: int, n_dealt: int, node: int, is_flat: bool) -> int:
    """Which of n next hops a BIFT takes; ``left`` is the cost that is still to go.

    Two BFRs in a row must not read the same part of the table number, or the second one sees
    only tables that lead to one of its paths. Costs still to go alternate between odd and even
    where each link costs one, so odd ones take the low part (table mod paths) and even ones the
    high part. The node's number keeps nodes of one tier from favouring the same path. In a flat
    net, where every router has hosts, all routers take the first, or all the last: the order of
    ports then makes a tree, and no BFR gets one packet twice, by two ways.
    """
    if is_flat:
        return 0 if table % 2 == 0 else n - 1
    part = table if left % 2 == 1 else table * n // n_dealt
    return (part + node) % n


@kernel
def _cost_of_router(birt: Birt, node: int, target: int) -> int:
    if node == target:
        return 0
    g = birt.group[target]
    if g == NONE or birt.way[node - birt.n_hosts, g] == NONE:
        return NO_WAY
    beyond = 1 if target >= birt.n_hosts else 0  # a router needs no link to itself
    return i64(birt.hops[node - birt.n_hosts, g]) - beyond


@kernel
def _cost_by(birt: Birt, link: int, target: int) -> int:
    """Cost of a path from a host by one of its links."""
    to = i64(birt.dst[link])
    if birt.is_up[link] == 0:
        return NO_WAY
    if to == target:
        return 1
    if to < birt.n_hosts:
        return NO_WAY
    rest = _cost_of_router(birt, to, target)
    return NO_WAY if rest == NO_WAY else rest + 1


@kernel
def _ways_of_host(birt: Birt, node: int, target: int, at: int) -> int:
    """Port of a host's link ``at`` of those on shortest paths; beyond the last, how many."""
    best, n = cost_of(birt, node, target), 0
    if best == NO_WAY:
        return 0
    first = i64(birt.first_out[node])
    for u in range(first, birt.first_out[node + 1]):
        if _cost_by(birt, u, target) == best:
            if n == at:
                return u - first + 1
            n += 1
    return n


@kernel
def port_down(birt: Birt, node: int, host: int) -> int:
    """Port of a router to a host that hangs on it."""
    for u in range(birt.first_out[host], birt.first_out[host + 1]):
        if birt.dst[u] == node and birt.is_up[u] != 0:
            return i64(birt.reverse[u]) - birt.first_out[node] + 1
    return NULL_NBR
