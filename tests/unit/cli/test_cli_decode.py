"""`fanfold decode` on what tools meet: other BIFT-ids, label stacks, frames, captures."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vec_file import VECTORS, load

from fanfold.cli.main import run
from fanfold.errors import WireError
from fanfold.wire import bier, underlay
from fanfold.wire.captures import is_capture, read_frames
from fanfold.wire.offline import FORMS, form_of, read, read_frame
from fanfold.wire.pcapng import Direction, Writer

SEED = load(VECTORS / "bier" / "bsl256_chinog_three_bfers.vec").buf
CLOSE = load(VECTORS / "inner" / "close_to_group.vec").buf
MPLS = load(VECTORS / "bier_mpls" / "bsl256_label_18.vec").buf
PACKET = SEED + CLOSE
MACS = b"\2\0\0\0\0\2\2\0\0\0\0\1"
UDP = underlay.udp_frame(0x0A000001, 0x0A000002, 50000, PACKET)


def other(bift_id: int = 7) -> bytes:
    """The packet with a BIFT-id that somebody's table has: 20 bits, RFC 8296 2.1.2."""
    first = int.from_bytes(PACKET[:4], "big") & 0xFFF | bift_id << 12
    return first.to_bytes(4, "big") + PACKET[4:]


def ethernet(ethertype: int, body: bytes, tags: bytes = b"") -> bytes:
    return MACS + tags + ethertype.to_bytes(2, "big") + body


def label(value: int, *, is_last: bool) -> bytes:
    return (value << 12 | is_last << 8 | 63).to_bytes(4, "big")


def decoded(capsys: Any, *words: str, code: int = 0) -> Any:
    assert run(["decode", *words, "--json"]) == code
    return json.loads(capsys.readouterr().out)


FRAMES = {
    "bier": (PACKET, ["BierHeader"]),
    "other BIFT-id": (other(), ["OtherBierHeader"]),
    "BIFT-id of 0": (other(0), ["OtherBierHeader"]),
    "mpls": (MPLS + CLOSE, ["MplsBierHeader"]),
    "label stack": (
        label(100, is_last=False) + label(200, is_last=False) + MPLS + CLOSE,
        ["MplsLabel", "MplsLabel", "MplsBierHeader"],
    ),
    "Ethernet, BIER": (ethernet(bier.ETHERTYPE, PACKET), ["Ethernet", "BierHeader"]),
    "Ethernet, MPLS": (ethernet(0x8847, MPLS + CLOSE), ["Ethernet", "MplsBierHeader"]),
    "Ethernet, two VLANs": (
        ethernet(bier.ETHERTYPE, PACKET, b"\x88\xa8\x00\x05\x81\x00\x20\x07"),
        ["Ethernet", "BierHeader"],
    ),
    "Ethernet, UDP, padded": (
        ethernet(0x0800, UDP + bytes(9)),
        ["Ethernet", "Outer", "BierHeader"],
    ),
    "IPv4": (UDP, ["Outer", "BierHeader"]),
}


@pytest.mark.parametrize("name", FRAMES)
def test_each_form_is_known_by_its_bytes(name: str, capsys: Any) -> None:
    buf, layers = FRAMES[name]
    found = decoded(capsys, buf.hex())
    assert [layer["layer"] for layer in found["layers"]] == [*layers, "Inner", "Close"]
    assert found["refused"] is None
    assert found["foreign"] is None


def test_bfr_ids_are_told_and_bit_positions_where_the_set_is_not_known(capsys: Any) -> None:
    header = decoded(capsys, PACKET.hex())["layers"][0]
    assert header["bfr_ids"] == [1, 2, 3]
    assert decoded(capsys, other().hex())["layers"][0]["bit_positions"] == [1, 2, 3]
    assert run(["decode", PACKET.hex()]) == 0
    assert "1,2,3" in capsys.readouterr().out


def test_the_length_is_by_hand_where_the_field_lies(capsys: Any) -> None:
    lying = bytearray(other())
    lying[5] = lying[5] & 0x0F | 0x10  # says 64
    assert decoded(capsys, lying.hex(), code=2)["refused"]
    found = decoded(capsys, lying.hex(), "--bsl", "256", "--as", "bier")
    assert [layer["layer"] for layer in found["layers"]][1:] == ["Inner", "Close"]
    assert found["layers"][0]["bit_positions"] == [1, 2, 3]


def test_a_bsl_that_none_has_is_refused(capsys: Any) -> None:
    for code in (0, 8):
        bad = bytearray(other())
        bad[5] = bad[5] & 0x0F | code << 4
        refused = decoded(capsys, bad.hex(), "--as", "bier", code=2)["refused"]
        assert refused["reason"] == "bad_bsl"


@pytest.mark.parametrize(
    ("buf", "foreign"),
    [
        (SEED[:9] + b"\x06" + SEED[10:] + b"\x60" + bytes(50), "BIER proto 6"),
        (ethernet(0x86DD, b"\x60" + bytes(60)), "Ethertype 0x86dd"),
        (ethernet(0x8847, label(5, is_last=True) + b"\x45" + bytes(40)), "no BIER below"),
        (underlay.udp_frame(1, 2, 3, b"question", 53), "UDP port 53"),
    ],
    ids=["proto", "IPv6", "MPLS", "DNS"],
)
def test_a_foreign_payload_is_no_error(buf: bytes, foreign: str, capsys: Any) -> None:
    form = "ethernet" if buf[:6] == MACS[:6] else "ip" if buf[0] == 0x45 else "bier"
    found = decoded(capsys, buf.hex(), "--as", form)
    assert found["foreign"].startswith(foreign)
    assert found["refused"] is None


def test_what_is_ours_and_damaged_is_still_refused(capsys: Any) -> None:
    assert decoded(capsys, PACKET[:-1].hex(), code=2)["refused"]["reason"] == "truncated"
    bent = PACKET[:-1] + bytes([PACKET[-1] ^ 1])
    assert decoded(capsys, bent.hex(), code=2)["refused"]["reason"] == "bad_checksum"


def pcap(order: str, magic: int, frames: list[bytes], linktype: int = 1) -> bytes:
    head = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 65535, linktype)
    rows = (struct.pack(f"{order}IIII", 9, 7, len(f), len(f)) + f for f in frames)
    return head + b"".join(rows)


def ours(path: Path, frames: list[bytes]) -> None:
    with path.open("wb") as file:
        writer = Writer(file)
        port = writer.add_interface("leaf1:h1")
        for n, frame in enumerate(frames):
            writer.write(port, 1_500_000_000_000 * n, frame, Direction.INBOUND)


def test_each_packet_of_our_captures_is_read(tmp_path: Path, capsys: Any) -> None:
    ours(tmp_path / "x.pcapng", [UDP, underlay.udp_frame(1, 2, 3, b"other", 53)])
    first, second = decoded(capsys, str(tmp_path / "x.pcapng"))
    assert (first["packet"], first["at_ns"], first["interface"]) == (1, 0, "leaf1:h1")
    assert [layer["layer"] for layer in first["layers"]] == [
        *("Outer", "BierHeader", "Inner", "Close")
    ]
    assert (second["at_ns"], second["foreign"]) == (1_500_000_000, "UDP port 53")
    assert run(["decode", str(tmp_path / "x.pcapng")]) == 0
    out = capsys.readouterr().out
    assert "packet 2, 1.500000000 s, leaf1:h1" in out
    assert "bfr_ids 1,2,3" in out


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("magic", "at_ns"), [(0xA1B2C3D4, 7000), (0xA1B23C4D, 7)])
def test_pcap_of_either_order_and_unit(order: str, magic: int, at_ns: int) -> None:
    frame = ethernet(bier.ETHERTYPE, PACKET)
    buf = pcap(order, magic, [frame, frame])
    found = list(read_frames(buf))
    assert [(f.at_ns, f.linktype, f.bytes) for f in found] == [
        (9 * 10**9 + at_ns, 1, frame)
    ] * 2


def test_pcapng_of_others_with_blocks_that_nobody_knows() -> None:
    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        size = struct.pack(">I", len(body) + 12)
        return struct.pack(">I", kind) + size + body + size

    section = block(0x0A0D0D0A, struct.pack(">IHHq", 0x1A2B3C4D, 1, 0, -1))
    face = block(1, struct.pack(">HHI", 1, 0, 0))  # microseconds
    frame = ethernet(bier.ETHERTYPE, PACKET)
    enhanced = block(6, struct.pack(">IIIII", 0, 0, 5, len(frame), len(frame)) + frame)
    simple = block(3, struct.pack(">I", len(frame)) + frame)
    buf = section + face + block(0xBAD, b"what") + enhanced + section + face + simple
    found = list(read_frames(buf))
    assert [(f.at_ns, f.bytes) for f in found] == [(5000, frame), (0, frame)]


def test_a_capture_that_is_cut_is_one_line(tmp_path: Path, capsys: Any) -> None:
    ours(tmp_path / "x.pcapng", [UDP])
    whole = (tmp_path / "x.pcapng").read_bytes()
    (tmp_path / "cut.pcapng").write_bytes(whole[:-8])
    assert run(["decode", str(tmp_path / "cut.pcapng")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@given(st.binary(max_size=200), st.sampled_from(FORMS), st.integers(0, 7))
def test_any_bytes_are_read_or_refused(buf: bytes, form: str, bsl: int) -> None:
    read(buf, form, bsl)
    for linktype in (1, 101, 113, 228, 276, 147):
        read_frame(buf, linktype, bsl)
    assert form_of(buf) in FORMS


@given(st.sampled_from([k for k, (b, _) in FRAMES.items()]), st.integers(0, 300), st.data())
def test_cut_and_bent_frames_are_read_or_refused(name: str, at: int, data: Any) -> None:
    buf = bytearray(FRAMES[name][0])
    buf[at % len(buf)] ^= data.draw(st.integers(1, 255))
    read(bytes(buf))
    read(bytes(buf[: data.draw(st.integers(0, len(buf)))]))


@given(st.binary(max_size=120), st.integers(0, 400))
def test_any_bytes_are_a_capture_or_refused(tail: bytes, cut: int) -> None:
    whole = pcap("<", 0xA1B2C3D4, [UDP])
    for buf in (whole[:cut] + tail, b"\x0a\x0d\x0d\x0a" + tail):
        if is_capture(buf):
            try:
                list(read_frames(buf))
            except WireError:
                continue
