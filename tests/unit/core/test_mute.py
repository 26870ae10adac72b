"""A minority of whom nothing comes holds nobody else back, and is asked little meanwhile."""

import pytest

from fanfold.core.effects import Effect, SendBlock
from fanfold.core.flight import AHEAD, MAIN, MAX_LIGHT, MAX_OPEN, MUTE_ASKS, Flight, Lane, Shape
from fanfold.core.leaving import TICK_PS
from fanfold.core.pace import Pace
from fanfold.core.sender import FanSender
from fanfold.wire.feedback import Feedback, FeedbackFlag, FeedbackRow

MS = 1_000_000_000
N_PSN, STRIDE = 16, 100
BLOCK = N_PSN * STRIDE
SHAPE = Shape(4000 * BLOCK, STRIDE, N_PSN)
EIGHT, LAST, OTHERS = 0xFF, 0x80, 0x7F


def word(block: int, heard: int, *, lacking: int = 0, partial: bool = True) -> Feedback:
    rows = (FeedbackRow(0, lacking),) if lacking else ()
    flags = FeedbackFlag.PARTIAL if partial else FeedbackFlag(0)
    return Feedback(
        *(0x10000, 7, block, N_PSN, heard, heard & ~lacking, rows), n_merged=1, flags=flags
    )


def begun(window: int = 2) -> FanSender:
    """A fan to eight of whom all are known to live; its window is full of blocks that left."""
    sender = FanSender(7, SHAPE, [EIGHT], 0)
    lane = sender.lanes[MAIN]
    lane.pace.window_bytes, lane.pace.is_starting = window * BLOCK, False
    for bit in range(8):
        sender.hear(0, bit)
    fill(sender, 2 * MS)
    return sender


def fill(sender: FanSender, now: int) -> int:
    """How many new blocks go, each leaving at once."""
    n = 0
    while True:
        out: list[Effect] = []
        sender.fill(now, out)
        jobs = [e for e in out if isinstance(e, SendBlock)]
        if not jobs:
            return n
        n += len(jobs)
        for job in jobs:
            sender.on_sent(now, job)


def test_a_partial_word_without_one_of_whom_nothing_came_makes_room_for_more() -> None:
    sender = begun()
    sender.on_feedback(70 * MS, word(0, OTHERS), [])
    sender.on_feedback(71 * MS, word(1, OTHERS), [])
    assert sender.lanes[MAIN].mute == LAST
    assert sender.lanes[MAIN].pace.flying_bytes == 0
    assert fill(sender, 72 * MS) >= 2
    assert 0 in sender.lanes[MAIN].flights  # it is still owed


def test_where_a_word_of_it_came_since_a_lost_one_is_no_silence() -> None:
    sender = begun()
    sender.on_feedback(50 * MS, word(1, LAST, partial=False), [])
    sender.on_timer(60 * MS, [])
    sender.on_feedback(70 * MS, word(0, OTHERS), [])
    assert sender.lanes[MAIN].mute == 0
    assert sender.lanes[MAIN].pace.flying_bytes == 2 * BLOCK


def test_a_word_that_no_slot_waited_for_tells_nothing_of_silence() -> None:
    sender = begun()
    sender.on_feedback(70 * MS, word(0, OTHERS, partial=False), [])
    assert sender.lanes[MAIN].mute == 0


@pytest.mark.parametrize(("heard", "mute"), [(0x0F, 0xF0), (0x07, 0)])
def test_at_most_half_are_mute_else_it_is_the_network(heard: int, mute: int) -> None:
    sender = begun()
    sender.on_feedback(70 * MS, word(0, heard), [])
    assert sender.lanes[MAIN].mute == mute


def test_who_speaks_again_owes_what_it_tells_of_and_holds_back_no_more_than_that() -> None:
    sender = begun()
    lane = sender.lanes[MAIN]
    for block in range(2):
        sender.on_feedback(70 * MS, word(block, OTHERS), [])
    n = fill(sender, 71 * MS)
    for block in range(2, 2 + n):
        sender.on_feedback(72 * MS, word(block, OTHERS), [])
    assert lane.pace.flying_bytes == 0
    sender.on_feedback(80 * MS, word(0, LAST, lacking=LAST, partial=False), [])
    assert (lane.mute, lane.pace.flying_bytes) == (0, STRIDE)
    assert all(lane.flights[b].is_light for b in range(1, 2 + n))
    assert fill(sender, 81 * MS) >= 1


def test_of_what_only_the_mute_lack_the_oldest_blocks_are_asked_about_after_all_others() -> (
    None
):
    lane = Lane(0b111, Pace(BLOCK, 0), 99)
    for block in range(12):
        lane.flights[block] = Flight(0, 0b100 if block != 9 else 0b101, 0)
    lane.fall_mute(0b100, SHAPE)
    assert lane.to_ask(MS) == [9, 0, 1]
    assert MUTE_ASKS == 2


def test_blocks_that_wait_for_the_mute_are_bounded() -> None:
    lane = Lane(0b111, Pace(BLOCK, 0), 2 * MAX_LIGHT)
    lane.mute = 0b100
    for block in range(MAX_LIGHT):
        lane.flights[block] = Flight(0, 0b100, 0)
        lane.weigh(block, SHAPE)
    assert not lane.may_send()
    lane.land(0)
    assert lane.may_send()
    for block in range(1, MAX_OPEN + 1):
        lane.flights[block].is_light = False
    assert not lane.may_send()


def test_who_was_sent_as_much_as_a_socket_holds_is_set_aside() -> None:
    sender = begun(4)
    now, n_sent = 70 * MS, 4
    for block in range(AHEAD - 1):
        sender.on_feedback(now, word(block, OTHERS), [])
        now += MS
        n_sent += fill(sender, now)
        for bit in range(7):
            sender.hear(now, bit)
    sender.on_timer(now + TICK_PS, [])
    assert sender.lanes[MAIN].members == EIGHT
    sender.on_feedback(now, word(AHEAD - 1, OTHERS), [])
    sender.on_timer(now + 3 * TICK_PS, [])
    assert sender.lanes[MAIN].members == OTHERS


def test_the_mute_are_asked_and_split_off_in_the_end() -> None:
    sender = begun()
    now = 70 * MS
    for block in range(2):
        sender.on_feedback(now, word(block, OTHERS), [])
    n_asked = 0
    while sender.lanes[MAIN].members == EIGHT and now < 3000 * MS:
        now += TICK_PS
        out: list[Effect] = []
        sender.on_timer(now, out)
        for job in (e for e in out if isinstance(e, SendBlock)):
            sender.on_sent(now, job)
            n_asked += 1
        for bit in range(7):
            sender.hear(now, bit)
    assert sender.lanes[MAIN].members == OTHERS
    assert 8 <= n_asked <= 40
