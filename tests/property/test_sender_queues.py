"""A sender before queues that drop: how many copies it sends, how near it comes to a rate."""

import pytest
from queue_world import HEAD_BYTES, MS, N_PSN, STRIDE, Clock, Fan, Line, run

from fanfold.kernels.jit import JIT
from fanfold.units import PS_PER_SECOND

pytestmark = pytest.mark.skipif(JIT, reason="no kernel is in it; once is enough")

M = 1_000_000
FAST = 10_000 * M


def fan(n_blocks: int, ends: list[int], shared: list[int], *, loss: float = 0.0) -> Fan:
    """Receivers behind lines of so many Mbit/s, all of them behind the shared ones."""
    return Fan(
        Clock(),
        n_blocks,
        [Line(mbps * M) for mbps in ends],
        [Line(FAST), *(Line(mbps * M) for mbps in shared)],
        loss=loss,
    )


def least_ps(n_blocks: int, mbps: int) -> int:
    """What the packets of so many blocks take on a line."""
    return n_blocks * N_PSN * (STRIDE + HEAD_BYTES) * 8 * PS_PER_SECOND // (mbps * M)


@pytest.mark.parametrize(("mbps", "n_blocks"), [(60, 40), (200, 60)])
def test_a_line_is_filled_and_what_it_drops_is_not_sent_over_and_over(
    mbps: int, n_blocks: int
) -> None:
    made = fan(n_blocks, [mbps] * 8, [mbps])
    run([made])
    assert made.is_over()
    assert made.end_ps <= least_ps(n_blocks, mbps) * 115 // 100
    assert made.copies <= 1.1
    assert not made.split


def test_loss_that_no_rate_helps_against_slows_nobody() -> None:
    """One packet in a hundred, and one word in a hundred, is lost at each receiver."""
    made = fan(40, [60] * 8, [60], loss=0.01)
    run([made])
    assert made.end_ps <= least_ps(40, 60) * 130 // 100
    assert made.copies <= 1.25
    assert not made.split


def test_one_slow_line_is_the_trouble_of_whom_it_leads_to() -> None:
    made = fan(24, [200] * 7 + [20], [1000])
    run([made])
    others = [far.done_ps for far in made.far[:7]]
    assert max(others) <= least_ps(24, 200) + 350 * MS  # it takes a while to tell
    assert made.far[7].done_ps <= least_ps(24, 20) * 115 // 100
    assert made.copies <= 2.25
    assert set(made.split) == {7}


def test_two_fans_on_one_line_send_little_twice_and_both_get_on() -> None:
    clock, line = Clock(), Line(60 * M)
    ends = [Line(1000 * M) for _ in range(4)]
    fans = [Fan(clock, 30, ends, [Line(FAST), line], seed=seed) for seed in (1, 2)]
    run(fans)
    for made in fans:
        assert made.is_over()
        assert made.copies <= 1.3
        assert not made.split
    least = least_ps(60, 60)
    assert max(made.end_ps for made in fans) <= least * 140 // 100
    assert min(made.end_ps for made in fans) >= least // 2 - 100 * MS
