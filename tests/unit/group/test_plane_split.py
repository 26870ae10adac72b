"""Blocks of an operation cut into runs for planes, and packed where some stay small."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fanfold.group.layout import Segment, build_blocks
from fanfold.group.plane_split import packed, pieces, span, split
from fanfold.live.rank_state import B_BYTES, B_DST, B_SRC, NOTHING

SIZES = st.lists(st.integers(1, 9000), max_size=80)
WEIGHTS = st.lists(st.integers(0, 255), min_size=1, max_size=6).filter(any)


@given(SIZES, WEIGHTS)
def test_runs_are_all_blocks_in_order_each_by_its_weight(
    sizes: list[int], weights: list[int]
) -> None:
    runs = split(np.array(sizes, np.int64), weights)
    assert [first for first, _ in runs] == [0, *(last for _, last in runs[:-1])]
    assert runs[-1][1] == len(sizes)
    for weight, (first, last) in zip(weights, runs, strict=True):
        due = sum(sizes) * weight / sum(weights)
        assert abs(sum(sizes[first:last]) - due) <= max(sizes, default=0)
        assert weight or first == last


def test_parts_of_planes_by_hand() -> None:
    sizes = np.full(8, 100, np.int64)
    assert split(sizes, [1, 1, 1, 1]) == [(0, 2), (2, 4), (4, 6), (6, 8)]
    assert split(sizes, [2, 1, 1]) == [(0, 4), (4, 6), (6, 8)]
    assert split(sizes, [0, 3, 0, 1]) == [(0, 0), (0, 6), (6, 6), (6, 8)]


@given(SIZES, st.integers(1, 20_000))
def test_pieces_have_no_more_than_they_may(sizes: list[int], most: int) -> None:
    runs = pieces(np.array(sizes, np.int64), most)
    assert [i for first, last in runs for i in range(first, last)] == list(range(len(sizes)))
    for first, last in runs:
        assert last - first <= 1 or sum(sizes[first:last]) <= most


def test_what_is_packed_is_what_blocks_send_and_keep() -> None:
    segments = [
        Segment(900, 40, 100),
        Segment(NOTHING, 500, 64),
        Segment(200, NOTHING, 30),
    ]
    blocks = build_blocks(segments, 64)
    src = np.arange(1000, dtype=np.int64).astype(np.uint8)
    rows, own, n_kept = packed(blocks, src)
    assert n_kept == 164
    assert len(own) == 130
    for before, row in zip(blocks.tolist(), rows.tolist(), strict=True):
        assert (before[B_SRC] == NOTHING) == (row[B_SRC] == NOTHING)
        assert (before[B_DST] == NOTHING) == (row[B_DST] == NOTHING)
        if row[B_SRC] != NOTHING:
            at, n = before[B_SRC], row[B_BYTES]
            assert own[row[B_SRC] : row[B_SRC] + n].tolist() == src[at : at + n].tolist()
    assert span(rows, B_DST) == (0, 164)
    src[:] = 0
    assert own.any()  # a copy


def test_what_lies_side_by_side_is_copied_too() -> None:
    src = np.arange(200, dtype=np.uint8)
    rows, own, n_kept = packed(build_blocks([Segment(8, 8, 150)], 64), src)
    src[:] = 0
    assert (own.tolist(), n_kept) == (list(range(8, 158)), 150)
    assert span(rows, B_SRC) == (0, 150)


def test_what_sends_and_keeps_nothing_is_nowhere() -> None:
    blocks = build_blocks([Segment(NOTHING, NOTHING, 64)], 64)
    assert span(blocks, B_SRC) == (0, 0)
    rows, own, n_kept = packed(blocks, np.zeros(0, np.uint8))
    assert (len(rows), len(own), n_kept) == (1, 0, 0)
