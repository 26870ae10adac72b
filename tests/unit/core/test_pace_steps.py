"""Each step of a window, a rate and a wait by itself, from both sides of its limit."""

from collections.abc import Sequence

import pytest

from fanfold.core.flight import MAIN, Flight, Lane, Shape
from fanfold.core.held import Held
from fanfold.core.losses import too_lossy
from fanfold.core.pace import (
    CALM,
    CREEP,
    FULL,
    HEAVY_LOSS_PER_MILLE,
    HIGH,
    LOSS_FLOOR,
    MAX_BLOCKS,
    MAX_WAIT_PS,
    MIN_RTT_PS,
    Pace,
)
from fanfold.core.sender import FanSender
from fanfold.core.signs import SLOW_PS, Returns, Signs
from fanfold.units import PS_PER_SECOND

MS = PS_PER_SECOND // 1000
BLOCK = 1200


def grown(n_blocks: int, *, is_starting: bool = False) -> Pace:
    """A window of so many blocks, all of it under way."""
    pace = Pace(BLOCK, 0)
    pace.window_bytes = pace.flying_bytes = n_blocks * BLOCK
    pace.is_starting = is_starting
    return pace


@pytest.mark.parametrize(
    ("pressure", "kept"),
    [(CALM, 24), (HIGH - 1, 24), (HIGH, 18), (254, 18), (255, 16)],
)
def test_pressure_cuts_a_quarter_and_a_full_queue_a_third(pressure: int, kept: int) -> None:
    pace = grown(24)
    pace.on_done(MS, pressure, BLOCK)
    assert pace.window_bytes == kept * BLOCK
    assert pace.n_cuts == (kept < 24)


@pytest.mark.parametrize(
    ("per_mille", "kept"), [(HEAVY_LOSS_PER_MILLE - 1, 24), (HEAVY_LOSS_PER_MILLE, 18)]
)
def test_only_heavy_loss_cuts_and_by_a_quarter(per_mille: int, kept: int) -> None:
    pace = grown(24)
    pace.on_loss(MS, per_mille, 0)
    assert pace.window_bytes == kept * BLOCK


def test_silence_cuts_a_third() -> None:
    pace = grown(24)
    pace.on_silence(MS)
    assert pace.window_bytes == 16 * BLOCK


def test_loss_and_silence_stop_at_their_floor_and_a_full_queue_at_one_block() -> None:
    for cut in (lambda p, t: p.on_loss(t, 900, 0), lambda p, t: p.on_silence(t)):
        pace = grown(LOSS_FLOOR + 1)
        cut(pace, MS)
        assert pace.window_bytes == LOSS_FLOOR * BLOCK
        cut(pace, 10 * MS)
        assert pace.window_bytes == LOSS_FLOOR * BLOCK
    pace.on_done(20 * MS, 255, BLOCK)
    assert pace.window_bytes == LOSS_FLOOR * BLOCK * 2 // 3
    for n in range(10):
        pace.on_done((30 + 10 * n) * MS, 255, BLOCK)
    assert pace.window_bytes == BLOCK


@pytest.mark.parametrize(("srtt_ms", "again_ms"), [(0, 1), (7, 7)])
def test_one_congestion_cuts_once_in_a_round_trip(srtt_ms: int, again_ms: int) -> None:
    pace = grown(24)
    pace.srtt_ps = pace.min_rtt_ps = srtt_ms * MS
    pace.on_done(MS, HIGH, BLOCK)
    pace.on_done((1 + again_ms) * MS - 1, HIGH, BLOCK)
    assert pace.window_bytes == 18 * BLOCK
    pace.on_done((1 + again_ms) * MS, HIGH, BLOCK)
    assert pace.window_bytes == 18 * BLOCK * 3 // 4


def test_a_window_doubles_at_first_and_then_grows_by_a_block_a_round_trip() -> None:
    first, later = grown(10, is_starting=True), grown(10)
    first.on_done(MS, CALM - 1, BLOCK)
    later.on_done(MS, CALM - 1, BLOCK)
    assert first.window_bytes == 11 * BLOCK
    assert later.window_bytes == 10 * BLOCK + BLOCK // 10
    full = grown(MAX_BLOCKS)
    full.on_done(MS, 0, BLOCK)
    assert full.window_bytes == MAX_BLOCKS * BLOCK


def test_a_window_that_is_not_used_does_not_grow() -> None:
    pace = grown(10)
    pace.flying_bytes = 8 * BLOCK - 1
    pace.on_done(MS, 0, BLOCK)
    assert pace.window_bytes == 10 * BLOCK
    pace.flying_bytes = 8 * BLOCK
    pace.on_done(MS, 0, BLOCK)
    assert pace.window_bytes > 10 * BLOCK


def test_a_round_trip_of_six_times_the_least_and_20_ms_is_a_queue() -> None:
    limit = 6 * MS + 20 * MS
    for srtt_ps, grows in ((limit, True), (limit + 1, False)):
        pace = grown(10)
        pace.min_rtt_ps, pace.srtt_ps = MS, srtt_ps
        pace.on_done(MS, 0, BLOCK)
        assert (pace.window_bytes > 10 * BLOCK) is grows


@pytest.mark.parametrize(("n_long", "grows"), [(3, True), (4, False)])
def test_words_that_waited_for_repairs_are_no_queue_while_one_came_soon(
    n_long: int, grows: bool
) -> None:
    """At 1 % on every link most words of a block wait for a repair of some of it."""
    pace = grown(10)
    pace.min_rtt_ps = 0
    for rtt in [MS, *[80 * MS] * 20, 5 * MS, *[80 * MS] * n_long]:
        pace.on_rtt(rtt)
    assert pace.srtt_ps > 26 * MS
    pace.on_done(MS, 0, BLOCK)
    assert (pace.window_bytes > 10 * BLOCK) is grows


def test_a_rate_is_a_little_above_window_by_round_trip() -> None:
    pace = grown(10)
    pace.limit.set(0, 0)
    pace.srtt_ps = MIN_RTT_PS * 2
    bare = 10 * BLOCK * 8 * PS_PER_SECOND // (2 * MIN_RTT_PS)
    assert pace.rate_bps() == bare * 5 // 4
    pace.is_starting = True
    assert pace.rate_bps() == bare * 2
    pace.srtt_ps = MIN_RTT_PS // 2  # no shorter than this counts
    assert pace.rate_bps() == 10 * BLOCK * 8 * PS_PER_SECOND // MIN_RTT_PS * 2
    pace.cap_bps = 1000
    assert pace.rate_bps() == 1000


@pytest.mark.parametrize(
    ("srtt_ps", "floor_ps", "waits_ps"),
    [
        (MS, 17 * MS, 17 * MS),
        (MS, 15 * MS, 16 * MS),
        (MAX_WAIT_PS // 16 + MS, 0, MAX_WAIT_PS),
        (MAX_WAIT_PS // 16 - MS, 0, MAX_WAIT_PS - 16 * MS),
    ],
)
def test_a_wait_is_16_round_trips_between_its_bounds(
    srtt_ps: int, floor_ps: int, waits_ps: int
) -> None:
    pace = Pace(BLOCK, 0)
    pace.srtt_ps = srtt_ps
    assert pace.timeout_ps(floor_ps, 16) == waits_ps


def test_a_round_trip_counts_an_eighth_and_the_first_for_all() -> None:
    pace = Pace(BLOCK, 0)
    pace.on_rtt(8 * MS)
    assert (pace.srtt_ps, pace.min_rtt_ps) == (8 * MS, 8 * MS)
    pace.on_rtt(16 * MS)
    assert (pace.srtt_ps, pace.min_rtt_ps) == (9 * MS, 8 * MS)
    pace.on_rtt(MS)
    assert (pace.srtt_ps, pace.min_rtt_ps) == (8 * MS, MS)


@pytest.mark.parametrize(
    ("slow_bps", "main_bps"), [(2_000_000, 8_000_000), (7_000_000, 5_000_000)]
)
def test_under_a_cap_the_main_lane_uses_what_slow_ones_leave(
    slow_bps: int, main_bps: int
) -> None:
    cap = 10_000_000
    sender = FanSender(7, Shape(40 * BLOCK, 100, 12), [3], cap)
    lane = Lane(2, Pace(BLOCK, cap), sender.shape.n_blocks)
    lane.pace.limit.set(0, slow_bps)
    sender.lanes.append(lane)
    for each in sender.lanes:
        each.pace.window_bytes = MAX_BLOCKS * BLOCK
        each.pace.srtt_ps = MIN_RTT_PS
    assert sender.lane_rate_bps(MAIN) == cap  # nobody else has anything to send
    sender.fill(MS, [])
    sender.fill(MS, [])
    assert sender.lane_rate_bps(1) == min(slow_bps, cap // 2)
    assert sender.lane_rate_bps(MAIN) == main_bps


def test_a_window_near_the_one_that_overflowed_a_queue_grows_slowly() -> None:
    pace = grown(24)
    pace.on_done(MS, FULL, BLOCK)
    assert (pace.window_bytes, pace.full_bytes) == (16 * BLOCK, 24 * BLOCK)
    pace.flying_bytes = pace.window_bytes
    pace.on_done(3 * MS, 0, BLOCK)
    assert pace.window_bytes == 16 * BLOCK + BLOCK // 16
    near = grown(22)
    near.full_bytes = 24 * BLOCK
    near.on_done(MS, 0, BLOCK)
    assert near.window_bytes == 22 * BLOCK + BLOCK * BLOCK // (22 * BLOCK) // CREEP
    beyond = grown(24)
    beyond.full_bytes = 24 * BLOCK
    beyond.on_done(MS, 0, BLOCK)
    assert beyond.window_bytes == 24 * BLOCK + BLOCK // 24


def test_a_window_of_a_block_and_a_half_takes_one() -> None:
    pace = Pace(BLOCK, 0)
    pace.window_bytes = BLOCK * 3 // 2
    assert pace.can_send()
    pace.on_sent(BLOCK)
    assert not pace.can_send()
    pace.window_bytes = 2 * BLOCK
    assert pace.can_send()


def test_the_longest_way_lately_is_known_and_forgotten() -> None:
    pace = Pace(BLOCK, 0)
    for rtt_ms, worst_ms in ((8, 8), (80, 80), (8, 70), (5000, 1200)):
        pace.on_rtt(rtt_ms * MS)
        assert pace.worst_ps == worst_ms * MS


def test_who_lacks_what_all_lack_is_not_lossy() -> None:
    """A hundred packets: chance adds ten to what one lacks."""
    assert too_lossy(dict.fromkeys(range(4), 49), 100, 0b1111) == 0
    lacked = {0: 39, 1: 39, 2: 39, 3: 88}
    assert too_lossy(lacked, 100, 0b1111) == 0b1000
    assert too_lossy({**lacked, 3: 87}, 100, 0b1111) == 0
    assert too_lossy(lacked, 100, 0b0111) == 0
    assert too_lossy({3: 48}, 100, 0b1111) == 0b1000
    assert too_lossy({3: 47}, 100, 0b1111) == 0


@pytest.mark.parametrize(("offered", "least"), [(16, 11), (64, 33), (10_000, 3900)])
def test_of_few_packets_more_must_be_lacked_for_a_receiver_to_be_lossy(
    offered: int, least: int
) -> None:
    assert too_lossy({2: least}, offered, 0b111) == 0b100
    assert too_lossy({2: least - 1}, offered, 0b111) == 0


def test_one_that_is_last_with_each_block_is_slow_and_those_who_are_it_by_turns_are_not() -> (
    None
):
    def split_after(late: Sequence[int]) -> int:
        found, now = Held(), 0
        for block, k in enumerate(late):
            lane = Lane(0b1111, grown(1), 9)
            flight = Flight(now, 1 << k, 0)
            flight.first_ps = now
            lane.flights[block] = flight
            for _ in range(20):
                now += 10 * MS
                found.charge(now, 10 * MS, lane, 0)
                if bits := found.late(now, 0b1111):
                    return bits
        return 0

    assert split_after([2, 2, 2]) == 0b100
    assert split_after([2, 2]) == 0
    assert split_after([0, 1, 2, 3] * 6) == 0


def test_who_speaks_again_goes_on_with_all_unless_a_full_queue_is_before_it() -> None:
    signs, returns = Signs(), Returns()
    lane = Lane(0b11, grown(1), 9)
    lane.flights[0] = Flight(0, 0b11, 0)
    assert returns.judge(500 * MS, lane, signs, 0) == (0, 0)  # nothing heard
    signs.hear(600 * MS, 0)
    signs.hear(600 * MS, 1)
    assert returns.judge(600 * MS, lane, signs, 0b10) == (0, 0)
    assert returns.judge(600 * MS + SLOW_PS, lane, signs, 0b10) == (0b11, 0)  # it stood still
    signs.hear(2000 * MS, 1)
    assert returns.judge(2000 * MS, lane, signs, 0b10) == (0, 0)
    assert returns.judge(2000 * MS + SLOW_PS, lane, signs, 0b10)[1] == 0b10  # now it is slow
    lane.flights.clear()
    lane.members = 0b10
    signs.hear(1200 * MS, 1)
    assert returns.judge(1200 * MS, lane, signs, 0b10) == (0b10, 0)  # it has all it was sent


def test_silence_ends_no_slow_start_before_a_round_trip_is_known() -> None:
    """On a way of 0.8 s nothing is heard for a whole timeout of 0.3 s."""
    for rtt_ps, is_starting in ((0, True), (800 * MS, False)):
        pace = grown(2, is_starting=True)
        if rtt_ps:
            pace.on_rtt(rtt_ps)
        pace.on_silence(MS)
        assert pace.is_starting is is_starting


def test_a_window_far_below_the_rate_that_gets_through_doubles() -> None:
    """A way of 0.8 s at 200 Mbit/s holds 40 blocks of half a megabyte."""
    for rtt_ms, grows_to in ((800, 4), (8, 3)):
        pace = grown(2)
        pace.limit.set(0, 8 * BLOCK * 10)  # ten blocks a second: eight in 0.8 s
        pace.on_rtt(rtt_ms * MS)
        for now in (1, 2):
            pace.flying_bytes = pace.window_bytes
            pace.on_done(now * MS, 0, BLOCK)
        assert -(-pace.window_bytes // BLOCK) == grows_to
