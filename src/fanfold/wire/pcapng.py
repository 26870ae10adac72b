"""Captures: a small pcapng writer, and a reader for what it writes.

draft-ietf-opsawg-pcapng sections 4.1 (Section Header), 4.2 (Interface Description) and
4.3 (Enhanced Packet). One interface for each router port, time in nanoseconds, direction
in the packet flags. Blocks are pure functions; the caller owns the file.
"""

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import BinaryIO

import msgspec

from fanfold.errors import WireError, WireReason
from fanfold.wire.width import pack

HEADER = "pcapng"
LINKTYPE_ETHERNET = 1
LINKTYPE_IPV4 = 228
PS_PER_NS = 1000

_SECTION_BLOCK = 0x0A0D0D0A
_INTERFACE_BLOCK = 1
_PACKET_BLOCK = 6
_BYTE_ORDER = 0x1A2B3C4D
_OPT_END = 0
_OPT_APPLICATION = 4
_OPT_IF_NAME = 2
_OPT_IF_TSRESOL = 9
_OPT_EPB_FLAGS = 2
_NANOSECONDS = b"\x09"  # if_tsresol: 10**-9
_MIN_BLOCK_BYTES = 12

_HEAD = Struct("<II")
_SECTION = Struct("<IHHq")
_INTERFACE = Struct("<HHI")
_PACKET = Struct("<IIIII")
_WORD = Struct("<I")
_OPTION = Struct("<HH")


class Direction(IntEnum):
    """Bits 0-1 of the packet flags."""

    UNKNOWN = 0
    INBOUND = 1
    OUTBOUND = 2


class Interface(msgspec.Struct, frozen=True):
    """One router port."""

    name: str
    linktype: int


class CapturedPacket(msgspec.Struct, frozen=True):
    """One frame as it stood on one port."""

    interface: int
    at_ns: int
    frame: bytes
    direction: Direction


class Capture(msgspec.Struct, frozen=True):
    """A whole file."""

    interfaces: tuple[Interface, ...]
    packets: tuple[CapturedPacket, ...]


class Writer:
    """Writes blocks to a file that the caller opened in binary mode, and will close."""

    def __init__(self, file: BinaryIO, linktype: int = LINKTYPE_IPV4) -> None:
        self._file = file
        self._linktype = linktype
        self._n_interfaces = 0
        file.write(section_block())

    def add_interface(self, name: str) -> int:
        """Describe a port; returns its number for `write`."""
        self._file.write(interface_block(name, self._linktype))
        self._n_interfaces += 1
        return self._n_interfaces - 1

    def write(
        self, interface: int, at_ps: int, frame: bytes, direction: Direction, n_cut: int = 0
    ) -> None:
        """Write one frame, of which ``n_cut`` bytes were left out at its end.

        The time is cut to whole nanoseconds.
        """
        assert 0 <= interface < self._n_interfaces
        at_ns = at_ps // PS_PER_NS
        self._file.write(packet_block(interface, at_ns, frame, direction, n_cut))


def section_block() -> bytes:
    """Section Header Block, length of the section not given."""
    body = pack(HEADER, _SECTION, _BYTE_ORDER, 1, 0, -1)
    return _block(_SECTION_BLOCK, body + _options((_OPT_APPLICATION, b"fanfold")))


def interface_block(name: str, linktype: int) -> bytes:
    """Interface Description Block with its name and nanosecond time."""
    options = _options((_OPT_IF_NAME, name.encode()), (_OPT_IF_TSRESOL, _NANOSECONDS))
    return _block(_INTERFACE_BLOCK, pack(HEADER, _INTERFACE, linktype, 0, 0) + options)


def packet_block(
    interface: int, at_ns: int, frame: bytes, direction: Direction, n_cut: int = 0
) -> bytes:
    """Enhanced Packet Block with its direction; the frame was ``n_cut`` bytes longer."""
    high, low = at_ns >> 32, at_ns & 0xFFFFFFFF
    body = pack(HEADER, _PACKET, interface, high, low, len(frame), len(frame) + n_cut)
    flags = pack(HEADER, _WORD, direction)
    return _block(_PACKET_BLOCK, body + _padded(frame) + _options((_OPT_EPB_FLAGS, flags)))


def read(buf: bytes) -> Capture:
    """Read a file that this module wrote.

    Raises:
        WireError: TRUNCATED, BAD_KIND (not our byte order or a block we do not write),
            BAD_FIELD.
    """
    interfaces: list[Interface] = []
    packets: list[CapturedPacket] = []
    for kind, body in _blocks(buf):
        if kind == _INTERFACE_BLOCK:
            interfaces.append(_read_interface(body))
        elif kind == _PACKET_BLOCK:
            packets.append(_read_packet(body, len(interfaces)))
        elif kind != _SECTION_BLOCK or body[:4] != _WORD.pack(_BYTE_ORDER):
            raise WireError(HEADER, WireReason.BAD_KIND, hex(kind))
    return Capture(tuple(interfaces), tuple(packets))


def _read_interface(body: bytes) -> Interface:
    """Read an Interface Description Block."""
    if len(body) < _INTERFACE.size:
        raise WireError(HEADER, WireReason.TRUNCATED, len(body))
    linktype, _, _ = _INTERFACE.unpack_from(body)
    options = _read_options(body[_INTERFACE.size :])
    if options.get(_OPT_IF_TSRESOL) != _NANOSECONDS:
        raise WireError(HEADER, WireReason.BAD_FIELD, "if_tsresol")
    return Interface(options.get(_OPT_IF_NAME, b"").decode(errors="replace"), linktype)


def _read_packet(body: bytes, n_interfaces: int) -> CapturedPacket:
    """Read an Enhanced Packet Block."""
    if len(body) < _PACKET.size:
        raise WireError(HEADER, WireReason.TRUNCATED, len(body))
    interface, high, low, captured, _ = _PACKET.unpack_from(body)
    end = _PACKET.size + captured
    if interface >= n_interfaces:
        raise WireError(HEADER, WireReason.BAD_FIELD, f"interface {interface}")
    if len(body) < end:
        raise WireError(HEADER, WireReason.TRUNCATED, len(body))
    flags = _read_options(body[end + -captured % 4 :]).get(_OPT_EPB_FLAGS, bytes(4))
    direction = Direction(min(flags[0] & 3, Direction.OUTBOUND)) if flags else Direction(0)
    return CapturedPacket(interface, high << 32 | low, body[_PACKET.size : end], direction)


def _blocks(buf: bytes) -> Iterator[tuple[int, bytes]]:
    """Cut a file into (type, body)."""
    at = 0
    while at < len(buf):
        if len(buf) - at < _MIN_BLOCK_BYTES:
            raise WireError(HEADER, WireReason.TRUNCATED, len(buf) - at)
        kind, n_bytes = _HEAD.unpack_from(buf, at)
        if n_bytes < _MIN_BLOCK_BYTES or n_bytes % 4:
            raise WireError(HEADER, WireReason.BAD_FIELD, f"block of {n_bytes} bytes")
        if len(buf) - at < n_bytes:
            raise WireError(HEADER, WireReason.TRUNCATED, len(buf) - at)
        if buf[at + n_bytes - 4 : at + n_bytes] != buf[at + 4 : at + 8]:
            raise WireError(HEADER, WireReason.BAD_FIELD, "trailing block length")
        yield kind, buf[at + 8 : at + n_bytes - 4]
        at += n_bytes


def _read_options(buf: bytes) -> dict[int, bytes]:
    """Read options up to their end mark; a cut option ends the list."""
    found: dict[int, bytes] = {}
    at = 0
    while at + _OPTION.size <= len(buf):
        code, n_bytes = _OPTION.unpack_from(buf, at)
        if code == _OPT_END:
            break
        start = at + _OPTION.size
        found[code] = buf[start : start + n_bytes]
        at = start + n_bytes + -n_bytes % 4
    return found


def _block(kind: int, body: bytes) -> bytes:
    """Frame a body; its length stands before and after it."""
    n_bytes = len(body) + _MIN_BLOCK_BYTES
    return pack(HEADER, _HEAD, kind, n_bytes) + body + pack(HEADER, _WORD, n_bytes)


def _options(*options: tuple[int, bytes]) -> bytes:
    """Write options and their end mark."""
    written = (pack(HEADER, _OPTION, code, len(v)) + _padded(v) for code, v in options)
    return b"".join(written) + pack(HEADER, _OPTION, _OPT_END, 0)


def _padded(buf: bytes) -> bytes:
    """Pad to 32 bits."""
    return buf + bytes(-len(buf) % 4)
