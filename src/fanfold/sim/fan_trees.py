"""Trees as one more table of each BFR: to which neighbour, for which receivers.

A packet of a tree has the bits of all its receivers, so that BFRs copy it to each link of the
tree and to no other. What changes while a run goes on, as the protocol mends a tree, is written
into the tables between two events.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.kernels.bift import Birt
from fanfold.kernels.tables import NULL_NBR
from fanfold.schemes.program import FanTree, Phase
from fanfold.topo.birt import build_birt
from fanfold.topo.net import Net
from fanfold.topo.routes import build_routes
from fanfold.trees.paths import Paths

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
NONE = -1
NO_LINKS = Phase(0, (), ())
MAX_TABLES = 2**31
"""Bytes of the tables of all trees at all routers."""


class Branches(NamedTuple):
    """A tree, host by host.

    path: (R, links) from the source on, NONE beyond the last link and all along where a
    receiver is not reached. links: (K,) of the tree, in use for somebody.
    """

    path: I32
    links: I64


def trace_branches(net: Net, phase: Phase, receivers: I64) -> Branches:
    """Paths of a tree; a node that two links lead to is taken to hang on the nearer one."""
    links = np.array(phase.links, np.int64)
    parent = np.full(net.n_nodes, NONE, np.int64)
    depth = np.full(net.n_nodes, NONE, np.int64)
    src, dst = net.src[links], net.dst[links]
    depth[src[src < net.n_hosts]] = 0  # the source's own link
    n_hops = 0
    while True:
        is_next = (depth[src] == n_hops) & (depth[dst] == NONE)
        if not is_next.any():
            break
        at = np.nonzero(is_next)[0][::-1]  # of several the first
        parent[dst[at]] = links[at]
        n_hops += 1
        depth[dst[at]] = n_hops
    path = np.full((receivers.size, max(n_hops, 1)), NONE, np.int32)
    node, row = receivers.copy(), np.arange(receivers.size)
    left = depth[receivers]
    while (left > 0).any():
        up = left > 0
        node, row, left = node[up], row[up], left[up]
        path[row, left - 1] = parent[node]
        node, left = net.src[parent[node]], left - 1
    used = np.unique(path[path >= 0]).astype(np.int64)
    return Branches(path, used)


def reroute(net: Net, dead: frozenset[int], target_of: I64) -> Birt:
    """BIRTs by which words and other unicast go over the links that are not dead.

    All BIFTs then take the lowest link of equal ones. A host hangs on one router only, by the
    lowest of its links that the most routers can be reached over.
    """
    is_up = net.is_up.copy()
    is_up[list(dead)] = 0
    paths = Paths(net, dead, 0)
    for host in range(net.n_hosts):
        mine = np.arange(net.first_out[host], net.first_out[host + 1])
        if is_up[mine].sum() > 1:
            is_up[mine[mine != paths.attach(host)]] = 0
    cut = net._replace(is_up=is_up)
    return build_birt(cut, build_routes(cut), 1, target_of)._replace(
        is_flat=True, has_planes=False
    )


def check_room(net: Net, n_trees: int, n_bits: int) -> None:
    """Raise ConfigError for tables of trees that fill the memory."""
    ports = int(np.diff(net.first_out)[net.n_hosts :].max(initial=1)) + 2
    row = 2 * n_bits + ports * n_bits // 8
    size = (net.n_nodes - net.n_hosts) * n_trees * row
    if n_trees and size > MAX_TABLES:
        got = f"{n_trees} trees in {size} bytes of tables"
        raise ConfigError("fidelity", got, f"flow above {MAX_TABLES}")


def phase_at(tree: FanTree, now_ps: int) -> Phase:
    """What stands at a time; nothing before the first phase."""
    found = NO_LINKS
    for phase in tree.phases:
        if phase.from_ps <= now_ps:
            found = phase
    return found


def write_tree(
    net: Net,
    phase: Phase,
    bits: dict[int, int],
    tables: I64,
    nbr_of: NDArray[np.int16],
    f_bm: NDArray[np.uint64],
    heads: NDArray[np.int16],
) -> None:
    """One tree into its table at each router, in the place of what was there.

    Args:
        bits: bit index of each receiver that is wanted. tables: (R,) its table at each router.
    """
    nbr_of[tables] = NULL_NBR
    f_bm[tables] = 0
    heads[tables] = 0
    receivers = np.array(sorted(bits), np.int64)
    if not phase.links:
        return
    branches = trace_branches(net, phase, receivers)
    label = dict(zip(phase.links, phase.labels, strict=True))
    bit = np.array([bits[host] for host in receivers.tolist()], np.int64)
    for column in range(1, branches.path.shape[1]):  # the source's own link is no router's
        links = branches.path[:, column].astype(np.int64)
        is_on = links >= 0
        links, mine = links[is_on], bit[is_on]
        router = net.src[links]
        port = links - net.first_out[router] + 1
        table = tables[router - net.n_hosts]
        nbr_of[table, mine] = port.astype(np.int16)
        word = np.left_shift(np.uint64(1), (mine % 64).astype(np.uint64))
        np.bitwise_or.at(f_bm, (table, port + 1, mine // 64), word)
        heads[table, port + 1] = [label[k] for k in links.tolist()]
