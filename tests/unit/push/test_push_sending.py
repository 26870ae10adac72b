"""The sending machine of a push against receivers that never come to an end."""

from itertools import pairwise

import pytest

from fanfold.core.effects import SendBlock
from fanfold.core.flight import Shape
from fanfold.core.waiting import QUIET_PS
from fanfold.push import sending
from fanfold.push.proof import Proof
from fanfold.push.sending import MAX_RESTARTS, PushSender, SendControl, State
from fanfold.push.stuck import STALL_PS
from fanfold.units import PS_PER_SECOND
from fanfold.wire.feedback import Feedback
from fanfold.wire.report import Report, ReportState

FLOW = 6
PROOF = Proof(nonce=77, digest=b"\x07" * 32)
MS = PS_PER_SECOND // 1000


class Sender:
    """A push of ``n`` chunks to BFR-ids 1 and 2."""

    def __init__(self, n=3):
        self.n = n
        shape = Shape(8 * n, 4, 2)
        self.machine = PushSender(0, FLOW, Shape(8, 4, 2), shape, [1, 2], 0, PROOF)

    def report(self, now, bfr_id, state, **more):
        out = []
        proof = {"nonce": PROOF.nonce, "digest": PROOF.digest}
        self.machine.on_report(now, Report(state, bfr_id, FLOW, **proof | more), out)
        return out

    def has_manifest(self, now, heard=0b11):
        word = Feedback(0x10000, FLOW, 0, 2, heard, heard, ())
        self.machine.on_feedback(now, word, [])

    def peer(self, bfr_id):
        return self.machine.peers[bfr_id - 1]

    def run(self, now, until, answer):
        """Ticks; ``answer(now)`` is called at each."""
        out = []
        while now < until and not self.machine.is_done():
            now += 50 * MS
            answer(now)
            self.machine.on_timer(now, out)
            self.machine.fill(now, out)
        return now


def test_nobody_is_asked_for_a_word_before_slots_of_this_fabric_told_whom_they_heard():
    for slots_ps in (80 * MS, 320 * MS):
        sender = Sender()
        sender.machine.manifest_fan.slots_ps = slots_ps
        (job,) = [e for e in fills(sender.machine, 0) if isinstance(e, SendBlock)]
        sender.machine.on_sent(0, job)
        asked = [now for now in range(10, 500, 10) if asks(sender.machine, now * MS)]
        assert (
            max(slots_ps // MS, 100) <= asked[0] <= slots_ps // MS + 30
        )  # 100: no round trip yet
        sender.has_manifest(500 * MS)
        sender.report(500 * MS, 1, ReportState.READY, n_have=0)
        sender.report(500 * MS, 2, ReportState.READY, n_have=0)
        sender.machine.on_timer(600 * MS, [])
        assert sender.machine.data_fan.slots_ps == slots_ps


def fills(machine, now):
    out = []
    machine.fill(now, out)
    return out


def asks(machine, now):
    out = []
    machine.on_timer(now, out)
    return [e for e in out if isinstance(e, SendBlock)]


def test_who_has_everything_and_never_ends_is_given_up():
    sender = Sender()
    sender.has_manifest(0)
    sender.report(0, 2, ReportState.DONE)
    end = sender.run(
        0, 60 * PS_PER_SECOND, lambda now: sender.report(now, 1, ReportState.READY, n_have=3)
    )
    assert STALL_PS <= end <= STALL_PS + 2 * PS_PER_SECOND
    assert sender.peer(1).state == State.FAILED
    assert "has everything" in sender.peer(1).error
    sender.report(end, 1, ReportState.DONE)
    assert sender.peer(1).state == State.VERIFIED


def test_who_reads_back_what_it_has_may_take_its_time():
    sender = Sender()
    sender.has_manifest(0)
    sender.report(0, 2, ReportState.DONE)
    sender.report(0, 1, ReportState.READY, n_have=3)
    end = sender.run(
        0,
        60 * PS_PER_SECOND,
        lambda now: sender.report(
            now, 1, ReportState.CHECKING, n_have=3, cursor=1 + now // (15 * PS_PER_SECOND)
        ),
    )
    assert end >= 60 * PS_PER_SECOND
    assert sender.peer(1).state == State.RECEIVING


def test_who_forgets_the_push_again_and_again_is_given_up():
    sender = Sender()
    for i in range(MAX_RESTARTS + 1):
        assert sender.peer(1).state == State.WAITING
        now = 2 * i * PS_PER_SECOND  # words of an earlier life are not believed for a second
        sender.has_manifest(now)
        sender.report(now, 1, ReportState.UNKNOWN)
    assert sender.peer(1).state == State.FAILED
    assert "forgot the push" in sender.peer(1).error
    assert sender.peer(2).state == State.WAITING


@pytest.mark.parametrize("extra", [b"", b"\xff", b"\xff" * 400])
def test_a_slice_longer_than_it_may_be_is_cut(monkeypatch, extra):
    monkeypatch.setattr(sending, "SLICE_BYTES", 2)
    monkeypatch.setattr(sending, "SLICE_CHUNKS", 16)
    sender = Sender(20)
    sender.has_manifest(0)
    (question,) = sender.report(0, 1, ReportState.READY, n_have=3, body=b"\xc0\x00" + extra)
    assert isinstance(question, SendControl)
    assert question.message.cursor == 1
    sender.report(0, 1, ReportState.READY, n_have=3, cursor=1, body=b"\x10")
    sender.report(0, 2, ReportState.DONE)
    sender.machine.on_timer(MS * 2000, [])
    lacks = [bool(need & 1) for need in sender.machine.data_fan.need]
    assert [i for i in range(20) if not lacks[i]] == [0, 1, 19]


# Words that were lost.


def asked(out):
    """BitStrings of the questions among effects."""
    return [e.bits for e in out if isinstance(e, SendControl)]


def sent(out):
    """(flow, BitStrings) of the blocks among effects."""
    return [(e.flow, e.bits) for e in out if isinstance(e, SendBlock)]


def fill_and_send(sender, now):
    """Everything that the windows allow leaves at once."""
    out = []
    while True:
        more = []
        sender.machine.fill(now, more)
        if not more:
            return out
        for job in more:
            fan = next(f for f in sender.machine.fans() if f.flow == job.flow)
            fan.on_sent(now, job)
        out += more


def test_who_owes_a_word_is_asked_soon_and_then_less_and_less_often():
    sender = Sender()
    sender.has_manifest(0)
    times = []
    for ms in range(0, 1000, 5):
        sender.machine.peers[0].heard_ps = sender.machine.peers[1].heard_ps = ms * MS
        out = []
        sender.machine.on_timer(ms * MS, out)
        times += [ms] * len(asked(out))
    assert times[:4] == [40, 80, 160, 310]
    assert {b - a for a, b in pairwise(times[3:])} == {sending.ASK_PS // MS}


def test_who_is_ready_has_the_manifest():
    sender = Sender()
    sender.report(0, 1, ReportState.READY)
    assert sender.machine.manifest_fan.lacking() == 0b10
    sender.report(0, 2, ReportState.CHECKING)  # of a manifest that is on its way
    assert sender.machine.manifest_fan.lacking() == 0b10


def test_data_leave_when_the_last_is_ready():
    """Not at the next tick: a short push is mostly such waits."""
    sender = Sender()
    sender.report(0, 1, ReportState.READY)
    assert sender.machine.data_fan is None
    sender.report(0, 2, ReportState.READY)
    assert sent(fill_and_send(sender, 0)) == [(FLOW | 1, (0b11,))] * 2


def test_who_knows_nothing_of_the_push_gets_the_manifest_again():
    sender = Sender()
    fill_and_send(sender, 0)
    out = sender.report(0, 1, ReportState.READY)
    for ms in range(10, 130, 10):
        sender.machine.on_timer(ms * MS, out)
        if asked(out):
            break
    assert asked(out) == [0b10]
    assert ms * MS >= QUIET_PS
    assert sent(out) == []
    sender.report(ms * MS, 2, ReportState.UNKNOWN)
    sender.machine.on_timer((ms + 10) * MS, out)
    assert sent(out) == [(FLOW, (0b10,))]


def test_who_lacks_data_at_the_end_says_so_when_asked_and_gets_it():
    sender = Sender(2)
    fill_and_send(sender, 0)
    sender.report(0, 1, ReportState.READY)
    sender.report(0, 2, ReportState.READY)
    fill_and_send(sender, 0)
    out = []
    sender.machine.on_timer(40 * MS, out)
    assert asked(out) == []  # words of them may be on their way
    sender.machine.on_timer(80 * MS, out)
    assert asked(out) == [0b11]
    sender.report(80 * MS, 1, ReportState.DONE)
    sender.report(80 * MS, 2, ReportState.READY, n_have=1, body=b"\x80")
    sender.machine.on_timer(90 * MS, out)
    assert sent(out) == [(FLOW | 1, (0b10,))] * 2
    assert sender.peer(1).state == State.VERIFIED


def test_the_last_words_are_asked_for_when_nobody_lacks_anything():
    sender = Sender(1)
    fill_and_send(sender, 0)
    sender.report(0, 1, ReportState.READY)
    sender.report(0, 2, ReportState.READY)
    fill_and_send(sender, 0)
    sender.machine.on_timer(5 * MS, [])
    assert sender.machine.deadline_ps() > 7 * MS
    word = Feedback(0x10000, FLOW | 1, 0, 2, 0b11, 0b11, ())
    sender.machine.on_feedback(7 * MS, word, [])
    assert sender.machine.deadline_ps() <= 7 * MS
    out = []
    sender.machine.on_timer(7 * MS, out)
    assert asked(out) == [0b11]
