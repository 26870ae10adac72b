"""Loss, silence and slow lines in virtual time: seconds, copies and splits beside theory."""

import pytest
from queue_world import HEAD_BYTES, MS, N_PSN, STRIDE, Clock, Fan, Line, run

from fanfold.core.leaving import SILENT_PS
from fanfold.kernels.jit import JIT
from fanfold.units import PS_PER_SECOND

pytestmark = pytest.mark.skipif(JIT, reason="no kernel is in it; once is enough")

M = 1_000_000
FAST, CAP = 10_000 * M, 40 * M
N = 8


def fan(n_blocks: int, *, loss: float = 0.0, trunk: float = 0.0, seed: int = 1) -> Fan:
    """Eight receivers on fast lines, and a rate asked for by hand."""
    ends = [Line(1000 * M) for _ in range(N)]
    shared = [Line(FAST)]
    return Fan(Clock(), n_blocks, ends, shared, loss=loss, trunk=trunk, seed=seed, cap_bps=CAP)


def least_copies(loss: float, n: int) -> float:
    """Times that a packet is sent until the last of ``n`` receivers has it, on the average."""
    return 1 + sum(1 - (1 - loss**k) ** n for k in range(1, 40))


def least_ps(n_blocks: int, bps: int) -> int:
    return n_blocks * N_PSN * (STRIDE + HEAD_BYTES) * 8 * PS_PER_SECOND // bps


@pytest.mark.parametrize(("loss", "more"), [(0.01, 115), (0.03, 115), (0.05, 115), (0.1, 120)])
def test_random_loss_costs_what_theory_says_and_little_more(loss: float, more: int) -> None:
    """Of packets and of words, at each receiver. 20 blocks: the tail is a tenth of the time."""
    made = fan(20, loss=loss)
    run([made])
    least = least_copies(loss, N)
    assert made.is_over()
    assert made.end_ps <= least_ps(20, CAP) * least * more / 100
    assert made.copies <= least * 1.04
    assert made.n_in_vain <= 0.02 * made.n_sent  # questions
    assert not made.split


@pytest.mark.parametrize("loss", [0.03, 0.1])
def test_random_loss_before_a_line_that_drops_slows_nobody_for_long(loss: float) -> None:
    """The rate is learnt from what queues drop, in spite of what is lost at any rate."""
    made = Fan(
        Clock(), 40, [Line(60 * M) for _ in range(N)], [Line(FAST), Line(60 * M)], loss=loss
    )
    run([made])
    least = least_copies(loss, N)
    assert made.end_ps <= least_ps(40, 60 * M) * least * 145 / 100
    assert made.copies <= least * 1.2
    assert not made.split


def test_a_third_lost_on_every_way_is_seconds_not_ten() -> None:
    """A tenth on each of four links: what a lab under stress does; six blocks."""
    for seed in (1, 2):
        made = fan(6, loss=0.25, trunk=0.1, seed=seed)
        run([made])
        assert made.end_ps <= 4 * PS_PER_SECOND
        assert made.copies <= 3.6
        assert len(made.split) <= 1


def test_one_that_loses_a_third_at_any_rate_stays_with_all() -> None:
    made = fan(20)
    made.far[5].loss = 0.3
    run([made])
    others = [far.done_ps for far in made.far if far.k != 5]
    assert max(others) <= least_ps(20, CAP) * 150 / 100
    assert made.far[5].done_ps <= max(others) + PS_PER_SECOND
    assert made.copies <= 1 / (1 - 0.3) * 1.05
    assert not made.split


@pytest.mark.parametrize("loss", [0.0, 0.01])
def test_three_seconds_of_silence_cost_what_was_missed_once(loss: float) -> None:
    calm = fan(20, loss=loss)
    run([calm])
    made = fan(20, loss=loss)
    quiet = made.far[3]
    quiet.mute_ps = PS_PER_SECOND // 2, 7 * PS_PER_SECOND // 2
    run([made])
    assert made.is_over()
    assert made.split[3][1] == "silent"
    assert set(made.split) == {3}
    assert made.copies <= 2
    others = max(far.done_ps for far in made.far if far is not quiet)
    assert others <= calm.end_ps + SILENT_PS + 150 * MS
    assert quiet.done_ps <= quiet.mute_ps[1] + 1000 * MS + least_ps(20, CAP) * 115 // 100
    asked_s = (quiet.mute_ps[1] - made.split[3][0]) / PS_PER_SECOND
    assert quiet.n_unheard_since(made.split[3][0]) <= 20 + 2 * N_PSN * asked_s / 10


def test_those_behind_alike_slow_lines_share_a_copy() -> None:
    made = Fan(
        Clock(),
        16,
        [Line(100 * M) for _ in range(6)] + [Line(20 * M), Line(18 * M)],
        [Line(FAST), Line(1000 * M)],
    )
    run([made])
    assert set(made.split) == {6, 7}
    assert made.copies <= 2.4
    assert sum(bool(lane.flights or lane.members) for lane in made.machine.lanes[1:]) <= 1
    assert max(far.done_ps for far in made.far[:6]) <= least_ps(16, 100 * M) + 450 * MS
