"""NOTICE: which neighbours a node has lost, told on from node to node; docs/wire/link.md.

    bits       field      meaning
    0-3        version    always 1
    4-7        kind       always 9
    8-15       zero       always 0
    16-31      checksum   computed over the whole message
    32-63      fabric     digest of the fabric file: nodes, links and the order of ports
    64-79      origin     which node says so, by its place in the file from 0 on
    80-95      n_ports    ports of the origin, its neighbours
    96-159     seq        of what the origin says; only what is above counts, below 2**63
    160-       down       a bit for each port: port p is bit p from the right; 1: lost

As few octets as hold them; bits of no port are 0. A NOTICE says all that its origin has to
say: the next one takes its place.
"""

from struct import Struct

import msgspec

from fanfold.errors import WireError, WireReason
from fanfold.wire.checksum import ones_sum, put_checksum
from fanfold.wire.kinds import Kind, first_byte, require, require_end
from fanfold.wire.width import fits, pack

HEADER = "notice"
FIXED_BYTES = 20
SEQ_BITS = 63

_LAYOUT = Struct("!BBHIHHQ")
_CHECKSUM_AT = 2


class Notice(msgspec.Struct, frozen=True, gc=False):
    """What one node says of its links; bit p - 1 of ``down`` is port p."""

    fabric: int
    origin: int
    n_ports: int
    seq: int
    down: int

    @property
    def size_bytes(self) -> int:
        """Length of the whole message."""
        return FIXED_BYTES + -(-self.n_ports // 8)


def decode(buf: bytes) -> Notice:
    """Read a message that fills `buf` exactly.

    Raises:
        WireError: TRUNCATED, TRAILING, BAD_VERSION, BAD_KIND, BAD_CHECKSUM, BAD_FIELD; nothing
            else escapes.
    """
    require(HEADER, buf, Kind.NOTICE, FIXED_BYTES)
    _, zero, _, fabric, origin, n_ports, seq = _LAYOUT.unpack_from(buf)
    require_end(HEADER, buf, FIXED_BYTES + -(-n_ports // 8))
    if ones_sum(buf) != 0xFFFF:
        raise WireError(HEADER, WireReason.BAD_CHECKSUM, "of the message")
    if zero:
        raise WireError(HEADER, WireReason.BAD_FIELD, f"zero {zero}")
    if seq >> SEQ_BITS:
        raise WireError(HEADER, WireReason.BAD_FIELD, f"seq {seq}")
    down = int.from_bytes(buf[FIXED_BYTES:], "big")
    if down >> n_ports:
        raise WireError(HEADER, WireReason.BAD_FIELD, f"down {down:#x} of {n_ports} ports")
    return Notice(fabric, origin, n_ports, seq, down)


def encode(notice: Notice) -> bytes:
    """Write the message.

    Raises:
        MisuseError: a value does not fit its field.
    """
    seq = fits(HEADER, "seq", notice.seq, SEQ_BITS)
    down = fits(HEADER, "down", notice.down, notice.n_ports)
    given = (notice.fabric, notice.origin, notice.n_ports, seq)
    buf = pack(HEADER, _LAYOUT, first_byte(Kind.NOTICE), 0, 0, *given)
    buf += down.to_bytes(-(-notice.n_ports // 8), "big")
    return put_checksum(buf, _CHECKSUM_AT)
