"""What a BFR reads of one packet: BIER header, inner IPv4/UDP, fanfold kind.

A packet stands at ``at`` in ``buf`` and has ``n`` bytes; ``L`` = 8 * n_words is the BitString's
length, taken from the BIFT-id and never from the BSL field (RFC 8296 2.1.2).
"""

from fanfold.kernels.codes import (
    CLASS_CONTROL,
    CLASS_DATA,
    CLASS_FEEDBACK,
    CLASS_FOLD,
    CLASS_OPAQUE,
    CLASS_REPAIR,
    DROP_BAD_BSL,
    DROP_BAD_VERSION,
    DROP_BSL_MISMATCH,
    DROP_TRUNCATED,
    DROP_UNKNOWN_BIFT,
)
from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.layout import (
    BITS_AT,
    FAN_BYTES,
    FANFOLD_PORT,
    FEEDBACK_BYTES,
    FLAG_REPAIR,
    FOLD_BYTES,
    INNER_BYTES,
    IP_BYTES,
    IP_UDP,
    KIND_DATA,
    KIND_FEEDBACK,
    KIND_FOLD,
    KIND_SPREAD,
    PROTO_IPV4,
    UDP_BYTES,
    VERSION,
)
from fanfold.kernels.octets import fold_sum, read_u16, read_u32, sum_octets
from fanfold.kernels.state import I64, U8

DONT_FRAGMENT = 0x4000


@kernel
def find_bift(ids: I64, bift_id: int) -> int:
    """Index of a BIFT-id, or -1. A node knows a handful, so a scan is the fastest search."""
    for t in range(ids.shape[0]):
        if ids[t] == bift_id:
            return t
    return -1


@kernel
def check_bier(buf: U8, at: int, n: int, ids: I64, n_words: I64) -> int:
    """BIFT index of a sound header, or -(2 + drop code): RFC 8296 2.1 and 2.2 in order."""
    if n < BITS_AT:
        return -2 - DROP_TRUNCATED
    if buf[at + 4] & 0xF:
        return -2 - DROP_BAD_VERSION
    t = find_bift(ids, read_u32(buf, at) >> 12)
    if t < 0:
        return -2 - DROP_UNKNOWN_BIFT
    bsl = i64(buf[at + 5]) >> 4
    if bsl < 1 or bsl > 7:
        return -2 - DROP_BAD_BSL
    if 1 << (bsl - 1) != n_words[t]:
        return -2 - DROP_BSL_MISMATCH
    if n < BITS_AT + 8 * n_words[t]:
        return -2 - DROP_TRUNCATED
    return t


@kernel
def classify(buf: U8, at: int, n: int, n_words: int) -> int:
    """Traffic class of a packet whose BIER header is sound; anything foreign is opaque."""
    ip = at + BITS_AT + 8 * n_words
    fan = ip + INNER_BYTES
    if n < fan - at + FAN_BYTES or buf[at + 9] & 0x3F != PROTO_IPV4:
        return CLASS_OPAQUE
    if buf[ip] != 0x45 or buf[ip + 9] != IP_UDP or i64(buf[fan]) >> 4 != VERSION:
        return CLASS_OPAQUE
    kind = i64(buf[fan]) & 0xF
    down = read_u16(buf, ip + IP_BYTES + 2) == FANFOLD_PORT
    if not down and read_u16(buf, ip + IP_BYTES) != FANFOLD_PORT:
        return CLASS_OPAQUE
    if kind == KIND_DATA and down:
        return CLASS_REPAIR if buf[fan + 1] & FLAG_REPAIR else CLASS_DATA
    if kind == KIND_FEEDBACK and not down:
        return CLASS_FEEDBACK if n >= fan - at + FEEDBACK_BYTES else CLASS_OPAQUE
    if kind == (KIND_SPREAD if down else KIND_FOLD):
        return CLASS_FOLD if n >= fan - at + FOLD_BYTES else CLASS_OPAQUE
    return CLASS_CONTROL


@kernel
def is_framed(buf: U8, at: int, n: int, n_words: int) -> bool:
    """Inner IPv4 and lengths are as docs/wire/bier-udp.md section 4 says; UDP is not summed."""
    ip = at + BITS_AT + 8 * n_words
    udp = ip + IP_BYTES
    length = n - (udp - at)
    if length < UDP_BYTES or read_u16(buf, udp + 4) != length:
        return False
    if read_u16(buf, ip + 2) != length + IP_BYTES or read_u16(buf, ip + 6) != DONT_FRAGMENT:
        return False
    if buf[ip] != 0x45 or buf[ip + 9] != IP_UDP:
        return False
    return sum_octets(buf, ip, IP_BYTES) == 0xFFFF  # RFC 791 section 3.1


@kernel
def is_bare(buf: U8, at: int, n_words: int) -> bool:
    """The UDP checksum says "not computed" (RFC 768)."""
    return read_u16(buf, at + BITS_AT + 8 * n_words + IP_BYTES + 6) == 0


@kernel
def is_inner_sound(buf: U8, at: int, n: int, n_words: int) -> bool:
    """Inner IPv4 and UDP are as docs/wire/bier-udp.md section 4 says, checksums included."""
    return is_sound_from(buf, at, n, n_words, False)


@kernel
def is_sound_from(buf: U8, at: int, n: int, n_words: int, is_near: bool) -> bool:
    """``is_inner_sound``; what came through memory of this machine may be bare."""
    if not is_framed(buf, at, n, n_words):
        return False
    if is_bare(buf, at, n_words):
        return is_near
    ip = at + BITS_AT + 8 * n_words
    udp = ip + IP_BYTES
    return udp_sum(buf, ip, udp, n - (udp - at)) == 0xFFFF


@kernel
def udp_sum(buf: U8, ip: int, udp: int, length: int) -> int:
    """Sum of the pseudo header and of UDP's ``length`` bytes, folded (RFC 768)."""
    total = sum_octets(buf, ip + 12, 8) + IP_UDP + length + sum_octets(buf, udp, length)
    return fold_sum(total)


@kernel
def frame_inner(buf: U8, at: int, n: int, n_words: int) -> None:
    """Write inner lengths and IPv4 header checksum of a finished packet, and leave it bare."""
    ip = at + BITS_AT + 8 * n_words
    udp = ip + IP_BYTES
    length = n - (udp - at)
    buf[ip + 2] = (length + IP_BYTES) >> 8
    buf[ip + 3] = (length + IP_BYTES) & 0xFF
    buf[ip + 10] = 0
    buf[ip + 11] = 0
    ip_sum = 0xFFFF - sum_octets(buf, ip, IP_BYTES)
    buf[ip + 10] = ip_sum >> 8
    buf[ip + 11] = ip_sum & 0xFF
    buf[udp + 4] = length >> 8
    buf[udp + 5] = length & 0xFF
    buf[udp + 6] = 0
    buf[udp + 7] = 0


@kernel
def seal_inner(buf: U8, at: int, n: int, n_words: int) -> None:
    """Write inner lengths, IPv4 header checksum and UDP checksum of a finished packet."""
    frame_inner(buf, at, n, n_words)
    ip = at + BITS_AT + 8 * n_words
    udp = ip + IP_BYTES
    checksum = 0xFFFF - udp_sum(buf, ip, udp, n - (udp - at))
    if checksum == 0:
        checksum = 0xFFFF  # RFC 768: zero means "not computed"
    buf[udp + 6] = checksum >> 8
    buf[udp + 7] = checksum & 0xFF


@kernel
def seal_bare(buf: U8, at: int, n: int, seg: int, n_words: int) -> None:
    """Seal what is bare of a block of FOLD packets: it leaves this machine's memory."""
    end = at + n
    while at < end:
        if is_bare(buf, at, n_words):
            seal_inner(buf, at, min(seg, end - at), n_words)
        at += seg


@kernel
def is_for_slots(buf: U8, fan: int) -> bool:
    """A FOLD packet that is taken in here: all but results, which are walked like DATA."""
    return i64(buf[fan]) & 0xF == KIND_FOLD or buf[fan + 1] != 0
