"""Bit Index Forwarding Tables of one node of a fabric, RFC 8279 sections 6.4 and 6.7.2.

BIFT-ids are BSL code, sub-domain and SI side by side (draft-ietf-bier-non-mpls-bift-encoding
section 5), one for each SI that holds a BFER. A tenant is a sub-domain with BFERs of its own: a
host has the tables of its own one, a BFR those of all. Each has ``n_ecmp`` tables, filled by
``kernels.bift``. The split is even when n_ecmp is a multiple of all path counts.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fanfold.kernels.bift import fill_behind, fill_bift
from fanfold.kernels.tables import NULL_NBR, WORD_BITS, Bifts
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_routes import FabricRoutes
from fanfold.wire.bitstring import bift_id, bsl_of_bits, place


def table_of(entropy: int, n_ecmp: int) -> int:
    """Which of a BIFT-id's tables a packet uses; kernels do the same."""
    return entropy % n_ecmp


def table_rows(routes: FabricRoutes, name: str) -> list[dict[str, Any]]:
    """A node's table as ``live.swap`` takes it: BFR-id and neighbours of each BFER.

    Of neighbours that take turns over the BIFTs each turn is there once.
    """
    fabric, rows = routes.fabric, []
    n_ecmp = fabric.n_ecmp
    for bfr_id, bfer in fabric.by_bfr_id.items():
        nbrs = [routes.next_hop(name, bfer.name, e) for e in range(n_ecmp)]
        turns = (n for n in range(1, n_ecmp + 1) if n_ecmp % n == 0)
        n = next(n for n in turns if nbrs == nbrs[:n] * (n_ecmp // n))
        rows.append({"bfr_id": bfr_id, "nbrs": [nbr for nbr in nbrs[:n] if nbr]})
    return rows


def build_bifts(routes: FabricRoutes, name: str) -> Bifts:
    """All tables of a node, as arrays."""
    fabric = routes.fabric
    bsl = bsl_of_bits(fabric.bitstring_bits)
    sets = [(sd, si) for sd in _known(fabric, name) for si in _sets(fabric, sd, bsl)]
    n_ecmp, n_bits = fabric.n_ecmp, fabric.bitstring_bits
    n_words, n_ports = n_bits // WORD_BITS, len(fabric.neighbours[name])
    node, n_tables = routes.index(name), len(sets) * n_ecmp
    nbr_of = np.full((n_tables, n_bits), NULL_NBR, np.int64)
    f_bm = np.zeros((n_tables, n_ports + 2, n_words), np.uint64)
    behind = np.zeros((len(sets), n_ports + 1, n_words), np.uint64)
    for row, (sub_domain, si) in enumerate(sets):
        birt = routes.birt_of(sub_domain)
        fill_behind(birt, node, si, n_bits, behind[row])
        for e in range(n_ecmp):
            at = row * n_ecmp + e
            fill_bift(birt, node, si, e, nbr_of[at], f_bm[at])
    return Bifts(
        ids=np.array([bift_id(bsl, sd, si) for sd, si in sets], np.int64),
        n_words=np.full(len(sets), n_words, np.int64),
        n_ecmp=np.full(len(sets), n_ecmp, np.int64),
        first=np.arange(len(sets), dtype=np.int64) * n_ecmp,
        nbr_of=nbr_of,
        f_bm=f_bm,
        behind=behind,
        may=_may(fabric, name, [sub_domain for sub_domain, _ in sets]),
    )


def _known(fabric: Fabric, name: str) -> list[int]:
    """Sub-domains whose tables a node has."""
    if fabric.by_name[name].role == "host":
        return [fabric.sub_domain_of(name)]
    return [sd for sd in fabric.sub_domains if fabric.keeps_rule(name, sd)]


def _sets(fabric: Fabric, sub_domain: int, bsl: int) -> list[int]:
    """Set identifiers of a sub-domain that hold a BFER."""
    return sorted({place(bfr_id, bsl)[0] for bfr_id in fabric.sub_domains[sub_domain]})


def _may(fabric: Fabric, name: str, sub_domains: list[int]) -> NDArray[np.uint8]:
    """Which sub-domain may come in by which port: a host's own, and where its rule lets it."""
    ends = fabric.port_nodes(name)
    if not fabric.tenants:
        return np.zeros((0, 0), np.uint8)
    rows = [
        [
            fabric.sub_domain_of(end.name) == sub_domain
            if end.role == "host"
            else fabric.keeps_rule(end.name, sub_domain)
            for end in ends
        ]
        for sub_domain in sub_domains
    ]
    return np.array(rows, np.uint8).reshape(len(sub_domains), len(ends))
