import naive
import numpy as np
import pytest
from kernel_nodes import BFIR, BIFT_ID, data, feedback

from fanfold.core.effects import DropReason
from fanfold.errors import WireError, WireReason
from fanfold.kernels import codes
from fanfold.kernels.frame import (
    check_bier,
    classify,
    frame_inner,
    is_bare,
    is_inner_sound,
    is_sound_from,
    seal_bare,
    seal_inner,
)
from fanfold.wire import bier, inner
from fanfold.wire.ask import Ask
from fanfold.wire.bier import BierHeader
from fanfold.wire.close import Close
from fanfold.wire.inner import GROUP_ADDRESS, Inner
from fanfold.wire.packet import build
from fanfold.wire.report import Report, ReportState

IDS = np.array([BIFT_ID, 0x30005], np.int64)
N_WORDS = np.array([1, 4], np.int64)
REASON_OF = {
    WireReason.TRUNCATED: DropReason.TRUNCATED,
    WireReason.BAD_VERSION: DropReason.BAD_VERSION,
    WireReason.BAD_BSL: DropReason.BAD_BSL,
    WireReason.BSL_MISMATCH: DropReason.BSL_MISMATCH,
    WireReason.BAD_BIFT_ID: DropReason.UNKNOWN_BIFT,
}


def array(packet: bytes) -> np.ndarray:
    return np.array([*packet], np.uint8)


def verdict(packet: bytes, at: int = 0) -> DropReason | int:
    found = check_bier(array(packet), at, len(packet) - at, IDS, N_WORDS)
    return int(found) if found >= 0 else list(DropReason)[-2 - int(found)]


def wire_verdict(packet: bytes) -> DropReason | int:
    """What the codec says, for a BIFT-id that the node knows."""
    try:
        header = bier.decode(packet)
    except WireError as error:
        return REASON_OF[error.reason]
    return IDS.tolist().index(header.bift_id)


PACKET = data(0b110)
LARGE = data(1 << 200, bift_id=0x30005)


@pytest.mark.parametrize("packet", [PACKET, LARGE], ids=["64", "256"])
def test_a_header_cut_anywhere_is_truncated(packet):
    n_header = 12 + (8 if packet is PACKET else 32)
    for n in range(len(packet) + 1):
        wanted = DropReason.TRUNCATED if n < n_header else int(packet is LARGE)
        assert verdict(packet[:n]) == wanted
        assert verdict(b"\xee" * 3 + packet[:n], 3) == wanted


@pytest.mark.parametrize("packet", [PACKET, LARGE], ids=["64", "256"])
def test_kernel_and_codec_refuse_a_header_for_the_same_reason(packet):
    for place, octet in ((4, o) for o in range(256)):
        changed = packet[:place] + bytes([octet]) + packet[place + 1 :]
        assert verdict(changed) == wire_verdict(changed)
    for octet in range(256):
        changed = packet[:5] + bytes([octet]) + packet[6:]
        assert verdict(changed) == wire_verdict(changed)


def test_a_bift_id_that_no_table_has_is_unknown():
    for bift_id in (0x10001, 0x20000, 0x30004, 0xFFFFF, 0):
        changed = (bift_id << 12 | 0x140).to_bytes(4, "big") + PACKET[4:]
        assert verdict(changed) == DropReason.UNKNOWN_BIFT
    worse = (0x20000 << 12).to_bytes(4, "big") + b"\x0f" + PACKET[5:]
    assert verdict(worse) == DropReason.BAD_VERSION  # docs/wire/bier-udp.md: in this order


HEADER = BierHeader(bift_id=BIFT_ID, ttl=9, bfir_id=BFIR, bitstring=1)
WORD = naive.Word(BIFT_ID, 4, heard=1, done=1, rows={})


def control(message: Ask | Close | Report) -> bytes:
    return build(HEADER, 1, GROUP_ADDRESS, 50_000, message)


KINDS = {
    "data": (data(1), codes.CLASS_DATA),
    "repair": (data(1, flags=4), codes.CLASS_REPAIR),
    "poll and last": (data(1, flags=3), codes.CLASS_DATA),
    "feedback": (feedback(WORD), codes.CLASS_FEEDBACK),
    "ask": (control(Ask(flow=2, cursor=0, nonce=0)), codes.CLASS_CONTROL),
    "close": (control(Close(flow=2, reason=0)), codes.CLASS_CONTROL),
    "report": (control(Report(ReportState.CHECKING, 1, 2)), codes.CLASS_CONTROL),
}


@pytest.mark.parametrize("name", KINDS)
def test_each_message_has_its_class(name):
    packet, kind = KINDS[name]
    assert classify(array(packet), 0, len(packet), 1) == kind
    assert classify(array(b"\xee" + packet), 1, len(packet), 1) == kind


@pytest.mark.parametrize(
    ("place", "octet"),
    [(9, 6), (20, 0x46), (29, 6), (48, 0x21)],
    ids=["BIER carries IPv6", "IPv4 options", "TCP", "version 2"],
)
@pytest.mark.parametrize("name", KINDS)
def test_what_is_foreign_is_opaque(name, place, octet):
    packet, _ = KINDS[name]
    changed = packet[:place] + bytes([octet]) + packet[place + 1 :]
    assert classify(array(changed), 0, len(changed), 1) == codes.CLASS_OPAQUE


@pytest.mark.parametrize("name", KINDS)
def test_no_class_without_port_8139(name):
    packet, _ = KINDS[name]
    changed = array(packet)
    changed[40:44] = 1
    assert classify(changed, 0, len(changed), 1) == codes.CLASS_OPAQUE


def test_a_message_on_the_wrong_side_is_not_what_it_says():
    for name in ("data", "repair", "feedback"):
        packet = array(KINDS[name][0])
        packet[40:42], packet[42:44] = packet[42:44].copy(), packet[40:42].copy()
        assert classify(packet, 0, len(packet), 1) == codes.CLASS_CONTROL


def test_a_message_too_short_for_its_header_is_opaque():
    for name, n_fixed in (("data", 16), ("feedback", 24), ("ask", 16)):
        packet, kind = KINDS[name]
        for n in range(20, 48 + n_fixed):
            assert classify(array(packet), 0, n, 1) == codes.CLASS_OPAQUE
        assert classify(array(packet), 0, 48 + n_fixed, 1) == kind


def is_sound(packet: np.ndarray) -> bool:
    return bool(is_inner_sound(packet, 0, len(packet), 1))


def codec_takes(packet: np.ndarray) -> bool:
    try:
        inner.decode(packet[20:].tobytes())
    except WireError:
        return False
    return True


@pytest.mark.parametrize("name", ["data", "feedback"])
def test_kernel_takes_an_inner_packet_where_the_codec_does(name):
    packet = array(KINDS[name][0])
    assert is_sound(packet)
    for place in range(20, len(packet)):
        for mask in (0x01, 0x80, 0xFF):
            packet[place] ^= mask
            assert is_sound(packet) == codec_takes(packet), (place, mask)
            packet[place] ^= mask
    for n in range(20, len(packet)):
        assert not is_sound(packet[:n].copy())
    assert not is_sound(np.append(packet, np.uint8(0)))


def test_fields_that_are_always_the_same_are_refused_with_sound_checksums():
    """Fragments, options and other protocols, summed as if they were right."""
    for place, octet in ((6, 0x20), (6, 0x60), (7, 1), (9, 6), (0, 0x46)):
        packet = array(KINDS["data"][0])
        packet[20 + place] = octet
        packet[30:32] = 0
        ip_sum = 0xFFFF - naive.sum_octets(packet[20:40].tobytes())
        packet[30:32] = ip_sum >> 8, ip_sum & 0xFF
        assert not is_sound(packet)
        assert not codec_takes(packet)


@pytest.mark.parametrize("n_payload", [1, 2, 7, 64, 1001])
def test_sealed_is_what_the_codec_writes(n_payload):
    payload = bytes(range(256)) * 4
    wanted = bier.encode(HEADER) + inner.encode(
        Inner(0x7F000001, GROUP_ADDRESS, 50_000, 8139, payload[:n_payload])
    )
    packet = array(wanted)
    packet[22:24] = packet[30:32] = packet[44:48] = 0xEE
    seal_inner(packet, 0, len(packet), 1)
    assert packet.tobytes() == wanted


def test_a_sum_of_zero_goes_out_as_all_ones():
    message = np.zeros(2, np.uint8)
    base = bier.encode(HEADER) + inner.encode(Inner(1, 2, 3, 4, message.tobytes()))
    checksum = int.from_bytes(base[46:48], "big")
    packet = array(base[:48] + checksum.to_bytes(2, "big"))  # the payload makes the sum whole
    seal_inner(packet, 0, len(packet), 1)
    assert packet[46:48].tobytes() == b"\xff\xff"
    assert is_sound(packet)
    assert codec_takes(packet)


def test_a_bare_packet_is_sound_from_memory_alone_and_in_all_but_its_sum():
    packet = array(KINDS["data"][0])
    sealed = packet.tobytes()
    frame_inner(packet, 0, len(packet), 1)
    assert is_bare(packet, 0, 1)
    assert not is_sound(packet)
    assert not is_sound_from(packet, 0, len(packet), 1, False)
    assert is_sound_from(packet, 0, len(packet), 1, True)
    for place in range(20, 48):
        packet[place] ^= 1
        held = place in (40, 41, 42, 43)  # UDP ports: nothing but the sum covers them
        assert is_sound_from(packet, 0, len(packet), 1, True) == held, place
        packet[place] ^= 1
    for n in range(20, len(packet)):
        assert not is_sound_from(packet[:n].copy(), 0, n, 1, True)
    seal_bare(packet, 0, len(packet), len(packet), 1)
    assert packet.tobytes() == sealed


def test_a_sum_that_is_there_is_checked_from_memory_too():
    packet = array(KINDS["data"][0])
    assert is_sound_from(packet, 0, len(packet), 1, True)
    packet[-1] ^= 1
    assert not is_sound_from(packet, 0, len(packet), 1, True)


def test_only_what_is_bare_of_a_block_is_sealed():
    packet = array(KINDS["data"][0])
    wrong = packet.copy()
    wrong[-1] ^= 1
    bare = packet.copy()
    frame_inner(bare, 0, len(bare), 1)
    block = np.concatenate([bare, wrong, bare])
    seal_bare(block, 0, len(block), len(packet), 1)
    assert block.tobytes() == packet.tobytes() + wrong.tobytes() + packet.tobytes()
