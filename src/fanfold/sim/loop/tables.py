"""BIFTs of all routers from the routes: the tables that ``replicate`` reads (RFC 8279 6.4).

One path for each BFER and table, as ``fanfold.topo.bift.pick_nbr`` deals them out. A table is
filled when it is first looked at: a fan passes few of the BFRs of a large net.
"""

from typing import NamedTuple

import numpy as np

from fanfold.kernels.jit import kernel
from fanfold.kernels.octets import ONE
from fanfold.kernels.tables import NULL_NBR
from fanfold.sim.loop.rows import (
    HERE,
    I32,
    I64,
    IS_FLAT,
    N_DEALT,
    N_ECMP,
    N_HOSTS,
    N_SETS,
    N_SI,
    U8,
    U64,
    Rows,
)


class Tables(NamedTuple):
    """R = routers, T = R * n_si * all tables, G = groups of hosts, P = ports, W = words.

    nbr_of: (T, bits), f_bm: (T, P + 2, W): kernels/tables.py. is_filled: (T,). way, hops:
    (R, G) and sets: of the routes. host_of: (n_si * bits,) host of each BFR-id - 1, or -1.
    """

    nbr_of: I64
    f_bm: U64
    is_filled: U8
    way: I32
    hops: I64
    sets: I32
    host_of: I64


@kernel
def look_up(q: I64, links: Rows, nodes: Rows, tables: Tables, r: int, si: int, e: int) -> int:
    """Table e of router r and one SI: those that ECMP deals out first, trees after them."""
    table = (r * q[N_SI] + si) * q[N_ECMP] + e
    if tables.is_filled[table] == 0:
        tables.is_filled[table] = 1
        if e < q[N_DEALT]:
            fill_bift(q, links, nodes, tables, r, si, e)
    return table


@kernel
def fill_bift(
    q: I64, links: Rows, nodes: Rows, tables: Tables, r: int, si: int, e: int
) -> None:
    """Fill one table that is all zero."""
    table = (r * q[N_SI] + si) * q[N_ECMP] + e
    nbr_of, f_bm = tables.nbr_of[table], tables.f_bm[table]
    n_bits = nbr_of.shape[0]
    out = nodes[q[N_HOSTS] + r]["first_out"]
    for k in range(n_bits):
        host = tables.host_of[si * n_bits + k]
        nbr = NULL_NBR
        if host >= 0:
            nbr = port_to(
                tables.way,
                tables.hops,
                tables.sets,
                q[N_SETS],
                links,
                nodes,
                host,
                r,
                q[N_HOSTS],
                e,
                q[N_DEALT],
                q[IS_FLAT] != 0,
            )
            if nbr > 0:
                nbr -= out
        nbr_of[k] = nbr
        f_bm[nbr + 1, k // 64] |= ONE << np.uint64(k % 64)


@kernel
def port_to(
    way: I32,
    hops: I64,
    sets: I32,
    n_sets: int,
    links: Rows,
    nodes: Rows,
    host: int,
    r: int,
    n_hosts: int,
    e: int,
    n_ecmp: int,
    is_flat: bool,
) -> int:
    """Link of router r toward a host in table e, plus one; NULL_NBR where there is none."""
    g = nodes[host]["group"]
    k = way[r, g]
    if k == HERE:
        first = nodes[host]["first_out"]
        for u in range(first, first + nodes[host]["n_out"]):
            if links[u]["dst"] == n_hosts + r:
                return links[u]["reverse"] + 1
        return NULL_NBR
    if k < 0:
        return NULL_NBR
    n = sets[k + 1] - sets[k]
    at = pick_way(n, hops[r, g], e, n_ecmp, n_hosts + r, is_flat)
    return sets[n_sets + 1 + sets[k] + at] + 1


@kernel
def pick_way(n: int, left: int, table: int, n_ecmp: int, node: int, is_flat: bool) -> int:
    """Which of n next hops a table takes; ``left`` hops are still to go.

    As topo/bift.py deals them out. In a flat net, where every router has hosts, all routers
    take the first, or all the last: the order of dimensions, so that the paths from one source
    form a tree and no BFR gets one packet twice.
    """
    if is_flat:
        return 0 if table % 2 == 0 else n - 1
    part = table if left % 2 == 1 else table * n // n_ecmp
    return (part + node) % n
