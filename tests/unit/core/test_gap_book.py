"""A sender keeps who lacked what of first sendings, and nothing of repairs."""

from fanfold.core.effects import Effect, SendBlock
from fanfold.core.flight import Shape
from fanfold.core.sender import FanSender
from fanfold.wire.feedback import Feedback, FeedbackRow

MS = 1_000_000_000
BIFT_ID = 0x10000
N_PSN = 64
ALL = 0b111
N_BLOCKS = 3


def word(
    block: int, round_: int, heard: int, lacking: dict[int, int], done: int | None = None
) -> Feedback:
    rows = tuple(FeedbackRow(psn, bits) for psn, bits in lacking.items())
    who = heard & ~sum(set(lacking.values())) if done is None else done
    return Feedback(BIFT_ID, 7, block, N_PSN, heard, who, rows, round=round_)


def sender_under_way() -> tuple[FanSender, list[SendBlock]]:
    sender = FanSender(7, Shape(N_BLOCKS * N_PSN * 100, 100, N_PSN), [ALL] * N_BLOCKS, 0)
    jobs: list[SendBlock] = []
    for _ in range(N_BLOCKS):
        out: list[Effect] = []
        sender.fill(0, out)
        for job in out:
            assert isinstance(job, SendBlock)
            sender.on_sent(0, job)
            jobs.append(job)
    return sender, jobs


def test_gaps_of_a_first_sending_are_kept_by_who_lacked_them_together() -> None:
    sender, jobs = sender_under_way()
    assert len(jobs) >= 2
    out: list[Effect] = []
    sender.on_feedback(MS, word(0, jobs[0].round, ALL, {5: 0b110, 9: 0b110, 11: 0b001}, 0), out)
    sender.on_feedback(MS, word(1, jobs[1].round, ALL, {}), out)
    book = sender.gap_book()
    assert (book.audience, book.n_blocks, book.n_packets) == (ALL, 2, 2 * N_PSN)
    assert book.blocks == [{0b110: 2, 0b001: 1}]


def test_words_that_come_apart_count_once_all_have_told() -> None:
    sender, jobs = sender_under_way()
    out: list[Effect] = []
    sender.on_feedback(MS, word(0, jobs[0].round, 0b011, {5: 0b010}), out)
    assert sender.gap_book().n_blocks == 0
    sender.on_feedback(2 * MS, word(0, jobs[0].round, 0b100, {5: 0b100}), out)
    book = sender.gap_book()
    assert (book.n_blocks, book.blocks) == (1, [{0b110: 1}])


def test_what_is_lacked_of_a_repair_is_not_of_the_first_sending() -> None:
    sender, jobs = sender_under_way()
    out: list[Effect] = []
    sender.on_feedback(MS, word(0, jobs[0].round, ALL, {5: 0b010}), out)
    repairs = [job for job in out if isinstance(job, SendBlock) and job.is_repair]
    assert repairs
    sender.on_sent(2 * MS, repairs[0])
    sender.on_feedback(9 * MS, word(0, repairs[0].round, 0b010, {5: 0b010}), out)
    book = sender.gap_book()
    assert (book.n_blocks, book.blocks) == (1, [{0b010: 1}])
