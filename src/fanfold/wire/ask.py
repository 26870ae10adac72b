"""ASK: the sender asks receivers for a REPORT; docs/wire/fan.md section 3.

    bits       field      meaning
    0-3        version    always 1
    4-7        kind       always 3
    8-15       what       0 status, 1 receipt
    16-31      reserved   ignored, sent as 0
    32-63      flow       flow of the push, even
    64-95      cursor     which slice of the have-map the REPORT should carry
    96-127     nonce      of the push; comes back in the REPORT

A `what` that is not known and an odd flow are refused.
"""

from struct import Struct

import msgspec

from fanfold.errors import MisuseError, WireError, WireReason
from fanfold.wire.kinds import Kind, first_byte, require, require_end
from fanfold.wire.width import pack, within

HEADER = "ask"
FIXED_BYTES = 16
WHAT_STATUS = 0
WHAT_RECEIPT = 1

_LAYOUT = Struct("!BBHIII")


class Ask(msgspec.Struct, frozen=True, gc=False):
    """One question."""

    flow: int
    cursor: int
    nonce: int
    what: int = WHAT_STATUS

    @property
    def size_bytes(self) -> int:
        """Length of the whole message."""
        return FIXED_BYTES


def decode(buf: bytes) -> Ask:
    """Read a message that fills `buf` exactly.

    Raises:
        WireError: TRUNCATED, TRAILING, BAD_VERSION, BAD_KIND, BAD_FIELD; nothing else
            escapes.
    """
    require(HEADER, buf, Kind.ASK, FIXED_BYTES)
    require_end(HEADER, buf, FIXED_BYTES)
    _, what, _, flow, cursor, nonce = _LAYOUT.unpack(buf)
    if what not in (WHAT_STATUS, WHAT_RECEIPT):
        raise WireError(HEADER, WireReason.BAD_FIELD, f"what {what}")
    if flow & 1:
        raise WireError(HEADER, WireReason.BAD_FIELD, f"odd flow {flow}")
    return Ask(flow, cursor, nonce, what)


def encode(ask: Ask) -> bytes:
    """Write the message.

    Raises:
        MisuseError: a value does not fit its field.
    """
    if ask.flow & 1:
        raise MisuseError(f"{HEADER}.flow: got {ask.flow}, allowed: even")
    what = within(HEADER, "what", ask.what, WHAT_STATUS, WHAT_RECEIPT)
    return pack(HEADER, _LAYOUT, first_byte(Kind.ASK), what, 0, ask.flow, ask.cursor, ask.nonce)
