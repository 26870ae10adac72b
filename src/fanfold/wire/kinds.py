"""The first byte of every fanfold message: version 4 bits, kind 4 bits."""

from enum import IntEnum

from fanfold.errors import WireError, WireReason

VERSION = 1
HEADER = "fanfold"


class Kind(IntEnum):
    """What a message is."""

    DATA = 1
    FEEDBACK = 2
    ASK = 3
    REPORT = 4
    CLOSE = 5
    FOLD = 6
    SPREAD = 7
    HELLO = 8
    NOTICE = 9
    HANDSHAKE = 10


DOWN_KINDS = frozenset({Kind.DATA, Kind.ASK, Kind.CLOSE, Kind.SPREAD})
"""From the BFIR to receivers; the others travel up to the BFIR or to the root of a group."""


def first_byte(kind: Kind) -> int:
    """Version and kind as sent."""
    return VERSION << 4 | kind


def kind_of(buf: bytes) -> Kind:
    """Read the first byte.

    Raises:
        WireError: TRUNCATED, BAD_VERSION, BAD_KIND.
    """
    if not buf:
        raise WireError(HEADER, WireReason.TRUNCATED, 0)
    if buf[0] >> 4 != VERSION:
        raise WireError(HEADER, WireReason.BAD_VERSION, buf[0] >> 4)
    try:
        return Kind(buf[0] & 0xF)
    except ValueError:
        raise WireError(HEADER, WireReason.BAD_KIND, buf[0] & 0xF) from None


def require(header: str, buf: bytes, kind: Kind, n_bytes: int) -> None:
    """Refuse a message that is too short for its fixed part, or of another kind.

    Raises:
        WireError: TRUNCATED, BAD_VERSION, BAD_KIND.
    """
    if len(buf) < n_bytes:
        raise WireError(header, WireReason.TRUNCATED, len(buf))
    got = kind_of(buf)
    if got != kind:
        raise WireError(header, WireReason.BAD_KIND, int(got))


def require_end(header: str, buf: bytes, n_bytes: int) -> None:
    """Refuse a message that is shorter or longer than its fields say.

    Raises:
        WireError: TRUNCATED, TRAILING.
    """
    if len(buf) < n_bytes:
        raise WireError(header, WireReason.TRUNCATED, len(buf))
    if len(buf) > n_bytes:
        raise WireError(header, WireReason.TRAILING, len(buf) - n_bytes)
