"""Sparseness: what it costs to name a few of many, on the fabric asked for and among 65,536.

Trees are those that the protocols build; packets with their receivers in the header are sent
hop by hop through the tables of ``encodings``. The ideal tree has shortest paths, each link
once.
"""

from typing import NamedTuple

import numpy as np

from fanfold.encodings.catalog import ALL
from fanfold.encodings.encoding_row import EncodingRow
from fanfold.encodings.survey import survey
from fanfold.scenario.fidelity import distances
from fanfold.streams import stream
from fanfold.study.gap_ground import (
    PPM,
    SOURCE,
    TOKEN_BYTES,
    GapNet,
    Numbers,
    SchemeRow,
)
from fanfold.study.gap_sim import CONTROL_BYTES, broadcast_program
from fanfold.study.measure_dynamics import STEADY
from fanfold.topo.net import Net
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import Routes, build_routes
from fanfold.trees.group_events import GroupEvent
from fanfold.trees.tree_run import TreeRun, build_tree
from fanfold.wire.bitstring import LENGTHS

FLAT, PLAIN = "bier", "unicast"
LABEL_BYTES = {"mldp-p2mp": 4, "mldp-mp2mp": 4, "sr-p2mp": 4}
"""An MPLS label names the tree (RFC 3032 2.1); PIM's group is an address as any other."""
FLOODERS = ("pim-dm", "bidir-pim")
"""Protocols that speak to every router of a net: 5,120 of them are left out."""
HOST_TREES = ("ring", "binary-tree")


class Part(NamedTuple):
    """A group on a fabric, and what each encoding costs there, by name."""

    net: Net
    routes: Routes
    members: tuple[int, ...]
    rows: dict[str, EncodingRow]


class Sparse(NamedTuple):
    """Sparse groups of one size: on the fabric asked for, and among 65,536 hosts."""

    near: Part
    far: Part


def build_sparse(ground: GapNet, *, all_encodings: bool = True) -> Sparse:
    """Groups on both fabrics, drawn; else with unicast and flat BIER only."""
    names = (ALL,) if all_encodings else (PLAIN, FLAT)
    net = build_named_net(ground.far_topology, ground.seed)
    drawn = 1 + stream(ground.seed, "gap/far").permutation(net.n_hosts - 1)
    members = tuple(np.sort(drawn[: len(ground.members)]).tolist())
    return Sparse(
        _part(ground.net, ground.routes, ground.members, names),
        _part(net, build_routes(net), members, names),
    )


def _part(net: Net, routes: Routes, members: tuple[int, ...], names: tuple[str, ...]) -> Part:
    rows = survey(net, routes, np.array(members), TOKEN_BYTES, encodings=names)
    return Part(net, routes, members, {row.encoding: row for row in rows})


def measure_sparseness(row: SchemeRow, sparse: Sparse) -> Numbers:
    """Header bytes, copies beyond the ideal tree, state where no member is."""
    if row.protocol:
        return _of_trees(row, sparse)
    if row.name in HOST_TREES:
        return _of_hosts(row, sparse)
    near, far = (best_row(row, part.rows) for part in sparse)
    return {
        "header_bytes": near.header_bytes,
        "header_ppm": PPM * near.header_bytes // TOKEN_BYTES,
        "far_header_ppm": PPM * far.header_bytes // TOKEN_BYTES,
        **_copies(near.n_copies, sparse.near, ""),
        **_copies(far.n_copies, sparse.far, "far_"),
        "idle_state_ppm": 0,
        "idle_state_entries": 0,
    }


def best_row(row: SchemeRow, rows: dict[str, EncodingRow]) -> EncodingRow:
    """What puts least bytes on links, of encodings that the scheme has and no host minds."""
    names = [PLAIN] if row.program == PLAIN else [f"{FLAT}-{bits}" for bits in LENGTHS]
    able = [
        rows[name]
        for name in (rows if row.is_planned else names)
        if not rows[name].refusal and not rows[name].spurious
    ]
    return min(able, key=lambda each: (each.link_bytes, each.header_bytes))


def quiet_run(net: Net, row: SchemeRow, members: tuple[int, ...]) -> TreeRun:
    """Members join at once, packets flow, nothing else happens."""
    joins = [GroupEvent(0, "join", host) for host in members]
    return build_tree(row.protocol, net, SOURCE, [*joins, STEADY], row.tree)


def _of_trees(row: SchemeRow, sparse: Sparse) -> Numbers:
    run = quiet_run(sparse.near.net, row, sparse.near.members)
    header = LABEL_BYTES.get(row.protocol, 0)
    numbers = {
        "header_bytes": header,
        "header_ppm": PPM * header // TOKEN_BYTES,
        **_copies(len(run.trees[-1].links), sparse.near, ""),
        **idle_state(sparse.near.net, run),
    }
    if row.protocol in FLOODERS:
        return numbers
    far = quiet_run(sparse.far.net, row, sparse.far.members)
    return {
        **numbers,
        "far_header_ppm": numbers["header_ppm"],
        **_copies(len(far.trees[-1].links), sparse.far, "far_"),
    }


def _of_hosts(row: SchemeRow, sparse: Sparse) -> Numbers:
    near, far = (_crossings(row, part) for part in sparse)
    return {
        "header_bytes": 0,
        "header_ppm": 0,
        "far_header_ppm": 0,
        **_copies(near, sparse.near, ""),
        **_copies(far, sparse.far, "far_"),
        "idle_state_ppm": 0,
        "idle_state_entries": 0,
    }


def _crossings(row: SchemeRow, part: Part) -> int:
    """Links that a packet crosses from host to host, all copies together."""
    program = broadcast_program(row.program, part.members, CONTROL_BYTES)
    return int(distances(part.net, part.routes, program.src, program.dst).sum())


def _copies(n_links: int, part: Part, where: str) -> Numbers:
    """Link crossings of one message beside those of the ideal tree and of unicast."""
    plain = part.rows[PLAIN]
    extra, saved = n_links - plain.tree_links, plain.n_copies - plain.tree_links
    name = f"{where}copies_ppm" if where else "extra_copies_ppm"
    return {
        f"{where}lost_saving_ppm": PPM * extra // max(saved, 1),
        name: PPM * extra // plain.tree_links,
    }


def idle_state(net: Net, run: TreeRun) -> Numbers:
    """A group's entries in routers that no packet for a member passes."""
    links = list(run.trees[-1].links)
    busy = {*net.src[links].tolist(), *net.dst[links].tolist()}
    idle = sum(state.n_entries for state in run.states if state.node not in busy)
    total = sum(state.n_entries for state in run.states)
    return {"idle_state_ppm": PPM * idle // max(total, 1), "idle_state_entries": idle}
