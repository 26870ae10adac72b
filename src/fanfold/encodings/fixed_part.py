"""The 12 bytes before what names receivers, of encodings that are not a BIER BitString.

    bits     field      meaning
    0-19     table_id   which encoding and table: BSL code 0, so never a BIFT-id of BIER
    20-31    as BIER    traffic class 0, S 1, TTL
    32-43    n_bytes    length of what follows
    44-63    group      entropy; for tables that a group has rows in, its number
    64-79    as BIER    Proto, the rest 0
    80-95    bfir_id    number of the source, low 16 bits

Our own layout: the drafts leave it to an outer header, the papers to a tunnel. It is as long as
the fixed words of RFC 8296, so that encodings differ only in how they name receivers.
"""

from struct import Struct

from fanfold.errors import WireError, WireReason
from fanfold.wire.bier import PROTO_IPV4

FIXED_BYTES = 12
TTL = 64
ID_LIST, RTS, ELMO, PREFIX = range(1, 5)

_WORDS = Struct("!III")


def put_fixed(table_id: int, source: int, body: bytes) -> bytes:
    """Fixed part and body."""
    first = table_id << 12 | 1 << 8 | TTL
    third = PROTO_IPV4 << 16 | (source + 1) & 0xFFFF
    return _WORDS.pack(first, len(body) << 20, third) + body


def with_body(head: bytes, body: bytes) -> bytes:
    """The fixed part of a header before another body."""
    first, second, third = _WORDS.unpack_from(head)
    return _WORDS.pack(first, len(body) << 20 | second & 0xFFFFF, third) + body


def body_of(table_id: int, head: bytes) -> bytes:
    """What names receivers.

    Raises:
        WireError: TRUNCATED, or BAD_KIND where the table is another one.
    """
    if len(head) < FIXED_BYTES:
        raise WireError("fixed_part", WireReason.TRUNCATED, len(head))
    first, second, _ = _WORDS.unpack_from(head)
    if first >> 12 != table_id:
        raise WireError("fixed_part", WireReason.BAD_KIND, first >> 12)
    if len(head) != FIXED_BYTES + (second >> 20):
        raise WireError("fixed_part", WireReason.TRUNCATED, len(head))
    return head[FIXED_BYTES:]
