"""BitStrings: lengths, places of BFR-ids, and the three forms a BitString takes.

RFC 8279 section 3 (BFR-id, SI, bit position), RFC 8296 section 2.1.2 (BSL codes), and
draft-ietf-bier-non-mpls-bift-encoding-04 section 5 (static BIFT-id).

The chief form here is a Python int: bit position p is the bit of weight 2**(p - 1), so
position 1 is the least significant bit of the last byte sent. Figures of
draft-song-ina-00 count from the left; BIER counts from the right.
"""

from collections.abc import Iterable
from typing import NamedTuple

from fanfold.errors import ConfigError, WireError, WireReason
from fanfold.ids import MAX_BFR_ID

MIN_BSL = 1
MAX_BSL = 7
DEFAULT_BSL = 3  # RFC 8279 section 3: every BFR supports 256
MAX_SI = 255  # RFC 8401 section 6.2
MAX_SUB_DOMAIN = 255
WORD_BITS = 64
WORD_MASK = (1 << WORD_BITS) - 1
LENGTHS = tuple(1 << (bsl + 5) for bsl in range(MIN_BSL, MAX_BSL + 1))
"""Bits of a BitString, 64 to 4096."""
ALLOWED_BITS = ", ".join(map(str, LENGTHS))


class BiftId(NamedTuple):
    """What a non-MPLS BIFT-id names."""

    bsl: int
    sub_domain: int
    si: int


def bitstring_bits(bsl: int) -> int:
    """Bits of BitString for a BSL code, 1..7 (RFC 8296 section 2.1.2).

    Raises:
        WireError: BAD_BSL.
    """
    if not MIN_BSL <= bsl <= MAX_BSL:
        raise WireError("bitstring", WireReason.BAD_BSL, bsl)
    return 1 << (bsl + 5)


def bitstring_bytes(bsl: int) -> int:
    """Bytes of BitString for a BSL code."""
    return bitstring_bits(bsl) >> 3


def bsl_of_bits(n_bits: int) -> int:
    """BSL code for a BitString length that an operator wrote in bits.

    Raises:
        ConfigError: not one of the seven lengths.
    """
    bsl = n_bits.bit_length() - 6
    if not (MIN_BSL <= bsl <= MAX_BSL and n_bits == bitstring_bits(bsl)):
        raise ConfigError("bsl", n_bits, ALLOWED_BITS)
    return bsl


def place(bfr_id: int, bsl: int) -> tuple[int, int]:
    """Return (SI, bit position) of a BFR-id (RFC 8279 section 3).

    Raises:
        ConfigError: the id is not 1..65535 or its SI does not fit 8 bits.
    """
    n_bits = bitstring_bits(bsl)
    last = min(MAX_BFR_ID, (MAX_SI + 1) * n_bits)
    if not 1 <= bfr_id <= last:
        raise ConfigError("bfr_id", bfr_id, f"1..{last}")
    si, bit_index = divmod(bfr_id - 1, n_bits)
    return si, bit_index + 1


def bfr_id_at(si: int, bit_position: int, bsl: int) -> int:
    """Return the BFR-id of a bit.

    Raises:
        ConfigError: no BFR-id has that bit.
    """
    n_bits = bitstring_bits(bsl)
    if not 0 <= si <= MAX_SI:
        raise ConfigError("si", si, f"0..{MAX_SI}")
    if not 1 <= bit_position <= n_bits:
        raise ConfigError("bit_position", bit_position, f"1..{n_bits}")
    bfr_id = si * n_bits + bit_position
    if bfr_id > MAX_BFR_ID:
        raise ConfigError("bfr_id", bfr_id, f"1..{MAX_BFR_ID}")
    return bfr_id


def bitstrings_of(bfr_ids: Iterable[int], bsl: int) -> dict[int, int]:
    """Group BFR-ids into one BitString for each SI, lowest SI first."""
    sets: dict[int, int] = {}
    for bfr_id in bfr_ids:
        si, bit_position = place(bfr_id, bsl)
        sets[si] = sets.get(si, 0) | 1 << (bit_position - 1)
    return dict(sorted(sets.items()))


def ids_of(si: int, bitstring: int, bsl: int) -> tuple[int, ...]:
    """Return the BFR-ids whose bits are set, rising."""
    found = []
    while bitstring:
        lowest = bitstring & -bitstring
        found.append(bfr_id_at(si, lowest.bit_length(), bsl))
        bitstring ^= lowest
    return tuple(found)


def to_bytes(bitstring: int, bsl: int) -> bytes:
    """BitString as sent: most significant bit first."""
    return bitstring.to_bytes(bitstring_bytes(bsl), "big")


def from_bytes(buf: bytes) -> int:
    """BitString from the bytes of a header."""
    return int.from_bytes(buf, "big")


def to_words(bitstring: int, bsl: int) -> list[int]:
    """BitString as uint64 words for a kernel; word 0 holds positions 1..64."""
    n_words = bitstring_bits(bsl) // WORD_BITS
    return [bitstring >> (WORD_BITS * word) & WORD_MASK for word in range(n_words)]


def from_words(words: Iterable[int]) -> int:
    """BitString from a kernel's words."""
    return sum(int(word) << (WORD_BITS * index) for index, word in enumerate(words))


def bift_id(bsl: int, sub_domain: int, si: int) -> int:
    """Static non-MPLS BIFT-id: BSL code, sub-domain, SI.

    Raises:
        ConfigError: sub-domain or SI outside 0..255.
    """
    bitstring_bits(bsl)
    if not 0 <= sub_domain <= MAX_SUB_DOMAIN:
        raise ConfigError("sub_domain", sub_domain, f"0..{MAX_SUB_DOMAIN}")
    if not 0 <= si <= MAX_SI:
        raise ConfigError("si", si, f"0..{MAX_SI}")
    return bsl << 16 | sub_domain << 8 | si


def split_bift_id(value: int) -> BiftId:
    """Take a static BIFT-id apart.

    Raises:
        WireError: BAD_BIFT_ID, its BSL code is not 1..7 or it is over 20 bits.
    """
    bsl = value >> 16
    if not MIN_BSL <= bsl <= MAX_BSL:
        raise WireError("bift_id", WireReason.BAD_BIFT_ID, hex(value))
    return BiftId(bsl, value >> 8 & 0xFF, value & 0xFF)


def parse_ids(text: str) -> tuple[int, ...]:
    """Read BFR-ids as an operator writes them: "1,3-5,300".

    Raises:
        ConfigError: a part is neither N nor N-M with 1 <= N <= M <= 65535.
    """
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        low = _bfr_id(first, part)
        high = _bfr_id(last, part) if dash else low
        if low > high:
            raise ConfigError("ids", part, "N-M with N <= M")
        found.update(range(low, high + 1))
    return tuple(sorted(found))


def _bfr_id(digits: str, part: str) -> int:
    """Read one BFR-id of a list."""
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= 5
    if not is_number or not 1 <= int(digits) <= MAX_BFR_ID:
        raise ConfigError("ids", part, f"N or N-M, 1..{MAX_BFR_ID}, joined by commas")
    return int(digits)
