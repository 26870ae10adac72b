"""BIFTs of all routers from the routes: the tables that ``replicate`` reads (RFC 8279 6.4).

One path for each BFER and table, as ``fanfold.topo.bift.pick_nbr`` deals them out.
"""

import numpy as np

from fanfold.kernels.jit import kernel
from fanfold.kernels.octets import ONE
from fanfold.kernels.tables import NULL_NBR
from fanfold.sim.loop.rows import HERE, I32, I64, U64, Rows


@kernel
def fill_bifts(
    way: I32,
    hops: I64,
    sets: I32,
    n_sets: int,
    links: Rows,
    nodes: Rows,
    host_of: I64,
    n_hosts: int,
    n_si: int,
    n_ecmp: int,
    stride: int,
    is_flat: bool,
    nbr_of: I64,
    f_bm: U64,
) -> None:
    """Fill nbr_of (T, bits) and f_bm (T, P + 2, W) of every router.

    way, hops: (R, G). host_of: (n_si * bits,) host of each BFR-id - 1, or -1. stride: tables
    of a router and SI; those beyond ``n_ecmp`` are trees.
    """
    n_bits = nbr_of.shape[1]
    for r in range(way.shape[0]):
        out = nodes[n_hosts + r]["first_out"]
        for b in range(host_of.shape[0]):
            host = host_of[b]
            si, k = b // n_bits, b % n_bits
            for e in range(n_ecmp):
                table = (r * n_si + si) * stride + e
                nbr = NULL_NBR
                if host >= 0:
                    nbr = port_to(
                        way,
                        hops,
                        sets,
                        n_sets,
                        links,
                        nodes,
                        host,
                        r,
                        n_hosts,
                        e,
                        n_ecmp,
                        is_flat,
                    )
                    if nbr > 0:
                        nbr -= out
                nbr_of[table, k] = nbr
                f_bm[table, nbr + 1, k // 64] |= ONE << np.uint64(k % 64)


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
