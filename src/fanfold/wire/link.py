"""What neighbours say to each other and nobody passes on; docs/wire/link.md section 1.

Four octets stand before the message, where BIER has its BIFT-id and TTL: BIFT-id 0, which no
BitString length has (draft-ietf-bier-non-mpls-bift-encoding section 5), S 1, and TTL 255
(RFC 5082).
"""

from typing import TypeAlias

from fanfold.errors import WireError, WireReason
from fanfold.wire import handshake, hello, notice
from fanfold.wire.handshake import Handshake
from fanfold.wire.hello import Hello
from fanfold.wire.kinds import Kind, first_byte, kind_of
from fanfold.wire.notice import Notice

HEADER = "link"
WORD = bytes((0, 0, 0x01, 0xFF))
"""The first four octets."""

LinkMessage: TypeAlias = Hello | Notice | Handshake


def is_link(buf: bytes) -> bool:
    """Whether a datagram is for the next node only."""
    return buf[: len(WORD)] == WORD


def is_handshake(buf: bytes) -> bool:
    """Whether a datagram for the next node is of that kind."""
    return buf[len(WORD) : len(WORD) + 1] == bytes((first_byte(Kind.HANDSHAKE),))


def build_link(message: LinkMessage) -> bytes:
    """Write a datagram.

    Raises:
        MisuseError: a value does not fit its field.
    """
    if isinstance(message, Hello):
        return WORD + hello.encode(message)
    if isinstance(message, Handshake):
        return WORD + handshake.encode(message)
    return WORD + notice.encode(message)


def parse_link(buf: bytes) -> LinkMessage:
    """Read a datagram.

    Raises:
        WireError: the message is refused, or is of a kind that BIER carries.
    """
    if not is_link(buf):
        raise WireError(HEADER, WireReason.BAD_FIELD, buf[: len(WORD)].hex())
    body = buf[len(WORD) :]
    kind = kind_of(body)
    if kind == Kind.HELLO:
        return hello.decode(body)
    if kind == Kind.NOTICE:
        return notice.decode(body)
    if kind == Kind.HANDSHAKE:
        return handshake.decode(body)
    raise WireError(HEADER, WireReason.BAD_KIND, int(kind))
