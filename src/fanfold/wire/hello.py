"""HELLO: a node tells a neighbour that it lives, and what it hears of it; docs/wire/link.md.

    bits       field        meaning
    0-3        version      always 1
    4-7        kind         always 8
    8-9        state        of the session here: 0 admin down, 1 down, 2 init, 3 up
    10-10      poll         1: the other end is to answer at once
    11-11      final        1: this is that answer
    12-15      zero         always 0
    16-31      checksum     computed over the whole message
    32-39      diag         why the session is not up: 0 none, 1 silent, 3 the other end said so
    40-47      detect_mult  intervals of silence after which this node counts as gone, from 1 on
    48-63      lag_ms       how late this node's timers ran lately, at most
    64-95      fabric       digest of the fabric file: nodes, links and the order of ports
    96-127     my_disc      discriminator of the session here, not 0
    128-159    your_disc    that of the other end, 0 while it is not known
    160-191    interval_us  the next HELLO comes within this time
    192-223    wanted_us    how often this node would hear from the other end
    224-287    digest       of the states of links that this node knows

The session is that of BFD (RFC 5880 section 6.8) without its echo and demand modes.
"""

from enum import IntEnum
from struct import Struct

import msgspec

from fanfold.errors import WireError, WireReason
from fanfold.wire.checksum import ones_sum, put_checksum
from fanfold.wire.kinds import Kind, first_byte, require, require_end
from fanfold.wire.width import fits, pack, within

HEADER = "hello"
FIXED_BYTES = 36

_LAYOUT = Struct("!BBHBBHIIIIIQ")
_POLL, _FINAL = 0x20, 0x10
_CHECKSUM_AT = 2


class SessionState(IntEnum):
    """State of a session, RFC 5880 section 4.1."""

    ADMIN_DOWN = 0
    DOWN = 1
    INIT = 2
    UP = 3


class Diag(IntEnum):
    """Why a session is down, RFC 5880 section 4.1; others are carried and mean nothing."""

    NONE = 0
    SILENT = 1
    TOLD = 3


class Hello(msgspec.Struct, frozen=True, gc=False):
    """One sign of life."""

    state: int
    detect_mult: int
    fabric: int
    my_disc: int
    your_disc: int
    interval_us: int
    wanted_us: int
    digest: int = 0
    diag: int = Diag.NONE
    lag_ms: int = 0
    poll: bool = False
    final: bool = False

    @property
    def size_bytes(self) -> int:
        """Length of the whole message."""
        return FIXED_BYTES


def decode(buf: bytes) -> Hello:
    """Read a message that fills `buf` exactly.

    Raises:
        WireError: TRUNCATED, TRAILING, BAD_VERSION, BAD_KIND, BAD_CHECKSUM, BAD_FIELD; nothing
            else escapes.
    """
    require(HEADER, buf, Kind.HELLO, FIXED_BYTES)
    require_end(HEADER, buf, FIXED_BYTES)
    if ones_sum(buf) != 0xFFFF:
        raise WireError(HEADER, WireReason.BAD_CHECKSUM, "of the message")
    _, first, _, diag, mult, lag_ms, fabric, mine, yours, interval, wanted, digest = (
        _LAYOUT.unpack(buf)
    )
    if first & 0xF:
        raise WireError(HEADER, WireReason.BAD_FIELD, f"zero {first & 0xF}")
    if mult == 0:
        raise WireError(HEADER, WireReason.BAD_FIELD, "detect_mult 0")
    if mine == 0:
        raise WireError(HEADER, WireReason.BAD_FIELD, "my_disc 0")
    return Hello(
        state=first >> 6,
        detect_mult=mult,
        fabric=fabric,
        my_disc=mine,
        your_disc=yours,
        interval_us=interval,
        wanted_us=wanted,
        digest=digest,
        diag=diag,
        lag_ms=lag_ms,
        poll=bool(first & _POLL),
        final=bool(first & _FINAL),
    )


def encode(hello: Hello) -> bytes:
    """Write the message.

    Raises:
        MisuseError: a value does not fit its field.
    """
    first = fits(HEADER, "state", hello.state, 2) << 6
    first |= _POLL * hello.poll | _FINAL * hello.final
    buf = pack(
        HEADER,
        _LAYOUT,
        first_byte(Kind.HELLO),
        first,
        0,
        hello.diag,
        within(HEADER, "detect_mult", hello.detect_mult, 1, 255),
        hello.lag_ms,
        hello.fabric,
        within(HEADER, "my_disc", hello.my_disc, 1, 0xFFFFFFFF),
        hello.your_disc,
        hello.interval_us,
        hello.wanted_us,
        hello.digest,
    )
    return put_checksum(buf, _CHECKSUM_AT)
