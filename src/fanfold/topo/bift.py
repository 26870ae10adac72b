"""Bit Index Forwarding Tables of one node, RFC 8279 sections 6.4 and 6.7.2.

BIFT-ids are BSL code, sub-domain and SI side by side (draft-ietf-bier-non-mpls-bift-encoding
section 5), one for each SI that holds a BFER. Each has ``n_ecmp`` tables; a packet's entropy
picks one, which names a single path for every BFER, so equal entropy and BitString keep their
path (RFC 8296 section 2.1.2). The split is even when n_ecmp is a multiple of all path counts.
"""

import numpy as np
from numpy.typing import NDArray

from fanfold.kernels.tables import NULL_NBR, WORD_BITS, Bifts
from fanfold.topo.birt import BirtRow, build_birt
from fanfold.topo.fabric import Fabric
from fanfold.topo.graph import Paths
from fanfold.wire.bitstring import bift_id, bsl_of_bits


def table_of(entropy: int, n_ecmp: int) -> int:
    """Which of a BIFT-id's tables a packet uses; kernels do the same."""
    return entropy % n_ecmp


def build_bifts(paths: Paths, name: str) -> Bifts:
    """All tables of a node, as arrays."""
    fabric = paths.fabric
    birt = build_birt(paths, name)
    bsl = bsl_of_bits(fabric.bitstring_bits)
    sis = sorted({row.si for row in birt})
    hosts_first = sorted(fabric.nodes, key=lambda node: node.role != "host")
    rotation = [node.name for node in hosts_first].index(name)
    n_ecmp, n_bits = fabric.n_ecmp, fabric.bitstring_bits
    is_flat = has_hosts_everywhere(fabric)
    first = {si: i * n_ecmp for i, si in enumerate(sis)}
    nbr_of = np.full((len(sis) * n_ecmp, n_bits), NULL_NBR, np.int64)
    for row in birt:
        for table in range(n_ecmp if row.nbrs else 0):
            nbr = pick_nbr(row, table, n_ecmp, rotation, is_flat=is_flat)
            nbr_of[first[row.si] + table, row.bit_position - 1] = nbr
    return Bifts(
        ids=np.array([bift_id(bsl, fabric.sub_domain, si) for si in sis], np.int64),
        n_words=np.full(len(sis), n_bits // WORD_BITS, np.int64),
        n_ecmp=np.full(len(sis), n_ecmp, np.int64),
        first=np.array(list(first.values()), np.int64),
        nbr_of=nbr_of,
        f_bm=_f_bm(nbr_of, len(fabric.neighbours[name])),
        behind=_behind(birt, sis, n_bits, len(fabric.neighbours[name])),
    )


def has_hosts_everywhere(fabric: Fabric) -> bool:
    """Whether every BFR has a host of its own: a ring, a torus, a single leaf."""
    hosts = {node.name for node in fabric.nodes if node.role == "host"}
    near = fabric.neighbours
    return all(hosts.intersection(near[n.name]) for n in fabric.nodes if n.role == "bfr")


def pick_nbr(
    row: BirtRow, table: int, n_ecmp: int, rotation: int, *, is_flat: bool = False
) -> int:
    """BFR-NBR of a BFER in one table; each path gets its share of the tables.

    Two BFRs in a row must not read the same part of the table number, or the second one sees
    only tables that lead to one of its paths. Hops still to go alternate between odd and even,
    so odd ones take the low part (table mod paths) and even ones the high part. The rotation,
    a node's place among hosts, then BFRs, keeps nodes of one tier from favouring the same path.
    Where every BFR has hosts, all take their first path, or all their last: the order of ports
    then makes a tree, and no BFR gets one packet twice, by two ways.
    """
    n_paths = len(row.nbrs)
    if is_flat:
        return row.nbrs[0 if table % 2 == 0 else n_paths - 1]
    part = table if row.n_hops % 2 else table * n_paths // n_ecmp
    return row.nbrs[(part + rotation) % n_paths]


def _behind(
    birt: tuple[BirtRow, ...], sis: list[int], n_bits: int, n_ports: int
) -> NDArray[np.uint64]:
    """BFERs behind each port by SI: all equal-cost paths, as what comes back may use any."""
    behind = np.zeros((len(sis), n_ports + 1, n_bits // WORD_BITS), np.uint64)
    for row in birt:
        word, k = divmod(row.bit_position - 1, WORD_BITS)
        for nbr in row.nbrs:
            behind[sis.index(row.si), nbr, word] |= np.uint64(1 << k)
    return behind


def _f_bm(nbr_of: NDArray[np.int64], n_ports: int) -> NDArray[np.uint64]:
    """OR the bits of all rows that share a BFR-NBR, RFC 8279 section 6.4."""
    n_tables, n_bits = nbr_of.shape
    f_bm = np.zeros((n_tables, n_ports + 2, n_bits // WORD_BITS), np.uint64)
    table, index = np.indices(nbr_of.shape)
    bit = np.left_shift(np.uint64(1), (index % WORD_BITS).astype(np.uint64))
    np.bitwise_or.at(f_bm, (table, nbr_of + 1, index // WORD_BITS), bit)
    return f_bm
