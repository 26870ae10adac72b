"""A slot that gave up waiting tells the sender whom to ask, before its own wait is over."""

import msgspec

from fanfold.core.effects import Effect, SendBlock
from fanfold.core.flight import MAIN, Shape
from fanfold.core.leaving import TICK_PS
from fanfold.core.sender import FanSender
from fanfold.core.waiting import SLOTS_PS, WAIT_PS
from fanfold.wire.feedback import Feedback, FeedbackFlag, FeedbackRow

MS = 1_000_000_000
BIFT_ID = 0x10000
PARTIAL = FeedbackFlag.PARTIAL


def begun() -> tuple[FanSender, SendBlock]:
    """One block of 4 packets to 3 receivers; its last packet left at 0."""
    sender = FanSender(7, Shape(4 * 100, 100, 4), [0b111], 0)
    out: list[Effect] = []
    sender.fill(0, out)
    (job,) = out
    assert isinstance(job, SendBlock)
    sender.on_sent(0, job)
    return sender, job


def asked_at(sender: FanSender, from_ps: int) -> tuple[int, SendBlock]:
    """When the next packet goes out by a timer, and which."""
    out: list[Effect] = []
    now = from_ps
    while not out:
        now += MS
        sender.on_timer(now, out)
        assert now < 2 * WAIT_PS
    (job,) = out
    assert isinstance(job, SendBlock)
    return now, job


def word(heard: int, done: int, rows: tuple[FeedbackRow, ...], flags: int) -> Feedback:
    return Feedback(BIFT_ID, 7, 0, 4, heard, done, rows, flags)


def test_who_is_not_in_a_partial_word_is_asked_two_ticks_later() -> None:
    sender, _ = begun()
    sender.on_feedback(60 * MS, word(0b011, 0b011, (), PARTIAL), [])
    window = sender.lanes[MAIN].pace.window_bytes
    when, job = asked_at(sender, 60 * MS)
    assert 60 * MS + 2 * TICK_PS <= when <= 60 * MS + 4 * TICK_PS < WAIT_PS
    assert (job.bits, job.psns) == ((0b100,), 0b1000)
    assert sender.lanes[MAIN].pace.window_bytes == window  # a word was lost: no silence


def test_a_repair_does_not_put_the_question_off() -> None:
    sender, _ = begun()
    out: list[Effect] = []
    sender.on_feedback(60 * MS, word(0b011, 0b001, (FeedbackRow(1, 0b010),), PARTIAL), out)
    (repair,) = out
    assert isinstance(repair, SendBlock)
    assert repair.bits == (0b010,)
    sender.on_sent(61 * MS, repair)
    when, job = asked_at(sender, 61 * MS)
    assert when <= 61 * MS + 4 * TICK_PS
    assert (job.psns, job.bits) == (0b1010, (0b010, 0b100))  # each by what it may lack


def test_an_early_word_takes_out_who_has_the_block_and_tells_no_round_trip() -> None:
    sender, job = begun()
    sender.on_feedback(30 * MS, word(0b001, 0b001, (), FeedbackFlag.EARLY), [])
    pace = sender.lanes[MAIN].pace
    assert pace.srtt_ps == 0
    when, asked = asked_at(sender, 30 * MS)
    assert SLOTS_PS <= when <= SLOTS_PS + 2 * TICK_PS  # it hurries nobody
    assert asked.bits == (0b110,)
    sender.on_sent(when, asked)
    pace.on_rtt(10 * MS, is_held=False)
    of_one = word(0b010, 0b010, (), FeedbackFlag.EARLY)
    of_one = msgspec.structs.replace(of_one, round=asked.round)
    sender.on_feedback(when + 90 * MS, of_one, [])
    assert pace.srtt_ps == 10 * MS
    assert job.bits == (0b111,)


def test_a_word_of_a_whole_branch_hurries_nobody() -> None:
    sender, _ = begun()
    sender.on_feedback(60 * MS, word(0b011, 0b011, (), 0), [])
    when, _ = asked_at(sender, 60 * MS)
    assert SLOTS_PS <= when <= SLOTS_PS + 2 * TICK_PS
