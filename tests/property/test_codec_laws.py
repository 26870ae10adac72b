"""Laws of every header in the wire catalog; the bit tables of the docstrings are the oracle."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_oracle import Row, page_tables, put_bits, seal, slice_bits, tables
from wire_values import VALUES

from fanfold import wire
from fanfold.errors import WireError, WireReason
from fanfold.wire import feedback
from fanfold.wire.catalog import CATALOG, NO_HEADER, Codec

each_codec = pytest.mark.parametrize("codec", CATALOG, ids=lambda codec: codec.name)


def n_bytes_of(value: Any) -> int:
    """L of a value, by RFC 8296 section 2.1.2 and not by the code under test."""
    if hasattr(value, "bsl"):
        return int(1 << (value.bsl + 2))
    return int(1 << ((value.bift_id >> 16) + 2)) if hasattr(value, "bift_id") else 0


def spans(codec: Codec, value: Any, buf: bytes) -> list[tuple[Row, int, int]]:
    n_bytes = n_bytes_of(value)
    return [(row, *row.span(n_bytes, len(buf) * 8)) for row in tables(codec.module)[0]]


def decode_or_none(codec: Codec, buf: bytes) -> Any:
    try:
        return codec.decode(buf)
    except WireError:
        return None


def sealed(codec: Codec, buf: bytes) -> bytes:
    """Make checksums right where the header has them."""
    return seal(buf) if codec.name == "inner" else buf


def encoded(codec: Codec, data: st.DataObject) -> tuple[Any, bytes]:
    value = data.draw(VALUES[codec.name])
    return value, codec.encode(value)


def test_catalog_folder_and_strategies_name_the_same_headers() -> None:
    files = {path.stem for path in Path(wire.__file__).parent.glob("*.py")} - {"__init__"}
    names = {codec.name for codec in CATALOG}
    assert files - NO_HEADER == names == VALUES.keys()
    assert files >= NO_HEADER
    assert all(codec.module.__name__ == f"fanfold.wire.{codec.name}" for codec in CATALOG)


@each_codec
def test_pages_and_docstrings_have_the_same_tables(codec: Codec) -> None:
    mine = tables(codec.module)
    names = [codec.name, f"{codec.name} row"][: len(mine)]
    assert mine == [page_tables()[name] for name in names]


def test_pages_have_no_table_without_a_codec() -> None:
    n_tables = sum(len(tables(codec.module)) for codec in CATALOG)
    assert len(page_tables()) == n_tables


@each_codec
@given(data=st.data())
def test_rows_cover_every_bit_once(codec: Codec, data: st.DataObject) -> None:
    value, buf = encoded(codec, data)
    next_bit = 0
    for _, first, last in spans(codec, value, buf):
        assert first == next_bit
        next_bit = last + 1
    assert next_bit == len(buf) * 8
    assert value.size_bytes == len(buf) >= codec.min_bytes


@each_codec
@given(data=st.data())
def test_fields_are_the_bits_the_table_says(codec: Codec, data: st.DataObject) -> None:
    value, buf = encoded(codec, data)
    got = codec.decode(buf)
    for row, first, last in spans(codec, value, buf):
        bits = slice_bits(buf, first, last)
        if row.is_computed or row.field == "rows":
            continue
        if row.is_ignored:
            assert bits == row.sent_as, row
        elif row.always is not None:
            assert bits == row.always, row
        else:
            field = getattr(got, row.field)
            assert bits == (int.from_bytes(field) if isinstance(field, bytes) else field), row


@each_codec
@given(data=st.data())
def test_value_comes_back(codec: Codec, data: st.DataObject) -> None:
    value, buf = encoded(codec, data)
    tail = data.draw(st.binary(max_size=5)) if codec.is_prefix else b""
    assert codec.decode(buf + tail) == value


@each_codec
@given(data=st.data())
def test_ignored_bits_change_nothing_and_go_out_as_said(
    codec: Codec, data: st.DataObject
) -> None:
    value, buf = encoded(codec, data)
    noisy = buf
    for row, first, last in spans(codec, value, buf):
        if row.is_ignored:
            noise = data.draw(st.integers(0, (1 << (last - first + 1)) - 1))
            noisy = put_bits(noisy, first, last, noise)
    assert codec.decode(sealed(codec, noisy)) == value
    assert codec.encode(codec.decode(sealed(codec, noisy))) == buf


@each_codec
@given(data=st.data())
def test_every_other_bit_matters(codec: Codec, data: st.DataObject) -> None:
    value, buf = encoded(codec, data)
    bit = data.draw(st.integers(0, len(buf) * 8 - 1))
    row = next(row for row, first, last in spans(codec, value, buf) if first <= bit <= last)
    if row.is_ignored or row.is_computed or row.field == "rows":
        return
    flipped = put_bits(buf, bit, bit, 1 - slice_bits(buf, bit, bit))
    got = decode_or_none(codec, sealed(codec, flipped))
    assert got is None or got != value
    if row.always is not None:
        assert got is None


@each_codec
@given(data=st.data())
def test_any_flips_decode_to_themselves_or_are_refused(
    codec: Codec, data: st.DataObject
) -> None:
    _, buf = encoded(codec, data)
    for bit in data.draw(st.lists(st.integers(0, len(buf) * 8 - 1), max_size=4)):
        buf = put_bits(buf, bit, bit, 1 - slice_bits(buf, bit, bit))
    got = decode_or_none(codec, sealed(codec, buf))
    if got is not None:
        again = codec.encode(got)
        assert codec.decode(again) == got
        differ = int.from_bytes(again) ^ int.from_bytes(sealed(codec, buf)[: len(again)])
        for row, first, last in spans(codec, got, again):
            allowed = row.is_ignored or row.is_computed or row.field == "rows"
            assert allowed or slice_bits(differ.to_bytes(len(again)), first, last) == 0, row


@each_codec
@given(buf=st.binary(max_size=600))
def test_any_bytes_decode_or_are_refused(codec: Codec, buf: bytes) -> None:
    decode_or_none(codec, buf)


@each_codec
@given(data=st.data())
def test_header_cut_at_every_length_is_truncated(codec: Codec, data: st.DataObject) -> None:
    _, buf = encoded(codec, data)
    for n_bytes in range(len(buf)):
        with pytest.raises(WireError) as caught:
            codec.decode(buf[:n_bytes])
        assert caught.value.reason == WireReason.TRUNCATED, n_bytes


@pytest.mark.parametrize("codec", [c for c in CATALOG if not c.is_prefix], ids=lambda c: c.name)
@given(data=st.data())
def test_message_with_more_bytes_is_trailing(codec: Codec, data: st.DataObject) -> None:
    _, buf = encoded(codec, data)
    with pytest.raises(WireError) as caught:
        codec.decode(buf + data.draw(st.binary(min_size=1, max_size=9)))
    assert caught.value.reason == WireReason.TRAILING


@given(value=VALUES["feedback"])
def test_feedback_rows_are_the_bits_the_table_says(value: feedback.Feedback) -> None:
    n_bytes = n_bytes_of(value)
    buf = feedback.encode(value)[24 + 2 * n_bytes :]
    assert len(buf) == len(value.rows) * (4 + n_bytes)
    for index, want in enumerate(value.rows):
        row_buf = buf[index * (4 + n_bytes) : (index + 1) * (4 + n_bytes)]
        for row in tables(feedback)[1]:
            bits = slice_bits(row_buf, *row.span(n_bytes, len(row_buf) * 8))
            assert bits == (row.sent_as if row.is_ignored else getattr(want, row.field))
