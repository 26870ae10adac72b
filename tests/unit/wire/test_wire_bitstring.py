"""Boundaries come in pairs: the last value that works and the first that must not."""

import pytest

from fanfold.errors import ConfigError, WireError, WireReason
from fanfold.wire import bitstring as bs

LENGTHS = {1: 64, 2: 128, 3: 256, 4: 512, 5: 1024, 6: 2048, 7: 4096}  # RFC 8296 2.1.2


@pytest.mark.parametrize(("bsl", "n_bits"), LENGTHS.items())
def test_code_is_not_a_length(bsl: int, n_bits: int) -> None:
    assert bs.bitstring_bits(bsl) == n_bits
    assert bs.bitstring_bytes(bsl) * 8 == n_bits
    assert bs.bsl_of_bits(n_bits) == bsl


@pytest.mark.parametrize("bsl", [0, 8, -1, 15])
def test_code_outside_one_to_seven_is_refused(bsl: int) -> None:
    with pytest.raises(WireError) as caught:
        bs.bitstring_bits(bsl)
    assert caught.value.reason == WireReason.BAD_BSL


@pytest.mark.parametrize("n_bits", [0, 1, 32, 63, 65, 255, 257, 4095, 8192, -256])
def test_length_that_is_not_one_of_seven_is_refused(n_bits: int) -> None:
    with pytest.raises(ConfigError):
        bs.bsl_of_bits(n_bits)


@pytest.mark.parametrize(
    ("bfr_id", "bsl", "si", "bit_position"),
    [
        (1, 3, 0, 1),
        (256, 3, 0, 256),
        (257, 3, 1, 1),
        (300, 3, 1, 44),
        (300, 4, 0, 300),
        (64, 1, 0, 64),
        (65, 1, 1, 1),
        (65535, 3, 255, 255),
        (16384, 1, 255, 64),
        (32768, 2, 255, 128),
        (65535, 7, 15, 4095),
    ],
)
def test_bfr_id_has_one_place(bfr_id: int, bsl: int, si: int, bit_position: int) -> None:
    assert bs.place(bfr_id, bsl) == (si, bit_position)
    assert bs.bfr_id_at(si, bit_position, bsl) == bfr_id


@pytest.mark.parametrize(
    ("bfr_id", "bsl"), [(0, 3), (65536, 3), (16385, 1), (32769, 2), (-1, 3)]
)
def test_bfr_id_without_a_place_is_refused(bfr_id: int, bsl: int) -> None:
    with pytest.raises(ConfigError):
        bs.place(bfr_id, bsl)


@pytest.mark.parametrize(
    ("si", "bit_position", "bsl"),
    [(0, 0, 3), (0, 257, 3), (256, 1, 3), (-1, 1, 3), (255, 256, 3)],
)
def test_bit_without_a_bfr_id_is_refused(si: int, bit_position: int, bsl: int) -> None:
    with pytest.raises(ConfigError):
        bs.bfr_id_at(si, bit_position, bsl)


def test_ids_group_by_si_lowest_first() -> None:
    sets = bs.bitstrings_of([300, 1, 3, 4, 5, 257], 3)
    assert list(sets.items()) == [(0, 0b11101), (1, 1 | 1 << 43)]
    assert bs.ids_of(0, sets[0], 3) == (1, 3, 4, 5)
    assert bs.ids_of(1, sets[1], 3) == (257, 300)
    assert bs.bitstrings_of([], 3) == {}


def test_position_one_is_the_last_bit_sent() -> None:
    assert bs.to_bytes(1, 1) == bytes(7) + b"\x01"
    assert bs.to_bytes(1 << 63, 1) == b"\x80" + bytes(7)
    assert bs.from_bytes(bytes(31) + b"\x05") == 0b101


def test_word_zero_holds_positions_one_to_64() -> None:
    assert bs.to_words(1 | 1 << 64 | 1 << 255, 3) == [1, 1, 0, 1 << 63]
    assert bs.from_words([1, 1, 0, 1 << 63]) == 1 | 1 << 64 | 1 << 255
    assert bs.to_words(0, 1) == [0]


def test_bift_id_is_bsl_sub_domain_si() -> None:
    assert bs.bift_id(3, 0, 1) == 0x30001
    assert bs.bift_id(7, 255, 254) == 0x7FFFE
    assert bs.split_bift_id(0x30501) == (3, 5, 1)


@pytest.mark.parametrize(("sub_domain", "si"), [(256, 0), (0, 256), (-1, 0), (0, -1)])
def test_bift_id_parts_are_eight_bits(sub_domain: int, si: int) -> None:
    with pytest.raises(ConfigError):
        bs.bift_id(3, sub_domain, si)


@pytest.mark.parametrize("value", [0, 0xFFFF, 0x80000, 0xFFFFF, 1 << 20, -1])
def test_bift_id_without_a_bsl_is_refused(value: int) -> None:
    with pytest.raises(WireError) as caught:
        bs.split_bift_id(value)
    assert caught.value.reason == WireReason.BAD_BIFT_ID


def test_ids_are_read_as_an_operator_writes_them() -> None:
    assert bs.parse_ids("1,3-5,300") == (1, 3, 4, 5, 300)
    assert bs.parse_ids(" 5 , 5,5-5") == (5,)
    assert bs.parse_ids("65535") == (65535,)


@pytest.mark.parametrize(
    "text",
    ["", "0", "65536", "5-3", "1-", "-1", "1,,2", "a", "1-99999999", "²", "1-2-3", "1 2"],
)
def test_ids_that_are_not_ids_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        bs.parse_ids(text)
