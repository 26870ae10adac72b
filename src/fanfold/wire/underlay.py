"""Whole frames for captures: BIER in UDP over IPv4, and BIER in Ethernet; RFC 8296 2.2.3.

A frame to the next BFR is unicast. The outer UDP source port keeps entropy equality:
same entropy, same port.
"""

from fanfold.wire import inner
from fanfold.wire.bier import UDP_PORT
from fanfold.wire.inner import Inner

FIRST_ENTROPY_PORT = 49152  # RFC 6335 section 6: dynamic ports
ENTROPY_PORT_MASK = 0x3FFF
MAC_BYTES = 6


def entropy_port(entropy: int) -> int:
    """Outer UDP source port for a BIER entropy."""
    return FIRST_ENTROPY_PORT + (entropy & ENTROPY_PORT_MASK)


def udp_frame(src: int, dst: int, sport: int, packet: bytes, dport: int = UDP_PORT) -> bytes:
    """IPv4 and UDP around a BIER packet; link type 228."""
    return inner.encode(Inner(src, dst, sport, dport, packet))


def ethernet_frame(dst_mac: bytes, src_mac: bytes, ethertype: int, packet: bytes) -> bytes:
    """Ethernet II around a BIER packet; link type 1."""
    assert len(dst_mac) == len(src_mac) == MAC_BYTES
    return dst_mac + src_mac + ethertype.to_bytes(2, "big") + packet
