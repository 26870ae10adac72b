"""HANDSHAKE: two ends of a link agree on keys; docs/wire/link-keys.md section 3.

    bits       field    meaning
    0-3        version  always 1
    4-7        kind     always 10
    8-15       step     1 first, 2 second, 3 come again with this cookie, 4 known
    16-31      port     UDP port that who says so hears on, from 1 on
    32-63      session  number that who begins gives it, steps 1 to 3; else 0
    64-191     proof    MAC that says who it is for (section 3.2)
    192-319    cookie   of step 3; in step 1 what is made with it, or zeros; else zeros
    320-       body     Noise message of steps 1 and 2, 104 and 52 octets; else none

Lengths of bodies are those of Noise IK (seals/noise.py) with their payloads.
"""

from struct import Struct

import msgspec

from fanfold.errors import WireError, WireReason
from fanfold.wire.kinds import Kind, first_byte, require, require_end
from fanfold.wire.width import pack, within

HEADER = "handshake"
FIXED_BYTES = 40
HEAD_BYTES = 8
"""What comes before the proof."""
MARK_BYTES = 16
FIRST, SECOND, COOKIE, KNOWN = 1, 2, 3, 4
BODY_BYTES = {FIRST: 104, SECOND: 52, COOKIE: 0, KNOWN: 0}

_LAYOUT = Struct("!BBHI16s16s")


class Handshake(msgspec.Struct, frozen=True, gc=False):
    """One message of a handshake."""

    step: int
    port: int
    session: int
    proof: bytes = bytes(MARK_BYTES)
    cookie: bytes = bytes(MARK_BYTES)
    body: bytes = b""

    @property
    def size_bytes(self) -> int:
        """Length of the whole message."""
        return FIXED_BYTES + len(self.body)


def decode(buf: bytes) -> Handshake:
    """Read a message that fills `buf` exactly.

    Raises:
        WireError: TRUNCATED, TRAILING, BAD_VERSION, BAD_KIND, BAD_FIELD; nothing else escapes.
    """
    require(HEADER, buf, Kind.HANDSHAKE, FIXED_BYTES)
    _, step, port, session, proof, cookie = _LAYOUT.unpack_from(buf)
    if step not in BODY_BYTES:
        raise WireError(HEADER, WireReason.BAD_FIELD, f"step {step}")
    require_end(HEADER, buf, FIXED_BYTES + BODY_BYTES[step])
    if port == 0:
        raise WireError(HEADER, WireReason.BAD_FIELD, "port 0")
    return Handshake(step, port, session, proof, cookie, bytes(buf[FIXED_BYTES:]))


def encode(handshake: Handshake) -> bytes:
    """Write the message.

    Raises:
        MisuseError: a value does not fit its field.
    """
    step = within(HEADER, "step", handshake.step, FIRST, KNOWN)
    within(HEADER, "body", len(handshake.body), BODY_BYTES[step], BODY_BYTES[step])
    within(HEADER, "proof", len(handshake.proof), MARK_BYTES, MARK_BYTES)
    within(HEADER, "cookie", len(handshake.cookie), MARK_BYTES, MARK_BYTES)
    port = within(HEADER, "port", handshake.port, 1, 0xFFFF)
    head = (first_byte(Kind.HANDSHAKE), step, port, handshake.session)
    return pack(HEADER, _LAYOUT, *head, handshake.proof, handshake.cookie) + handshake.body
