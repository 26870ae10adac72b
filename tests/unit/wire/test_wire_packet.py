"""The whole stack, and captures."""

from io import BytesIO

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from vec_file import VECTORS, load
from wire_values import VALUES

from fanfold.errors import MisuseError, WireError, WireReason
from fanfold.wire import bier, bier_mpls, feedback, inner, pcapng, underlay
from fanfold.wire.ask import Ask
from fanfold.wire.bier import BierHeader
from fanfold.wire.close import Close, CloseReason
from fanfold.wire.fan import Data
from fanfold.wire.feedback import Feedback
from fanfold.wire.fold import Fold
from fanfold.wire.inner import FANFOLD_PORT, GROUP_ADDRESS, Inner
from fanfold.wire.packet import Message, build, dissect, parse, parse_inner
from fanfold.wire.pcapng import Direction
from fanfold.wire.report import Report

BFIR = 0x0A000001
FLOW_PORT = 40000
HEADER = BierHeader(bift_id=0x30000, ttl=64, bfir_id=10, bitstring=0b111)
DATA = Data(flow=3, block=0, n_psn=1, psn=0, stride=100, first_ttl=64)
FEEDBACK = Feedback(bift_id=0x30000, flow=3, block=0, n_psn=1, heard=7, done=7)
MESSAGES = [
    (DATA, b"x" * 100, True),
    (Ask(flow=2, cursor=0, nonce=1), b"", True),
    (Close(flow=2), b"", True),
    (FEEDBACK, b"", False),
    (Report(state=0, bfr_id=1, flow=2), b"", False),
    (Fold(kind=6, what=0, group=9, block=2), b"words...", False),
    (Fold(kind=7, what=2, group=9, block=2), b"12345678", True),
]


def refusal(buf: bytes) -> WireReason:
    with pytest.raises(WireError) as caught:
        parse(buf)
    return caught.value.reason


@pytest.mark.parametrize(("message", "payload", "is_down"), MESSAGES)
def test_packet_comes_back_with_its_port_on_the_side_of_its_kind(
    message: Message, payload: bytes, is_down: bool
) -> None:
    dst = GROUP_ADDRESS if is_down else BFIR
    packet = parse(build(HEADER, BFIR, dst, FLOW_PORT, message, payload))
    assert (packet.header, packet.message, packet.payload) == (HEADER, message, payload)
    ports = (packet.inner.sport, packet.inner.dport)
    assert ports == ((FLOW_PORT, FANFOLD_PORT) if is_down else (FANFOLD_PORT, FLOW_PORT))


def test_packet_is_the_vectors_one_after_the_other() -> None:
    header = load(VECTORS / "bier" / "bsl256_chinog_three_bfers.vec").buf
    datagram = load(VECTORS / "inner" / "close_to_group.vec").buf
    message = Close(flow=0x2A00, reason=CloseReason.ABORTED)
    assert build(HEADER, BFIR, GROUP_ADDRESS, FLOW_PORT, message) == header + datagram


def test_packet_after_pop_is_plain_ipv4() -> None:
    buf = build(HEADER, BFIR, GROUP_ADDRESS, FLOW_PORT, DATA, b"bytes")
    datagram, message, payload = parse_inner(buf[HEADER.size_bytes :])
    assert (datagram.dst, message, payload) == (GROUP_ADDRESS, DATA, b"bytes")


def test_what_is_not_ours_is_refused_by_name() -> None:
    not_ipv4 = bier.encode(msgspec.structs.replace(HEADER, proto=6))
    assert refusal(not_ipv4 + bytes(60)) == WireReason.BAD_PROTO
    down = inner.encode(Inner(1, 2, FANFOLD_PORT, FLOW_PORT, b"\x11" + bytes(15)))
    assert refusal(bier.encode(HEADER) + down) == WireReason.BAD_PORT
    up = inner.encode(Inner(1, 2, FLOW_PORT, FANFOLD_PORT, feedback.encode(FEEDBACK)))
    assert refusal(bier.encode(HEADER) + up) == WireReason.BAD_PORT
    empty = inner.encode(Inner(1, 2, FLOW_PORT, FANFOLD_PORT, b""))
    assert refusal(bier.encode(HEADER) + empty) == WireReason.TRUNCATED


def test_payload_ends_at_the_stride() -> None:
    with pytest.raises(MisuseError):
        build(HEADER, BFIR, GROUP_ADDRESS, FLOW_PORT, DATA, b"x" * 101)
    with pytest.raises(MisuseError):
        build(HEADER, BFIR, BFIR, FLOW_PORT, FEEDBACK, b"x")
    with pytest.raises(MisuseError):
        build(msgspec.structs.replace(HEADER, proto=6), BFIR, BFIR, FLOW_PORT, FEEDBACK)
    full = build(HEADER, BFIR, GROUP_ADDRESS, FLOW_PORT, DATA, b"x" * 100)
    body = bytearray(parse(full).inner.payload)
    body[15] = 99  # low byte of stride
    shorter = inner.encode(Inner(BFIR, GROUP_ADDRESS, FLOW_PORT, FANFOLD_PORT, bytes(body)))
    assert refusal(bier.encode(HEADER) + shorter) == WireReason.BAD_FIELD


def test_dissection_goes_as_far_as_the_bytes_are_sound() -> None:
    buf = build(HEADER, BFIR, GROUP_ADDRESS, FLOW_PORT, DATA, b"bytes")
    whole = dissect(buf)
    assert [type(layer) for layer in whole.layers] == [BierHeader, Inner, Data]
    assert (whole.payload, whole.refused) == (b"bytes", None)
    cut = dissect(buf[:-1])
    assert cut.layers == (HEADER,)
    assert cut.refused is not None
    assert cut.refused.reason == WireReason.TRUNCATED


def test_dissection_of_the_mpls_form() -> None:
    plain = build(HEADER, BFIR, GROUP_ADDRESS, FLOW_PORT, DATA, b"bytes")
    header = bier_mpls.MplsBierHeader(label=18, bsl=3, ttl=64, bfir_id=10, bitstring=7)
    found = dissect(bier_mpls.encode(header) + plain[HEADER.size_bytes :], label_bsl=3)
    assert found.layers[0] == header
    assert (found.payload, found.refused) == (b"bytes", None)


@given(buf=st.binary(max_size=300), label_bsl=st.integers(0, 7))
def test_any_bytes_are_dissected_without_an_exception(buf: bytes, label_bsl: int) -> None:
    dissect(buf, label_bsl)


@given(value=VALUES["feedback"], cut=st.integers(0, 200))
def test_stack_cut_anywhere_is_truncated(value: Feedback, cut: int) -> None:
    buf = build(HEADER, BFIR, BFIR, FLOW_PORT, value)
    assert refusal(buf[: min(cut, len(buf) - 1)]) == WireReason.TRUNCATED


def capture() -> bytes:
    file = BytesIO()
    writer = pcapng.Writer(file)
    up = writer.add_interface("leaf1:p0")
    down = writer.add_interface("leaf1:p1")
    writer.write(up, 1_999, b"12345", Direction.INBOUND)
    writer.write(down, 5_000_000_000_000_000, b"1234", Direction.OUTBOUND)
    return file.getvalue()


def test_capture_comes_back() -> None:
    found = pcapng.read(capture())
    assert [port.name for port in found.interfaces] == ["leaf1:p0", "leaf1:p1"]
    assert {port.linktype for port in found.interfaces} == {pcapng.LINKTYPE_IPV4}
    assert found.packets == (
        pcapng.CapturedPacket(0, 1, b"12345", Direction.INBOUND),
        pcapng.CapturedPacket(1, 5_000_000_000_000, b"1234", Direction.OUTBOUND),
    )


def test_capture_blocks_have_the_bytes_of_the_draft() -> None:
    # draft-ietf-opsawg-pcapng 4.3, by hand: type 6, length 52, interface 0, time 0:1, 5 of 5
    # bytes, 3 bytes of padding, option 2 (flags) of 4 bytes = inbound, end of options.
    hexed = (
        "06000000 34000000 00000000 00000000 01000000 05000000 05000000"
        "3132333435 000000 0200 0400 01000000 0000 0000 34000000"
    )
    assert pcapng.packet_block(0, 1, b"12345", Direction.INBOUND) == bytes.fromhex(hexed)
    # 4.2: type 1, length 40, link type 228, no snap length, option 2 (name) "p0", option 9
    # (resolution) 10**-9, end of options.
    hexed = (
        "01000000 28000000 e400 0000 00000000 0200 0200 70300000"
        "0900 0100 09000000 0000 0000 28000000"
    )
    assert pcapng.interface_block("p0", 228) == bytes.fromhex(hexed)


def test_capture_cut_is_refused() -> None:
    buf = capture()
    ends = {n for n in range(len(buf)) if n in ends_of(buf)}
    for n_bytes in range(1, len(buf)):
        if n_bytes in ends:
            pcapng.read(buf[:n_bytes])
        else:
            with pytest.raises(WireError) as caught:
                pcapng.read(buf[:n_bytes])
            assert caught.value.reason == WireReason.TRUNCATED


@pytest.mark.parametrize("kind", [1, 6])
def test_capture_block_too_short_for_its_fields_is_refused(kind: int) -> None:
    short = bytes([kind, 0, 0, 0, 12, 0, 0, 0, 12, 0, 0, 0])
    with pytest.raises(WireError) as caught:
        pcapng.read(capture() + short)
    assert caught.value.reason == WireReason.TRUNCATED


def ends_of(buf: bytes) -> set[int]:
    at, ends = 0, set()
    while at < len(buf):
        at += int.from_bytes(buf[at + 4 : at + 8], "little")
        ends.add(at)
    return ends


@given(buf=st.binary(max_size=80), at=st.integers(0, 300))
def test_damaged_capture_is_read_or_refused(buf: bytes, at: int) -> None:
    whole = capture()
    try:
        pcapng.read(whole[:at] + buf + whole[at + len(buf) :])
    except WireError:
        return


def test_frames_for_captures() -> None:
    frame = underlay.udp_frame(1, 2, underlay.entropy_port(0x4001), b"bier")
    outer = inner.decode(frame)
    assert (outer.sport, outer.dport, outer.payload) == (49153, 8138, b"bier")
    ethernet = underlay.ethernet_frame(b"\2" * 6, b"\4" * 6, bier.ETHERTYPE, b"bier")
    assert ethernet == b"\2" * 6 + b"\4" * 6 + b"\xab\x37" + b"bier"
