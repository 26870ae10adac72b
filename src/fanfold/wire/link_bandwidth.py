"""Link Bandwidth Extended Community, RFC 10005 section 3: what a path carries; docs/planes.md.

    bits       field       meaning
    0-7        kind        0 transitive, 64 non-transitive
    8-15       sub_type    always 4
    16-31      asn         of the speaker that attached it; nothing follows from it
    32-63      value       bytes per second, IEEE 754 binary32

The value is kept as the 32 bits that were sent, so that a community goes on bit for bit; as a
number it is an exact fraction.
"""

from collections.abc import Iterable
from enum import IntEnum
from fractions import Fraction
from struct import Struct

import msgspec

from fanfold.errors import MisuseError, WireError, WireReason
from fanfold.wire.kinds import require_end
from fanfold.wire.width import pack

HEADER = "link_bandwidth"
FIXED_BYTES = 8
SUB_TYPE = 4

_LAYOUT = Struct("!BBHI")
_SIGN = 1 << 31
_FRACTION_BITS = 23
_FRACTION = (1 << _FRACTION_BITS) - 1
_NOT_FINITE = 0xFF
_BIAS = 127 + _FRACTION_BITS
"""Of the exponent when the fraction is read as a whole number."""


class BandwidthKind(IntEnum):
    """Type octet of the community, of a two-octet AS (RFC 4360 section 3.1)."""

    TRANSITIVE = 0x00
    NON_TRANSITIVE = 0x40


class LinkBandwidth(msgspec.Struct, frozen=True, gc=False):
    """One community; ``value`` is its number as the 32 bits that were sent."""

    kind: int
    asn: int
    value: int

    @property
    def size_bytes(self) -> int:
        """Length of the community."""
        return FIXED_BYTES

    @property
    def bytes_per_s(self) -> Fraction | None:
        """Its number, zero too; None where the community is ignored.

        RFC 10005 section 4 has a negative one ignored. Of what is no number, and of the
        infinite, it says nothing: no share follows from either, so they are ignored alike.
        """
        return binary32_of(self.value)


def decode(buf: bytes) -> LinkBandwidth:
    """Read a community that fills `buf` exactly.

    Raises:
        WireError: TRUNCATED, TRAILING, BAD_KIND; nothing else escapes.
    """
    require_end(HEADER, buf, FIXED_BYTES)
    kind, sub_type, asn, value = _LAYOUT.unpack(buf)
    if not is_link_bandwidth(kind, sub_type):
        raise WireError(HEADER, WireReason.BAD_KIND, f"type {kind:#x} {sub_type:#x}")
    return LinkBandwidth(kind, asn, value)


def encode(community: LinkBandwidth) -> bytes:
    """Write the community.

    Raises:
        MisuseError: a value does not fit its field.
    """
    if not is_link_bandwidth(community.kind, SUB_TYPE):
        raise MisuseError(f"{HEADER}.kind: got {community.kind}, allowed: 0, 64")
    return pack(HEADER, _LAYOUT, community.kind, SUB_TYPE, community.asn, community.value)


def is_link_bandwidth(kind: int, sub_type: int) -> bool:
    """Whether an extended community with these two octets is one of this file."""
    return kind in (BandwidthKind.TRANSITIVE, BandwidthKind.NON_TRANSITIVE) and (
        sub_type == SUB_TYPE
    )


def lowest(communities: Iterable[LinkBandwidth]) -> Fraction | None:
    """Bandwidth of a route: the lowest one that counts, of either kind (RFC 10005 section 4).

    Returns:
        Bytes per second; None where no community counts.
    """
    known = (community.bytes_per_s for community in communities)
    return min((number for number in known if number is not None), default=None)


def binary32_of(value: int) -> Fraction | None:
    """Number of 32 bits of IEEE 754 binary32; None where it is negative or not finite."""
    exponent, fraction = value >> _FRACTION_BITS & 0xFF, value & _FRACTION
    if exponent == _NOT_FINITE:
        return None
    if exponent:
        fraction |= 1 << _FRACTION_BITS
    if value & _SIGN and fraction:  # minus zero is zero
        return None
    power = max(exponent, 1) - _BIAS
    return Fraction(fraction << power) if power >= 0 else Fraction(fraction, 1 << -power)


def to_binary32(number: Fraction | int) -> int:
    """The 32 bits of a number that is not negative, to nearest, ties to even.

    Raises:
        MisuseError: negative, or above the largest finite value.
    """
    number = Fraction(number)
    if number < 0:
        raise MisuseError(f"{HEADER}.value: got {number}, allowed: 0 and above")
    power = max(_log2(number) - _FRACTION_BITS, 1 - _BIAS)
    per_unit = Fraction(1, 1 << power) if power >= 0 else Fraction(1 << -power)
    whole = round(number * per_unit)  # ties to even
    if whole >> (_FRACTION_BITS + 1):  # rounded up to the next power of two
        whole, power = whole >> 1, power + 1
    exponent = power + _BIAS if whole >> _FRACTION_BITS else 0
    if exponent >= _NOT_FINITE:
        raise MisuseError(f"{HEADER}.value: got {number}, allowed: below 2**128")
    return exponent << _FRACTION_BITS | whole & _FRACTION


def _log2(number: Fraction) -> int:
    """Largest n with 2**n <= number; far below what binary32 holds for zero."""
    if not number:
        return -1000
    guess = number.numerator.bit_length() - number.denominator.bit_length()
    power = Fraction(1 << guess) if guess >= 0 else Fraction(1, 1 << -guess)
    return guess if power <= number else guess - 1
