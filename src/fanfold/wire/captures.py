"""Captures of any tool: pcap and pcapng, either byte order, frame by frame.

pcap: draft-ietf-opsawg-pcap sections 4 and 5. pcapng: draft-ietf-opsawg-pcapng sections 4.1 to
4.4; blocks of other kinds are passed over. What this project writes itself is in pcapng.py.
"""

from collections.abc import Iterator
from struct import Struct, unpack_from
from typing import NamedTuple

from fanfold.errors import WireError, WireReason

HEADER = "capture"
NS_PER_S = 10**9
MICROSECONDS = 6

_PCAP = {b"\xa1\xb2\xc3\xd4": (">", 10**3), b"\xd4\xc3\xb2\xa1": ("<", 10**3)}
_PCAP |= {b"\xa1\xb2\x3c\x4d": (">", 1), b"\x4d\x3c\xb2\xa1": ("<", 1)}
"""First four bytes -> byte order, nanoseconds of its unit."""
_PCAPNG = b"\x0a\x0d\x0d\x0a"
_ORDERS = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}
_INTERFACE, _SIMPLE, _ENHANCED = 1, 3, 6
_OPT_END, _OPT_NAME, _OPT_TSRESOL = 0, 2, 9
_LINKTYPE_MASK = 0xFFFF


class Frame(NamedTuple):
    """One frame. at_ns: since 1970, 0 where none is told. name: of the interface."""

    at_ns: int
    name: str
    linktype: int
    bytes: bytes


class _Face(NamedTuple):
    linktype: int
    name: str
    ticks_per_s: int


def is_capture(buf: bytes) -> bool:
    """It begins as a capture does."""
    return buf[:4] in _PCAP or buf[:4] == _PCAPNG


def read_frames(buf: bytes) -> Iterator[Frame]:
    """Frames in the order of the file.

    Raises:
        WireError: BAD_KIND, no capture; TRUNCATED; BAD_FIELD; nothing else escapes.
    """
    if buf[:4] in _PCAP:
        return _read_pcap(buf)
    if buf[:4] == _PCAPNG:
        return _read_pcapng(buf)
    raise WireError(HEADER, WireReason.BAD_KIND, buf[:4].hex())


def _read_pcap(buf: bytes) -> Iterator[Frame]:
    order, unit_ns = _PCAP[buf[:4]]
    head, record = Struct(f"{order}IHHiIII"), Struct(f"{order}IIII")
    if len(buf) < head.size:
        raise WireError(HEADER, WireReason.TRUNCATED, len(buf))
    linktype = head.unpack_from(buf)[6] & _LINKTYPE_MASK
    at = head.size
    while at < len(buf):
        if len(buf) - at < record.size:
            raise WireError(HEADER, WireReason.TRUNCATED, len(buf) - at)
        seconds, parts, n_bytes, _ = record.unpack_from(buf, at)
        at += record.size
        if len(buf) - at < n_bytes:
            raise WireError(HEADER, WireReason.TRUNCATED, len(buf) - at)
        at_ns = seconds * NS_PER_S + parts * unit_ns
        yield Frame(at_ns, "", linktype, buf[at : at + n_bytes])
        at += n_bytes


def _read_pcapng(buf: bytes) -> Iterator[Frame]:
    faces: list[_Face] = []
    at, order = 0, "<"
    while at < len(buf):
        if buf[at : at + 4] == _PCAPNG:
            order, faces = _order(buf[at + 8 : at + 12]), []
        kind, n_bytes = _block(buf, at, order)
        body = buf[at + 8 : at + n_bytes - 4]
        if kind == _INTERFACE:
            faces.append(_face(body, order))
        elif kind in (_ENHANCED, _SIMPLE):
            yield _frame(kind, body, order, faces)
        at += n_bytes


def _order(magic: bytes) -> str:
    if magic not in _ORDERS:
        raise WireError(HEADER, WireReason.BAD_FIELD, magic.hex())
    return _ORDERS[magic]


def _block(buf: bytes, at: int, order: str) -> tuple[int, int]:
    """Kind and length of a block that is there as a whole."""
    if len(buf) - at < 12:
        raise WireError(HEADER, WireReason.TRUNCATED, len(buf) - at)
    kind, n_bytes = unpack_from(f"{order}II", buf, at)
    if n_bytes < 12 or n_bytes % 4:
        raise WireError(HEADER, WireReason.BAD_FIELD, f"block of {n_bytes} bytes")
    if len(buf) - at < n_bytes:
        raise WireError(HEADER, WireReason.TRUNCATED, len(buf) - at)
    return kind, n_bytes


def _face(body: bytes, order: str) -> _Face:
    if len(body) < 8:
        raise WireError(HEADER, WireReason.TRUNCATED, len(body))
    options = dict(_options(body[8:], order))
    resolution = (options.get(_OPT_TSRESOL, b"") or bytes([MICROSECONDS]))[0]
    power = resolution & 0x7F
    ticks = 1 << power if resolution & 0x80 else 10**power
    name = options.get(_OPT_NAME, b"").decode(errors="replace")
    return _Face(unpack_from(f"{order}H", body)[0], name, ticks)


def _frame(kind: int, body: bytes, order: str, faces: list[_Face]) -> Frame:
    head = 20 if kind == _ENHANCED else 4
    if len(body) < head:
        raise WireError(HEADER, WireReason.TRUNCATED, len(body))
    if kind == _SIMPLE:
        number, ticks = 0, 0
        (n_bytes,) = unpack_from(f"{order}I", body)
        n_bytes = min(n_bytes, len(body) - head)  # cut to the snapshot length
    else:
        number, high, low, n_bytes, _ = unpack_from(f"{order}IIIII", body)
        ticks = high << 32 | low
    if number >= len(faces):
        raise WireError(HEADER, WireReason.BAD_FIELD, f"interface {number}")
    if len(body) - head < n_bytes:
        raise WireError(HEADER, WireReason.TRUNCATED, len(body) - head)
    face = faces[number]
    at_ns = ticks * NS_PER_S // face.ticks_per_s
    return Frame(at_ns, face.name, face.linktype, body[head : head + n_bytes])


def _options(buf: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(buf):
        code, n_bytes = unpack_from(f"{order}HH", buf, at)
        if code == _OPT_END:
            return
        yield code, buf[at + 4 : at + 4 + n_bytes]
        at += 4 + n_bytes + -n_bytes % 4
