"""Token dispatch and combine of one MoE layer: who gets what, in how many copies and bytes.

Each rank has its tokens; each token goes to the ranks of its experts (dispatch), and a result
comes back from each (combine). What a token's own rank holds needs no network. Dispatch goes

    by expert      a copy for each chosen expert elsewhere
    by rank        a copy for each rank elsewhere that holds at least one of them
    by node        a copy for each other node, and inside it one to each further rank
    multicast      one copy, the set of ranks in the packet's BitString (RFC 8279), for each set
                   identifier that its ranks touch; rank r has BFR-id r + 1

Combine is the same backwards: a result for each expert, for each rank (summed there), for each
node (summed there), or one, summed in the network. Letters: T = tokens, k = experts of a token,
E = experts, R = ranks, W = words of 64 bits, rank r is bit r % 64 of word r // 64.
"""

from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.units import PPB_ONE
from fanfold.wire.bier import FIXED_BYTES
from fanfold.wire.bitstring import bsl_of_bits

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
WORD_BITS = 64
MAX_CELLS = 2**30
"""Tokens times ranks of one dispatch."""


class Dispatch(NamedTuple):
    """One layer's tokens. token_rank (T,); experts (T, k) and their ranks (T, k).

    rank_bits (T, W): every rank with a chosen expert, the token's own among them. node_bits (T,
    W'): their nodes. far_bits (T, W): rank_bits without the token's own rank.
    """

    token_rank: I64
    choices: I64
    dest: I64
    rank_bits: U64
    node_bits: U64
    far_bits: U64
    n_ranks: int
    ranks_per_node: int


class Counts(msgspec.Struct, frozen=True):
    """Of one dispatch and its combine; copies are tokens that leave a rank.

    n_sets: different sets of ranks that tokens go to. packets: of multicast, their headers in
    header_bytes; header_share_ppb: of all their bytes. inside_copies: from rank to rank in a
    node, of the way by node. Other bytes are without headers.
    """

    n_tokens: int
    n_choices: int
    n_far_tokens: int
    copies_by_expert: int
    copies_by_rank: int
    copies_by_node: int
    inside_copies: int
    copies_multicast: int
    dispatch_bytes_by_expert: int
    dispatch_bytes_by_rank: int
    dispatch_bytes_by_node: int
    dispatch_bytes_multicast: int
    combine_bytes_by_expert: int
    combine_bytes_by_rank: int
    combine_bytes_by_node: int
    combine_bytes_folded: int
    n_sets: int
    bitstring_bits: int
    packets: int
    header_bytes: int
    header_share_ppb: int


def place_experts(n_experts: int, n_ranks: int) -> I64:
    """(E,) rank of each expert: equal blocks in order.

    Raises:
        ConfigError: ranks that do not divide the experts.
    """
    if n_ranks < 1 or n_experts % n_ranks:
        raise ConfigError("ep", n_ranks, f"a divisor of {n_experts} experts")
    return np.arange(n_experts, dtype=np.int64) // (n_experts // n_ranks)


def place_tokens(n_tokens: int, n_ranks: int) -> I64:
    """(T,) rank of each token: equal blocks in order, as even as may be."""
    return np.arange(n_tokens, dtype=np.int64) * n_ranks // max(n_tokens, 1)


def check_cells(n_tokens: int, n_ranks: int) -> None:
    """Refuse what would fill a memory, before anything is drawn.

    Raises:
        ConfigError: too many tokens at once.
    """
    if n_tokens * n_ranks > MAX_CELLS:
        raise ConfigError("tokens", n_tokens, f"up to {MAX_CELLS // n_ranks} at once")


def build_dispatch(
    choices: I64, expert_rank: I64, token_rank: I64, n_ranks: int, ranks_per_node: int
) -> Dispatch:
    """Destinations of every token.

    Args:
        choices: (T, k) experts, of work/gate.py.
        expert_rank: (E,) in 0..R - 1; an expert of all tokens is one more column and place.
        token_rank: (T,) in 0..R - 1.

    Raises:
        ConfigError: nodes that do not divide the ranks, or too many tokens at once.
    """
    check_cells(choices.shape[0], n_ranks)
    if ranks_per_node < 1 or n_ranks % ranks_per_node:
        raise ConfigError("ranks_per_node", ranks_per_node, f"a divisor of {n_ranks} ranks")
    dest = expert_rank[choices]
    rank_bits = bits_of(dest, n_ranks)
    own = bits_of(token_rank[:, None], n_ranks)
    return Dispatch(
        token_rank=token_rank,
        choices=choices,
        dest=dest,
        rank_bits=rank_bits,
        node_bits=bits_of(dest // ranks_per_node, n_ranks // ranks_per_node),
        far_bits=rank_bits & ~own,
        n_ranks=n_ranks,
        ranks_per_node=ranks_per_node,
    )


def bits_of(members: I64, n: int) -> U64:
    """Words (T, W) of sets of members (T, k) below n; one that is named twice counts once."""
    words = np.zeros((members.shape[0], -(-n // WORD_BITS)), np.uint64)
    row = np.arange(members.shape[0])
    for column in members.T:
        bit = np.uint64(1) << (column % WORD_BITS).astype(np.uint64)
        words[row, column // WORD_BITS] |= bit
    return words


def members_of(words: U64) -> tuple[I64, I64]:
    """Row and member of every bit that is set, by row, rising."""
    as_bytes = np.ascontiguousarray(words.astype("<u8")).view(np.uint8)
    row, member = np.nonzero(np.unpackbits(as_bytes, axis=1, bitorder="little"))
    return row.astype(np.int64), member.astype(np.int64)


def count_copies(
    made: Dispatch,
    dispatch_bytes: int,
    combine_bytes: int,
    bitstring_bits: int,
    payload_bytes: int = 0,
) -> Counts:
    """Copies, bytes and headers of one dispatch and its combine.

    Args:
        made: the dispatch.
        dispatch_bytes: of one token on its way out, of work/token_bytes.py.
        combine_bytes: of one token on its way back.
        bitstring_bits: length of the BitString, 64 to 4096.
        payload_bytes: of a packet; 0: a token is one packet.

    Raises:
        ConfigError: a length that is none.
    """
    bsl_of_bits(bitstring_bits)
    own = made.token_rank[:, None]
    by_expert = int((made.dest != own).sum())
    by_rank = _popcount(made.far_bits)
    own_node = bits_of(own // made.ranks_per_node, made.n_ranks // made.ranks_per_node)
    by_node = _popcount(made.node_bits & ~own_node)
    is_far = made.far_bits.any(axis=1)
    n_far = int(is_far.sum())
    row, member = members_of(made.far_bits)
    n_si = -(-made.n_ranks // bitstring_bits)
    n_leaving = int(np.unique(row * n_si + member // bitstring_bits).size)
    per_token = -(-dispatch_bytes // payload_bytes) if payload_bytes else 1
    header = (FIXED_BYTES + bitstring_bits // 8) * n_leaving * per_token
    payload = n_leaving * dispatch_bytes
    total = header + payload
    return Counts(
        n_tokens=made.choices.shape[0],
        n_choices=made.choices.size,
        n_far_tokens=n_far,
        copies_by_expert=by_expert,
        copies_by_rank=by_rank,
        copies_by_node=by_node,
        inside_copies=by_rank - by_node,
        copies_multicast=n_leaving,
        dispatch_bytes_by_expert=by_expert * dispatch_bytes,
        dispatch_bytes_by_rank=by_rank * dispatch_bytes,
        dispatch_bytes_by_node=by_node * dispatch_bytes,
        dispatch_bytes_multicast=payload,
        combine_bytes_by_expert=by_expert * combine_bytes,
        combine_bytes_by_rank=by_rank * combine_bytes,
        combine_bytes_by_node=by_node * combine_bytes,
        combine_bytes_folded=n_far * combine_bytes,
        n_sets=int(np.unique(made.far_bits[is_far], axis=0).shape[0]),
        bitstring_bits=bitstring_bits,
        packets=n_leaving * per_token,
        header_bytes=header,
        header_share_ppb=int(PPB_ONE) * header // total if total else 0,
    )


def _popcount(words: U64) -> int:
    return int(np.bitwise_count(words).sum())
