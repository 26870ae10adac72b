"""BIER header, MPLS form: RFC 8296 section 2.1.

    bits       field      meaning
    0-19       label      an MPLS label; the node that gave it out knows its (SD, BSL, SI)
    20-22      tc         MPLS traffic class
    23-23      s          always 1
    24-31      ttl        MPLS TTL
    32-35      nibble     always 5
    36-39      ver        always 0
    40-43      bsl        code of the BitString's length, 1..7, the same as the label's
    44-63      entropy    same entropy and same BitString take the same path
    64-65      oam        0 from the BFIR, unchanged by others
    66-67      rsv        ignored, sent as 0
    68-73      dscp       ignored, sent as 0
    74-79      proto      what follows the header, BIER Next Protocol Identifiers
    80-95      bfir_id    BFR-id of the BFIR
    96-95+8L   bitstring  L bytes, bit position 1 is the last bit

The label says nothing about the length, so the caller gives the BSL from its label map.
"""

from struct import Struct

import msgspec

from fanfold.errors import WireError, WireReason
from fanfold.wire import bitstring as bs
from fanfold.wire.bier import FIXED_BYTES, PROTO_IPV4, check_bsl, check_version, cut_bitstring
from fanfold.wire.width import fits, pack, within

HEADER = "bier_mpls"
NIBBLE = 5  # so that ECMP logic takes it for neither IP nor a pseudowire
ETHERTYPE = 0x8847  # RFC 8296 section 2.1.3: unicast MPLS, never 0x8848

_WORDS = Struct("!III")


class MplsBierHeader(msgspec.Struct, frozen=True, gc=False):
    """One header; `bitstring` is an int, position p has weight 2**(p - 1)."""

    label: int
    bsl: int
    ttl: int
    bfir_id: int
    bitstring: int
    tc: int = 0
    entropy: int = 0
    oam: int = 0
    proto: int = PROTO_IPV4

    @property
    def size_bytes(self) -> int:
        """Length of the header; the payload starts here."""
        return FIXED_BYTES + bs.bitstring_bytes(self.bsl)


def decode(buf: bytes, bsl: int) -> MplsBierHeader:
    """Read the header at the start of `buf`; the payload follows at `size_bytes`.

    Args:
        buf: starts at the label stack entry of the BIER label.
        bsl: BSL code that the label stands for.

    Raises:
        WireError: TRUNCATED, BAD_FIELD (not the last label), BAD_NIBBLE, BAD_VERSION,
            BAD_BSL, BSL_MISMATCH; nothing else escapes.
    """
    if len(buf) < FIXED_BYTES:
        raise WireError(HEADER, WireReason.TRUNCATED, len(buf))
    first, second, third = _WORDS.unpack_from(buf)
    if not first >> 8 & 1:
        raise WireError(HEADER, WireReason.BAD_FIELD, "s 0")
    if second >> 28 != NIBBLE:
        raise WireError(HEADER, WireReason.BAD_NIBBLE, second >> 28)
    check_version(second)
    check_bsl(second, bsl)
    return MplsBierHeader(
        label=first >> 12,
        bsl=bsl,
        ttl=first & 0xFF,
        bfir_id=third & 0xFFFF,
        bitstring=cut_bitstring(buf, bsl),
        tc=first >> 9 & 7,
        entropy=second & 0xFFFFF,
        oam=third >> 30,
        proto=third >> 16 & 0x3F,
    )


def encode(header: MplsBierHeader) -> bytes:
    """Write the header.

    Raises:
        MisuseError: a value does not fit its field.
    """
    n_bits = bs.bitstring_bits(within(HEADER, "bsl", header.bsl, bs.MIN_BSL, bs.MAX_BSL))
    first = (
        fits(HEADER, "label", header.label, 20) << 12
        | fits(HEADER, "tc", header.tc, 3) << 9
        | 1 << 8
        | fits(HEADER, "ttl", header.ttl, 8)
    )
    second = NIBBLE << 28 | header.bsl << 20 | fits(HEADER, "entropy", header.entropy, 20)
    third = (
        fits(HEADER, "oam", header.oam, 2) << 30
        | fits(HEADER, "proto", header.proto, 6) << 16
        | fits(HEADER, "bfir_id", header.bfir_id, 16)
    )
    bits = fits(HEADER, "bitstring", header.bitstring, n_bits)
    return pack(HEADER, _WORDS, first, second, third) + bs.to_bytes(bits, header.bsl)
