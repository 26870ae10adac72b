"""Senders along trees, by hand: patience, questions by unicast, repairs to everybody."""

import pytest

from fanfold.core.effects import ReceiverLost, SendBlock
from fanfold.core.flight import Shape
from fanfold.core.leaving import LOST_PS, TICK_PS
from fanfold.core.nack_sender import BY_UNICAST, STREAM_TICKS, NackSender
from fanfold.core.tree_sender import TreeSender
from fanfold.wire.feedback import Feedback, FeedbackRow

SHAPE = Shape(2 * 4 * 1000, 1000, 4)  # two blocks of four packets
ALL = 0b111


def begun(kind, repair="tree"):
    """A sender whose two blocks have left."""
    sender = kind(1, SHAPE, [ALL], 10**9, repair=repair)
    out = []
    for now_ps in (0, 1):
        sender.fill(now_ps, out)
    for job in out:
        sender.on_sent(10, job)
    assert [job.block for job in out] == [0, 1]
    return sender


def ticks(sender, from_ps, to_ps):
    """What a sender asks for while nobody says anything."""
    out = []
    for now_ps in range(from_ps, to_ps, TICK_PS):
        first = len(out)
        sender.on_timer(now_ps, out)
        for job in out[first:]:
            if isinstance(job, SendBlock):
                sender.on_sent(now_ps, job)
    return out


def word(block, heard, *, done=0, lacking=(), behind=0, n_round=0):
    rows = tuple(FeedbackRow(psn, bits) for psn, bits in lacking)
    return Feedback(1, 1, block, 4, heard, done, rows, 0, n_round, 0, 255, behind=behind)


def test_nobody_is_given_up_while_a_tree_is_mended():
    sender = begun(TreeSender)
    sender.patient_ps = 4 * LOST_PS
    asked = ticks(sender, TICK_PS, 4 * LOST_PS)
    assert not [effect for effect in asked if isinstance(effect, ReceiverLost)]
    assert all(job.by_unicast for job in asked)
    patient = len(asked)
    impatient = ticks(begun(TreeSender), TICK_PS, 2 * LOST_PS - TICK_PS)
    assert patient < len(impatient)  # it asks less and less often
    lost = ticks(sender, 4 * LOST_PS, 5 * LOST_PS)
    assert {e.bit for e in lost if isinstance(e, ReceiverLost)} == {0, 1, 2}


@pytest.mark.parametrize(
    ("kind", "n_silent", "is_many"),
    [(TreeSender, 3, False), (NackSender, 2, False), (NackSender, 3, True)],
)
def test_a_question_to_many_goes_down_a_tree_that_failed(kind, n_silent, is_many):
    """To more than one of eight; with a tree that never failed each is asked by itself."""
    everyone = (1 << 16) - 1
    sender = kind(1, SHAPE, [everyone], 10**9, repair="tree")
    sender.patient_ps = 8 * LOST_PS
    out = []
    for now_ps in (0, 1):
        sender.fill(now_ps, out)
    for job in out:
        sender.on_sent(10, job)
    heard = everyone >> n_silent
    for block in (0, 1):
        sender.on_feedback(20, word(block, heard, done=heard), [])
    asked = [job for job in ticks(sender, TICK_PS, 4 * LOST_PS) if job.block == 1]
    first, ways = asked[0], [job.by_unicast for job in asked[:BY_UNICAST]]
    assert ways == [not is_many] * (BY_UNICAST - 1) + [True]
    assert first.bits == ((everyone if is_many else everyone & ~heard),)


@pytest.mark.parametrize(
    ("repair", "bits", "by_unicast"),
    [("tree", ALL, False), ("unicast", 0b010, True), ("branch", 0b010, False)],
)
def test_who_gets_what_one_lacks(repair, bits, by_unicast):
    sender = begun(TreeSender, repair)
    out = []
    sender.on_feedback(10**9, word(0, 0b010, lacking=((2, 0b010),)), out)
    (job,) = out
    assert (job.psns, job.bits, job.by_unicast) == (0b100, (bits,), by_unicast)


def test_silence_is_success_until_the_end():
    sender = begun(NackSender)
    asked = ticks(sender, TICK_PS, LOST_PS // 2)
    assert {job.block for job in asked} == {1}  # the last one only
    assert all(job.is_ask for job in asked)
    out = []
    sender.on_feedback(LOST_PS // 2, word(1, ALL, done=ALL, behind=0), out)
    assert sender.is_done()


def test_a_floor_says_who_lacks_what_is_set_aside():
    sender = begun(NackSender)
    ticks(sender, TICK_PS, LOST_PS // 2)
    out = []
    sender.on_feedback(LOST_PS // 2, word(1, 0b011, done=0b011, behind=0), out)
    sender.on_feedback(LOST_PS // 2, word(1, 0b100, done=0b100, behind=1), out)
    assert not sender.is_done()
    asked = ticks(sender, LOST_PS // 2 + TICK_PS, LOST_PS)
    assert {(job.block, job.bits) for job in asked} == {(0, (0b100,))}
    late_ps = LOST_PS + LOST_PS // 8  # what was asked for just now is not sent twice
    sender.on_feedback(late_ps, word(0, 0b100, lacking=((1, 0b100),), n_round=1), out)
    assert out[-1].psns == 0b10
    sender.on_feedback(late_ps + 1, word(0, 0b100, done=0b100, behind=0), out)
    assert sender.is_done()


def test_who_has_no_patience_asks_again_whatever_comes_in():
    n_asked = []
    for is_patient in (True, False):
        sender, asked = begun(NackSender), []
        sender.is_patient = is_patient
        sender.on_feedback(LOST_PS // 2, word(1, 0b011, done=0b011, behind=1), [])
        for now_ps in range(LOST_PS // 2, LOST_PS, TICK_PS):
            sender.on_feedback(now_ps - 1, word(0, 0b001, done=0b001, behind=0), [])
            asked += ticks(sender, now_ps, now_ps + TICK_PS)
        n_asked.append(len(asked))
    assert n_asked[0] < n_asked[1]


def test_nobody_is_asked_again_while_answers_come_in():
    """Words of a thousand take long over one link; held for the age of a block, at most."""
    sender = begun(NackSender)
    sender.on_feedback(LOST_PS // 2, word(1, 0b011, done=0b011, behind=1), [])
    (first,) = ticks(sender, LOST_PS // 2, LOST_PS // 2 + TICK_PS)
    asked_ps, asked = LOST_PS // 2, []
    for now_ps in range(asked_ps + TICK_PS, 2 * LOST_PS, TICK_PS):
        sender.on_feedback(now_ps - 1, word(0, 0b001, done=0b001, behind=0), [])
        asked += [(now_ps, job.block) for job in ticks(sender, now_ps, now_ps + TICK_PS)]
    assert first.block == 1
    ages = [at for at, block in asked if block == 1]
    assert len(ages) in (1, 2)
    assert ages[0] >= 2 * asked_ps - 2 * TICK_PS
    after_ps = 2 * LOST_PS + (STREAM_TICKS + 1) * TICK_PS
    assert ticks(sender, after_ps, after_ps + TICK_PS)  # the stream has ended


@pytest.mark.parametrize("kind", [TreeSender, NackSender])
@pytest.mark.parametrize(
    ("repair", "due"),
    [("tree", [(ALL,)]), ("unicast", [(1,), (2,), (4,)]), ("branch", [(1,), (2,), (4,)])],
)
def test_all_who_lack_a_packet_are_repaired_in_one_round(kind, repair, due):
    """A loss next to the source: the words of all come within a moment of each other."""
    sender = begun(kind, repair)
    out = []
    for i, bit in enumerate((1, 2, 4)):
        first = len(out)
        sender.on_feedback(10**9 + 1000 * i, word(1, bit, lacking=((3, bit),)), out)
        for job in out[first:]:
            if isinstance(job, SendBlock):
                sender.on_sent(10**9 + 1000 * i, job)
    assert [job.bits for job in out if isinstance(job, SendBlock)] == due
