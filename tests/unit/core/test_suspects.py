"""Who lacks most gets no repairs until the sender has looked, and then gets them soon."""

import pytest

from fanfold.core.books import LEAST_BLOCKS
from fanfold.core.effects import Effect, SendBlock
from fanfold.core.flight import Flight, Shape
from fanfold.core.sender import FanSender
from fanfold.wire.feedback import Feedback, FeedbackRow

MS = 1_000_000_000
BIFT_ID = 0x10000
N_PSN = 64
SOON_PS = 1000 * MS


def word(block: int, round_: int, lost: int) -> Feedback:
    """All eight speak of a block; receiver 0 alone lacks its first packets, so many."""
    rows = tuple(FeedbackRow(psn, 0b1) for psn in range(lost))
    return Feedback(BIFT_ID, 7, block, N_PSN, 0xFF, 0xFE, rows, round=round_)


def test_who_lost_most_of_a_short_message_is_repaired_in_it() -> None:
    """Blocks are too few to tell a lossy receiver from a way that was cut for a moment."""
    n_blocks = LEAST_BLOCKS - 1
    sender = FanSender(7, Shape(n_blocks * N_PSN * 100, 100, N_PSN), [0xFF] * n_blocks, 0)
    lacks = (1 << N_PSN - 1) - 1
    now, seen = 0, 0
    out: list[Effect] = []
    sender.fill(now, out)
    while now < SOON_PS and lacks & ~seen:
        jobs, out = out, []
        for job in jobs:
            assert isinstance(job, SendBlock)
            sender.on_sent(now, job)
            if job.is_repair:
                seen |= job.psns
            else:
                sender.on_feedback(now + MS, word(job.block, job.round, N_PSN - 1), out)
        now += MS
        sender.on_timer(now, out)
    assert lacks & ~seen == 0


def test_a_word_in_two_parts_is_repaired_whole() -> None:
    sender = FanSender(7, Shape(N_PSN * 100, 100, N_PSN), [0xFF], 0)
    out: list[Effect] = []
    sender.fill(0, out)
    (job,) = out
    assert isinstance(job, SendBlock)
    sender.on_sent(0, job)
    whole = word(0, job.round, N_PSN - 1).rows
    jobs: list[Effect] = []
    for n, rows in ((1, whole[:20]), (0, whole[20:40]), (0, whole[40:])):
        part = Feedback(BIFT_ID, 7, 0, N_PSN, 1, 0, rows, round=job.round, n_merged=n)
        sender.on_feedback(MS, part, jobs)
    for now in range(2 * MS, 100 * MS, MS):
        sender.on_timer(now, jobs)
        for each in jobs:
            assert isinstance(each, SendBlock)
            sender.on_sent(now, each)
    seen = 0
    for each in jobs:
        seen |= each.psns if isinstance(each, SendBlock) and each.is_repair else 0
    assert seen == (1 << N_PSN - 1) - 1


def test_a_cut_of_the_rate_forgets_nothing_of_who_lost_more_than_most() -> None:
    """Else each cut is another block, sent again and again to a receiver that is slow."""
    sender = FanSender(7, Shape(9 * N_PSN * 100, 100, N_PSN), [0xFF] * 9, 0)
    losses, pace = sender._losses, sender.lanes[0].pace
    for block in range(LEAST_BLOCKS):
        out: list[Effect] = []
        sender.fill(0, out)
        (job,) = out
        assert isinstance(job, SendBlock)
        sender.on_sent(100 * MS, job)
        few = tuple(FeedbackRow(psn, 0xFF if psn < 9 else 0b1) for psn in range(N_PSN))
        before = pace.limit.bps
        told = Feedback(BIFT_ID, 7, block, N_PSN, 0xFF, 0, few, round=job.round)
        sender.on_feedback(101 * MS, told, [])
        assert (pace.limit.bps < before) is (block == 0)
    assert losses.suspects == 0b1


def test_a_lane_of_its_own_begins_at_what_came_and_a_quarter() -> None:
    """The queue before a slow link takes half of two blocks at once: it is no faster for it."""
    sender = FanSender(7, Shape(9 * N_PSN * 100, 100, N_PSN), [0xFF] * 9, 0)
    losses, lane = sender._losses, sender.lanes[0]
    for block in range(LEAST_BLOCKS):
        flight = Flight(0, 0xFF, 0)
        flight.start_ps, flight.went_bps, flight.spoke = block * MS, 80_000_000, 0xFF
        flight.lost = {0: N_PSN // 2}
        losses.count((100 + block) * MS, lane, flight, N_PSN)
    came_bps = LEAST_BLOCKS * N_PSN // 2 * 100 * 8 * 1000 // 101
    assert losses.passed(0b1, 100) == (came_bps + came_bps // 4, 500)
    assert losses.passed(0b1, 10_000) == (40_000_000, 500)


@pytest.mark.parametrize(
    ("lossy", "is_cut", "doubtful"),
    [
        (0b1, True, False),
        (0b11, True, True),
        (0b11, False, False),
    ],
)
def test_more_than_an_eighth_are_slow_only_by_what_was_sent_after_a_cut(
    lossy: int, is_cut: bool, doubtful: bool
) -> None:
    """A crowd on a busy machine loses what comes too fast for it, some more and some less."""
    sender = FanSender(7, Shape(9 * N_PSN * 100, 100, N_PSN), [0xFF] * 9, 0)
    losses, lane = sender._losses, sender.lanes[0]
    losses._cut_ps = 50 * MS if is_cut else 0
    for start_ms in (10, 60, 40):
        flight = Flight(0, 0xFF, 0)
        flight.start_ps, flight.went_bps, flight.spoke = start_ms * MS, 80_000_000, 0xFF
        flight.lost = {k: N_PSN for k in range(2) if lossy >> k & 1}
        losses.count(100 * MS, lane, flight, N_PSN)
        if start_ms == 10:
            assert losses.is_doubtful(lossy, 0xFF) is doubtful
        elif not doubtful:
            continue
        else:  # what was sent before the cut counts no more, what was sent after it does
            assert losses.offered == N_PSN
            assert not losses.is_doubtful(lossy, 0xFF)
