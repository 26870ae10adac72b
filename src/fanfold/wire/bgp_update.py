"""BGP messages as far as path bandwidths need them: header and UPDATE, RFC 4271 section 4.

    marker 16 octets of ones, length 2, type 1, then of an UPDATE:
    withdrawn length 2, prefixes; attributes length 2, attributes; announced prefixes

Read only: FRR speaks (ADR 0051). Lengths, flags and the attributes that routes of
IPv4 unicast stand on are checked (RFC 4271 section 6.3, RFC 7606); others are passed over by
their length. Whoever sees an UPDATE refused has to take none of it.
"""

from collections.abc import Iterator
from enum import IntEnum
from ipaddress import IPv4Address, IPv4Network
from typing import NamedTuple

import msgspec

from fanfold.errors import WireError, WireReason
from fanfold.wire import link_bandwidth
from fanfold.wire.link_bandwidth import LinkBandwidth, is_link_bandwidth

HEADER = "bgp"
HEADER_BYTES = 19
MAX_BYTES = 4096
MARKER = b"\xff" * 16


class MessageType(IntEnum):
    """Type of a BGP message."""

    OPEN = 1
    UPDATE = 2
    NOTIFICATION = 3
    KEEPALIVE = 4
    ROUTE_REFRESH = 5


class PathAttribute(IntEnum):
    """Attributes that are looked into, RFC 4271 section 5.1 and RFC 4360."""

    ORIGIN = 1
    AS_PATH = 2
    NEXT_HOP = 3
    EXT_COMMUNITIES = 16


_OPTIONAL, _TRANSITIVE, _PARTIAL, _LONG = 0x80, 0x40, 0x20, 0x10
_FLAGS = {
    PathAttribute.ORIGIN: _TRANSITIVE,
    PathAttribute.AS_PATH: _TRANSITIVE,
    PathAttribute.NEXT_HOP: _TRANSITIVE,
    PathAttribute.EXT_COMMUNITIES: _OPTIONAL | _TRANSITIVE,
}
_MANDATORY = (PathAttribute.ORIGIN, PathAttribute.AS_PATH, PathAttribute.NEXT_HOP)
_MAX_ORIGIN = 2
_SEGMENTS = (1, 2, 3, 4)
"""AS_SET, AS_SEQUENCE, and those of confederations (RFC 5065)."""
_COMMUNITY_BYTES = 8


class Update(msgspec.Struct, frozen=True, gc=False):
    """One UPDATE of IPv4 unicast.

    next_hop: empty where nothing is announced. as_path: AS numbers in order, of sets too.
    bandwidths: all Link Bandwidth communities of the announced prefixes, in order.
    """

    withdrawn: tuple[str, ...] = ()
    announced: tuple[str, ...] = ()
    next_hop: str = ""
    as_path: tuple[int, ...] = ()
    bandwidths: tuple[LinkBandwidth, ...] = ()


class Message(NamedTuple):
    """A message of any type, without its header."""

    type: int
    body: bytes


def split(buf: bytes) -> tuple[list[Message], bytes]:
    """Whole messages at the beginning of a stream, and what is left of it.

    Raises:
        WireError: TRUNCATED where a length is below that of a header, TRAILING above that of a
            message, BAD_FIELD for a marker, BAD_KIND for a type; nothing else escapes.
    """
    found, at = [], 0
    while len(buf) - at >= HEADER_BYTES:
        size = _size_of(buf, at)
        if len(buf) - at < size:
            break
        found.append(Message(buf[at + 18], buf[at + HEADER_BYTES : at + size]))
        at += size
    return found, buf[at:]


def _size_of(buf: bytes, at: int) -> int:
    if buf[at : at + 16] != MARKER:
        raise WireError(HEADER, WireReason.BAD_FIELD, "marker")
    size = int.from_bytes(buf[at + 16 : at + 18], "big")
    if size < HEADER_BYTES:
        raise WireError(HEADER, WireReason.TRUNCATED, f"length {size}")
    if size > MAX_BYTES:
        raise WireError(HEADER, WireReason.TRAILING, f"length {size}")
    if not MessageType.OPEN <= buf[at + 18] <= MessageType.ROUTE_REFRESH:
        raise WireError(HEADER, WireReason.BAD_KIND, f"type {buf[at + 18]}")
    return size


def decode(body: bytes, asn_bytes: int = 4) -> Update:
    """Read an UPDATE without its header.

    Args:
        body: the message. asn_bytes: of an AS number, 4 where both ends said so (RFC 6793).

    Raises:
        WireError: TRUNCATED, TRAILING, BAD_FIELD; nothing else escapes.
    """
    withdrawn, rest = _counted(body, "withdrawn")
    attributes, announced = _counted(rest, "attributes")
    update = _attributes_of(attributes, asn_bytes, has_routes=bool(announced))
    return msgspec.structs.replace(
        update, withdrawn=tuple(_prefixes(withdrawn)), announced=tuple(_prefixes(announced))
    )


def _counted(buf: bytes, field: str) -> tuple[bytes, bytes]:
    """What a length of two octets counts, and what stands behind it."""
    size = int.from_bytes(buf[:2], "big")
    if len(buf) < 2 + size:
        raise WireError(HEADER, WireReason.TRUNCATED, f"{field} {len(buf)} of {2 + size}")
    return buf[2 : 2 + size], buf[2 + size :]


def _prefixes(buf: bytes) -> Iterator[str]:
    at = 0
    while at < len(buf):
        n_bits = buf[at]
        n_bytes = (n_bits + 7) // 8
        if n_bits > 32:
            raise WireError(HEADER, WireReason.BAD_FIELD, f"prefix of {n_bits} bits")
        octets = buf[at + 1 : at + 1 + n_bytes]
        if len(octets) < n_bytes:
            raise WireError(HEADER, WireReason.TRUNCATED, f"prefix of {n_bits} bits")
        # bits behind the prefix mean nothing, RFC 4271 section 4.3
        yield str(IPv4Network((octets.ljust(4, b"\0"), n_bits), strict=False))
        at += 1 + n_bytes


def _attributes_of(buf: bytes, asn_bytes: int, *, has_routes: bool) -> Update:
    values: dict[int, bytes] = {}
    for code, value in _walk(buf):
        if code in values:
            raise WireError(HEADER, WireReason.BAD_FIELD, f"attribute {code} twice")
        values[code] = value
    lacking = [a.name for a in _MANDATORY if a not in values]
    if has_routes and lacking:
        raise WireError(HEADER, WireReason.BAD_FIELD, f"no {lacking[0]}")
    origin = values.get(PathAttribute.ORIGIN, b"\0")
    if len(origin) != 1 or origin[0] > _MAX_ORIGIN:
        raise WireError(HEADER, WireReason.BAD_FIELD, f"ORIGIN {origin.hex()}")
    hop = values.get(PathAttribute.NEXT_HOP, b"")
    if PathAttribute.NEXT_HOP in values and len(hop) != 4:
        raise WireError(HEADER, WireReason.BAD_FIELD, f"NEXT_HOP of {len(hop)}")
    return Update(
        next_hop=str(IPv4Address(hop)) if hop else "",
        as_path=tuple(_as_path(values.get(PathAttribute.AS_PATH, b""), asn_bytes)),
        bandwidths=tuple(_bandwidths(values.get(PathAttribute.EXT_COMMUNITIES, b""))),
    )


def _walk(buf: bytes) -> Iterator[tuple[int, bytes]]:
    """Attributes by code, each within its length, with the flags of its code."""
    at = 0
    while at < len(buf):
        head = buf[at : at + 2]
        n_length = 2 if head[0] & _LONG else 1
        start = at + 2 + n_length
        size = int.from_bytes(buf[at + 2 : start], "big")
        if len(buf) < start + size:
            raise WireError(HEADER, WireReason.TRUNCATED, f"attribute at {at}")
        flags = _FLAGS.get(head[1])  # type: ignore[call-overload]  # a number is a key too
        if flags is not None and head[0] & (_OPTIONAL | _TRANSITIVE) != flags:
            raise WireError(HEADER, WireReason.BAD_FIELD, f"flags {head.hex()}")
        yield head[1], buf[start : start + size]
        at = start + size


def _as_path(buf: bytes, asn_bytes: int) -> Iterator[int]:
    at = 0
    while at < len(buf):
        n = buf[at + 1] if at + 1 < len(buf) else 0
        end = at + 2 + n * asn_bytes
        if buf[at] not in _SEGMENTS or n == 0 or end > len(buf):
            raise WireError(HEADER, WireReason.BAD_FIELD, f"AS_PATH at {at}")
        for place in range(at + 2, end, asn_bytes):
            yield int.from_bytes(buf[place : place + asn_bytes], "big")
        at = end


def _bandwidths(buf: bytes) -> Iterator[LinkBandwidth]:
    if len(buf) % _COMMUNITY_BYTES:
        raise WireError(HEADER, WireReason.BAD_FIELD, f"EXT_COMMUNITIES of {len(buf)}")
    for at in range(0, len(buf), _COMMUNITY_BYTES):
        if is_link_bandwidth(buf[at], buf[at + 1]):
            yield link_bandwidth.decode(buf[at : at + _COMMUNITY_BYTES])
