"""Bit Index Routing Table of one node, RFC 8279 section 6.3.

One row for each BFER of the sub-domain: where its bit is, and all BFR-NBRs on shortest paths to
it. Every node of a fabric is a BFR, so the BFR-NBR is the next hop (6.2).
"""

from typing import NamedTuple

from fanfold.kernels.tables import SELF_NBR
from fanfold.topo.graph import Paths
from fanfold.wire.bitstring import bsl_of_bits, place


class BirtRow(NamedTuple):
    """One BFER as seen from one node."""

    bfr_id: int
    si: int
    bit_position: int
    n_hops: int
    """Links on a shortest path; 0 for the node itself and where there is no path."""
    nbrs: tuple[int, ...]
    """Ports in rising order: (0,) for the node itself, () where there is no path."""


def build_birt(paths: Paths, name: str) -> tuple[BirtRow, ...]:
    """Rows of a node by BFR-id."""
    fabric = paths.fabric
    bsl = bsl_of_bits(fabric.bitstring_bits)
    rows = []
    for bfr_id, bfer in fabric.by_bfr_id.items():
        si, bit_position = place(bfr_id, bsl)
        n_hops = paths.hops(name, bfer.name) or 0
        near = paths.next_hops(name, bfer.name)
        nbrs = tuple(fabric.port_to(name, n) for n in near)
        if bfer.name == name:
            nbrs = (SELF_NBR,)
        rows.append(BirtRow(bfr_id, si, bit_position, n_hops, nbrs))
    return tuple(rows)
