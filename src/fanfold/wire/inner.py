"""IPv4 and UDP inside BIER: RFC 791, RFC 768; BIER Proto 4.

    bits       field            meaning
    0-3        version          always 4
    4-7        ihl              always 5
    8-15       tos              differentiated services and ECN
    16-31      total_length     28 and the payload
    32-47      ident            ignored, sent as 0
    48-48      reserved         always 0
    49-49      df               always 1
    50-50      mf               always 0
    51-63      offset           always 0
    64-71      ttl              hops left after BIER was popped
    72-79      protocol         always 17
    80-95      header_checksum  computed over bits 0-159
    96-127     src              IPv4 address of the node that wrote the packet
    128-159    dst              the common group; of FEEDBACK and REPORT the BFIR's prefix
    160-175    sport            UDP source port
    176-191    dport            UDP destination port
    192-207    udp_length       8 and the payload
    208-223    udp_checksum     computed over the pseudo header and bits 160-, 0 refused
    224-       payload          a fanfold message

A plain receiver without a BIER stack gets this packet as ordinary multicast. The UDP
checksum covers the fanfold header and payload end to end; a sum of 0 goes out as 0xFFFF,
so a 0 received ("not checked", RFC 768) was not sent by us. DF is set and nothing is
fragmented, so `ident` has no meaning (RFC 6864 section 4.1).

The same codec serves the outer IPv4 and UDP headers of captures.
"""

from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address
from struct import Struct

import msgspec

from fanfold.errors import ConfigError, WireError, WireReason
from fanfold.wire.checksum import internet_checksum, ones_sum
from fanfold.wire.width import pack

HEADER = "inner"
IP_BYTES = 20
UDP_BYTES = 8
FIXED_BYTES = IP_BYTES + UDP_BYTES
BIER_UDP_PORT = 8138
FANFOLD_PORT = 8139
GROUP = "239.81.38.1"
GROUP_ADDRESS = int(IPv4Address(GROUP))
UDP_PROTOCOL = 17
DEFAULT_TTL = 64

_DF = 0x4000
_IP = Struct("!BBHHHBBHII")
_UDP = Struct("!HHHH")
_PSEUDO = Struct("!IIBBH")


class Inner(msgspec.Struct, frozen=True, gc=False):
    """One UDP datagram in IPv4; addresses are ints."""

    src: int
    dst: int
    sport: int
    dport: int
    payload: bytes
    ttl: int = DEFAULT_TTL
    tos: int = 0

    @property
    def total_length(self) -> int:
        """IPv4 total length."""
        return FIXED_BYTES + len(self.payload)

    @property
    def udp_length(self) -> int:
        """UDP length."""
        return UDP_BYTES + len(self.payload)

    @property
    def size_bytes(self) -> int:
        """Length of the packet, payload included."""
        return self.total_length


def decode(buf: bytes) -> Inner:
    """Read a packet that fills `buf` exactly.

    Raises:
        WireError: TRUNCATED, TRAILING, BAD_VERSION, BAD_FIELD, BAD_CHECKSUM, NOT_UDP;
            nothing else escapes.
    """
    if len(buf) < FIXED_BYTES:
        raise WireError(HEADER, WireReason.TRUNCATED, len(buf))
    _, tos, total_length, _, _, ttl, _, _, src, dst = _IP.unpack_from(buf)
    sport, dport, udp_length, _ = _UDP.unpack_from(buf, IP_BYTES)
    _check_ip(buf)
    _check_lengths(len(buf), total_length, udp_length)
    _check_udp(buf)
    return Inner(src, dst, sport, dport, buf[FIXED_BYTES:], ttl, tos)


def encode(packet: Inner) -> bytes:
    """Write the packet with both checksums.

    Raises:
        MisuseError: a value does not fit its field.
    """
    addresses = (packet.src, packet.dst)
    ip = (0x45, packet.tos, packet.total_length, 0, _DF, packet.ttl, UDP_PROTOCOL)
    ip_sum = internet_checksum(pack(HEADER, _IP, *ip, 0, *addresses))
    udp = (packet.sport, packet.dport, packet.udp_length)
    pseudo = pack(HEADER, _PSEUDO, *addresses, 0, UDP_PROTOCOL, packet.udp_length)
    covered = pseudo + pack(HEADER, _UDP, *udp, 0) + packet.payload
    udp_sum = internet_checksum(covered) or 0xFFFF  # RFC 768: 0 would say "not checked"
    headers = pack(HEADER, _IP, *ip, ip_sum, *addresses) + pack(HEADER, _UDP, *udp, udp_sum)
    return headers + packet.payload


def address_of(text: str) -> int:
    """IPv4 address as an int.

    Raises:
        ConfigError: not a dotted IPv4 address.
    """
    try:
        return int(IPv4Address(text))
    except AddressValueError as cause:
        raise ConfigError("address", text, "IPv4 address a.b.c.d") from cause


@lru_cache(1024)
def address_text(address: int) -> str:
    """IPv4 address in dotted form."""
    return str(IPv4Address(address))


def _check_ip(buf: bytes) -> None:
    """Refuse what is not our profile of IPv4."""
    if buf[0] >> 4 != 4:
        raise WireError(HEADER, WireReason.BAD_VERSION, buf[0] >> 4)
    if buf[0] != 0x45:
        raise WireError(HEADER, WireReason.BAD_FIELD, f"ihl {buf[0] & 0xF}")
    if ones_sum(buf[:IP_BYTES]) != 0xFFFF:  # RFC 791 section 3.1
        raise WireError(HEADER, WireReason.BAD_CHECKSUM, "IPv4 header")
    if buf[6:8] != b"\x40\x00":
        raise WireError(HEADER, WireReason.BAD_FIELD, f"fragment word 0x{buf[6:8].hex()}")
    if buf[9] != UDP_PROTOCOL:
        raise WireError(HEADER, WireReason.NOT_UDP, buf[9])


def _check_lengths(n_bytes: int, total_length: int, udp_length: int) -> None:
    """Refuse lengths that disagree with the bytes at hand or with each other."""
    if total_length < FIXED_BYTES:
        raise WireError(HEADER, WireReason.BAD_FIELD, f"total_length {total_length}")
    if n_bytes < total_length:
        raise WireError(HEADER, WireReason.TRUNCATED, n_bytes)
    if n_bytes > total_length:
        raise WireError(HEADER, WireReason.TRAILING, n_bytes - total_length)
    if udp_length != total_length - IP_BYTES:
        raise WireError(HEADER, WireReason.BAD_FIELD, f"udp_length {udp_length}")


def _check_udp(buf: bytes) -> None:
    """Refuse a UDP checksum that is absent or wrong."""
    if buf[26:28] == b"\0\0":
        raise WireError(HEADER, WireReason.BAD_CHECKSUM, "UDP 0, not checked")
    pseudo = buf[12:20] + b"\0\x11" + buf[24:26]
    if ones_sum(pseudo + buf[IP_BYTES:]) != 0xFFFF:
        raise WireError(HEADER, WireReason.BAD_CHECKSUM, "UDP")
