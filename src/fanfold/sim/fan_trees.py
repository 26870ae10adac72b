"""Trees as one more table of each BFR: to which neighbour, for which receivers.

A packet of a tree has the bits of all its receivers, so that BFRs copy it to each link of the
tree and to no other. What changes while a run goes on, as the protocol mends a tree, is written
into the tables between two events.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.kernels.tables import NULL_NBR
from fanfold.schemes.program import FanTree, Phase
from fanfold.topo.net import Net
from fanfold.trees.paths import Paths

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
NONE = -1
NO_LINKS = Phase(0, (), ())


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


def write_words(
    net: Net,
    dead: frozenset[int],
    bits: dict[int, int],
    tables: I64,
    nbr_of: NDArray[np.int16],
    f_bm: NDArray[np.uint64],
) -> None:
    """The table by which words and other unicast go, anew, over the links that are not dead.

    Args:
        bits: bit index of each host. tables: (R,) that table at each router.
    """
    paths = Paths(net, dead, 0)
    nbr_of[tables] = NULL_NBR
    f_bm[tables] = 0
    below: dict[int, list[int]] = {}
    for host in bits:
        ups = range(int(net.first_out[host]), int(net.first_out[host + 1]))
        if set(ups) - dead:
            up = paths.attach(host)
            below.setdefault(int(net.dst[up]), []).append(int(net.reverse[up]))
    for home, downs in below.items():
        for node in range(net.n_hosts, net.n_nodes):
            way = paths.next_link(node, home)
            if way == NONE and node != home:
                continue
            for down in downs:
                port = (way if node != home else down) - int(net.first_out[node]) + 1
                bit = bits[int(net.dst[down])]
                table = tables[node - net.n_hosts]
                nbr_of[table, bit] = port
                f_bm[table, port + 1, bit // 64] |= np.uint64(1) << np.uint64(bit % 64)


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
