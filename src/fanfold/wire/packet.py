"""The whole stack: BIER, IPv4, UDP and one fanfold message; docs/wire/bier-udp.md.

The bytes are those of the outer UDP datagram's payload (port 8138), and the same that
follow Ethertype 0xAB37.
"""

from collections.abc import Callable
from typing import TypeAlias, assert_never

import msgspec

from fanfold.errors import MisuseError, WireError, WireReason
from fanfold.wire import ask, bier, bier_mpls, close, fan, feedback, fold, inner, report
from fanfold.wire.ask import Ask
from fanfold.wire.bier import PROTO_IPV4, BierHeader
from fanfold.wire.bier_mpls import MplsBierHeader
from fanfold.wire.close import Close
from fanfold.wire.fan import Data
from fanfold.wire.feedback import Feedback
from fanfold.wire.fold import Fold
from fanfold.wire.inner import FANFOLD_PORT, Inner
from fanfold.wire.kinds import DOWN_KINDS, Kind, kind_of
from fanfold.wire.link import LinkMessage, is_link, parse_link
from fanfold.wire.report import Report

HEADER = "packet"
MAX_WORDS_BYTES = 0xFFFF

Message: TypeAlias = Data | Feedback | Ask | Report | Close | Fold
Layer: TypeAlias = BierHeader | MplsBierHeader | Inner | Message | LinkMessage

_WHOLE: dict[Kind, Callable[[bytes], Message]] = {
    Kind.FEEDBACK: feedback.decode,
    Kind.ASK: ask.decode,
    Kind.REPORT: report.decode,
    Kind.CLOSE: close.decode,
}
"""Kinds that nothing follows."""


class Packet(msgspec.Struct, frozen=True, gc=False):
    """One packet taken apart; `payload` follows DATA and FOLD, is empty for other kinds."""

    header: BierHeader
    inner: Inner
    message: Message
    payload: bytes


class Dissection(msgspec.Struct, frozen=True):
    """As many layers as could be read, and why the next one was refused."""

    layers: tuple[Layer, ...]
    payload: bytes
    refused: WireError | None


def build(
    header: BierHeader,
    src: int,
    dst: int,
    flow_port: int,
    message: Message,
    payload: bytes = b"",
) -> bytes:
    """Write a packet; the message's kind says which UDP port is 8139.

    Args:
        header: Proto 4; its BitString names the receivers, or the BFIR on the way up.
        src: IPv4 address of the emitting node.
        dst: the group on the way down, the BFIR's prefix on the way up.
        flow_port: the push's own UDP port at the BFIR.
        message: what to carry.
        payload: bytes after DATA or FOLD; empty for other kinds.

    Raises:
        MisuseError: a value does not fit its field.
    """
    if header.proto != PROTO_IPV4:
        raise MisuseError(f"{HEADER}.proto: got {header.proto}, allowed: {PROTO_IPV4}")
    body = encode_message(message, payload)
    ports = (flow_port, FANFOLD_PORT)
    sport, dport = ports if kind_of(body) in DOWN_KINDS else ports[::-1]
    return bier.encode(header) + inner.encode(Inner(src, dst, sport, dport, body))


def parse(buf: bytes) -> Packet:
    """Read a packet.

    Raises:
        WireError: a layer refused it; BAD_PROTO, what BIER carries is not IPv4; BAD_PORT,
            8139 does not stand on the side that the message's kind calls for.
    """
    header = bier.decode(buf)
    _require_ipv4(header.proto)
    datagram, message, payload = parse_inner(buf[header.size_bytes :])
    return Packet(header, datagram, message, payload)


def parse_inner(buf: bytes) -> tuple[Inner, Message, bytes]:
    """Read what is left after BIER was popped.

    Raises:
        WireError: a layer refused it, or BAD_PORT.
    """
    datagram = inner.decode(buf)
    message, payload = parse_datagram(datagram)
    return datagram, message, payload


def parse_datagram(datagram: Inner) -> tuple[Message, bytes]:
    """Read the message in a UDP datagram whose ports are known.

    Raises:
        WireError: the message is refused, or BAD_PORT.
    """
    is_down = kind_of(datagram.payload) in DOWN_KINDS
    port = datagram.dport if is_down else datagram.sport
    if port != FANFOLD_PORT:
        raise WireError(HEADER, WireReason.BAD_PORT, port)
    return parse_message(datagram.payload)


def parse_message(buf: bytes) -> tuple[Message, bytes]:
    """Read one fanfold message and, after DATA or FOLD, its payload.

    Raises:
        WireError: the message is refused, or a payload longer than its stride.
    """
    kind = kind_of(buf)
    if kind in _WHOLE:
        return _WHOLE[kind](buf), b""
    if kind in (Kind.FOLD, Kind.SPREAD):
        return fold.decode(buf), buf[fold.FIXED_BYTES :]
    if kind != Kind.DATA:  # between neighbours, and never inside BIER
        raise WireError(HEADER, WireReason.BAD_KIND, int(kind))
    data, payload = fan.decode(buf), buf[fan.FIXED_BYTES :]
    if len(payload) > data.stride:
        raise WireError(HEADER, WireReason.BAD_FIELD, f"payload {len(payload)}")
    return data, payload


def encode_message(message: Message, payload: bytes = b"") -> bytes:
    """Write one fanfold message and, after DATA or FOLD, its payload.

    Raises:
        MisuseError: a value does not fit its field, or a payload that the kind or the
            stride does not allow.
    """
    limit = MAX_WORDS_BYTES if isinstance(message, Fold) else 0
    limit = message.stride if isinstance(message, Data) else limit
    if len(payload) > limit:
        raise MisuseError(f"{HEADER}.payload: got {len(payload)} bytes, allowed: 0..{limit}")
    match message:
        case Data():
            return fan.encode(message) + payload
        case Feedback():
            return feedback.encode(message)
        case Ask():
            return ask.encode(message)
        case Report():
            return report.encode(message)
        case Close():
            return close.encode(message)
        case Fold():
            return fold.encode(message) + payload
        case _:
            assert_never(message)


def dissect(buf: bytes, label_bsl: int = 0) -> Dissection:
    """Read as many layers as are sound.

    Args:
        buf: starts at the BIER header.
        label_bsl: 0 for the non-MPLS form; else the BSL code that the label stands for.
    """
    layers: list[Layer] = []
    payload = buf
    try:
        if is_link(buf) and not label_bsl:
            return Dissection((parse_link(buf),), b"", None)
        header = bier_mpls.decode(buf, label_bsl) if label_bsl else bier.decode(buf)
        layers.append(header)
        payload = buf[header.size_bytes :]
        _require_ipv4(header.proto)
        datagram = inner.decode(payload)
        layers.append(datagram)
        payload = datagram.payload
        message, payload = parse_datagram(datagram)
        layers.append(message)
    except WireError as refused:
        return Dissection(tuple(layers), payload, refused)
    return Dissection(tuple(layers), payload, None)


def _require_ipv4(proto: int) -> None:
    """Refuse what BIER carries unless it is IPv4."""
    if proto != PROTO_IPV4:
        raise WireError(HEADER, WireReason.BAD_PROTO, proto)
