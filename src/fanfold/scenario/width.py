"""How long a BitString is where nobody says: the length that costs a source's link least.

A fan takes one packet for each set of BFR-ids that its receivers stand in (RFC 8279 section 3),
and each packet carries the whole BitString.
"""

import msgspec

from fanfold.kernels.layout import BITS_AT, FAN_BYTES, INNER_BYTES, UNDERLAY_BYTES
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import Program
from fanfold.wire.bitstring import LENGTHS

WIDTHS = LENGTHS
AUTO = 0


def best_width(n_ids: int, payload_bytes: int) -> int:
    """Bits of a BitString for BFR-ids 1..n_ids, the shortest of equals."""
    fixed = payload_bytes + UNDERLAY_BYTES + BITS_AT + INNER_BYTES + FAN_BYTES
    return min(WIDTHS, key=lambda bits: -(-n_ids // bits) * (fixed + bits // 8))


def bits_of(settings: Settings, program: Program, n_ids: int) -> int:
    """Bits of the BitString that fans by BIER carry; 0 where there are none."""
    if program.trees or not program.fans:
        return 0
    return with_width(settings, n_ids).bitstring_bits


def with_width(settings: Settings, n_ids: int) -> Settings:
    """The same settings with a length of BitStrings."""
    if settings.bitstring_bits != AUTO:
        return settings
    around = settings.payload_bytes + settings.underlay_bytes - UNDERLAY_BYTES
    bits = best_width(max(n_ids, 1), around)
    return msgspec.structs.replace(settings, bitstring_bits=bits)
