"""Arrays and headers of a rank that has nothing to do yet, and who its group is."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fanfold.errors import ConfigError
from fanfold.kernels.check import Check, no_check
from fanfold.kernels.layout import BITS_AT, FOLD_BYTES, INNER_BYTES, UNDERLAY_BYTES
from fanfold.kernels.rank_timers import FIRST_CWND
from fanfold.kernels.reduce import build_pow2
from fanfold.live import rank_loop as loop
from fanfold.live import rank_state as st
from fanfold.live.channels import is_near
from fanfold.topo.fabric import Fabric, Node, whose
from fanfold.units import PS_PER_SECOND
from fanfold.wire import bitstring
from fanfold.wire.bier import BierHeader
from fanfold.wire.fold import Fold
from fanfold.wire.inner import GROUP_ADDRESS, address_of
from fanfold.wire.kinds import Kind
from fanfold.wire.packet import build

NEAR_WINDOW, NEAR_MOST = 128, 256
"""Where a whole fabric is on one machine: what is under way stays in the processors' caches,
and there is enough of it for all processes to work on."""
LONG = 1024
BLOCK_BYTES = 8192
"""Words in a packet at most; fewer where the MTU is smaller."""
WIDE_BYTES = 4 * BLOCK_BYTES
TTL = 64
MOST_CODES = 5
"""Exponents are this part of an array with its exponents: 1 byte beside 4, or 2 beside 8."""


def build_rank(
    fabric: Fabric,
    members: Sequence[str],
    rank: int,
    group: int,
    port: int,
    window: int,
    root_level: int,
    check: Check | None = None,
) -> st.RankState:
    """Arrays of a rank that has nothing to do yet."""
    me = fabric.by_name[members[rank]]
    bits, si = bits_of(fabric, members)
    ends = fabric.port_nodes(me.name)
    near = [address_of(n.address) for n in (*ends[1:], me)]
    ups = [address_of(n.address) for n in ends[1:] if n.role == "bfr"] or near[-1:]
    n_words = fabric.bitstring_bits // 64
    row = np.zeros(1, st.RANK_ROW)
    own = (me.bfr_id - 1) % fabric.bitstring_bits
    row[0]["group"], row[0]["n_ranks"], row[0]["is_first"] = group, len(members), rank == 0
    row[0]["own_index"], row[0]["n_words"], row[0]["window"] = own, n_words, window
    row[0]["place"] = rank
    row[0]["n_slots"], row[0]["up_addr"] = 2 * window, ups[group % len(ups)]
    if rank == 0:
        row[0]["n_asked"], row[0]["n_least"] = 2 * window, min(2 * window, loop.LEAST_SLOTS)
    row[0]["least_ps"], row[0]["root_hops"] = PS_PER_SECOND, -1
    row[0]["cwnd"] = row[0]["epoch_end"] = min(FIRST_CWND, window)
    bsl = bitstring.bsl_of_bits(fabric.bitstring_bits)
    bift_id = bitstring.bift_id(bsl, fabric.sub_domain_of(me.name), si)
    packet = head_of(bift_id, me, own, group, port)
    whole = packet + bitstring.to_bytes(bits, bsl) + bytes([root_level])
    return st.RankState(
        row=row,
        job=np.zeros(1, st.JOB_ROW),
        blocks=np.zeros((0, st.N_COLUMNS), np.int64),
        have=np.zeros(0, np.uint8),
        codes=np.zeros(0, np.int64),
        shared=np.zeros(0, np.int64),
        agreed=np.zeros((window, block_bytes_of(fabric) // MOST_CODES), np.uint8),
        own=np.zeros(block_bytes_of(fabric) // MOST_CODES, np.uint8),
        ring=np.zeros((3, window), np.int64),
        near=np.array(near, np.int64),
        ids=np.array([bift_id], np.int64),
        id_words=np.array([n_words], np.int64),
        head=np.frombuffer(whole, np.uint8).copy(),
        wide=np.zeros(WIDE_BYTES, np.uint8),
        marks=np.zeros(0, np.uint8),
        src=np.zeros(0, np.uint8),
        dst=np.zeros(0, np.uint8),
        pow2=build_pow2(),
        share=np.ones(1, np.float64),
        heard=np.zeros(n_words, np.uint64),
        at_root=np.zeros(n_words, np.uint64),
        told=np.zeros(st.MAX_HOPS, np.int64),
        live=np.array(bitstring.to_words(bits, bsl), np.uint64),
        lacking=np.zeros((2, n_words), np.uint64),
        tally=np.zeros(0, np.int64),
        counts=np.zeros(st.N_RANK_COUNTERS, np.int64),
        check=check or no_check(),
    )


class Windows(NamedTuple):
    """Blocks under way at most: in operations of LONG blocks or more, and in others."""

    most: int
    usual: int

    def of(self, n_blocks: int) -> int:
        """In an operation of so many blocks."""
        return self.most if n_blocks >= LONG else self.usual


def windows_on(fabric: Fabric, window: int, *, may_be_late: bool) -> Windows:
    """Those of a group, the same on all ranks; who may be late needs old results."""
    is_here = all(is_near(node.address) for node in fabric.nodes)
    if not is_here or may_be_late:
        return Windows(window, window)
    return Windows(min(window, NEAR_MOST), min(window, NEAR_WINDOW))


def head_of(bift_id: int, me: Node, own: int, group: int, port: int) -> bytes:
    """Headers of an empty array toward the root; own: index of the rank's bit."""
    header = BierHeader(
        bift_id=bift_id,
        ttl=TTL,
        bfir_id=me.bfr_id,
        bitstring=1 << own,
        entropy=group & 0xFFFFF,
    )
    fold = Fold(kind=Kind.FOLD, what=0, group=group, n_merged=1)
    return build(header, address_of(me.address), GROUP_ADDRESS, port, fold)


def block_bytes_of(fabric: Fabric) -> int:
    """Bytes of words in a packet of this fabric: whole 64-byte lines."""
    head = BITS_AT + fabric.bitstring_bits // 8 + INNER_BYTES + FOLD_BYTES
    n_bits = fabric.bitstring_bits // 8  # the P-BM behind a partial result
    room = (fabric.mtu - UNDERLAY_BYTES - head - n_bits) & ~63
    if room < 64:
        least = UNDERLAY_BYTES + head + n_bits + 64
        raise ConfigError("fabric.mtu", fabric.mtu, f"at least {least}")
    return min(room, BLOCK_BYTES)


def check_root(fabric: Fabric, members: Sequence[str], root: str) -> None:
    """Raise ConfigError where a group's packets cannot name a host as the root."""
    bits_of(fabric, members)
    try:
        bits_of(fabric, sorted({*members, root}))
    except ConfigError as error:
        allowed = "a host of the set identifier of the members"
        raise ConfigError("root", root, allowed) from error


def bits_of(fabric: Fabric, members: Sequence[str]) -> tuple[int, int]:
    """BitString and SI of a group.

    Raises:
        ConfigError: unknown or repeated names, or members of several SIs or tenants.
    """
    bits, sis = 0, set()
    check_tenants(fabric, members)
    for name in members:
        node = fabric.by_name.get(name)
        if node is None or not node.bfr_id:
            raise ConfigError("members", name, "hosts of the fabric with a BFR-id")
        index = node.bfr_id - 1
        sis.add(index // fabric.bitstring_bits)
        bits |= 1 << index % fabric.bitstring_bits
    if len(sis) != 1 or bits.bit_count() != len(members):
        raise ConfigError(
            "members",
            ", ".join(members),
            f"different hosts of one set identifier, {fabric.bitstring_bits} BFR-ids in a row",
        )
    return bits, sis.pop()


def check_tenants(fabric: Fabric, members: Sequence[str]) -> None:
    """Raise ConfigError where members are of several tenants."""
    first = fabric.tenant_name(members[0]) if members else ""
    for name in members:
        if fabric.tenant_name(name) != first:
            others = f"hosts of {whose(first)}: {', '.join(fabric.peers_of(members[0]))}"
            raise ConfigError("members", f"{name} of {whose(fabric.tenant_name(name))}", others)
