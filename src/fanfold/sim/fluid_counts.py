"""Packets and bytes on every link, by class: whole numbers, without loss.

Letters: F = messages, L = links.
"""

import numpy as np
from numpy.typing import NDArray

from fanfold.results.outcome import ACK, DATA, FEEDBACK, N_LINK_CLASSES, Outcome
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import Program
from fanfold.sim.fan_sizes import feedback_bytes
from fanfold.sim.fluid_flows import Tree, Wires, first_links, paths_by
from fanfold.sim.fluid_sizes import Sizes
from fanfold.sim.loop.tally import (
    FULL,
    N_SORTS,
    SHORT,
    SHORT_BYTES,
    Table,
    tally,
    tally_pairs,
    tally_paths,
)
from fanfold.sim.loop.ways import NONE, Ways
from fanfold.topo.net import Net
from fanfold.topo.routes import Routes

I64 = NDArray[np.int64]


def count_links(
    net: Net,
    routes: Routes,
    ways: Ways,
    program: Program,
    settings: Settings,
    sizes: Sizes,
    wires: Wires,
    trees: list[Tree],
) -> I64:
    """(L, N_LINK_CLASSES, 2) packets and bytes."""
    n = program.src.size
    out = np.zeros((net.n_links, N_LINK_CLASSES, 2), np.int64)
    if n:
        sorts = np.zeros((wires.src.size, N_SORTS), np.int64)
        np.add.at(sorts, wires.of, sizes.sorts[:n])
        full = settings.payload_bytes + settings.header_bytes
        out[:, DATA] += _spread(net, routes, ways, wires, sorts, settings, full)
        acks = acks_of(sorts)
        back = _turned(net, routes, ways, wires, settings)
        size = settings.ack_bytes
        out[:, ACK] += _spread(net, routes, ways, back, acks, settings, size)
    word = feedback_bytes(settings, is_tree=bool(program.trees))
    for m, tree in enumerate(trees):
        pkts, wire = int(sizes.pkts[n + m]), int(sizes.wire[n + m])
        out[:, DATA, 0] += tree.copies * pkts
        out[:, DATA, 1] += tree.copies * (wire + tree.labels * pkts)
        words = tree.words * sizes.words[n + m]
        out[:, FEEDBACK, 0] += words
        out[:, FEEDBACK, 1] += words * word
    return out


def _turned(net: Net, routes: Routes, ways: Ways, wires: Wires, settings: Settings) -> Wires:
    """The way back of every connection: a path of its own, or all paths when sprayed."""
    if settings.routing == "spray":
        return wires._replace(src=wires.dst, dst=wires.src)
    turn = np.arange(wires.src.size)
    nic = first_links(net, ways, wires.dst, wires.src, turn)
    path = paths_by(routes, ways, wires.seed, (wires.dst, wires.src, nic))
    return Wires(wires.dst, wires.src, wires.of, path, wires.seed)


def _spread(
    net: Net,
    routes: Routes,
    ways: Ways,
    wires: Wires,
    sorts: I64,
    settings: Settings,
    full_bytes: int,
) -> I64:
    """(L, 2) packets and bytes of what connections carry."""
    if settings.routing == "spray":
        links = spread_evenly(net, routes, ways, wires.src, wires.dst, sorts)
    else:
        links = np.zeros((net.n_links, N_SORTS), np.int64)
        tally_paths(wires.path, np.arange(wires.src.size), sorts, links)
    pkts = links[:, FULL] + links[:, SHORT]
    return np.stack([pkts, links[:, FULL] * full_bytes + links[:, SHORT_BYTES]], axis=1)


def spread_evenly(net: Net, routes: Routes, ways: Ways, src: I64, dst: I64, sorts: I64) -> I64:
    """(L, N_SORTS) of messages over all shortest paths.

    Args:
        src, dst: (F,). sorts: (F, N_SORTS).
    """
    table = _table(net, routes)
    order = np.argsort(routes.group[dst], kind="stable")
    tally(ways, table, src[order], dst[order], sorts[order])
    return table.links


def spread_pairs(
    net: Net,
    routes: Routes,
    ways: Ways,
    hosts: I64,
    sorts: I64,
    n_of: I64,
    by_sender: bool,
) -> I64:
    """(L, N_SORTS) of what every group sends to every other, over all shortest paths.

    Args:
        hosts: (G,) one of each group. sorts: (G, N_SORTS) of a group that sends (``by_sender``)
            or receives, for one host of the other. n_of: (G,) hosts of each.
    """
    table = _table(net, routes)
    tally_pairs(ways, table, hosts, sorts, n_of, by_sender, np.zeros(N_SORTS, np.int64))
    return table.links


def _table(net: Net, routes: Routes) -> Table:
    n_routers = net.n_nodes - net.n_hosts
    return Table(
        np.full(routes.longest + 1, NONE, np.int64),
        np.full(n_routers, NONE, np.int64),
        np.zeros(n_routers, np.int64),
        np.zeros((n_routers, N_SORTS), np.int64),
        np.zeros((net.n_hosts, N_SORTS), np.int64),
        np.zeros(net.n_hosts, np.int64),
        np.zeros((net.n_links, N_SORTS), np.int64),
    )


def sorts_of(sizes: I64, settings: Settings) -> I64:
    """(n, N_SORTS) packets of messages of these sizes."""
    full, rest = np.divmod(sizes, settings.payload_bytes)
    is_short = rest > 0
    bytes_of = is_short * (rest + settings.header_bytes)
    return np.stack([full, is_short.astype(np.int64), bytes_of], axis=1)


def acks_of(sorts: I64) -> I64:
    """One for each packet."""
    acks = np.zeros_like(sorts)
    acks[:, FULL] = sorts[:, FULL] + sorts[:, SHORT]
    return acks


def as_full(sorts: I64) -> tuple[I64, int]:
    """Short packets as full ones where all are short and of one size, and that size, else 0.

    They are dealt as full ones are, so what is known of those is known of them.
    """
    n, n_bytes = sorts[:, SHORT], sorts[:, SHORT_BYTES]
    size = int(n_bytes[0] // n[0]) if n.size and n[0] else 0
    if size == 0 or sorts[:, FULL].any() or (n_bytes != n * size).any():
        return sorts, 0
    full = np.zeros_like(sorts)
    full[:, FULL] = n
    return full, size


def as_short(links: I64, size: int) -> I64:
    """Counts of full packets, as those of the short ones that they stand for."""
    if size:
        links[:, SHORT], links[:, SHORT_BYTES] = links[:, FULL], links[:, FULL] * size
        links[:, FULL] = 0
    return links


def outcome_of_flow(
    tally: I64, due: I64, host_ps: I64, end_ps: int, n_events: int, reason: str
) -> Outcome:
    """Where every byte arrives, as always at flow fidelity; without items, fans and sums.

    Args:
        tally: (L, N_LINK_CLASSES, 2) packets and bytes. due, host_ps: (H,).
    """
    none = np.zeros(len(tally), np.int64)
    return Outcome(
        fidelity="flow",
        end_ps=end_ps,
        host_ps=host_ps,
        item_ps=none[:0],
        got_bytes=due,
        due_bytes=due.copy(),
        link_pkts=tally[..., 0].copy(),
        link_bytes=tally[..., 1].copy(),
        link_drops=none,
        link_trims=none.copy(),
        link_peak_bytes=none.copy(),
        feedback_at_source=none[:0],
        repairs=(0, 0),
        n_folds=(0, 0, 0),
        n_hops=int(tally[..., 0].sum()),
        n_events=n_events,
        stuck=(),
        reason=reason,
    )


def reason_of_rounds(n_rounds: int) -> str:
    """Why a run in rounds stopped."""
    return f"every item is done; {n_rounds} rounds, each as its fullest link"
