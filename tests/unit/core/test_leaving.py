"""Each decision of who leaves the common fan, who is asked, what fills a window, both ways."""

import pytest

from fanfold.core.effects import Effect, ReceiverSplit, SendBlock
from fanfold.core.flight import MAIN, MAX_OPEN, MAX_QUESTIONS, RARE_PS, Flight, Lane, Shape
from fanfold.core.leaving import MANY_ASKS, SILENT_PS, SILENT_ROUNDS, TICK_PS
from fanfold.core.limit import CHANCE, IN_VAIN, SIGN_PER_MILLE, TRIAL_PS, Limit
from fanfold.core.pace import MANY, MAX_WAIT_PS, Pace
from fanfold.core.sender import FanSender
from fanfold.core.waiting import SLOTS_PS, SOON_PS
from fanfold.live.ports import FOLD_PS
from fanfold.wire.feedback import Feedback, FeedbackFlag, FeedbackRow

MS = 1_000_000_000
BIFT_ID = 0x10000
N_PSN, STRIDE = 16, 100
BLOCK = N_PSN * STRIDE
SHAPE = Shape(40 * BLOCK, STRIDE, N_PSN)


def word(
    block: int, heard: int, lacks: dict[int, int], *, round_: int = 0, part: int = 1
) -> Feedback:
    """Who was heard, and who lacks which packet; part 0: behind the first one of a word."""
    lacking = 0
    for bits in lacks.values():
        lacking |= bits
    rows = tuple(FeedbackRow(psn, bits) for psn, bits in sorted(lacks.items()))
    done = heard & ~lacking
    return Feedback(BIFT_ID, 7, block, N_PSN, heard, done, rows, round=round_, n_merged=part)


def begun(n: int, n_blocks: int = 1, window: int = 2) -> FanSender:
    """A fan to ``n`` receivers whose first blocks have left at 0."""
    sender = FanSender(7, SHAPE, [(1 << n) - 1], 0)
    sender.lanes[MAIN].pace.window_bytes = window * BLOCK
    for _ in range(n_blocks):
        for job in sent(sender, 0):
            sender.on_sent(0, job)
    return sender


def sent(sender: FanSender, now: int) -> list[SendBlock]:
    """New blocks that a fan sends."""
    out: list[Effect] = []
    sender.fill(now, out)
    return [e for e in out if isinstance(e, SendBlock)]


# What fills a window.


@pytest.mark.parametrize(("n_left", "goes_on"), [(8, True), (9, False)])
def test_a_block_takes_of_a_window_what_is_left_of_it(n_left: int, goes_on: bool) -> None:
    """Two blocks of one half left each make room for one more; of more left they do not."""
    sender = begun(3, n_blocks=2)
    assert sent(sender, MS) == []
    for block in (0, 1):
        lacks = dict.fromkeys(range(n_left), 0b010)
        sender.on_feedback(MS, word(block, 0b111, lacks), [])
    assert sender.lanes[MAIN].pace.flying_bytes == 2 * n_left * STRIDE
    assert bool(sent(sender, MS)) is goes_on


def test_a_block_of_which_somebody_told_nothing_takes_all_of_its_room() -> None:
    sender = begun(3, n_blocks=2)
    for block in (0, 1):
        sender.on_feedback(MS, word(block, 0b011, {0: 0b001}), [])
    assert sender.lanes[MAIN].pace.flying_bytes == 2 * BLOCK
    sender.on_feedback(MS, word(0, 0b100, {0: 0b100}), [])
    assert sender.lanes[MAIN].pace.flying_bytes == BLOCK + STRIDE


def test_blocks_under_way_at_once_are_bounded_however_little_is_left_of_each() -> None:
    lane = Lane(0b11, Pace(BLOCK, 0), 2 * MAX_OPEN)
    for block in range(MAX_OPEN):
        assert lane.may_send()
        lane.flights[block] = Flight(0, 0b11, 0)
    assert not lane.may_send()
    lane.land(0)
    assert lane.may_send()


# Who is behind.


@pytest.mark.parametrize(("n_lacks", "behind"), [(7, False), (8, True)])
def test_who_lacks_half_of_what_left_is_behind_and_who_lacks_less_loses_packets(
    n_lacks: int, behind: bool
) -> None:
    sender = begun(3, n_blocks=2)
    lane = sender.lanes[MAIN]
    for block in (0, 1):
        sender.on_feedback(MS, word(block, 0b111, dict.fromkeys(range(n_lacks), 0b010)), [])
    assert lane.is_behind(1, SHAPE, 0) is behind
    assert not lane.is_behind(0, SHAPE, 0)
    assert not lane.is_behind(1, SHAPE, -1)  # nothing had left by then


def test_who_said_nothing_of_a_block_lacks_all_of_it() -> None:
    sender = begun(3, n_blocks=2)
    for block in (0, 1):
        sender.on_feedback(MS, word(block, 0b011, {0: 0b010}), [])
    assert sender.lanes[MAIN].is_behind(2, SHAPE, 0)
    assert not sender.lanes[MAIN].is_behind(1, SHAPE, 0)


@pytest.mark.parametrize(("own", "alike"), [(15, True), (16, False), (10, True), (6, False)])
def test_those_of_about_one_rate_share_a_lane(own: int, alike: bool) -> None:
    lane = Lane(0b1, Pace(BLOCK, 0), 9)
    lane.pace.limit.set(0, own * 10**6)
    assert lane.is_alike(10 * 10**6, is_silent=False) is alike
    assert not lane.is_alike(10 * 10**6, is_silent=True)
    lane.is_silent = True
    assert lane.is_alike(0, is_silent=True)
    assert not lane.is_alike(own * 10**6, is_silent=False)
    lane.members = 0
    assert not lane.is_alike(0, is_silent=True)


def silences(n_lost: int, usual_ps: int = MS) -> list[int]:
    """When receiver 2 is set aside that answers none of the first questions."""
    sender = begun(3, n_blocks=2)
    lane = sender.lanes[MAIN]
    lane.pace.on_rtt(usual_ps)
    n_asked = 0
    for now in range(TICK_PS, 12 * SILENT_PS, TICK_PS):
        out: list[Effect] = []
        for block in (0, 1):
            sender.on_feedback(now, word(block, 0b011, {}, round_=255), out)
        sender.on_timer(now, out)
        for effect in out:
            if isinstance(effect, SendBlock):
                sender.on_sent(now, effect)
                n_asked += effect.block == 0 and bool(effect.bits[-1] & 0b100)
        if n_asked > n_lost:
            sender.hear(now, 2)
        if ReceiverSplit(2, "silent") in out:
            return [now]
    return []


def test_who_answers_none_of_the_questions_is_set_aside_and_who_answers_one_is_not() -> None:
    (when,) = silences(100)
    assert SILENT_PS <= when <= SILENT_PS + SLOTS_PS + 20 * TICK_PS
    assert silences(MANY_ASKS - 2) == []


def test_where_words_usually_take_long_silence_is_longer() -> None:
    usual_ps = SILENT_PS // 2
    (when,) = silences(100, usual_ps)
    assert SILENT_ROUNDS * usual_ps <= when <= 3 * SILENT_ROUNDS * usual_ps


# Who is asked, when, by what.


def test_a_question_brings_what_each_said_that_it_lacks() -> None:
    flight = Flight(0, 0b1111, 0)
    flight.hear(word(0, 0b0111, {2: 0b011, 5: 0b110}))
    assert flight.questions(N_PSN - 1) == {2: 0b0011, 5: 0b0100, N_PSN - 1: 0b1000}
    flight.hear(word(0, 0b0001, {}))
    flight.need &= ~0b0001
    assert flight.questions(N_PSN - 1) == {5: 0b0110, N_PSN - 1: 0b1000}


def test_each_of_the_silent_is_asked_about_one_block_and_not_often() -> None:
    lane = Lane(0b111, Pace(BLOCK, 0), 9)
    for block, need in enumerate((0b011, 0b001, 0b110, 0b111)):
        lane.flights[block] = Flight(0, need, 0)
    assert lane.to_ask(MS) == [0, 1, 2, 3]
    lane.is_silent = True
    assert lane.to_ask(RARE_PS) == [0, 2]
    assert lane.to_ask(2 * RARE_PS - 1) == []
    lane.flights[0].n_queued = 1
    assert lane.to_ask(2 * RARE_PS) == [1, 2]


def test_a_question_is_few_packets_whatever_is_lacked() -> None:
    flight = Flight(0, 0xFF, 0)
    flight.hear(word(0, 0xFF, {psn: 1 << psn for psn in range(8)}))
    found = flight.questions(N_PSN - 1)
    assert len(found) == MAX_QUESTIONS + 1
    asked = 0
    for bits in found.values():
        assert not asked & bits
        asked |= bits
    assert asked == 0xFF


def test_a_word_stands_for_what_was_said_before_and_its_further_parts_join() -> None:
    flight = Flight(0, 0b11, 0)
    flight.hear(word(0, 0b11, {1: 0b11, 2: 0b01}))
    flight.hear(word(0, 0b01, {3: 0b01}, part=0))
    assert flight.lacks == {1: 0b11, 2: 0b01, 3: 0b01}
    flight.hear(word(0, 0b01, {3: 0b01}))
    assert flight.lacks == {1: 0b10, 3: 0b01}
    assert flight.left_bytes(STRIDE, BLOCK) == 2 * STRIDE


def first_question(usual_ps: int, slots_ps: int = SLOTS_PS) -> int:
    """When one that owes a word is asked, the usual round trip being known; all live."""
    sender = FanSender(7, SHAPE, [0b11], 0)
    sender.slots_ps = slots_ps
    for _ in range(MANY):
        sender.lanes[MAIN].pace.on_rtt(usual_ps)
    for job in sent(sender, 0):
        sender.on_sent(0, job)
    out: list[Effect] = []
    now = 0
    while not out:
        now += MS
        sender.on_feedback(now, word(1, 0b11, {}), [])
        sender.on_timer(now, out)
    return now


def test_who_owes_a_word_is_asked_after_two_usual_round_trips_and_the_deadlines_of_slots() -> (
    None
):
    assert SLOTS_PS <= first_question(MS) <= SLOTS_PS + TICK_PS
    assert 240 * MS <= first_question(120 * MS) <= 240 * MS + TICK_PS
    assert SOON_PS <= first_question(MS, slots_ps=0) <= SOON_PS + TICK_PS


def test_all_are_asked_only_when_every_slot_of_three_levels_has_told_whom_it_heard() -> None:
    assert 3 * FOLD_PS < SLOTS_PS


def test_the_usual_round_trip_is_the_median_whatever_few_words_take() -> None:
    pace = Pace(BLOCK, 0)
    for rtt_ms in (9, 400, 8, 500, 7):
        pace.on_rtt(rtt_ms * MS)
    assert pace.usual_ps == 9 * MS
    assert pace.soon_ps(5 * MS, 2) == 18 * MS
    assert pace.soon_ps(20 * MS, 2) == 20 * MS
    for _ in range(MANY):
        pace.on_rtt(MAX_WAIT_PS)
    assert pace.usual_ps == MAX_WAIT_PS
    assert pace.soon_ps(0, 2) == MAX_WAIT_PS


def test_the_first_word_of_a_sending_tells_a_round_trip_and_a_repeated_one_does_not() -> None:
    sender = begun(2)
    pace = sender.lanes[MAIN].pace
    sender.on_feedback(5 * MS, word(0, 0b11, {1: 0b01}), [])
    assert pace.srtt_ps == 5 * MS
    sender.on_feedback(65 * MS, word(0, 0b11, {1: 0b01}), [])
    assert (pace.srtt_ps, pace.worst_ps) == (5 * MS, 5 * MS)


@pytest.mark.parametrize(("told", "cut"), [(False, True), (True, False)])
def test_a_window_is_cut_where_nobody_told_of_a_block_for_a_whole_timeout(
    told: bool, cut: bool
) -> None:
    sender = begun(4, n_blocks=2, window=12)
    pace = sender.lanes[MAIN].pace
    if told:
        for block in (0, 1):
            sender.on_feedback(MS, word(block, 0b0001, {0: 0b0001}), [])
    before = pace.window_bytes
    for now in range(TICK_PS, 2 * SILENT_PS, TICK_PS):
        sender.hear(now, 1)
        out: list[Effect] = []
        sender.on_timer(now, out)
        for effect in out:
            if isinstance(effect, SendBlock):
                sender.on_sent(now, effect)
    assert (pace.window_bytes < before) is cut


@pytest.mark.parametrize(("is_held", "again"), [(False, True), (True, False)])
def test_a_word_of_before_a_repair_is_no_loss_of_it_while_it_may_be_old(
    is_held: bool, again: bool
) -> None:
    """A usual round trip later it is; twice as long where a slot held the word."""
    sender = begun(2)
    for _ in range(MANY):
        sender.lanes[MAIN].pace.on_rtt(40 * MS)
    out: list[Effect] = []
    sender.on_feedback(40 * MS, word(0, 0b01, {1: 0b01}), out)
    (repair,) = (e for e in out if isinstance(e, SendBlock))
    sender.on_sent(40 * MS, repair)
    flags = FeedbackFlag.PARTIAL if is_held else FeedbackFlag(0)
    rows = (FeedbackRow(1, 0b01),)
    late = Feedback(BIFT_ID, 7, 0, N_PSN, 0b01, 0, rows, flags)
    out = []
    sender.on_feedback(95 * MS, late, out)
    assert bool(out) is again


@pytest.mark.parametrize("rtt_ps", [0, 40 * MS])
def test_a_way_longer_than_the_first_waits_is_known_by_the_block_that_came(rtt_ps: int) -> None:
    """Asked about since nothing was known; a word of the whole block answers any of it."""
    sender = begun(2)
    pace = sender.lanes[MAIN].pace
    if rtt_ps:
        pace.on_rtt(rtt_ps)
    for now in range(TICK_PS, 800 * MS, TICK_PS):
        out: list[Effect] = []
        sender.on_timer(now, out)
        for effect in out:
            if isinstance(effect, SendBlock):
                sender.on_sent(now, effect)
    assert sender.lanes[MAIN].flights[0].tries > 2
    sender.on_feedback(800 * MS, word(0, 0b11, {}, round_=255), [])
    assert pace.srtt_ps == (rtt_ps or 800 * MS)


# The rate.


@pytest.mark.parametrize("n_pkts", [0, 64])
def test_what_chance_adds_to_what_is_always_lost_is_no_sign(n_pkts: int) -> None:
    for more, cut in ((0, False), (1, True)):
        limit = Limit(10**8)
        limit.always = 100
        spread = 37 if n_pkts else 0  # of a tenth of 64 packets
        share = 100 + max(SIGN_PER_MILLE, CHANCE * spread) - 1 + more
        for _ in range(2):  # one in a row of 64 packets may be chance
            limit.on_share(MS, share, 10**8, MS, 0, n_pkts)
        assert (limit.bps < 10**8) is cut


@pytest.mark.parametrize("n_pkts", [0, 64])
def test_a_cut_after_which_a_quarter_less_is_lost_helped_and_others_were_in_vain(
    n_pkts: int,
) -> None:
    """And by more than one standard deviation, 61 of 400 where 64 packets tell."""
    least = 300 - (61 if n_pkts else 0)
    for second, vain in ((least, True), (least - 1, False)):
        limit = Limit(10**8)
        limit.on_share(0, 400, 10**8, 0, 0, n_pkts)
        for n in range(1, IN_VAIN + 1):
            limit.on_share(n * 1000 * MS, second, limit.bps, n * 1000 * MS, 0, n_pkts)
        assert limit.is_vain is vain
        assert (limit.bps == 10**8) is vain


def test_after_cuts_in_vain_the_rate_does_not_jump() -> None:
    limit = Limit(10**8)
    for n in range(IN_VAIN + 1):
        limit.on_share(n * 1000 * MS, 300, limit.bps, n * 1000 * MS, 0)
    assert limit.bps == 10**8
    now = 10_000 * MS
    limit.on_done(now, 10**6, 10**8, now)
    assert 10**8 < limit.bps <= 104 * 10**6


@pytest.mark.parametrize(("share", "vain"), [(300, True), (299, False)])
def test_a_lane_that_was_split_off_for_its_loss_is_a_trial(share: int, vain: bool) -> None:
    """Where a rate was asked for as well: looks, each after what was queued has left."""
    limit = Limit(0, 500)
    limit.try_out(0, 10**7, 2 * 10**7, 400)
    assert not limit.on_share(TRIAL_PS, share, 10**7, TRIAL_PS - 1, 0)
    for n in range(1, IN_VAIN):
        limit.on_share(n * TRIAL_PS, share, limit.bps, n * TRIAL_PS, 0)
        assert (limit.bps < 10**7) is vain
    limit.on_share(9 * TRIAL_PS, share, limit.bps, 9 * TRIAL_PS, 0)
    assert limit.is_vain is vain
    assert limit.bps == (2 * 10**7 if vain else 10**7)
