"""What gets through a queue is learnt; loss that no rate helps against slows nobody."""

import pytest

from fanfold.core.limit import IN_VAIN, START_BPS, Limit
from fanfold.core.pace import Pace

MS = 1_000_000_000
STEP_PS = 100 * MS


def shares(limit: Limit, per_mille: int, n: int, went_bps: int = 0) -> list[int]:
    """The limit after each of so many blocks that lost a share."""
    found = []
    for i in range(1, n + 1):
        now = i * STEP_PS
        limit.on_share(now, per_mille, went_bps or limit.bps, now - MS, MS)
        found.append(limit.bps)
    return found


@pytest.mark.parametrize("per_mille", [60, 150, 350, 600])
def test_loss_that_stays_whatever_the_rate_gives_the_rate_back(per_mille: int) -> None:
    limit = Limit(START_BPS)
    found = shares(limit, per_mille, 20)
    assert found[:IN_VAIN] == sorted(found[:IN_VAIN], reverse=True)
    assert found[IN_VAIN - 1] < START_BPS
    assert found[IN_VAIN:] == [START_BPS] * (20 - IN_VAIN)


def test_what_a_queue_lets_through_is_kept() -> None:
    limit = Limit(START_BPS)
    limit.on_share(STEP_PS, 500, START_BPS, STEP_PS - MS, MS)
    assert limit.bps == START_BPS // 2 - START_BPS // 16
    assert shares(limit, 0, 1) == [START_BPS // 2 - START_BPS // 16]


@pytest.mark.parametrize(("per_mille", "is_cut"), [(350, False), (499, False), (500, True)])
def test_a_rate_that_was_asked_for_is_doubted_when_half_is_lost(
    per_mille: int, is_cut: bool
) -> None:
    pace = Pace(64 * 1400, 40_000_000)
    assert pace.on_share(STEP_PS, per_mille, 40_000_000, STEP_PS - MS) is is_cut
    assert bool(pace.limit.bps) is is_cut
    free = Pace(64 * 1400, 0)
    assert free.on_share(STEP_PS, per_mille, 40_000_000, STEP_PS - MS)
    assert 0 < free.limit.bps < START_BPS


@pytest.mark.parametrize(("percent", "grows"), [(79, False), (80, True), (100, True)])
def test_a_rate_grows_while_four_fifths_of_it_come_through(percent: int, grows: bool) -> None:
    """Else something else limits the lane, and the rate would be found too high all at once."""
    limit = Limit(0)
    limit.set(0, 100_000_000)
    n_bytes = 100_000_000 * percent // 100 // 8 // 10  # in each tenth of a second
    for i in range(1, 30):
        limit.on_done(i * STEP_PS, n_bytes, limit.bps, i * STEP_PS - MS)
        if limit.bps > 100_000_000:
            break
    assert (limit.bps > 100_000_000) is grows


def fell(limit: Limit, shares: list[int], n_pkts: int = 64) -> list[bool]:
    """Which of these shares, of blocks one after the other, cut the rate."""
    now, cuts = STEP_PS, []
    for share in shares:
        cuts.append(limit.on_share(now, share, limit.bps, now, 0, n_pkts))
        now += STEP_PS
    return cuts


def test_of_few_packets_a_sign_takes_two_blocks_in_a_row_or_one_that_is_clear() -> None:
    """Of 64 packets 3 % lost by chance are 8 % in one block of a hundred."""
    assert fell(Limit(10**8), [60, 0, 60, 0, 99]) == [False] * 5
    assert fell(Limit(10**8), [60, 60]) == [False, True]
    assert fell(Limit(10**8), [100]) == [True]
    assert fell(Limit(10**8), [60], n_pkts=0) == [True]  # exact


def test_what_is_always_lost_is_unlearnt_slowly_while_a_queue_may_drop() -> None:
    limit = Limit(10**8)
    limit.always = 64
    fell(limit, [0])
    assert limit.always == 60
    fell(limit, [40] * 100)
    assert limit.always == 40 + 15  # of less than a sixteenth nothing


def test_a_cut_is_not_below_what_comes_through() -> None:
    """How fast a single block left is known badly; a rate of a third took a second to mend."""
    limit = Limit(10**9)
    for i in range(1, 12):
        limit.on_done(i * STEP_PS, 2_000_000, 10**9, i * STEP_PS - MS)  # 160 Mbit/s
    now = 11 * STEP_PS
    assert limit.on_share(now, 500, 10**8, now, 0)
    assert limit.bps // 1000 == 140_000
    late = now + 160 * STEP_PS  # nothing has come for long: that counts
    assert limit.on_share(late, 500, 10**8, late, 0)
    assert limit.bps < 50_000_000
