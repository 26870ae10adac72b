"""What kernels count by and where they look is what wire/ and core/ say."""

import pytest
from wire_oracle import Row, tables

from fanfold.core import effects
from fanfold.kernels import absorb, codes, layout, reduce, state, vat
from fanfold.wire import bier, bitstring, fan, feedback, fold, inner
from fanfold.wire.kinds import VERSION, Kind


def offsets(rows: list[Row], n_bytes: int) -> dict[str, int]:
    """Byte offset of each field."""
    found = {}
    for row in rows:
        first, _ = row.span(n_bytes, 10**6)
        found[row.field] = first // 8
    return found


def members_of(prefix: str) -> list[str]:
    """Names in kernels/codes.py with a prefix, by value."""
    home = vat if prefix == "VAT_" else codes
    named = {n: v for n, v in vars(home).items() if n.startswith(prefix) and n != "VAT_ROW"}
    assert sorted(named.values()) == list(range(len(named)))
    return [name.removeprefix(prefix).lower() for name in sorted(named, key=named.__getitem__)]


@pytest.mark.parametrize(
    ("prefix", "words", "count"),
    [
        ("DROP_", effects.DropReason, codes.N_DROPS),
        ("FOLD_", effects.FoldEvent, codes.N_FOLDS),
        ("CLASS_", effects.TrafficClass, codes.N_CLASSES),
        ("VAT_", effects.VatEvent, vat.N_VAT_EVENTS),
    ],
)
def test_words_stand_in_the_order_of_the_codes(prefix, words, count):
    assert members_of(prefix) == [word.value for word in words]
    assert [word.name.lower() for word in words] == [word.value for word in words]
    assert count == len(words)


@pytest.mark.parametrize("bsl", range(bitstring.MIN_BSL, bitstring.MAX_BSL + 1))
def test_headers_start_where_the_tables_say(bsl):
    n_bytes = bitstring.bitstring_bytes(bsl)
    at = offsets(tables(bier)[0], n_bytes)
    assert layout.BITS_AT == at["bitstring"] == bier.FIXED_BYTES
    assert tables(bier)[0][-1].span(n_bytes, 0)[1] + 1 == 8 * (layout.BITS_AT + n_bytes)
    assert offsets(tables(inner)[0], n_bytes)["payload"] == layout.INNER_BYTES
    assert layout.INNER_BYTES == layout.IP_BYTES + layout.UDP_BYTES == inner.FIXED_BYTES
    assert (layout.IP_BYTES, layout.UDP_BYTES) == (inner.IP_BYTES, inner.UDP_BYTES)
    rows = tables(feedback)
    assert offsets(rows[0], n_bytes)["heard"] == layout.FEEDBACK_BYTES == feedback.FIXED_BYTES
    assert offsets(rows[0], n_bytes)["rows"] == layout.FEEDBACK_BYTES + 2 * n_bytes
    assert offsets(rows[1], n_bytes)["lacking"] == feedback.ROW_FIXED_BYTES
    assert tables(fan)[0][-1].span(0, 0)[1] + 1 == 8 * layout.FAN_BYTES


def test_numbers_are_those_of_the_wire():
    assert layout.PROTO_IPV4 == bier.PROTO_IPV4
    assert layout.BIER_PORT == bier.UDP_PORT == inner.BIER_UDP_PORT
    assert layout.FANFOLD_PORT == inner.FANFOLD_PORT
    assert layout.IP_UDP == inner.UDP_PROTOCOL
    assert layout.UNDERLAY_BYTES == inner.FIXED_BYTES
    assert layout.VERSION == VERSION
    assert (layout.KIND_DATA, layout.KIND_FEEDBACK) == (Kind.DATA, Kind.FEEDBACK)
    assert layout.FLAG_POLL == fan.DataFlag.POLL
    assert layout.FLAG_LAST == fan.DataFlag.LAST
    assert layout.FLAG_REPAIR == fan.DataFlag.REPAIR
    assert layout.FLAG_PARTIAL == feedback.FeedbackFlag.PARTIAL
    assert layout.FLAG_SPENT == feedback.FeedbackFlag.SPENT
    assert layout.FLAG_MORE == feedback.FeedbackFlag.MORE
    assert layout.FLAG_EARLY == feedback.FeedbackFlag.EARLY
    assert layout.MAX_PSN == fan.MAX_PSN
    assert (layout.KIND_FOLD, layout.KIND_SPREAD) == (Kind.FOLD, Kind.SPREAD)
    assert layout.FOLD_BYTES == fold.FIXED_BYTES
    for prefix, words in (
        ("WHAT_", fold.FoldWhat),
        ("FLAG_", fold.FoldFlag),
        ("SCOPE_", fold.FoldScope),
    ):
        own = {
            n.removeprefix(prefix): v for n, v in vars(absorb).items() if n.startswith(prefix)
        }
        assert own == {word.name: word.value for word in words}
    for prefix, words in (("OP_", fold.FoldOp), ("WORD_", fold.FoldWord)):
        own = {
            n.removeprefix(prefix): v for n, v in vars(reduce).items() if n.startswith(prefix)
        }
        own.pop("BYTES_OF", None)
        assert own == {word.name: word.value for word in words}


def test_a_slot_has_a_plane_for_each_packet_of_a_block():
    assert state.SLOT_PLANES == state.FIRST_ROW + layout.MAX_PSN
    assert len({state.A_BM, state.P_BM, state.DONE_BM, state.FIRST_ROW}) == 4
