"""Laws of a fan's geometry and of its pace: windows, limits, what counts as a round trip."""

import naive
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sender_world import BIFT_ID, LAW, MS, N_PSN, STRIDE, Checked, feedback_of

from fanfold.core import waiting
from fanfold.core.flight import Shape
from fanfold.core.pace import CALM, HEAVY_LOSS_PER_MILLE, HIGH, MAX_BLOCKS, Pace
from fanfold.kernels.jit import JIT
from fanfold.units import PS_PER_SECOND

pytestmark = pytest.mark.skipif(JIT, reason="no kernel is in it; once is enough")


def test_pressure_shrinks_a_window_that_calm_had_opened():
    pace, now = Pace(1000, 0), 0
    for _ in range(200):
        now += MS
        while pace.can_send():
            pace.on_sent(1000)
        pace.on_gone(1000)
        pace.on_rtt(MS)
        pace.on_done(now, 0, 1000)
    assert pace.window_bytes == MAX_BLOCKS * 1000
    pace.on_done(now, HIGH - 1, 1000)
    assert pace.window_bytes == MAX_BLOCKS * 1000
    for pressure in (HIGH, 255):
        now += PS_PER_SECOND
        before = pace.window_bytes
        pace.on_done(now, pressure, 1000)
        assert before // 2 <= pace.window_bytes < before
        pace.on_done(now + 1, pressure, 1000)  # the same congestion counts once
        assert before // 2 <= pace.window_bytes


@pytest.mark.parametrize("n_bytes", [1, 9, 10, 11, 39, 40, 41, 79, 80, 81, 4000])
def test_a_shape_covers_every_byte_once(n_bytes):
    shape = Shape(n_bytes, STRIDE, N_PSN)
    assert sum(shape.bytes(b) for b in range(shape.n_blocks)) == n_bytes
    for b in range(shape.n_blocks):
        assert (shape.psns(b) - 1) * STRIDE < shape.bytes(b) <= shape.psns(b) * STRIDE
        assert shape.psns(b) <= N_PSN


def test_loss_and_round_trip_are_those_of_a_job_that_has_left():
    """Gaps of a block still being sent, or of an older round, say little of its loss."""
    n_psn = 32
    shape = Shape(2 * STRIDE * n_psn, STRIDE, n_psn)
    lost = dict.fromkeys(range(20), 1)
    for left_first, round_, limited in ((True, 0, True), (False, 0, False)):
        checked = Checked(shape, [1], 10**7)
        (job,) = checked.call("fill", 0)
        if left_first:
            checked.call("on_sent", MS, job)
        word = naive.Word(BIFT_ID, n_psn, heard=1, done=0, rows=lost, round=round_)
        checked.call("on_feedback", 2 * MS, feedback_of(0, word))
        assert bool(checked.machine.lanes[0].pace.limit.bps) == limited
    checked = Checked(shape, [1], 10**7)
    (job,) = checked.call("fill", 0)
    whole = naive.Word(BIFT_ID, n_psn, heard=1, done=1, rows={})
    checked.call("on_feedback", 900 * MS, feedback_of(0, whole))  # before it is known to be out
    assert checked.machine.lanes[0].pace.srtt_ps == 0


PACE_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("done"), st.integers(0, 500), st.integers(0, 255)),
        st.tuples(st.just("loss"), st.integers(0, 1000), st.just(0)),
        st.tuples(st.just("silence"), st.just(0), st.just(0)),
        st.tuples(st.just("send"), st.just(0), st.just(0)),
    ),
    max_size=80,
)


@LAW
@given(PACE_STEPS, st.sampled_from([0, 10**6]))
def test_a_window_stays_between_one_block_and_its_bound(steps, cap_bps):
    pace = Pace(1000, cap_bps)
    now = 0
    for step, a, b in steps:
        now += 7 * MS
        before = pace.window_bytes
        match step:
            case "done":
                pace.on_gone(1000)
                if a:
                    pace.on_rtt(a * MS)
                pace.on_done(now, b, 1000)
                assert b < CALM or pace.window_bytes <= before
            case "loss":
                pace.on_loss(now, a, now)
                assert pace.window_bytes <= before
                assert a >= HEAVY_LOSS_PER_MILLE or pace.window_bytes == before
            case "silence":
                pace.on_silence(now)
                assert pace.window_bytes <= before
            case _:
                if pace.can_send():
                    pace.on_sent(1000)
        assert 1000 <= pace.window_bytes <= MAX_BLOCKS * 1000
        assert 0 <= pace.flying_bytes <= (MAX_BLOCKS + 1) * 1000
        assert 0 < pace.rate_bps() <= (cap_bps or 10**15)
        assert pace.timeout_ps(waiting.WAIT_PS, 16) >= waiting.WAIT_PS
