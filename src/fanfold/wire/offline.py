"""What a tool makes of bytes off the wire: frames, label stacks, BIER of any BIFT-id.

RFC 8296 section 2.1.2: a BFR takes the length of the BitString from its BIFT and never from
the BSL field; the field is there for tools that have no BIFT, and this is one. What BIER
carries may be anybody's: a payload that is not ours is no error.
"""

from struct import Struct
from typing import TypeAlias

import msgspec

from fanfold.errors import WireError, WireReason
from fanfold.wire import bier, bier_mpls, inner
from fanfold.wire import bitstring as bs
from fanfold.wire.bier import PROTO_IPV4, BierHeader, check_version, cut_bitstring
from fanfold.wire.bier_mpls import MplsBierHeader
from fanfold.wire.inner import FANFOLD_PORT, Inner
from fanfold.wire.link import LinkMessage, is_link, parse_link
from fanfold.wire.packet import Message, parse_datagram

HEADER = "frame"
ETHERTYPE_IPV4 = 0x0800
VLANS = (0x8100, 0x88A8)
ETHERNET, RAW, SLL, IPV4, SLL2 = 1, 101, 113, 228, 276
"""Link types of captures."""
UDP = 17
FOREIGN = (WireReason.NOT_UDP, WireReason.BAD_PORT, WireReason.BAD_PROTO)
"""Why a payload is not ours, and no worse for it."""

_WORDS = Struct("!III")


class Ethernet(msgspec.Struct, frozen=True):
    """Ethernet II; vlans: tags on the way, outermost first."""

    dst: str
    src: str
    ethertype: int
    vlans: tuple[int, ...] = ()


class Outer(msgspec.Struct, frozen=True):
    """IPv4 and UDP of the underlay, their checksums not looked at."""

    src: int
    dst: int
    sport: int
    dport: int
    ttl: int


class MplsLabel(msgspec.Struct, frozen=True):
    """One entry of a label stack above the one of BIER (RFC 3032 section 2.1)."""

    label: int
    tc: int
    ttl: int


class OtherBierHeader(msgspec.Struct, frozen=True):
    """A BIER header whose BIFT-id is not of the static form: its SI is in somebody's BIFT."""

    bift_id: int
    bsl: int
    ttl: int
    bfir_id: int
    bitstring: int
    entropy: int
    oam: int
    dscp: int
    proto: int

    @property
    def size_bytes(self) -> int:
        """Length of the header; the payload starts here."""
        return bier.FIXED_BYTES + bs.bitstring_bytes(self.bsl)


Bier: TypeAlias = BierHeader | OtherBierHeader | MplsBierHeader
Layer: TypeAlias = Ethernet | Outer | MplsLabel | Bier | Inner | Message | LinkMessage


class Reading(msgspec.Struct, frozen=True):
    """As many layers as could be read, what is left, and why the next one was refused.

    foreign: what the payload is where it is somebody else's; empty where it is ours.
    """

    layers: tuple[Layer, ...]
    payload: bytes
    foreign: str = ""
    refused: WireError | None = None


class _Read:
    """Reads on, one layer after the other."""

    def __init__(self, bsl: int, port: int) -> None:
        self.bsl, self.port = bsl, port
        self.layers: list[Layer] = []
        self.left = b""
        self.foreign = ""

    def run(self, form: str, buf: bytes) -> Reading:
        self.left = buf
        refused = None
        try:
            getattr(self, f"_{form}")()
        except WireError as error:
            refused = error
        return Reading(tuple(self.layers), self.left, self.foreign, refused)

    def _ethernet(self) -> None:
        vlans, at = [], 12
        while int.from_bytes(self.left[at : at + 2], "big") in VLANS:
            vlans.append(int.from_bytes(self.left[at + 2 : at + 4], "big") & 0xFFF)
            at += 4
        if len(self.left) < at + 2:
            raise WireError(HEADER, WireReason.TRUNCATED, len(self.left))
        kind = int.from_bytes(self.left[at : at + 2], "big")
        macs = self.left[:6].hex(":"), self.left[6:12].hex(":")
        self.layers.append(Ethernet(*macs, kind, tuple(vlans)))
        self.left = self.left[at + 2 :]
        self._by_ethertype(kind)

    def _by_ethertype(self, kind: int) -> None:
        if kind == bier.ETHERTYPE:
            self._bier()
        elif kind == bier_mpls.ETHERTYPE:
            self._mpls()
        elif kind == ETHERTYPE_IPV4:
            self._ip()
        else:
            self.foreign = f"Ethertype 0x{kind:04x}"

    def _ip(self) -> None:
        buf = self.left
        head = (buf[0] & 15) * 4 if buf else 0
        length = int.from_bytes(buf[2:4], "big")
        if not buf or buf[0] >> 4 != 4:
            self.foreign = f"IP version {buf[0] >> 4 if buf else 'none'}"
            return
        if head < 20 or length < head or len(buf) < length:
            raise WireError(HEADER, WireReason.TRUNCATED, len(buf))
        body = buf[head:length]  # what follows is padding of the link
        is_later = int.from_bytes(buf[6:8], "big") & 0x1FFF
        if buf[9] != UDP or is_later or len(body) < 8:
            self.foreign = "a later fragment" if is_later else f"IP protocol {buf[9]}"
            return
        sport, dport = int.from_bytes(body[:2], "big"), int.from_bytes(body[2:4], "big")
        ends = int.from_bytes(buf[12:16], "big"), int.from_bytes(buf[16:20], "big")
        self.layers.append(Outer(*ends, sport, dport, buf[8]))
        self.left = body[8:]
        if dport == self.port:
            self._bier()
        else:
            self.foreign = f"UDP port {dport}"

    def _mpls(self) -> None:
        while True:
            if len(self.left) < 4:
                raise WireError(HEADER, WireReason.TRUNCATED, len(self.left))
            word = int.from_bytes(self.left[:4], "big")
            if word >> 8 & 1:
                break
            self.layers.append(MplsLabel(word >> 12, word >> 9 & 7, word & 0xFF))
            self.left = self.left[4:]
        if len(self.left) > 4 and self.left[4] >> 4 != bier_mpls.NIBBLE:
            self.layers.append(MplsLabel(word >> 12, word >> 9 & 7, word & 0xFF))
            self.left = self.left[4:]
            self.foreign = "no BIER below the last label"
            return
        header = bier_mpls.decode(self.left, self.bsl or _bsl_field(self.left))
        self._carried(header)

    def _bier(self) -> None:
        if is_link(self.left):
            self.layers.append(parse_link(self.left))
            self.left = b""
            return
        bsl = self.bsl or _bsl_field(self.left)
        header: Bier
        if self.left[:1] and self.left[0] >> 4 == bsl:  # the static form
            header = bier.decode(self.left)
        else:
            header = _decode_other(self.left, bsl)
        self._carried(header)

    def _carried(self, header: Bier) -> None:
        self.layers.append(header)
        self.left = self.left[header.size_bytes :]
        if header.proto != PROTO_IPV4:
            self.foreign = f"BIER proto {header.proto}"
            return
        try:
            datagram = inner.decode(self.left)
            if FANFOLD_PORT not in (datagram.sport, datagram.dport):
                self.layers.append(datagram)
                self.left = datagram.payload
                self.foreign = f"UDP port {datagram.dport}"
                return
        except WireError as error:
            if error.reason not in FOREIGN:
                raise
            self.foreign = f"IPv4, {error.reason}"
            return
        self.layers.append(datagram)
        self.left = datagram.payload
        message, self.left = parse_datagram(datagram)
        self.layers.append(message)


FORMS = ("auto", "bier", "mpls", "ethernet", "ip")


def read(buf: bytes, form: str = "auto", bsl: int = 0, port: int = bier.UDP_PORT) -> Reading:
    """Layers of a packet or a frame.

    Args:
        form: what stands first, a row of FORMS.
        bsl: code of the BitString's length; 0: as the BSL field says.
        port: UDP port of BIER.
    """
    return _Read(bsl, port).run(form_of(buf) if form == "auto" else form, buf)


def read_frame(buf: bytes, linktype: int, bsl: int = 0, port: int = bier.UDP_PORT) -> Reading:
    """Layers of a frame of a capture, by its link type; other links are foreign."""
    if linktype == ETHERNET:
        return read(buf, "ethernet", bsl, port)
    if linktype in (RAW, IPV4):
        return read(buf, "ip", bsl, port)
    if linktype in (SLL, SLL2):
        at, size = (14, 16) if linktype == SLL else (0, 20)
        kind = int.from_bytes(buf[at : at + 2], "big")
        forms = {bier.ETHERTYPE: "bier", bier_mpls.ETHERTYPE: "mpls", ETHERTYPE_IPV4: "ip"}
        if kind in forms and len(buf) >= size:
            return read(buf[size:], forms[kind], bsl, port)
        return Reading((), buf, f"Ethertype 0x{kind:04x}")
    return Reading((), buf, f"link type {linktype}")


def form_of(buf: bytes) -> str:
    """What stands first, as far as the bytes themselves tell."""
    try:
        bier.decode(buf)
    except WireError as error:
        if error.reason in (WireReason.TRUNCATED, WireReason.BAD_VERSION):
            is_bier = len(buf) > 5 and buf[0] >> 4 == buf[5] >> 4 != 0 and buf[4] >> 4 == 0
        else:
            is_bier = False
    else:
        is_bier = True
    if is_bier:
        return "bier"
    if int.from_bytes(buf[12:14], "big") in (
        *(bier.ETHERTYPE, bier_mpls.ETHERTYPE, ETHERTYPE_IPV4),
        *VLANS,
    ):
        return "ethernet"
    if len(buf) >= 28 and buf[0] >> 4 == 4 and int.from_bytes(buf[2:4], "big") <= len(buf):
        return "ip"
    return "mpls" if _is_stack(buf) else "bier"


def _is_stack(buf: bytes) -> bool:
    """Labels, then BIER's nibble."""
    at = 0
    while at + 4 < len(buf) and not buf[at + 2] & 1:
        at += 4
    return at + 4 < len(buf) and buf[at + 4] >> 4 == bier_mpls.NIBBLE


def _bsl_field(buf: bytes) -> int:
    if len(buf) < bier.FIXED_BYTES:
        raise WireError(bier.HEADER, WireReason.TRUNCATED, len(buf))
    bsl = buf[5] >> 4
    if not bs.MIN_BSL <= bsl <= bs.MAX_BSL:
        raise WireError(bier.HEADER, WireReason.BAD_BSL, bsl)
    return bsl


def _decode_other(buf: bytes, bsl: int) -> OtherBierHeader:
    """A header of any BIFT-id, its length told by the BSL or by hand."""
    if len(buf) < bier.FIXED_BYTES:
        raise WireError(bier.HEADER, WireReason.TRUNCATED, len(buf))
    first, second, third = _WORDS.unpack_from(buf)
    check_version(second)
    return OtherBierHeader(
        bift_id=first >> 12,
        bsl=bsl,
        ttl=first & 0xFF,
        bfir_id=third & 0xFFFF,
        bitstring=cut_bitstring(buf, bsl),
        entropy=second & 0xFFFFF,
        oam=third >> 30,
        dscp=third >> 22 & 0x3F,
        proto=third >> 16 & 0x3F,
    )
