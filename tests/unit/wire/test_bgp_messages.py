"""Messages of BGP and BMP: what real speakers sent is read, and what is malformed is named."""

from fractions import Fraction

import pytest
from bgp_captures import EXABGP, FRR_BMP, FRR_ROUTE

from fanfold.errors import MisuseError, WireError, WireReason
from fanfold.wire import bgp_update, bmp
from fanfold.wire.bgp_update import HEADER_BYTES, MARKER, MessageType, Update
from fanfold.wire.link_bandwidth import (
    BandwidthKind,
    LinkBandwidth,
    binary32_of,
    decode,
    encode,
    lowest,
    to_binary32,
)

GBIT_400, GBIT_100 = 0x513A43B7, 0x503A43B7
ORIGIN = bytes.fromhex("40010100")
PATH = bytes.fromhex("400206020100 00fdf1".replace(" ", ""))
HOP = bytes.fromhex("4003047f000001")
TO = bytes.fromhex("200a510009")


def body(attributes=b"", announced=b"", withdrawn=b""):
    parts = [len(withdrawn).to_bytes(2, "big"), withdrawn]
    return b"".join([*parts, len(attributes).to_bytes(2, "big"), attributes, announced])


def refusal(read, octets):
    with pytest.raises(WireError) as caught:
        read(octets)
    return caught.value.reason


# The community.


def test_bandwidths_of_400_and_100_gbit_are_those_of_the_derivation() -> None:
    """tests/vectors/link_bandwidth/gbit_400.vec: 12207031 * 2**12; a quarter of it is exact."""
    assert to_binary32(50 * 10**9) == GBIT_400
    assert binary32_of(GBIT_400) == 12_207_031 * 4096
    assert to_binary32(Fraction(25, 2) * 10**9) == GBIT_100
    assert binary32_of(GBIT_100) == 12_207_031 * 1024


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (0x00000000, 0),
        (0x80000000, 0),  # minus zero
        (0x3F800000, 1),
        (0x3F800001, 1 + Fraction(1, 2**23)),
        (0x00000001, Fraction(1, 2**149)),  # the least there is
        (0x007FFFFF, Fraction(2**23 - 1, 2**149)),  # the largest subnormal
        (0x00800000, Fraction(1, 2**126)),
        (0x7F7FFFFF, (2**24 - 1) * 2**104),  # the largest there is
        (0xBF800000, None),  # -1
        (0x80000001, None),
        (0x7F800000, None),  # infinite
        (0xFF800000, None),
        (0x7FC00000, None),  # no number
        (0x7F800001, None),
    ],
)
def test_a_value_is_its_number_or_none(value: int, number: Fraction | int | None) -> None:
    assert binary32_of(value) == number
    if number is not None:
        assert to_binary32(number) == value & 0x7FFFFFFF


def test_numbers_go_to_the_nearest_and_ties_to_even() -> None:
    assert to_binary32(2**24 + 1) == to_binary32(2**24)
    assert to_binary32(2**24 + 3) == to_binary32(2**24 + 4)
    assert to_binary32(2**25 - 1) == to_binary32(2**25)
    assert to_binary32(Fraction(1, 2**151)) == 0
    for number in (-1, 2**128, 2**128 - 2**103):
        with pytest.raises(MisuseError):
            to_binary32(number)
    assert to_binary32(2**128 - 2**103 - 1) == 0x7F7FFFFF


def test_the_lowest_counts_of_either_kind_and_what_is_ignored_does_not() -> None:
    both = [
        LinkBandwidth(BandwidthKind.TRANSITIVE, 1, GBIT_400),
        LinkBandwidth(BandwidthKind.NON_TRANSITIVE, 1, GBIT_100),
    ]
    ignored = [LinkBandwidth(0, 1, value) for value in (0xBF800000, 0x7FC00000, 0x7F800000)]
    assert lowest([*ignored, *both]) == binary32_of(GBIT_100)
    assert lowest([LinkBandwidth(0, 1, 0), *both]) == 0
    assert lowest(ignored) is None
    assert lowest([]) is None


def test_a_community_goes_on_bit_for_bit() -> None:
    for octets in ("0004fc00ffc00001", "4004000180000000", "0004ffff7f800000"):
        assert encode(decode(bytes.fromhex(octets))).hex() == octets
    with pytest.raises(MisuseError):
        encode(LinkBandwidth(0x80, 1, 1))


# Sessions of real speakers.


def test_a_session_of_exabgp_is_read() -> None:
    messages, rest = bgp_update.split(EXABGP + MARKER)
    assert rest == MARKER
    kinds = (MessageType.OPEN, MessageType.KEEPALIVE, *[MessageType.UPDATE] * 3)
    assert tuple(m.type for m in messages) == (*kinds, MessageType.KEEPALIVE)
    first, second, end = (bgp_update.decode(m.body) for m in messages[2:5])
    bandwidths = (LinkBandwidth(0, 65009, GBIT_400), LinkBandwidth(0x40, 65009, GBIT_100))
    assert first == Update((), ("10.81.0.9/32",), "127.0.0.1", (65009,), bandwidths)
    assert second == Update((), ("10.81.0.10/32",), "127.0.0.1", (65009,))
    assert end == Update()


def test_what_frr_tells_a_station_is_read() -> None:
    told, rest = bmp.split(FRR_BMP + FRR_ROUTE[:5])
    assert rest == FRR_ROUTE[:5]
    assert [(t.type, t.peer) for t in told] == [
        (bmp.BmpType.INITIATION, ""),
        (bmp.BmpType.PEER_DOWN, "172.16.0.1"),
        (bmp.BmpType.PEER_DOWN, "172.16.0.3"),
        (bmp.BmpType.PEER_UP, "172.16.0.1"),
    ]
    told, rest = bmp.split(FRR_ROUTE)
    assert rest == b""
    found = [m for t in told for m in bgp_update.split(t.body)[0]]
    gone, come = (bgp_update.decode(m.body, told[0].asn_bytes) for m in found)
    assert gone == Update(withdrawn=("10.81.0.1/32",))
    assert come.announced == ("10.81.0.2/32",)
    assert (come.next_hop, come.as_path) == ("172.16.0.1", (65001, 64512, 65002))
    assert lowest(come.bandwidths) == 10**8


def test_streams_cut_anywhere_give_the_same_messages() -> None:
    for stream, split in ((EXABGP, bgp_update.split), (FRR_BMP + FRR_ROUTE, bmp.split)):
        whole, _ = split(stream)
        for at in range(len(stream)):
            first, rest = split(stream[:at])
            assert first + split(rest + stream[at:])[0] == whole


# What is malformed.


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (b"\xfe" + MARKER[1:] + b"\0\x13\4", WireReason.BAD_FIELD),
        (MARKER + b"\0\x12\4", WireReason.TRUNCATED),
        (MARKER + b"\x10\x01\4", WireReason.TRAILING),
        (MARKER + b"\0\x13\0", WireReason.BAD_KIND),
        (MARKER + b"\0\x13\6", WireReason.BAD_KIND),
    ],
)
def test_a_header_that_is_malformed_is_named(octets: bytes, reason: WireReason) -> None:
    assert len(octets) == HEADER_BYTES
    assert refusal(bgp_update.split, octets) == reason


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (b"", "truncated"),
        (b"\0\1", "truncated"),
        (b"\0\0\0", "truncated"),
        (b"\0\0\0\1", "truncated"),
        (body(withdrawn=b"\x20\x0a\x51"), "truncated"),
        (body(withdrawn=b"\x21\x0a\x51\0\1\0"), "bad_field"),
        (body(b"\x40"), "truncated"),
        (body(b"\x40\1"), "truncated"),
        (body(b"\x40\1\1"), "truncated"),
        (body(b"\x50\1\0"), "truncated"),
        (body(b"\x40\1\1\3"), "bad_field"),  # no such ORIGIN
        (body(b"\xc0\1\1\0"), "bad_field"),  # ORIGIN is not optional
        (body(ORIGIN + ORIGIN), "bad_field"),
        (body(PATH + HOP, TO), "bad_field"),
        (body(ORIGIN + HOP, TO), "bad_field"),
        (body(ORIGIN + PATH, TO), "bad_field"),
        (body(b"\x40\3\3\1\2\3"), "bad_field"),
        (body(b"\x40\3\0"), "bad_field"),
        (body(b"\x40\2\1\2"), "bad_field"),
        (body(b"\x40\2\2\2\0"), "bad_field"),
        (body(b"\x40\2\6\5\1\0\0\0\1"), "bad_field"),
        (body(b"\x40\2\5\2\1\0\0\1"), "bad_field"),
        (body(b"\xc0\x10\7" + bytes(7)), "bad_field"),
        (body(b"\x40\x10\x08" + bytes(8)), "bad_field"),
    ],
)
def test_an_update_that_is_malformed_is_named(octets: bytes, reason: str) -> None:
    assert refusal(bgp_update.decode, octets) == reason


def test_what_is_not_looked_into_is_passed_over() -> None:
    long = b"\xd0\x63\1\0" + bytes(256)  # of no meaning here, with a length of two octets
    other = bytes.fromhex("c010080002fc0000000001")  # a route target
    update = bgp_update.decode(body(long + ORIGIN + PATH + HOP + other, TO))
    assert update == Update((), ("10.81.0.9/32",), "127.0.0.1", (65009,))
    assert bgp_update.decode(body(withdrawn=b"\0\x0b\x0a\xff")).withdrawn == (
        "0.0.0.0/0",
        "10.224.0.0/11",
    )
    two = bgp_update.decode(body(bytes.fromhex("4002060202fc00fdea")), asn_bytes=2)
    assert two.as_path == (64512, 65002)


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (b"\2\0\0\0\6\4", WireReason.BAD_VERSION),
        (b"\3\0\0\0\5\4", WireReason.TRUNCATED),
        (b"\3\0\1\0\1\4", WireReason.TRAILING),
        (b"\3\0\0\0\6\7", WireReason.BAD_KIND),
        (b"\3\0\0\0\6\0", WireReason.TRUNCATED),
        (b"\3\0\0\0\x2f\2" + bytes(41), WireReason.TRUNCATED),
    ],
)
def test_a_word_to_a_station_that_is_malformed_is_named(
    octets: bytes, reason: WireReason
) -> None:
    assert refusal(bmp.split, octets) == reason


def test_a_peer_of_ipv6_or_of_two_octets_is_told_apart() -> None:
    for flags, peer, size in ((0x80, "", 4), (0x20, "0.0.0.9", 2)):
        octets = b"\3\0\0\0\x30\2" + bytes([0, flags]) + bytes(23) + b"\x09" + bytes(16)
        told, _ = bmp.split(octets)
        assert (told[0].peer, told[0].asn_bytes) == (peer, size)
