"""When a rank asks for what it lacks, and how much it has under way."""

from collections.abc import Iterator

import numpy as np
import pytest
from own_port import own_port

from fanfold.group.layout import Segment, build_blocks
from fanfold.kernels.absorb import fold_at
from fanfold.kernels.layout import FOLD_BYTES
from fanfold.kernels.octets import write_bits, write_u32
from fanfold.kernels.rank_timers import RTO_MOST_PS, rto_of
from fanfold.kernels.reduce import KIND_I32, OP_SUM
from fanfold.live import rank_loop as loop
from fanfold.live import rank_state as st
from fanfold.live import rank_words as words
from fanfold.live.rank import Batch, RankEnd
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.units import PS_PER_SECOND

MS = PS_PER_SECOND // 1000
N = 64
STEP = MS // 4
"""Block i was sent at (i + 1) * STEP."""
BLOCK = 8


@pytest.fixture
def end() -> Iterator[RankEnd]:
    """Rank 1 of three has sent 60 blocks of 64; round trips took 5 ms, give or take 0.5."""
    fabric = leaf_spine(1, 0, 3, name="repair", prefix=211)
    made = RankEnd(fabric, ["h1", "h2", "h3"], 1, group=7, port=own_port(31_211))
    src = np.zeros(N * BLOCK, np.uint8)
    blocks = build_blocks([Segment(0, 0, src.size)], BLOCK)
    made.codes_of(Batch(KIND_I32, OP_SUM, blocks, src, src.copy(), np.zeros(0, np.int64)))
    row, job = made.state.row[0], made.state.job[0]
    row["armed"], row["srtt_ps"], row["var_ps"], row["least_ps"] = 1, 5 * MS, MS // 2, 2 * MS
    row["cwnd"] = row["epoch_end"] = 100
    job["next"] = 60
    made.state.ring[st.R_SENT, :60] = [(i + 1) * STEP for i in range(60)]
    yield made
    made.close()


def asked(end: RankEnd) -> list[int]:
    """Blocks that were asked for at any time."""
    return np.flatnonzero(end.state.ring[st.R_ASKED]).tolist()


def ask(end: RankEnd, when: int) -> int:
    """Ask for what is overdue; how many requests went out."""
    before = end.counters()["requests"]
    words.ask_due(end.io, end.state, when)
    return end.counters()["requests"] - before


def test_a_block_is_asked_for_when_its_time_is_over(end: RankEnd) -> None:
    assert ask(end, STEP + 12 * MS - 1) == 0
    assert ask(end, STEP + 12 * MS) == 1
    assert asked(end) == [0]


def test_longer_round_trips_than_ever_are_not_taken_for_loss(end: RankEnd) -> None:
    assert ask(end, 2 * STEP + 12 * MS) == 2
    assert ask(end, 8 * STEP + 12 * MS) == 0
    assert ask(end, 3 * STEP + 24 * MS) == 1
    assert ask(end, 4 * STEP + 24 * MS - 1) == 0
    loop.measure(end.state, 59, 60 * STEP + 25 * MS)  # it came by itself: that long it takes
    assert end.state.row[0]["patience"] == 0
    assert rto_of(end.state.row[0]) > 30 * MS


def test_what_left_later_and_is_here_shows_a_loss_again_and_again(end: RankEnd) -> None:
    state, row = end.state, end.state.row[0]
    state.have[:] = 1
    state.have[3] = 0
    reorder = 5 * MS // 4
    loop.measure(state, 3 + reorder // STEP, 8 * MS)
    row["srtt_ps"] = 5 * MS
    assert ask(end, 8 * MS) == 0
    loop.measure(state, 4 + reorder // STEP, 8 * MS)
    row["srtt_ps"] = 5 * MS
    assert ask(end, 8 * MS) == 1
    assert ask(end, 8 * MS + 1) == 0
    loop.measure(state, 59, 19 * MS)  # left 7 ms after it was asked for, in less than 12 ms
    assert ask(end, 19 * MS) == 1


def test_who_is_heard_waits_for_the_others_repair(end: RankEnd) -> None:
    row = end.state.row[0]
    assert ask(end, STEP + 12 * MS) == 1
    fan = fold_at(row["n_words"])
    heard = np.zeros(1024, np.uint8)
    write_u32(heard, fan + 8, 0)
    write_bits(heard, fan + FOLD_BYTES, row["n_words"], np.array([2, 0, 0, 0], np.uint64))
    loop.take_heard(end.io, end.state, heard, 0, 20 * MS)
    assert end.counters()["sent_again"] == 0
    assert end.state.ring[st.R_ASKED, 0] == 20 * MS
    write_bits(heard, fan + FOLD_BYTES, row["n_words"], np.array([5, 0, 0, 0], np.uint64))
    loop.take_heard(end.io, end.state, heard, 0, 21 * MS)
    assert end.counters()["sent_again"] == 1


@pytest.mark.parametrize(
    ("srtt_ms", "n_asked", "cwnd"),
    [
        (14, 0, 150),  # far below 2 x 2 + 25 ms
        (24, 0, 113),  # by an eighth at most
        (40, 0, 75),  # by a quarter at most
        (32, 0, 90),
        (24, 1, 113),
        (24, 2, 75),  # more than one in 64 is asked for: toward 2 x 2 + 10 ms
        (6, 2, 150),
    ],
)
def test_what_is_under_way_follows_the_round_trip(
    end: RankEnd, srtt_ms: int, n_asked: int, cwnd: int
) -> None:
    row = end.state.row[0]
    row["srtt_ps"], row["epoch_end"], row["epoch_asked"] = srtt_ms * MS, 1, n_asked
    end.state.ring[st.R_ASKED, 0] = 1  # asked for: no round trip is measured
    loop.measure(end.state, 0, 0)
    assert row["cwnd"] == cwnd
    assert row["epoch_end"] == cwnd
    assert row["epoch_asked"] == 0


@pytest.mark.parametrize(
    ("n_lost", "cwnd", "kept"),
    [
        (12, 100, 113),  # one block in eight: the path, not a queue
        (13, 100, 50),
        (1, 4, 6),  # one alone says nothing
        (2, 15, 7),
        (2, 6, 4),  # no fewer than four
    ],
)
def test_a_window_halves_when_more_than_an_eighth_was_lost(
    end: RankEnd, n_lost: int, cwnd: int, kept: int
) -> None:
    row = end.state.row[0]
    row["srtt_ps"], row["epoch_end"], row["epoch_lost"], row["cwnd"] = 24 * MS, 1, n_lost, cwnd
    if cwnd < 10:
        row["srtt_ps"] = 6 * MS
    end.state.ring[st.R_ASKED, 0] = 1
    loop.measure(end.state, 0, 0)
    assert row["cwnd"] == kept
    assert row["epoch_lost"] == 0


def test_one_block_is_asked_for_at_doubling_distances_up_to_a_bound(end: RankEnd) -> None:
    row, state = end.state.row[0], end.state
    end.state.job[0]["next"] = 1
    row["patient_ps"] = 10**15  # the timeout itself stays as it is
    rto = rto_of(row)
    when, gaps = STEP + rto, []
    for tries in range(12):
        assert ask(end, when - 1) == 0
        assert ask(end, when) == 1
        assert state.ring[st.R_TRIES, 0] == tries + 1
        gaps.append(min(rto << min(tries, 8), RTO_MOST_PS))
        when += gaps[-1]
    assert gaps[:4] == [rto, 2 * rto, 4 * rto, 8 * rto]
    assert gaps[-1] == RTO_MOST_PS
