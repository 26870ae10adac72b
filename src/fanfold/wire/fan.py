"""DATA: one packet of a block, from the BFIR to the receivers; docs/wire/fan.md section 2.

    bits       field      meaning
    0-3        version    always 1
    4-7        kind       always 1
    8-11       reserved   ignored, sent as 0
    12-15      flags      8 SOURCE repairs alone, 4 REPAIR, 2 LAST block, 1 POLL report now
    16-23      n_psn      packets in this block, 1..64
    24-31      psn        place in the block, 0..n_psn-1
    32-63      flow       even: manifest of a push; odd: its data
    64-95      block      number of the block in the flow
    96-103     round      +1 each time the sender sends again into this block
    104-111    first_ttl  TTL the BFIR wrote; depth of a BFR = first_ttl - ttl
    112-127    stride     payload bytes of a full packet, not 0; psn belongs at psn * stride

The payload follows the header up to the end of the UDP datagram.
"""

from enum import IntFlag
from struct import Struct

import msgspec

from fanfold.errors import WireError, WireReason
from fanfold.wire.kinds import Kind, first_byte, require
from fanfold.wire.width import fits, pack, within

HEADER = "fan"
FIXED_BYTES = 16
MAX_PSN = 64

_LAYOUT = Struct("!BBBBIIBBH")


class DataFlag(IntFlag):
    """Flags of DATA."""

    POLL = 1
    LAST = 2
    REPAIR = 4
    SOURCE = 8


class Data(msgspec.Struct, frozen=True, gc=False):
    """Header of one data packet."""

    flow: int
    block: int
    n_psn: int
    psn: int
    stride: int
    first_ttl: int
    flags: int = 0
    round: int = 0

    @property
    def size_bytes(self) -> int:
        """Length of the header; the payload starts here."""
        return FIXED_BYTES


def decode(buf: bytes) -> Data:
    """Read the header at the start of `buf`.

    Raises:
        WireError: TRUNCATED, BAD_VERSION, BAD_KIND, BAD_FIELD; nothing else escapes.
    """
    require(HEADER, buf, Kind.DATA, FIXED_BYTES)
    _, flags, n_psn, psn, flow, block, round_, first_ttl, stride = _LAYOUT.unpack_from(buf)
    if not 1 <= n_psn <= MAX_PSN:
        raise WireError(HEADER, WireReason.BAD_FIELD, f"n_psn {n_psn}")
    if psn >= n_psn:
        raise WireError(HEADER, WireReason.BAD_FIELD, f"psn {psn} of {n_psn}")
    if stride == 0:
        raise WireError(HEADER, WireReason.BAD_FIELD, "stride 0")
    return Data(flow, block, n_psn, psn, stride, first_ttl, flags & 15, round_)


def encode(data: Data) -> bytes:
    """Write the header.

    Raises:
        MisuseError: a value does not fit its field.
    """
    return pack(
        HEADER,
        _LAYOUT,
        first_byte(Kind.DATA),
        fits(HEADER, "flags", data.flags, 4),
        within(HEADER, "n_psn", data.n_psn, 1, MAX_PSN),
        within(HEADER, "psn", data.psn, 0, data.n_psn - 1),
        data.flow,
        data.block,
        data.round,
        data.first_ttl,
        within(HEADER, "stride", data.stride, 1, 0xFFFF),
    )
