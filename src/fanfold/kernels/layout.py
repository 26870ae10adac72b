"""Byte offsets that kernels touch; tests hold them against the tables of wire/.

``L`` is the BitString's length in bytes: IPv4 starts at 12 + L, UDP 20 later, the fanfold
header 8 later.
"""

LINK_WORD = 0x1FF  # docs/wire/link.md section 1: BIFT-id 0, S 1, TTL 255
LINK_BYTES = 4
KIND_HANDSHAKE = 10
TRAILER_BYTES = 24  # docs/wire/link-keys.md section 2
BITS_AT = 12  # RFC 8296 2.1: three words before the BitString
IP_BYTES = 20
UDP_BYTES = 8
INNER_BYTES = IP_BYTES + UDP_BYTES
FAN_BYTES = 16
FEEDBACK_BYTES = 24
ROW_BYTES = 4  # of a FEEDBACK's row, before its BitString
FOLD_BYTES = 24
UNDERLAY_BYTES = 28  # outer IPv4 and UDP, counted in link bytes

PROTO_IPV4 = 4
IP_UDP = 17
FANFOLD_PORT = 8139
BIER_PORT = 8138

VERSION = 1
KIND_DATA = 1
KIND_FEEDBACK = 2
KIND_FOLD = 6
KIND_SPREAD = 7
HANDSHAKE = (VERSION << 4) | KIND_HANDSHAKE

FLAG_POLL = 1
FLAG_LAST = 2
FLAG_REPAIR = 4
FLAG_SOURCE = 8
FLAG_PARTIAL = 1
FLAG_SPENT = 2
FLAG_MORE = 4
FLAG_EARLY = 8

MAX_PSN = 64
"""Packets in one block: a receiver's gaps are one 64-bit word."""
