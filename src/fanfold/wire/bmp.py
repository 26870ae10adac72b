"""BMP, RFC 7854: how a BGP speaker tells a station which routes it has, from which peer.

    version 1 octet, 3; length 4, of all; type 1. Of types 0, 2 and 3 a header of the peer:
    type 1, flags 1, distinguisher 8, address 16, AS 4, BGP identifier 4, time 4 + 4

Read only. A route monitoring message holds a BGP message as its speaker got it.
"""

from enum import IntEnum
from ipaddress import IPv4Address
from typing import NamedTuple

from fanfold.errors import WireError, WireReason

HEADER = "bmp"
HEADER_BYTES = 6
PEER_BYTES = 42
MAX_BYTES = 1 << 16
"""Of one message: a BGP message of 4,096 octets or two, and some words."""
_VERSION = 3
_V6, _TWO_OCTETS = 0x80, 0x20


class BmpType(IntEnum):
    """Type of a message, RFC 7854 section 4.1."""

    ROUTE_MONITORING = 0
    STATISTICS = 1
    PEER_DOWN = 2
    PEER_UP = 3
    INITIATION = 4
    TERMINATION = 5
    ROUTE_MIRRORING = 6


WITH_PEER = (BmpType.ROUTE_MONITORING, BmpType.PEER_DOWN, BmpType.PEER_UP)


class Told(NamedTuple):
    """One message.

    peer: IPv4 address of the peer it is about; empty where it is about none, or one of IPv6.
    asn_bytes: of AS numbers in what follows. body: behind the headers.
    """

    type: int
    peer: str
    asn_bytes: int
    body: bytes


def split(buf: bytes) -> tuple[list[Told], bytes]:
    """Whole messages at the beginning of a stream, and what is left of it.

    Raises:
        WireError: BAD_VERSION, TRUNCATED, TRAILING, BAD_KIND; nothing else escapes.
    """
    found, at = [], 0
    while len(buf) - at >= HEADER_BYTES:
        if buf[at] != _VERSION:
            raise WireError(HEADER, WireReason.BAD_VERSION, buf[at])
        size = int.from_bytes(buf[at + 1 : at + 5], "big")
        if size > MAX_BYTES:
            raise WireError(HEADER, WireReason.TRAILING, f"length {size}")
        if size < HEADER_BYTES:
            raise WireError(HEADER, WireReason.TRUNCATED, f"length {size}")
        if len(buf) - at < size:
            break
        found.append(_read(buf[at + 5], buf[at + HEADER_BYTES : at + size]))
        at += size
    return found, buf[at:]


def _read(kind: int, body: bytes) -> Told:
    if kind > BmpType.ROUTE_MIRRORING:
        raise WireError(HEADER, WireReason.BAD_KIND, f"type {kind}")
    if kind not in WITH_PEER:
        return Told(kind, "", 4, body)
    if len(body) < PEER_BYTES:
        raise WireError(HEADER, WireReason.TRUNCATED, f"peer of {len(body)}")
    flags = body[1]
    peer = "" if flags & _V6 else str(IPv4Address(body[22:26]))
    return Told(kind, peer, 2 if flags & _TWO_OCTETS else 4, body[PEER_BYTES:])
