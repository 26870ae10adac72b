"""What the laws do not say: all seven lengths, order of refusals, and misuse of encode."""

import msgspec
import pytest
from wire_oracle import put_bits, seal, sum16

from fanfold.errors import ConfigError, MisuseError, WireError, WireReason
from fanfold.wire import (
    ask,
    bier,
    bier_mpls,
    close,
    fan,
    feedback,
    fold,
    hello,
    inner,
    kinds,
    report,
)
from fanfold.wire.catalog import CATALOG
from fanfold.wire.checksum import internet_checksum

DATA = fan.Data(flow=1, block=0, n_psn=4, psn=3, stride=100, first_ttl=64)
ROW = feedback.FeedbackRow(psn=3, lacking=1)
FEEDBACK = feedback.Feedback(
    bift_id=0x10000, flow=1, block=0, n_psn=4, heard=3, done=2, rows=(ROW,)
)
BIER = bier.BierHeader(bift_id=0x10000, ttl=64, bfir_id=1, bitstring=1)
MPLS = bier_mpls.MplsBierHeader(label=16, bsl=1, ttl=64, bfir_id=1, bitstring=1)
REPORT = report.Report(state=3, bfr_id=1, flow=2)
INNER = inner.Inner(src=1, dst=2, sport=3, dport=4, payload=b"")
FOLD = fold.Fold(kind=6, what=0, group=1)
MESSAGES = [codec for codec in CATALOG[3:] if codec.name != "link_bandwidth"]
"""Of fanfold: a community of BGP has no version."""
TWICE = (ROW, ROW)
OUTSIDE = (feedback.FeedbackRow(psn=0, lacking=4),)


def refusal(decode: object, buf: bytes) -> WireReason:
    with pytest.raises(WireError) as caught:
        decode(buf)  # type: ignore[operator]  # any codec
    return caught.value.reason


@pytest.mark.parametrize("bsl", range(1, 8))
def test_header_length_follows_the_bsl(bsl: int) -> None:
    n_bits = 64 << (bsl - 1)
    plain = msgspec.structs.replace(BIER, bift_id=bsl << 16, bitstring=1 << (n_bits - 1) | 1)
    labelled = msgspec.structs.replace(MPLS, bsl=bsl, bitstring=1 << (n_bits - 1) | 1)
    buf, labelled_buf = bier.encode(plain), bier_mpls.encode(labelled)
    assert len(buf) == len(labelled_buf) == plain.size_bytes == 12 + n_bits // 8
    assert (buf[12], buf[-1]) == (0x80, 1)
    assert bier.decode(buf + b"tail") == plain
    assert bier_mpls.decode(labelled_buf + b"tail", bsl) == labelled
    assert refusal(bier.decode, buf[:-1]) == WireReason.TRUNCATED
    assert (
        refusal(lambda b: bier_mpls.decode(b, bsl), labelled_buf[:-1]) == WireReason.TRUNCATED
    )


def test_length_comes_from_the_bift_id_even_when_the_field_lies() -> None:
    buf = bier.encode(msgspec.structs.replace(BIER, bift_id=0x30000))
    short = put_bits(buf, 40, 43, 1)
    assert refusal(bier.decode, short) == WireReason.BSL_MISMATCH
    assert refusal(lambda b: bier_mpls.decode(b, 3), bier_mpls.encode(MPLS)) == (
        WireReason.BSL_MISMATCH
    )


@pytest.mark.parametrize("ver", range(1, 16))
def test_no_version_but_zero(ver: int) -> None:
    assert refusal(bier.decode, put_bits(bier.encode(BIER), 36, 39, ver)) == (
        WireReason.BAD_VERSION
    )


@pytest.mark.parametrize("nibble", [n for n in range(16) if n != 5])
def test_mpls_form_has_nibble_five(nibble: int) -> None:
    buf = put_bits(bier_mpls.encode(MPLS), 32, 35, nibble)
    assert refusal(lambda b: bier_mpls.decode(b, 1), buf) == WireReason.BAD_NIBBLE


def test_bift_id_names_its_parts() -> None:
    header = msgspec.structs.replace(BIER, bift_id=0x30501)
    assert (header.bsl, header.sub_domain, header.si) == (3, 5, 1)


@pytest.mark.parametrize(
    ("first", "last", "value", "reason"),
    [
        (0, 3, 6, WireReason.BAD_VERSION),
        (4, 7, 6, WireReason.BAD_FIELD),
        (50, 50, 1, WireReason.BAD_FIELD),
        (51, 63, 185, WireReason.BAD_FIELD),
        (49, 49, 0, WireReason.BAD_FIELD),
        (72, 79, 6, WireReason.NOT_UDP),
        (16, 31, 27, WireReason.BAD_FIELD),
        (16, 31, 29, WireReason.TRUNCATED),
        (192, 207, 9, WireReason.BAD_FIELD),
        (192, 207, 7, WireReason.BAD_FIELD),
    ],
)
def test_inner_packet_outside_the_profile_is_refused(
    first: int, last: int, value: int, reason: WireReason
) -> None:
    buf = put_bits(inner.encode(INNER), first, last, value)
    assert refusal(inner.decode, seal(buf)) == reason


@pytest.mark.parametrize("payload", [b"", b"\1", b"\1\2", b"\xff" * 7])
def test_checksums_are_those_of_the_book(payload: bytes) -> None:
    buf = inner.encode(msgspec.structs.replace(INNER, payload=payload))
    assert buf == seal(buf)
    assert internet_checksum(buf) == sum16(buf) ^ 0xFFFF


def test_every_single_bit_error_below_bier_is_caught() -> None:
    buf = inner.encode(msgspec.structs.replace(INNER, payload=b"payload"))
    for bit in range(len(buf) * 8):
        damaged = bytearray(buf)
        damaged[bit // 8] ^= 0x80 >> bit % 8
        refusal(inner.decode, bytes(damaged))


def test_group_is_the_address_it_says() -> None:
    assert inner.address_text(inner.GROUP_ADDRESS) == inner.GROUP == "239.81.38.1"
    assert inner.address_of("10.0.0.1") == 0x0A000001
    for text in ("10.0.0", "10.0.0.256", "host", ""):
        with pytest.raises(ConfigError):
            inner.address_of(text)


@pytest.mark.parametrize("n_psn", [0, 65])
def test_feedback_block_is_one_to_64_packets(n_psn: int) -> None:
    buf = feedback.encode(msgspec.structs.replace(FEEDBACK, rows=()))
    assert refusal(feedback.decode, put_bits(buf, 16, 23, n_psn)) == WireReason.BAD_FIELD


@pytest.mark.parametrize("codec", MESSAGES, ids=lambda codec: codec.name)
@pytest.mark.parametrize(
    ("byte", "reason"), [(0x01, WireReason.BAD_VERSION), (0x21, WireReason.BAD_VERSION)]
)
def test_no_fanfold_version_but_one(codec: object, byte: int, reason: WireReason) -> None:
    assert refusal(codec.decode, bytes([byte]) + bytes(90)) == reason  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", [0, 11, 15])
def test_unknown_kind_is_refused(kind: int) -> None:
    assert refusal(kinds.kind_of, bytes([0x10 | kind])) == WireReason.BAD_KIND


def test_failure_text_ends_at_512_bytes() -> None:
    longest = msgspec.structs.replace(REPORT, state=4, body=b"x" * 512)
    buf = report.encode(longest)
    assert report.decode(buf).body == b"x" * 512
    longer = put_bits(buf + b"x", 176, 191, 513)
    assert refusal(report.decode, longer) == WireReason.BAD_FIELD


@pytest.mark.parametrize(
    ("encode", "value"),
    [
        (fan.encode, msgspec.structs.replace(DATA, n_psn=65)),
        (fan.encode, msgspec.structs.replace(DATA, n_psn=0)),
        (fan.encode, msgspec.structs.replace(DATA, psn=4)),
        (fan.encode, msgspec.structs.replace(DATA, flags=16)),
        (fan.encode, msgspec.structs.replace(DATA, flow=1 << 32)),
        (fan.encode, msgspec.structs.replace(DATA, stride=-1)),
        (fan.encode, msgspec.structs.replace(DATA, stride=0)),
        (feedback.encode, msgspec.structs.replace(FEEDBACK, done=4)),
        (feedback.encode, msgspec.structs.replace(FEEDBACK, heard=1 << 64)),
        (feedback.encode, msgspec.structs.replace(FEEDBACK, flags=16)),
        (feedback.encode, msgspec.structs.replace(FEEDBACK, bift_id=0x80000)),
        (feedback.encode, msgspec.structs.replace(FEEDBACK, n_psn=3)),
        (feedback.encode, msgspec.structs.replace(FEEDBACK, rows=TWICE)),
        (feedback.encode, msgspec.structs.replace(FEEDBACK, rows=OUTSIDE)),
        (bier.encode, msgspec.structs.replace(BIER, bift_id=0x80000)),
        (bier.encode, msgspec.structs.replace(BIER, bitstring=1 << 64)),
        (bier.encode, msgspec.structs.replace(BIER, ttl=256)),
        (bier.encode, msgspec.structs.replace(BIER, entropy=1 << 20)),
        (bier.encode, msgspec.structs.replace(BIER, bfir_id=-1)),
        (bier_mpls.encode, msgspec.structs.replace(MPLS, bsl=8)),
        (bier_mpls.encode, msgspec.structs.replace(MPLS, label=1 << 20)),
        (bier_mpls.encode, msgspec.structs.replace(MPLS, tc=8)),
        (inner.encode, msgspec.structs.replace(INNER, sport=1 << 16)),
        (inner.encode, msgspec.structs.replace(INNER, payload=bytes(65508))),
        (ask.encode, ask.Ask(flow=1, cursor=0, nonce=0)),
        (ask.encode, ask.Ask(flow=2, cursor=0, nonce=0, what=2)),
        (close.encode, close.Close(flow=2, reason=3)),
        (fold.encode, msgspec.structs.replace(FOLD, kind=5)),
        (fold.encode, msgspec.structs.replace(FOLD, what=2)),
        (fold.encode, msgspec.structs.replace(FOLD, kind=7, what=1)),
        (fold.encode, msgspec.structs.replace(FOLD, op=5)),
        (fold.encode, msgspec.structs.replace(FOLD, word=6)),
        (fold.encode, msgspec.structs.replace(FOLD, flags=64)),
        (fold.encode, msgspec.structs.replace(FOLD, scope=1)),
        (fold.encode, msgspec.structs.replace(FOLD, only=1)),
        (fold.encode, msgspec.structs.replace(FOLD, scope=3, only=1)),
        (fold.encode, msgspec.structs.replace(FOLD, root_level=256)),
        (report.encode, msgspec.structs.replace(REPORT, bfr_id=0)),
        (report.encode, msgspec.structs.replace(REPORT, state=6)),
        (report.encode, msgspec.structs.replace(REPORT, error=-1)),
        (report.encode, msgspec.structs.replace(REPORT, digest=b"")),
        (report.encode, msgspec.structs.replace(REPORT, body=b"x" * 4097)),
        (report.encode, msgspec.structs.replace(REPORT, state=4, body=b"x" * 513)),
    ],
)
def test_encode_refuses_what_would_not_come_back(encode: object, value: object) -> None:
    with pytest.raises(MisuseError):
        encode(value)  # type: ignore[operator]  # any codec


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("state", 4),
        ("detect_mult", 0),
        ("detect_mult", 256),
        ("my_disc", 0),
        ("my_disc", 2**32),
    ],
)
def test_a_hello_of_values_that_its_fields_cannot_say_is_not_sent(
    field: str, value: int
) -> None:
    sound = hello.Hello(3, 255, 1, 2**32 - 1, 5, 6, 7)
    assert hello.decode(hello.encode(sound)) == sound
    assert (sound.poll, sound.final) == (False, False)
    with pytest.raises(MisuseError, match=rf"hello.{field}: got {value}"):
        hello.encode(msgspec.structs.replace(sound, **{field: value}))
