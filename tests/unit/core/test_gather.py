"""Repairs of a block of which much was lost wait for the rest of the words on it."""

from fanfold.core.effects import Effect, SendBlock
from fanfold.core.flight import Shape
from fanfold.core.sender import GATHER_PS, HEAVY_PKTS, FanSender
from fanfold.wire.feedback import Feedback, FeedbackFlag, FeedbackRow

MS = 1_000_000_000
BIFT_ID = 0x10000
N_PSN = 2 * HEAVY_PKTS


def begun() -> FanSender:
    """One block to two receivers; its last packet left at 0."""
    sender = FanSender(7, Shape(N_PSN * 100, 100, N_PSN), [0b11], 0)
    out: list[Effect] = []
    sender.fill(0, out)
    (job,) = out
    assert isinstance(job, SendBlock)
    sender.on_sent(0, job)
    return sender


def part(psns: range, flags: int, n_merged: int) -> Feedback:
    rows = tuple(FeedbackRow(psn, 0b11) for psn in psns)
    return Feedback(BIFT_ID, 7, 0, N_PSN, 0b11, 0, rows, flags, n_merged=n_merged)


def test_a_word_in_parts_is_answered_once_and_whole() -> None:
    sender = begun()
    out: list[Effect] = []
    sender.on_feedback(5 * MS, part(range(HEAVY_PKTS), FeedbackFlag.MORE, 2), out)
    assert out == []
    sender.on_feedback(6 * MS, part(range(HEAVY_PKTS, N_PSN), 0, 0), out)
    (job,) = out
    assert isinstance(job, SendBlock)
    assert (job.psns, set(job.bits)) == ((1 << N_PSN) - 1, {0b11})


def test_the_rest_of_a_word_is_not_waited_for_long() -> None:
    sender = begun()
    out: list[Effect] = []
    sender.on_feedback(5 * MS, part(range(HEAVY_PKTS), FeedbackFlag.MORE, 2), out)
    for now in range(6, 2 + 5 + 2 * GATHER_PS // MS):
        sender.on_timer(now * MS, out)
    repair = out[0]
    assert isinstance(repair, SendBlock)
    assert (repair.psns, repair.is_repair) == ((1 << HEAVY_PKTS) - 1, True)
