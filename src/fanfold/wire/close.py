"""CLOSE: the sender is through with a flow; docs/wire/fan.md section 5.

    bits       field      meaning
    0-3        version    always 1
    4-7        kind       always 5
    8-15       reason     0 done, 1 aborted, 2 gone
    16-31      reserved   ignored, sent as 0
    32-63      flow       flow of the push
    64-95      nonce      of the push, 0 where it is not signed
    96-127     reserved   ignored, sent as 0
    128-639    signature  Ed25519 over what is above, see docs/wire/envelope.md; zero if none

A reason that is not known is refused. 2 gone: the source is no longer what the manifest says,
and what a receiver has of an unfinished push is of no use.
"""

from enum import IntEnum
from struct import Struct

import msgspec

from fanfold.errors import MisuseError, WireError, WireReason
from fanfold.wire.kinds import Kind, first_byte, require, require_end
from fanfold.wire.width import pack, within

HEADER = "close"
FIXED_BYTES = 80
SIGNATURE_BYTES = 64
NO_SIGNATURE = bytes(SIGNATURE_BYTES)

_LAYOUT = Struct("!BBHIII64s")


class CloseReason(IntEnum):
    """Why the sender closes."""

    DONE = 0
    ABORTED = 1
    GONE = 2


class Close(msgspec.Struct, frozen=True, gc=False):
    """One farewell."""

    flow: int
    reason: int = CloseReason.DONE
    nonce: int = 0
    signature: bytes = NO_SIGNATURE

    @property
    def size_bytes(self) -> int:
        """Length of the whole message."""
        return FIXED_BYTES


def decode(buf: bytes) -> Close:
    """Read a message that fills `buf` exactly.

    Raises:
        WireError: TRUNCATED, TRAILING, BAD_VERSION, BAD_KIND, BAD_FIELD; nothing else
            escapes.
    """
    require(HEADER, buf, Kind.CLOSE, FIXED_BYTES)
    require_end(HEADER, buf, FIXED_BYTES)
    _, reason, _, flow, nonce, _, signature = _LAYOUT.unpack(buf)
    if reason > CloseReason.GONE:
        raise WireError(HEADER, WireReason.BAD_FIELD, f"reason {reason}")
    return Close(flow, CloseReason(reason), nonce, signature)


def encode(close: Close) -> bytes:
    """Write the message.

    Raises:
        MisuseError: a value does not fit its field.
    """
    if len(close.signature) != SIGNATURE_BYTES:
        raise MisuseError(f"{HEADER}.signature: got {len(close.signature)} bytes, allowed: 64")
    reason = within(HEADER, "reason", close.reason, CloseReason.DONE, CloseReason.GONE)
    first = first_byte(Kind.CLOSE)
    values = (first, reason, 0, close.flow, close.nonce, 0, close.signature)
    return pack(HEADER, _LAYOUT, *values)
