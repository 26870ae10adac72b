"""tshark reads our captures through our dissector: a second opinion on layout and checksums."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from fanfold.cli.dissector import LUA_PATH
from fanfold.wire import bier, underlay
from fanfold.wire import bitstring as bs
from fanfold.wire.ask import Ask
from fanfold.wire.bier import BierHeader
from fanfold.wire.close import Close, CloseReason
from fanfold.wire.fan import Data, DataFlag
from fanfold.wire.feedback import Feedback, FeedbackFlag, FeedbackRow
from fanfold.wire.fold import Fold, FoldFlag, FoldOp, FoldScope, FoldWord
from fanfold.wire.handshake import BODY_BYTES, KNOWN, SECOND, Handshake
from fanfold.wire.hello import Hello
from fanfold.wire.inner import FANFOLD_PORT, GROUP_ADDRESS, address_text
from fanfold.wire.kinds import DOWN_KINDS, Kind
from fanfold.wire.link import build_link
from fanfold.wire.notice import Notice
from fanfold.wire.packet import Message, Packet, build, parse
from fanfold.wire.pcapng import LINKTYPE_ETHERNET, LINKTYPE_IPV4, Direction, Writer
from fanfold.wire.report import Report, ReportError, ReportState

HOST, NEXT = 0x7F000001, 0x7F000002
BFIR = 0x0A000001
FLOW_PORT = 40000
IDS = (1, 3, 44, 200)
RECEIVERS = BierHeader(
    bift_id=bs.bift_id(3, 5, 1),
    ttl=63,
    bfir_id=65535,
    bitstring=1 | 1 << 2 | 1 << 43 | 1 << 199,
    entropy=0xABCDE,
    oam=2,
    dscp=46,
)
TO_BFIR = BierHeader(bift_id=bs.bift_id(1, 0, 0), ttl=9, bfir_id=7, bitstring=1 << 9)
LONG = BierHeader(bift_id=bs.bift_id(7, 0, 0), ttl=9, bfir_id=7, bitstring=1 << 299 | 1 << 4095)
ROWS = (FeedbackRow(psn=0, lacking=1 << 43), FeedbackRow(psn=15, lacking=1 << 2))
MESSAGES: tuple[tuple[BierHeader, Message, bytes], ...] = (
    (
        RECEIVERS,
        Data(
            flow=0x2A01,
            block=7,
            n_psn=16,
            psn=15,
            stride=1400,
            first_ttl=64,
            flags=DataFlag.LAST | DataFlag.REPAIR,
            round=2,
        ),
        b"payload of a packet",
    ),
    (LONG, Ask(flow=0x2A00, cursor=3, nonce=0xDEADBEEF), b""),
    (RECEIVERS, Close(0x2A00, CloseReason.ABORTED, 0xDEADBEEF, bytes(range(64))), b""),
    (
        TO_BFIR,
        Feedback(
            bift_id=RECEIVERS.bift_id,
            flow=0x2A01,
            block=7,
            n_psn=16,
            heard=RECEIVERS.bitstring,
            done=1 | 1 << 199,
            rows=ROWS,
            flags=FeedbackFlag.PARTIAL,
            round=1,
            queue=200,
            room=15,
            worst=300,
            n_merged=4,
        ),
        b"",
    ),
    (
        TO_BFIR,
        Report(
            state=ReportState.READY,
            bfr_id=300,
            flow=0x2A00,
            cursor=3,
            nonce=0xDEADBEEF,
            n_have=5,
            elapsed_us=1 << 40,
            digest=bytes(range(32)),
            mac=bytes(range(100, 116)),
            body=b"\xf8\x00",
        ),
        b"",
    ),
    (
        TO_BFIR,
        Report(
            state=ReportState.FAILED,
            bfr_id=5,
            flow=0x2A00,
            error=ReportError.DISK_FULL,
            body=b"disk full",
        ),
        b"",
    ),
    (
        RECEIVERS,
        Fold(
            kind=Kind.SPREAD,
            what=0,
            group=0xABCD0123,
            block=77,
            op=FoldOp.MAX,
            word=FoldWord.I16,
            flags=FoldFlag.RETRY | FoldFlag.NOT_FINITE,
            exponent=133,
            n_merged=8,
            only=300,
            scope=FoldScope.BUT,
            root_level=1,
            n_slots=128,
        ),
        b"words",
    ),
)
COMMON = ("version", "kind")
FIELDS: dict[type[Message], tuple[str, ...]] = {
    Data: ("flow", "block", "n_psn", "psn", "round", "first_ttl", "stride"),
    Ask: ("flow", "what", "cursor", "nonce"),
    Close: ("flow", "reason", "nonce"),
    Feedback: (
        "flow",
        "block",
        "n_psn",
        "n_rows",
        "round",
        "queue",
        "room",
        "worst",
        "n_merged",
    ),
    Report: (
        "flow",
        "state",
        "bfr_id",
        "cursor",
        "nonce",
        "n_have",
        "error",
        "body_len",
        "elapsed_us",
    ),
    Fold: (
        "op",
        "word",
        "group",
        "block",
        "exponent",
        "n_merged",
        "only",
        "scope",
        "root_level",
    ),
}
KINDS: dict[type[Message], Kind] = {
    Data: Kind.DATA,
    Ask: Kind.ASK,
    Close: Kind.CLOSE,
    Feedback: Kind.FEEDBACK,
    Report: Kind.REPORT,
    Fold: Kind.SPREAD,
}
BIER_FIELDS = ("ttl", "bsl", "entropy", "oam", "dscp", "proto", "bfir_id", "si", "sub_domain")


@pytest.fixture(scope="module")
def tshark() -> str:
    """Path of tshark; root installs it, CI must have it."""
    if shutil.which("tshark") is None and os.geteuid() == 0:
        command = ["apt-get", "install", "-y", "-q", "tshark"]
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(command, env=environment, check=False, capture_output=True)
    found = shutil.which("tshark")
    if found is None and os.environ.get("CI"):
        pytest.fail("tshark is missing: apt-get install -y tshark")
    if found is None:
        pytest.skip("tshark is missing: apt-get install -y tshark")
    return found


def packets() -> list[bytes]:
    return [
        build(
            header,
            BFIR,
            GROUP_ADDRESS if header is not TO_BFIR else BFIR,
            FLOW_PORT,
            message,
            payload,
        )
        for header, message, payload in MESSAGES
    ]


def write_capture(path: Path, bodies: list[bytes], linktype: int) -> None:
    with path.open("wb") as file:
        writer = Writer(file, linktype)
        ports = [writer.add_interface("leaf1:p0"), writer.add_interface("leaf1:p1")]
        for index, body in enumerate(bodies):
            if linktype == LINKTYPE_IPV4:
                frame = underlay.udp_frame(HOST, NEXT, underlay.entropy_port(index), body)
            else:
                macs = (b"\2\0\0\0\0\2", b"\2\0\0\0\0\1")
                frame = underlay.ethernet_frame(*macs, bier.ETHERTYPE, body)
            direction = Direction.INBOUND if index % 2 else Direction.OUTBOUND
            writer.write(ports[index % 2], 1_000_000_007_000 * index, frame, direction)


def read(tshark: str, path: Path, fields: list[str]) -> list[dict[str, list[str]]]:
    """Values of each field in each packet, as tshark prints them."""
    command = [tshark, "-n", "-X", f"lua_script:{LUA_PATH}", "-r", str(path), "-T", "fields"]
    command += ["-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"]
    command += ["-E", "occurrence=a", "-E", "aggregator=;", "-E", "separator=|"]
    for field in fields:
        command += ["-e", field]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "Lua" not in done.stderr, done.stderr
    lines = [line.split("|") for line in done.stdout.splitlines()]
    return [
        {
            field: cell.split(";") if cell else []
            for field, cell in zip(fields, line, strict=True)
        }
        for line in lines
    ]


def one(cells: list[str]) -> int:
    (cell,) = cells
    return int(cell, 0)


@pytest.mark.parametrize("linktype", [LINKTYPE_IPV4, LINKTYPE_ETHERNET])
def test_bier_fields_are_the_codecs(tshark: str, tmp_path: Path, linktype: int) -> None:
    path = tmp_path / "bier.pcapng"
    write_capture(path, packets(), linktype)
    names = [
        f"fanfold_bier.{name}" for name in (*BIER_FIELDS, "bift_id", "bitstring", "bfr_id")
    ]
    seen = read(tshark, path, names)
    assert len(seen) == len(MESSAGES)
    for cells, (header, _, _) in zip(seen, MESSAGES, strict=True):
        got = {name: one(cells[f"fanfold_bier.{name}"]) for name in (*BIER_FIELDS, "bift_id")}
        assert got == {name: getattr(header, name) for name in got}
        hexed = bs.to_bytes(header.bitstring, header.bsl).hex()
        assert cells["fanfold_bier.bitstring"] == [hexed]
        ids = tuple(map(int, cells["fanfold_bier.bfr_id"]))
        assert ids == bs.ids_of(header.si, header.bitstring, header.bsl)


HELLO = Hello(
    *(3, 3, 0xABCD0123, 5, 6, 50_000, 1_000_000),
    digest=1 << 63,
    lag_ms=24,
    poll=True,
)
NOTICE = Notice(fabric=0xABCD0123, origin=2, n_ports=9, seq=1 << 40, down=0x101)


def test_words_of_neighbours_are_the_codecs(tshark: str, tmp_path: Path) -> None:
    path = tmp_path / "link.pcapng"
    write_capture(path, [build_link(HELLO), build_link(NOTICE)], LINKTYPE_IPV4)
    plain = ("fabric", "my_disc", "your_disc", "interval_us", "wanted_us", "lag_ms", "origin")
    plain += ("detect_mult", "n_ports", "seq")
    other = {"kind": (8, 9), "session": (3, None), "states_digest": (1 << 63, None)}
    names = [f"fanfold.{name}" for name in (*plain, *other, "down", "bad_kind", "trailing")]
    seen = read(tshark, path, names)
    for k, (cells, message) in enumerate(zip(seen, (HELLO, NOTICE), strict=True)):
        got = {
            name: one(cells[f"fanfold.{name}"]) for name in plain if cells[f"fanfold.{name}"]
        }
        assert got == {name: getattr(message, name) for name in plain if hasattr(message, name)}
        for name, values in other.items():
            cell = cells[f"fanfold.{name}"]
            assert (one(cell) if cell else None) == values[k]
        assert cells["fanfold.down"] == (["0101"] if k else [])
        assert cells["fanfold.bad_kind"] == cells["fanfold.trailing"] == []


def test_handshakes_are_the_codecs(tshark: str, tmp_path: Path) -> None:
    sent = [
        Handshake(SECOND, 8138, 0x5EED0003, b"p" * 16, b"c" * 16, b"n" * BODY_BYTES[SECOND]),
        Handshake(KNOWN, 40_000, 0),
    ]
    path = tmp_path / "keys.pcapng"
    write_capture(path, [build_link(each) for each in sent], LINKTYPE_IPV4)
    plain = {"step": "step", "hears_on": "port", "session_number": "session", "kind": ""}
    octets = {"proof": "proof", "cookie": "cookie", "noise": "body"}
    names = [f"fanfold.{name}" for name in (*plain, *octets, "bad_kind", "trailing")]
    for cells, message in zip(read(tshark, path, names), sent, strict=True):
        for name, field in plain.items():
            want = getattr(message, field) if field else 10
            assert one(cells[f"fanfold.{name}"]) == want
        for name, field in octets.items():
            want = getattr(message, field).hex()
            assert cells[f"fanfold.{name}"] == ([want] if want else [])
        assert cells["fanfold.bad_kind"] == cells["fanfold.trailing"] == []


@pytest.mark.parametrize("linktype", [LINKTYPE_IPV4, LINKTYPE_ETHERNET])
def test_fanfold_fields_are_the_codecs(tshark: str, tmp_path: Path, linktype: int) -> None:
    path = tmp_path / "fanfold.pcapng"
    write_capture(path, packets(), linktype)
    names = sorted({*COMMON, *(name for row in FIELDS.values() for name in row)})
    seen = read(tshark, path, [f"fanfold.{name}" for name in names])
    assert len(seen) == len(MESSAGES)
    for cells, (_, message, _) in zip(seen, MESSAGES, strict=True):
        got = {
            name: one(cells[f"fanfold.{name}"]) for name in (*COMMON, *FIELDS[type(message)])
        }
        want = {name: getattr(message, name) for name in FIELDS[type(message)]}
        want |= {"version": 1, "kind": KINDS[type(message)]}
        assert got == want


def test_bitstrings_texts_and_flags_are_the_codecs(tshark: str, tmp_path: Path) -> None:
    path = tmp_path / "bodies.pcapng"
    write_capture(path, packets(), LINKTYPE_IPV4)
    names = (
        "payload poll last repair partial heard done row_psn lacking digest body text words mac"
    )
    fields = [f"fanfold.{name}" for name in [*names.split(), "bift_id", "signature"]]
    data, _, closed, fed, ready, failed, folded = read(tshark, path, fields)
    assert data["fanfold.payload"] == [MESSAGES[0][2].hex()]
    flags = [data[f"fanfold.{name}"] for name in ("poll", "last", "repair")]
    assert flags == [["0"], ["1"], ["1"]]
    message = MESSAGES[3][1]
    assert isinstance(message, Feedback)
    for name in ("heard", "done"):
        hexed = bs.to_bytes(getattr(message, name), 3).hex()
        assert fed[f"fanfold.{name}"] == [hexed]
    assert fed["fanfold.partial"] == ["1"]
    assert one(fed["fanfold.bift_id"]) == message.bift_id
    assert [int(psn) for psn in fed["fanfold.row_psn"]] == [row.psn for row in ROWS]
    lacking = [bs.to_bytes(row.lacking, 3).hex() for row in ROWS]
    assert fed["fanfold.lacking"] == lacking
    assert folded["fanfold.words"] == [b"words".hex()]
    assert ready["fanfold.digest"] == [bytes(range(32)).hex()]
    assert ready["fanfold.mac"] == [bytes(range(100, 116)).hex()]
    assert closed["fanfold.signature"] == [bytes(range(64)).hex()]
    assert ready["fanfold.body"] == ["f800"]
    assert failed["fanfold.text"] == ["disk full"]


def test_tshark_finds_both_checksums_and_both_ports_right(tshark: str, tmp_path: Path) -> None:
    path = tmp_path / "sums.pcapng"
    write_capture(path, packets(), LINKTYPE_IPV4)
    fields = [
        "ip.checksum.status",
        "udp.checksum.status",
        "udp.srcport",
        "udp.dstport",
        "ip.dst",
    ]
    for index, cells in enumerate(read(tshark, path, fields)):
        packet = parse(packets()[index])
        assert cells["ip.checksum.status"] == ["1", "1"]  # 1 is "good"
        assert cells["udp.checksum.status"] == ["1", "1"]
        is_down = KINDS[type(packet.message)] in DOWN_KINDS
        ports = [cells["udp.srcport"][1], cells["udp.dstport"][1]]
        assert ports[is_down] == str(FANFOLD_PORT)
        assert cells["udp.dstport"][0] == str(bier.UDP_PORT)
        assert cells["ip.dst"] == [address_text(NEXT), address_text(packet.inner.dst)]


def test_tshark_sees_ports_times_and_directions(tshark: str, tmp_path: Path) -> None:
    path = tmp_path / "ports.pcapng"
    write_capture(path, packets(), LINKTYPE_IPV4)
    names = ["frame.interface_name", "frame.time_epoch", "frame.packet_flags_direction"]
    seen = read(tshark, path, names)
    assert [cells[names[0]] for cells in seen[:2]] == [["leaf1:p0"], ["leaf1:p1"]]
    assert [cells[names[1]] for cells in seen[:3]] == [
        ["0.000000000"],
        ["1.000000007"],
        ["2.000000014"],
    ]
    directions = [one(cells[names[2]]) for cells in seen[:2]]
    assert directions == [Direction.OUTBOUND, Direction.INBOUND]


def test_tshark_names_the_reason_of_a_refusal(tshark: str, tmp_path: Path) -> None:
    sound = packets()[0]
    size = parse_size(sound)
    damaged = [
        sound[:11],
        sound[:4] + b"\1" + sound[5:],
        b"\x80" + sound[1:],
        sound[:5] + b"\0" + sound[6:],
        sound[:5] + b"\x10" + sound[6:],
        sound[: size - 1],
    ]
    path = tmp_path / "refused.pcapng"
    write_capture(path, damaged, LINKTYPE_IPV4)
    got = [
        cells["_ws.expert.message"][-1] for cells in read(tshark, path, ["_ws.expert.message"])
    ]
    reasons = [
        "truncated",
        "bad_version",
        "bad_bift_id",
        "bad_bsl",
        "bsl_mismatch",
        "truncated",
    ]
    assert got == reasons


def parse_size(buf: bytes) -> int:
    packet: Packet = parse(buf)
    return packet.header.size_bytes
