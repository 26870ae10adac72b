"""BIER header, non-MPLS form: RFC 8296 section 2.2.

    bits       field      meaning
    0-19       bift_id    BSL code 4, sub-domain 8, SI 8; the BitString's length comes from here
    20-22      tc         ignored, sent as 0
    23-23      s          ignored, sent as 1
    24-31      ttl        hops left
    32-35      nibble     ignored, sent as 0
    36-39      ver        always 0
    40-43      bsl        code of the BitString's length, 1..7, the same as in bift_id
    44-63      entropy    same entropy and same BitString take the same path
    64-65      oam        0 from the BFIR, unchanged by others
    66-67      rsv        ignored, sent as 0
    68-73      dscp       differentiated services code point
    74-79      proto      what follows the header, BIER Next Protocol Identifiers
    80-95      bfir_id    BFR-id of the BFIR
    96-95+8L   bitstring  L bytes, bit position 1 is the last bit

A BitString of zero and a BIFT-id that no table knows are matters of forwarding
(RFC 8279 section 6.5), not of this codec.
"""

from struct import Struct

import msgspec

from fanfold.errors import WireError, WireReason
from fanfold.wire import bitstring as bs
from fanfold.wire.width import fits, pack, within

HEADER = "bier"
FIXED_BYTES = 12
PROTO_IPV4 = 4
UDP_PORT = 8138
ETHERTYPE = 0xAB37  # RFC 8296 section 2.2.3

_WORDS = Struct("!III")


class BierHeader(msgspec.Struct, frozen=True, gc=False):
    """One header; `bitstring` is an int, position p has weight 2**(p - 1)."""

    bift_id: int
    ttl: int
    bfir_id: int
    bitstring: int
    entropy: int = 0
    oam: int = 0
    dscp: int = 0
    proto: int = PROTO_IPV4

    @property
    def bsl(self) -> int:
        """BSL code, from the BIFT-id."""
        return self.bift_id >> 16

    @property
    def sub_domain(self) -> int:
        """Sub-domain, from the BIFT-id."""
        return self.bift_id >> 8 & 0xFF

    @property
    def si(self) -> int:
        """Set identifier, from the BIFT-id."""
        return self.bift_id & 0xFF

    @property
    def size_bytes(self) -> int:
        """Length of the header; the payload starts here."""
        return FIXED_BYTES + bs.bitstring_bytes(self.bsl)


def decode(buf: bytes) -> BierHeader:
    """Read the header at the start of `buf`; the payload follows at `size_bytes`.

    Raises:
        WireError: TRUNCATED, BAD_VERSION, BAD_BIFT_ID, BAD_BSL, BSL_MISMATCH; nothing
            else escapes.
    """
    if len(buf) < FIXED_BYTES:
        raise WireError(HEADER, WireReason.TRUNCATED, len(buf))
    first, second, third = _WORDS.unpack_from(buf)
    bift_id = first >> 12
    check_version(second)
    bsl = bs.split_bift_id(bift_id).bsl  # never from the BSL field: RFC 8296 2.1.2
    check_bsl(second, bsl)
    return BierHeader(
        bift_id=bift_id,
        ttl=first & 0xFF,
        bfir_id=third & 0xFFFF,
        bitstring=cut_bitstring(buf, bsl),
        entropy=second & 0xFFFFF,
        oam=third >> 30,
        dscp=third >> 22 & 0x3F,
        proto=third >> 16 & 0x3F,
    )


def encode(header: BierHeader) -> bytes:
    """Write the header.

    Raises:
        MisuseError: a value does not fit its field.
    """
    bsl = within(HEADER, "bsl", header.bsl, bs.MIN_BSL, bs.MAX_BSL)
    first = header.bift_id << 12 | 1 << 8 | fits(HEADER, "ttl", header.ttl, 8)
    second = bsl << 20 | fits(HEADER, "entropy", header.entropy, 20)
    third = (
        fits(HEADER, "oam", header.oam, 2) << 30
        | fits(HEADER, "dscp", header.dscp, 6) << 22
        | fits(HEADER, "proto", header.proto, 6) << 16
        | fits(HEADER, "bfir_id", header.bfir_id, 16)
    )
    bits = fits(HEADER, "bitstring", header.bitstring, bs.bitstring_bits(bsl))
    return pack(HEADER, _WORDS, first, second, third) + bs.to_bytes(bits, bsl)


def check_version(second: int) -> None:
    """Refuse any version but 0; 0xF is experimental and never assigned (RFC 8296 2.1.2)."""
    ver = second >> 24 & 0xF
    if ver != 0:
        raise WireError(HEADER, WireReason.BAD_VERSION, ver)


def check_bsl(second: int, bsl: int) -> None:
    """Refuse a BSL field outside 1..7, or at odds with the BIFT-id (RFC 8296 2.1.2)."""
    got = second >> 20 & 0xF
    if not bs.MIN_BSL <= got <= bs.MAX_BSL:
        raise WireError(HEADER, WireReason.BAD_BSL, got)
    if got != bsl:
        raise WireError(HEADER, WireReason.BSL_MISMATCH, f"field {got}, BIFT-id {bsl}")


def cut_bitstring(buf: bytes, bsl: int) -> int:
    """Read the BitString that follows the fixed words."""
    end = FIXED_BYTES + bs.bitstring_bytes(bsl)
    if len(buf) < end:
        raise WireError(HEADER, WireReason.TRUNCATED, len(buf))
    return bs.from_bytes(buf[FIXED_BYTES:end])
