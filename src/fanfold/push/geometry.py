"""How a push is cut into packets: payload of a packet, packets of a block.

A block is a chunk of the manifest. Pieces of up to 64 KB go out in one system call, so the
payload is chosen to fill them; both numbers follow from the MTU and the BitString's length.
"""

from typing import NamedTuple

from fanfold.errors import ConfigError
from fanfold.kernels.layout import BITS_AT, FAN_BYTES, INNER_BYTES, MAX_PSN, UNDERLAY_BYTES
from fanfold.live.outbox import PIECE_BYTES

ALIGN = 64
MIN_STRIDE = 64
BIG = 16_384
BIG_PSN = 8
"""Packets with more payload than BIG travel 8 to a block: a block stays below 600 KB."""


class Geometry(NamedTuple):
    """stride: payload bytes of a packet. n_psn: packets of a block."""

    stride: int
    n_psn: int


def head_bytes(bitstring_bits: int) -> int:
    """Headers before a packet's payload, from BIER on."""
    return BITS_AT + bitstring_bits // 8 + INNER_BYTES + FAN_BYTES


def geometry_of(mtu: int, bitstring_bits: int) -> Geometry:
    """Largest payload that fits the MTU and wastes little of a 64 KB piece.

    Raises:
        ConfigError: the MTU leaves no room for payload.
    """
    head = head_bytes(bitstring_bits)
    room = mtu - UNDERLAY_BYTES - head
    if room < MIN_STRIDE:
        least = UNDERLAY_BYTES + head + MIN_STRIDE
        raise ConfigError(
            "fabric.mtu", mtu, f"at least {least} with BitStrings of {bitstring_bits}"
        )
    most = min(room, PIECE_BYTES - head)
    n_piece = -(-PIECE_BYTES // (most + head))
    even = (PIECE_BYTES // n_piece - head) // ALIGN * ALIGN
    stride = even if even * 10 >= most * 9 else most // ALIGN * ALIGN
    return Geometry(stride, MAX_PSN if stride <= BIG else BIG_PSN)
