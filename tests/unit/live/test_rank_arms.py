"""Slots that a rank hears of before it waits for them, and agreements that ranks differ in."""

from collections.abc import Iterator

import numpy as np
import pytest
from own_port import own_port

from fanfold.group.layout import Segment, build_blocks
from fanfold.kernels.absorb import WHAT_ARM, fold_at
from fanfold.kernels.layout import FOLD_BYTES
from fanfold.kernels.octets import write_u16, write_u32
from fanfold.kernels.reduce import KIND_BYTES, OP_MAX
from fanfold.live import rank_loop as loop
from fanfold.live.rank import FEW, NO_BATCH, Batch, RankEnd
from fanfold.live.rank_build import LONG, NEAR_MOST, NEAR_WINDOW, windows_on
from fanfold.live.rank_late import UNLIKE, note_unlike
from fanfold.topo.lab_fabric import leaf_spine

MANY = 60
"""Blocks of an operation that needs 64."""
ASKED = 4


@pytest.fixture
def end() -> Iterator[RankEnd]:
    """Rank 1 of three; the tree has the slots of a short operation."""
    fabric = leaf_spine(1, 0, 3, name="arms", prefix=214)
    made = RankEnd(fabric, ["h1", "h2", "h3"], 1, group=7, port=own_port(31_214))
    arm(made, 2 * FEW, 2 * FEW)
    yield made
    made.close()


def arm(end: RankEnd, asked: int, n_slots: int) -> None:
    """Take in an ARM."""
    fan = fold_at(end.state.row[0]["n_words"])
    packet = np.zeros(fan + FOLD_BYTES, np.uint8)
    packet[fan + 1] = WHAT_ARM
    write_u32(packet, fan + 8, asked)
    write_u16(packet, fan + 20, n_slots)
    loop.take_armed(end.io, end.state, packet, fan, 1)


def told(end: RankEnd) -> tuple[int, ...]:
    row = end.state.row[0]
    return tuple(int(row[name]) for name in ("armed", "window", "n_slots", "n_asked"))


def test_an_operation_goes_on_in_its_window_though_others_have_a_larger_one(
    end: RankEnd,
) -> None:
    before = told(end)
    assert before == (1, FEW, 2 * FEW, 2 * FEW)
    arm(end, 128, 128)
    assert told(end) == before


@pytest.mark.parametrize("granted", [128, 32])
def test_slots_told_of_too_early_are_there_when_they_are_asked_for(
    end: RankEnd, granted: int
) -> None:
    arm(end, 128, granted)
    assert end.ask_for_more(MANY)
    assert told(end) == (1, granted // 2, granted, 128)
    assert end.has_slots_for(MANY)


def test_slots_told_of_for_another_number_are_waited_for(end: RankEnd) -> None:
    arm(end, 64, 64)
    assert end.ask_for_more(MANY)
    assert told(end)[0] == 0
    assert not end.has_slots_for(MANY)
    arm(end, 128, 128)
    assert told(end) == (1, 64, 128, 128)


@pytest.mark.parametrize("at", [None, 0, ASKED - 1])
def test_an_agreement_ends_with_its_first_block_where_ranks_differ(
    end: RankEnd, at: int | None
) -> None:
    src = np.zeros(3 * 64, np.uint8)
    blocks = build_blocks([Segment(0, 0, src.size)], 64)
    batch = Batch(KIND_BYTES, OP_MAX, blocks, src, src.copy(), np.zeros(0, np.int64))
    end.codes_of(batch._replace(asked=ASKED))
    asked = np.arange(ASKED, dtype=np.uint8)
    end.state.dst[:ASKED], end.state.dst[ASKED : 2 * ASKED] = asked, ~asked
    if at is not None:
        end.state.dst[at] |= 0x80
    note_unlike(end.state)
    assert end.gone() == (0 if at is None else UNLIKE)


def test_long_operations_have_more_under_way_than_others() -> None:
    here = leaf_spine(1, 0, 3, name="near", prefix=214)
    windows = windows_on(here, 256, may_be_late=False)
    assert windows == (NEAR_MOST, NEAR_WINDOW)
    assert [windows.of(n) for n in (1, LONG - 1, LONG)] == [NEAR_WINDOW, NEAR_WINDOW, NEAR_MOST]
    assert windows_on(here, 16, may_be_late=False) == (16, 16)
    assert windows_on(here, 256, may_be_late=True) == (256, 256)
    made = RankEnd(
        here, ["h1", "h2"], 0, group=7, port=own_port(31_214), window=256, usual=NEAR_WINDOW
    )
    try:
        for n, window in ((LONG - 1, NEAR_WINDOW), (LONG, NEAR_MOST)):
            made.ask_for_slots(n)
            assert made.state.row[0]["n_asked"] == 2 * window
            blocks = build_blocks([Segment(0, 0, n)], 1)
            made._load(NO_BATCH._replace(blocks=blocks))
            assert made.state.job[0]["window"] == window
        arm(made, 2 * NEAR_MOST, 32)
        assert made.state.job[0]["window"] == 16  # there are no slots for more
    finally:
        made.close()
