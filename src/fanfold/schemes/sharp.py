"""SHARP-like sums in switches: a tree that a manager installs, hop by hop over connections.

After Graham et al., Scalable Hierarchical Aggregation Protocol: A Hardware Architecture for
Efficient Data Reduction (2016), and SHARP Streaming-Aggregation Hardware Design and Evaluation
(2020; for large vectors about 95 % of the network's bandwidth were measured there). Each switch
of a static tree adds up what its children send and passes one vector on; the root's result
comes back down the same tree. Every hop is a reliable connection with acknowledgements of its
own, so nothing is repaired end to end, and packets carry no BitString. What is under way on a
tree is bounded, as outstanding operations there: here ``sum_window`` blocks, or what switches
have slots for. One block takes one slot, as no result is kept for repairs.

Not in those papers, and chosen here: the root is half way between rank 0's switch and the
member's farthest from it; packets and acknowledgements are those of a scenario's messages; the
manager is on rank 0's host and asks every switch of the tree at once, each answers. A switch
takes no time to answer, so the set-up is a lower bound.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.schemes.draft import Draft, SchemePlan
from fanfold.schemes.options import SchemeOptions
from fanfold.schemes.program import FanTree, Phase, Program, Setup
from fanfold.topo.net import Net
from fanfold.units import PS_PER_SECOND
from fanfold.work.collective import Collective

I64 = NDArray[np.int64]
NONE = -1
MAD_BYTES = 256
"""A management datagram, whatever it says (InfiniBand Architecture, volume 1, 13.4)."""


class Switches(NamedTuple):
    """A tree of switches.

    root: node. links: (K,) from each switch to its children, members among them. nodes: (S,).
    n_links: (S,) connections that each has, to children and parent. away: (S,) links between
    rank 0's host and each.
    """

    root: int
    links: I64
    nodes: I64
    n_links: I64
    away: I64


def plan(work: Collective, options: SchemeOptions) -> SchemePlan:
    """All_reduce, reduce: one sum of all ranks."""
    draft = Draft(work)
    draft.sum(0, work.n_bytes, to_all=work.kind == "all_reduce")
    return draft.finish(options)


def install(program: Program, net: Net, *, waits: bool) -> Program:
    """The same program with a tree for each sum, one for all sums of the same hosts.

    Args:
        waits: a sum begins when its tree is installed; else trees were there before.

    Raises:
        ConfigError: members without a path.
    """
    grown: dict[tuple[int, ...], Switches] = {}
    for one in program.sums:
        if one.hosts not in grown:
            grown[one.hosts] = grow(net, np.array(one.hosts, np.int64))
    place = {hosts: len(program.trees) + i for i, hosts in enumerate(grown)}
    ready = {hosts: _ready_ps(net, switches) * waits for hosts, switches in grown.items()}
    return program._replace(
        sums=tuple(
            one._replace(tree=place[one.hosts], start_ps=max(one.start_ps, ready[one.hosts]))
            for one in program.sums
        ),
        trees=(*program.trees, *(_tree(switches) for switches in grown.values())),
        setup=_setup(net, list(grown.values())),
    )


def grow(net: Net, hosts: I64) -> Switches:
    """Shortest paths from members to a root in their middle, of equals by the lowest link.

    Raises:
        ConfigError: members without a path.
    """
    own = _own_links(net, hosts)
    homes = net.dst[own]
    up, away = _search(net, int(homes[0]))
    root = int(homes[np.argmax(away[homes])])
    for _ in range(int(away[root]) // 2):
        root = int(net.src[up[root]])
    up, _ = _search(net, root)
    links = [net.reverse[own]]
    at = np.unique(homes)
    while (at := at[at != root]).size:
        links.append(up[at])
        at = np.unique(net.src[up[at]])
    tree = np.unique(np.concatenate(links))
    nodes, n_children = np.unique(net.src[tree], return_counts=True)
    return Switches(root, tree, nodes, n_children + (nodes != root), 1 + away[nodes])


def _own_links(net: Net, hosts: I64) -> I64:
    """Link of each member: the first one of all by which they reach each other."""
    first, end = net.first_out[hosts], net.first_out[hosts + 1]
    for port in range(int((end - first).max())):
        own = np.minimum(first + port, end - 1)
        _, away = _search(net, int(net.dst[own[0]]))
        if (away[net.dst[own]] != NONE).all():
            return own
    ends = f"{net.node_name(int(hosts[0]))} to all of {hosts.size} ranks"
    raise ConfigError("topology", f"no path over switches from {ends}", "one")


def _search(net: Net, start: int) -> tuple[I64, I64]:
    """Breadth first over routers: the link by which each is reached, and links from start."""
    between = np.nonzero((net.src >= net.n_hosts) & (net.dst >= net.n_hosts))[0]
    src, dst = net.src[between], net.dst[between]
    up, away = np.full(net.n_nodes, NONE, np.int64), np.full(net.n_nodes, NONE, np.int64)
    away[start], n_links = 0, 0
    while True:
        is_next = (away[src] == n_links) & (away[dst] == NONE)
        if not is_next.any():
            return up, away
        n_links += 1
        found = between[is_next][::-1]  # of several the lowest
        up[net.dst[found]] = found
        away[net.dst[found]] = n_links


def _tree(switches: Switches) -> FanTree:
    links = tuple(switches.links.tolist())
    return FanTree(switches.root, (Phase(0, links, (0,) * len(links)),))


def _ready_ps(net: Net, switches: Switches) -> int:
    """One question to each switch, one after the other, and the answer of the farthest."""
    mad_ps = MAD_BYTES * 8 * PS_PER_SECOND // int(net.bps.min())
    hop_ps = mad_ps + int(net.prop_ps.max())
    return 2 * int(switches.away.max()) * hop_ps + (switches.nodes.size - 1) * mad_ps


def _setup(net: Net, trees: list[Switches]) -> Setup:
    """All trees side by side."""
    entries = np.zeros(net.n_nodes, np.int64)
    for switches in trees:
        entries[switches.nodes] += switches.n_links
    n_messages = 2 * sum(int(switches.away.sum()) for switches in trees)
    return Setup(
        ps=max((_ready_ps(net, switches) for switches in trees), default=0),
        n_messages=n_messages,
        n_bytes=n_messages * MAD_BYTES,
        n_entries=int(entries.sum()),
        most_entries=int(entries.max(initial=0)),
    )
