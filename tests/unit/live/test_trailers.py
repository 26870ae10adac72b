"""Trailers on blocks in hand: what is taken off, what is refused, what a tag covers."""

import ctypes
import socket
from collections.abc import Iterator

import numpy as np
import pytest

from fanfold.core.effects import DropReason
from fanfold.core.link_keys import TakeKeys
from fanfold.kernels.codes import N_DROPS
from fanfold.kernels.layout import BIER_PORT, TRAILER_BYTES
from fanfold.live import libcrypto
from fanfold.live import sock as s
from fanfold.live import trailers as t
from fanfold.live import trailers_out as out
from fanfold.live.event_loop import EventLoop
from fanfold.live.exits import FULL, GONE, aim, send_iov
from fanfold.live.life import take_in
from fanfold.live.link_driver import clear_session, enable_keys, write_session
from fanfold.live.link_table import LIVE, NEW, WINDOW_PKTS, WINDOW_WORDS
from fanfold.live.ports import Limits, build_node_state, build_sock, open_socket
from fanfold.seals.link_keys import SessionKeys
from fanfold.seals.umac import umac_keys
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.wire.bier import BierHeader
from fanfold.wire.fan import Data
from fanfold.wire.handshake import KNOWN, Handshake
from fanfold.wire.inner import GROUP_ADDRESS
from fanfold.wire.link import build_link
from fanfold.wire.packet import build

PORT, ROW = 1, 3
ID, PEER_ID = 0x5EED000 | ROW, 0xABC003
HEAD = 88
CONTENT, MANIFEST = 0x1001, 0x1000
SECOND_PS = 1_000_000_000_000


def packet(n_payload: int = 1000, flow: int = CONTENT, psn: int = 0, bsl: int = 3) -> bytes:
    header = BierHeader(bsl << 16, 64, 1, 30)
    data = Data(flow, 0, 8, psn, n_payload, 64, 0)
    return build(header, 0x7F000001, GROUP_ADDRESS, 50_000, data, bytes(n_payload))


class Link:
    """One end of a link whose both ways have one key: what it seals it can open."""

    def __init__(self, mode: str = "required") -> None:
        self.sock = open_socket("127.0.0.1", 0, "test")
        self.io = build_sock(self.sock, 2, n_links=8)
        self.drops = np.zeros(N_DROPS, np.int64)
        enable_keys(self.io, PORT, mode)
        self.give(ROW, ID, PEER_ID)
        self.io.ints[s.PORT] = PORT
        self.io.name_in[2:4] = BIER_PORT >> 8, BIER_PORT & 0xFF

    def give(self, row: int, number: int, peer: int, *, is_known: bool = True) -> None:
        keys = umac_keys(bytes(range(16)))
        both = SessionKeys(keys, keys)
        write_session(
            self.io,
            TakeKeys(row, number, peer, PORT, BIER_PORT, both, is_confirmed=is_known),
        )

    def seal(self, *packets: bytes, number: int = ID) -> list[bytes]:
        """Packets as they leave, for whom the session has a number."""
        self.io.links.rows["peer_id"] = number
        found = []
        for one in packets:
            room = np.zeros(1 << 16, np.uint8)
            n = out.seal_one(self.io, PORT, BIER_PORT, np.frombuffer(one, np.uint8), room)
            assert n == len(one) + TRAILER_BYTES
            found.append(room[:n].tobytes())
        return found

    def open(self, sealed: list[bytes], when: int = 5) -> list[bytes]:
        """What stands in the block in hand, run by run, when all came as one block."""
        io, ints = self.io, self.io.ints
        whole = b"".join(sealed)
        io.buf[: len(whole)] = np.frombuffer(whole, np.uint8)
        ints[s.BASE] = ints[s.NEXT] = 0
        ints[s.END], ints[s.SEG] = len(whole), len(sealed[0])
        found = []
        while True:
            t.open_run(io, self.drops, when)
            at = int(ints[s.NEXT])
            while at < ints[s.END]:
                size = min(int(ints[s.SEG]), int(ints[s.END]) - at)
                found.append(io.buf[at : at + size].tobytes())
                at += size
            if ints[s.REST_AT] >= ints[s.REST_END]:
                return found

    def told(self) -> dict[str, int]:
        return {str(r): int(n) for r, n in zip(DropReason, self.drops, strict=True) if n}

    def close(self) -> None:
        clear_session(self.io, ROW)
        self.sock.close()


@pytest.fixture
def link() -> Iterator[Link]:
    made = Link()
    yield made
    made.close()


@pytest.mark.parametrize("n_payload", [1, 1000, 8000])
@pytest.mark.parametrize("flow", [CONTENT, MANIFEST])
def test_what_was_sealed_is_opened(link: Link, n_payload: int, flow: int) -> None:
    packets = [packet(n_payload, flow, psn) for psn in range(7)]
    assert link.open(link.seal(*packets)) == packets
    assert link.told() == {}
    assert link.io.links.rows[ROW]["n_in"] == 7
    assert link.io.links.rows[ROW]["heard_ps"] == 5


def test_a_shorter_last_packet_and_a_long_block_are_opened(link: Link) -> None:
    packets = [packet(40, MANIFEST, psn % 8) for psn in range(150)] + [packet(9, MANIFEST)]
    assert link.open(link.seal(*packets)) == packets


@pytest.mark.parametrize("bsl", [1, 3, 7])
def test_of_content_headers_are_covered_and_of_all_else_every_octet(
    link: Link, bsl: int
) -> None:
    head = HEAD - 32 + (8 << (bsl - 1))
    content, manifest = packet(64, CONTENT, bsl=bsl), packet(64, MANIFEST, bsl=bsl)
    for one, covered in ((content, head), (manifest, len(manifest))):
        for at in range(len(one)):
            sealed = link.seal(one)[0]
            bad = sealed[:at] + bytes((sealed[at] ^ 4,)) + sealed[at + 1 :]
            assert bool(link.open([bad])) == (at >= covered), at
    assert link.told() == {"bad_link_mac": head + len(manifest)}


def test_every_octet_of_a_trailer_matters(link: Link) -> None:
    for at in range(TRAILER_BYTES):
        sealed = link.seal(packet())[0]
        i = len(sealed) - TRAILER_BYTES + at
        assert link.open([sealed[:i] + bytes((sealed[i] ^ 0x40,)) + sealed[i + 1 :]]) == []
    assert link.told() == {"link_no_key": 4, "bad_link_mac": TRAILER_BYTES - 4}


def test_a_packet_that_was_cut_or_grew_is_refused(link: Link) -> None:
    sealed = link.seal(packet(64))[0]
    body, tail = sealed[:-TRAILER_BYTES], sealed[-TRAILER_BYTES:]
    assert link.open([body[:-1] + tail]) == []
    assert link.open([body + b"\0" + tail]) == []
    assert link.told() == {"bad_link_mac": 2}
    assert link.open([sealed]) == [body]


def test_a_packet_comes_once_in_any_order_inside_the_window(link: Link) -> None:
    sealed = link.seal(*[packet(8, CONTENT, psn % 8) for psn in range(300)])
    order = [*range(0, 300, 2), *range(1, 300, 2)]
    assert len(link.open([sealed[i] for i in order])) == 300
    assert link.open([sealed[i] for i in order]) == []
    assert link.told() == {"link_replayed": 300}


@pytest.mark.parametrize(
    ("behind", "is_taken"), [(WINDOW_PKTS - 1, True), (WINDOW_PKTS, False), (1 << 40, False)]
)
def test_the_window_ends_where_it_says(link: Link, behind: int, is_taken: bool) -> None:
    row = link.io.links.rows[ROW]
    row["sent"] = (1 << 41) - 1
    newest = link.seal(packet(8))
    assert len(link.open(newest)) == 1
    row["sent"] = (1 << 41) - behind - 1
    assert len(link.open(link.seal(packet(8)))) == is_taken


@pytest.mark.parametrize("ahead", [64 * WINDOW_WORDS, 640 * WINDOW_WORDS])
def test_counters_that_jump_leave_no_old_bits(link: Link, ahead: int) -> None:
    """What comes late after a jump is new, though the same bits stood for older packets."""
    row = link.io.links.rows[ROW]
    assert len(link.open(link.seal(*[packet(8)] * 130))) == 130
    row["sent"] = ahead + 199
    assert len(link.open(link.seal(packet(8)))) == 1
    for sent in (0, 63, 64, 65, 128):
        row["sent"] = ahead + sent
        late = link.seal(packet(8))
        assert len(link.open(late)) == 1, sent
        assert link.open(late) == []
    assert link.told() == {"link_replayed": 5}


def test_a_forged_packet_moves_no_window(link: Link) -> None:
    row = link.io.links.rows[ROW]
    good = link.seal(packet())
    row["sent"] = 1 << 50
    far = link.seal(packet())[0]
    assert link.open([far[:-1] + bytes((far[-1] ^ 1,))]) == []
    assert link.open(good) == [packet()]
    assert row["top"] == 1


def test_open_packets_come_in_where_they_may(link: Link) -> None:
    bare, sealed = packet(), link.seal(packet())[0]
    filler = bare + bytes(TRAILER_BYTES)  # of one length, so in one block
    assert link.open([filler, sealed, filler]) == [bare]
    assert link.told() == {"link_no_key": 2}
    link.io.exits[PORT]["keys"] = 1
    sealed = link.seal(packet())[0]
    assert link.open([filler, sealed, filler]) == [filler, bare, filler]


def test_a_session_of_another_port_is_none_here(link: Link) -> None:
    sealed = link.seal(packet())
    link.io.links.rows[ROW]["port"] = PORT + 1
    assert link.open(sealed) == []
    assert link.told() == {"link_no_key": 1}


@pytest.mark.parametrize("udp_port", [BIER_PORT, 40_000])
def test_handshakes_come_in_open_and_counted(link: Link, udp_port: int) -> None:
    link.io.name_in[2:4] = udp_port >> 8, udp_port & 0xFF
    hello = build_link(Handshake(KNOWN, udp_port, 0))
    assert link.open([hello] * 100, SECOND_PS) == [hello] * t.MOST_TOKENS
    assert link.told() == {"link_flood": 100 - t.MOST_TOKENS}
    other = 258 if udp_port == BIER_PORT else BIER_PORT  # it has a bucket of its own
    link.io.name_in[2:4] = other >> 8, other & 0xFF
    theirs = build_link(Handshake(KNOWN, other, 0))
    assert link.open([theirs], SECOND_PS) == [theirs]
    link.io.name_in[2:4] = udp_port >> 8, udp_port & 0xFF
    assert link.open([hello] * 100, 2 * SECOND_PS) == [hello] * t.MOST_TOKENS


def test_who_plays_a_handshake_from_another_port_takes_nobodys_turn(link: Link) -> None:
    heard = build_link(Handshake(KNOWN, 40_000, 0))
    link.io.name_in[2:4] = 40_001 >> 8, 40_001 & 0xFF
    assert link.open([heard] * 100, SECOND_PS) == []
    assert link.told() == {"bad_handshake": 100}
    link.io.name_in[2:4] = 40_000 >> 8, 40_000 & 0xFF
    assert link.open([heard], SECOND_PS) == [heard]
    link.io.name_in[2:4] = 0, 0  # it was held back on purpose
    assert link.open([heard], SECOND_PS) == [heard]


def test_a_sign_of_life_is_what_has_a_trailer(link: Link) -> None:
    """A handshake may be of anybody: a neighbour that died stays dead."""
    io, ints = link.io, link.io.ints
    assert link.open([build_link(Handshake(KNOWN, BIER_PORT, 0))], SECOND_PS)
    take_in(io, link.drops, SECOND_PS)
    assert (ints[s.BARE], io.heard[PORT]) == (1, 0)
    assert link.open(link.seal(packet()), 2 * SECOND_PS)
    take_in(io, link.drops, 2 * SECOND_PS)
    assert (ints[s.BARE], io.heard[PORT]) == (0, 2 * SECOND_PS)
    io.exits[PORT]["keys"] = 0
    assert link.open([packet()], 3 * SECOND_PS)
    take_in(io, link.drops, 3 * SECOND_PS)
    assert io.heard[PORT] == 3 * SECOND_PS


def test_two_sessions_are_good_at_once_and_the_new_one_is_spoken_by_when_it_came(
    link: Link,
) -> None:
    old = link.seal(packet(), packet(9))
    link.give(5, ID + 2, PEER_ID, is_known=False)
    rows = link.io.links.rows
    assert (rows[5]["state"], rows[5]["sends"], rows[ROW]["sends"]) == (NEW, 0, 1)
    assert link.open(old[:1]) == [packet()]
    rows["sends"] = 0, 0, 0, 0, 0, 1, 0, 0
    new = link.seal(packet(7), number=ID + 2)
    rows["sends"] = 0, 0, 0, 1, 0, 0, 0, 0
    assert link.open(new) == [packet(7)]
    assert (rows[5]["state"], rows[5]["sends"], rows[ROW]["sends"]) == (LIVE, 1, 0)
    assert link.open(old[1:]) == [packet(9)]
    clear_session(link.io, 5)


def test_nothing_leaves_a_port_without_a_key(link: Link) -> None:
    one = np.frombuffer(packet(), np.uint8).copy()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        other.settimeout(0.2)
        aim(link.io, 0x7F000001, other.getsockname()[1])
        link.io.iov_out[0], link.io.iov_out[1] = one.ctypes.data, len(one)
        assert send_iov(link.io, PORT, 1, 1, len(one)) == FULL
        assert link.io.exits[PORT]["no_key"] == 1
        with pytest.raises(TimeoutError):
            other.recv(1 << 16)
        link.io.links.rows[ROW]["dport"] = other.getsockname()[1]
        assert send_iov(link.io, PORT, 1, 1, len(one)) == GONE
        sent = other.recv(1 << 16)
        assert (sent[:-TRAILER_BYTES], len(sent)) == (packet(), len(one) + TRAILER_BYTES)
        assert link.io.iov_out[1] == len(one)
        link.io.links.rows[ROW]["dport"] = BIER_PORT
        link.io.exits[PORT]["keys"] = 1
        assert send_iov(link.io, PORT, 1, 1, len(one)) == GONE
        assert other.recv(1 << 16) == packet()


def test_a_train_leaves_with_a_trailer_behind_each_packet(link: Link) -> None:
    packets = [packet(1000, CONTENT, psn) for psn in range(8)] + [packet(10)]
    train = np.frombuffer(b"".join(packets), np.uint8).copy()
    seg = len(packets[0])
    half = 3 * seg
    link.io.iov_out[0], link.io.iov_out[1] = train.ctypes.data, half
    link.io.iov_out[2], link.io.iov_out[3] = train.ctypes.data + half, len(train) - half
    link.io.links.rows["peer_id"] = ID
    n_iov = out.seal_iov(link.io, ROW, 2, seg)
    assert n_iov == 2 * len(packets)
    tails = link.io.links.tails[: 3 * len(packets)].tobytes()
    sealed = [
        one + tails[TRAILER_BYTES * i : TRAILER_BYTES * (i + 1)]
        for i, one in enumerate(packets)
    ]
    out.unseal_iov(link.io, 2)
    assert list(link.io.iov_out[:4]) == [
        train.ctypes.data,
        half,
        train.ctypes.data + half,
        len(train) - half,
    ]
    assert link.open(sealed) == packets


def leave(link: Link, runs: list[tuple[int, int]], seg: int) -> tuple[int, bytes]:
    """What the kernel is given of the runs (address, octets), and by how many iovecs."""
    iov = link.io.iov_out
    for i, run in enumerate(runs):
        iov[2 * i], iov[2 * i + 1] = run
    n = out.seal_iov(link.io, ROW, len(runs), seg)
    told = b"".join(ctypes.string_at(int(iov[2 * i]), int(iov[2 * i + 1])) for i in range(n))
    out.unseal_iov(link.io, len(runs))
    assert [(int(iov[2 * i]), int(iov[2 * i + 1])) for i in range(len(runs))] == runs
    return n, told


def twice(link: Link, skip: int = 0) -> tuple[list[bytes], int, list[tuple[int, int]]]:
    """A train that came sealed and was opened, its headers changed since: bytes, seg, runs."""
    packets = [packet(1000, CONTENT, psn) for psn in range(7)]
    packets += [packet(1000, MANIFEST, 7), packet(10, CONTENT, 0)]
    sealed = link.seal(*packets)
    if skip:
        sealed[skip] = sealed[skip][:-1] + bytes([sealed[skip][-1] ^ 1])
        del packets[skip]
    assert link.open(sealed) == packets
    io, seg = link.io, len(packets[0])
    first, end = int(io.ints[s.NEXT]), int(io.ints[s.END])
    for at in range(first, end, seg):
        io.buf[at + 11] ^= 0x55  # of the BitString: another port's copies
    packets = [io.buf[at : min(at + seg, end)].tobytes() for at in range(first, end, seg)]
    base = io.buf.ctypes.data
    runs = [(base + first + i * seg, n) for i, n in ((1, 2 * seg), (5, end - first - 5 * seg))]
    return packets, seg, runs


def test_what_came_sealed_leaves_from_where_it_came(link: Link) -> None:
    packets, seg, runs = twice(link)
    for _ in range(2):  # one port after the other
        link.io.links.rows["sent"] = 40
        n, came = leave(link, runs, seg)
        assert n == len(runs)
        link.io.links.rows["sent"] = 40
        sent = [packets[i] for i in (1, 2, 5, 6, 7, 8)]
        assert came == b"".join(link.seal(*sent, number=ID))


@pytest.mark.parametrize("what", ["refused", "other_size", "elsewhere", "gone"])
def test_what_does_not_stand_as_it_came_leaves_by_packets(link: Link, what: str) -> None:
    packets, seg, runs = twice(link, skip=4 if what == "refused" else 0)
    sent = [packets[i] for i in (1, 2, *range(5, len(packets)))]
    if what == "other_size":
        link.io.ints[s.SEG] -= 1
    if what == "gone":
        link.open(link.seal(*packets[:3]))
        link.io.ints[s.NEXT] = link.io.ints[s.END] = 0
    kept = np.frombuffer(b"".join(sent), np.uint8).copy()
    if what in ("elsewhere", "gone"):
        runs = [(kept.ctypes.data, len(kept))]
    link.io.links.rows["sent"] = 40
    n, came = leave(link, runs, seg)
    assert n == 2 * len(sent)
    link.io.links.rows["sent"] = 40
    assert came == b"".join(link.seal(*sent, number=ID))


def test_more_than_one_call_brings_is_opened_where_it_is(link: Link) -> None:
    packets = [packet(1000, CONTENT, psn % 8) for psn in range(64)]
    sealed = link.seal(*packets)
    assert len(b"".join(sealed)) > s.OPENED_AT
    assert link.open(sealed) == packets
    assert link.io.ints[s.CAME_AT] == -1


def test_a_block_without_trailers_has_none_to_write_over(link: Link) -> None:
    link.io.exits[PORT]["keys"] = 1
    assert link.open(link.seal(packet())) == [packet()]
    assert link.io.ints[s.CAME_AT] == 0
    assert link.open([packet()]) == [packet()]
    assert link.io.ints[s.CAME_AT] == -1


def test_nothing_has_no_trailer(link: Link) -> None:
    assert out.seal_one(link.io, PORT, BIER_PORT, np.zeros(0, np.uint8), link.io.out) == 0
    assert link.seal(packet()) != []


def test_words_of_python_leave_sealed_or_not_at_all(link: Link) -> None:
    fabric = leaf_spine(1, 0, 1, name="trailers", prefix=0)
    node = build_node_state(fabric, "h1", Limits())
    event_loop = EventLoop(link.sock, link.io, node, None)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        other.settimeout(0.2)
        dport = other.getsockname()[1]
        node.ports.addr[PORT] = 0x7F000001
        assert not event_loop.send_beside(b"hello", PORT, dport)
        assert not event_loop.send(packet(), PORT, dport)
        link.io.links.rows[ROW]["dport"] = dport
        assert event_loop.send_beside(b"hello", PORT, dport)
        assert event_loop.send(packet(), PORT, dport)
        got = other.recv(1 << 16), other.recv(1 << 16)
        assert [len(one) - TRAILER_BYTES for one in got] == [5, len(packet())]
        link.io.exits[PORT]["keys"] = 1
        link.io.links.rows[ROW]["dport"] = 1
        assert event_loop.send_beside(b"hello", PORT, dport)
        assert other.recv(1 << 16) == b"hello"
    event_loop.close()


def test_a_machine_without_libcrypto_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    sock = open_socket("127.0.0.1", 0, "test")
    monkeypatch.setattr(libcrypto, "NAMES", ("libcrypto-of-nowhere.so.9",))
    libcrypto.load.cache_clear()
    try:
        with pytest.raises(libcrypto.EnvironmentLack, match="libcrypto-of-nowhere") as caught:
            enable_keys(build_sock(sock, 2), PORT, "required")
        assert "\n" not in str(caught.value)
    finally:
        libcrypto.load.cache_clear()
        sock.close()
