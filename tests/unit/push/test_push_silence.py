"""Silence is a state: who is silent is set aside, called, and taken back in when it speaks."""

from itertools import pairwise

import pytest
from test_push_sending import MS, Sender, asked, fill_and_send, sent

from fanfold.core import leaving
from fanfold.core.effects import SendBlock
from fanfold.core.waiting import STALE_PS
from fanfold.push import peer as peers
from fanfold.push.peer import MAX_RETURNS, MOST_CALL_PS, State
from fanfold.push.sending import PATIENCE_PS
from fanfold.units import PS_PER_SECOND
from fanfold.wire.feedback import Feedback
from fanfold.wire.report import ReportState

S = PS_PER_SECOND


class Pair:
    """A push to receiver 1, which may be mute, and receiver 2, which answers."""

    def __init__(self, n=4):
        self.sender = Sender(n)
        self.now = 0
        self.calls = []  # when receiver 1 was asked
        self.blocks = []  # (flow, BitStrings) that were sent
        fill_and_send(self.sender, 0)
        self.say(1, ReportState.READY)
        self.say(2, ReportState.READY)

    def say(self, who, state, **more):
        return self.sender.report(self.now, who, state, **more)

    def go(self, until, speaks=lambda now: None):
        """To a time; ``speaks`` is called at each step."""
        machine = self.sender.machine
        while self.now < until and not machine.is_done():
            self.now += 10 * MS
            out = []
            machine.on_timer(self.now, out)
            for job in [e for e in out if isinstance(e, SendBlock)]:
                machine.on_sent(self.now, job)
            if any(bits & 1 for bits in asked(out)):
                self.calls.append(self.now)
            if any(bits & 2 for bits in asked(out)):
                self.say(2, ReportState.READY, n_have=1, body=b"\x80")
            out += fill_and_send(self.sender, self.now)
            self.hear_second(out)
            self.blocks += sent(out)
            speaks(self.now)
        return self.now

    def hear_second(self, out):
        """Receiver 2 has all but the last block of the data."""
        for job in out:
            if isinstance(job, SendBlock) and job.flow == 7 and job.block < self.sender.n - 1:
                word = Feedback(0x10000, 7, job.block, 2, 0b10, 0b10, ())
                self.sender.machine.on_feedback(self.now, word, [])

    def state(self, who=1):
        return self.sender.peer(who).state


def aside():
    """Receiver 1 was silent from the start, and is set aside now."""
    pair = Pair()
    while pair.state() != State.SILENT:
        pair.go(pair.now + 10 * MS)
        assert pair.now <= 3 * S
    pair.blocks = []
    return pair


def test_who_is_silent_is_set_aside_and_sent_nothing_but_questions():
    pair = aside()
    assert pair.now >= leaving.LOST_PS
    pair.calls = []
    start = pair.now
    pair.go(start + 10 * S)
    assert not any(bits & 1 for _, each in pair.blocks for bits in each)
    gaps = [b - a for a, b in pairwise(pair.calls)]
    assert gaps[0] <= peers.FIRST_CALL_PS + 50 * MS
    assert max(gaps) <= MOST_CALL_PS + 100 * MS
    assert gaps[-1] >= MOST_CALL_PS
    assert pair.state() == State.SILENT
    assert pair.state(2) == State.RECEIVING


def test_who_speaks_again_gets_what_it_lacks_and_no_more():
    pair = aside()
    pair.say(1, ReportState.READY, n_have=2, body=b"\xa0")
    assert pair.state() == State.RECEIVING
    fan = pair.sender.machine.data_fan
    assert [need & 1 for need in fan.need] == [0, 1, 0, 1]
    fan.lanes[0].pace.window_bytes *= 2  # nobody answers here, so the other's blocks fill it
    pair.go(pair.now + 300 * MS)
    wanted = [bits for _, each in pair.blocks for bits in each if bits & 1]
    assert len(wanted) >= 2
    pair.say(1, ReportState.DONE)
    pair.say(2, ReportState.DONE)
    assert pair.sender.machine.is_done()
    assert {pair.state(), pair.state(2)} == {State.VERIFIED}


def test_feedback_of_a_silent_one_is_a_reason_to_ask_at_once():
    pair = aside()
    pair.go(pair.now + 8 * S)
    while pair.now < pair.calls[-1] + 200 * MS:
        pair.go(pair.now + 10 * MS)
    word = Feedback(0x10000, 7, 0, 2, 0b01, 0, ())
    pair.sender.machine.on_feedback(pair.now, word, [])
    pair.calls, start = [], pair.now
    pair.go(start + 100 * MS)
    assert pair.calls
    assert pair.calls[0] <= start + 50 * MS


def test_one_that_restarted_gets_the_manifest_again_and_goes_on_from_its_disk():
    pair = aside()
    pair.say(1, ReportState.UNKNOWN)
    assert pair.state() == State.WAITING
    pair.go(pair.now + 50 * MS)
    assert (6, (0b01,)) in pair.blocks
    pair.say(1, ReportState.READY, n_have=3, body=b"\xe0")
    pair.go(pair.now + STALE_PS + 50 * MS)
    assert any(flow == 7 and bits[0] == 0b01 for flow, bits in pair.blocks)


@pytest.mark.parametrize("patience_ps", [S, PATIENCE_PS])
def test_the_push_waits_for_the_silent_as_long_as_its_patience(patience_ps):
    pair = aside()
    pair.sender.machine.patience_ps = patience_ps
    pair.go(pair.now + S + patience_ps // 2)
    assert pair.state() == State.SILENT  # the other one is still served
    pair.say(2, ReportState.DONE)
    ended = pair.now
    pair.go(ended + 2 * PATIENCE_PS)
    assert pair.sender.machine.is_done()
    assert patience_ps - 200 * MS <= pair.now - ended <= patience_ps + 200 * MS
    first = pair.sender.peer(1)
    assert (first.state, first.is_silent) == (State.FAILED, True)
    assert first.error == f"silent for {pair.now / S:.1f} s"


def test_patience_begins_anew_when_a_silent_one_speaks():
    pair = aside()
    pair.say(2, ReportState.DONE)
    pair.go(pair.now + PATIENCE_PS - S)
    pair.say(1, ReportState.READY)
    spoke = pair.now
    pair.go(spoke + 2 * PATIENCE_PS)
    assert pair.now >= spoke + PATIENCE_PS
    assert pair.state() == State.FAILED


def test_who_comes_back_again_and_again_and_gains_nothing_has_failed():
    pair = aside()
    n = 0
    while pair.state() == State.SILENT:
        n += 1
        pair.say(1, ReportState.READY)
        while pair.state() == State.RECEIVING:
            pair.go(pair.now + 100 * MS)
        assert n <= MAX_RETURNS + 1
    assert n == MAX_RETURNS + 1
    assert "gained nothing" in pair.sender.peer(1).error


def test_a_receiver_that_never_came_is_waited_for_and_named():
    pair = Pair()
    pair.sender = Sender()
    pair.now = 0
    pair.say(2, ReportState.DONE)
    pair.go(2 * PATIENCE_PS)
    assert pair.sender.peer(1).is_silent
    assert PATIENCE_PS <= pair.now <= PATIENCE_PS + 4 * S


def test_what_a_stopped_sender_did_not_hear_is_no_silence():
    """It was stopped for 20 s; whoever answers then was never silent."""
    pair = Pair()
    machine = pair.sender.machine

    def listen(now):
        machine.ear.listen(now, machine.deadline_ps(), now)
        pair.say(1, ReportState.READY, n_have=1, body=b"\x80")

    pair.go(500 * MS, listen)
    pair.now += 20 * S
    machine.ear.listen(pair.now, machine.deadline_ps(), pair.now)
    pair.go(pair.now + 300 * MS, lambda now: machine.ear.listen(now, now, now))
    assert pair.state() == State.RECEIVING
    assert pair.state(2) == State.RECEIVING


def test_times_of_a_push_are_those_of_the_wall():
    pair = Pair()
    machine = pair.sender.machine
    machine.ear.listen(10 * S, 0, 10 * S)
    pair.now = 10 * S
    pair.say(2, ReportState.DONE)
    assert pair.sender.peer(2).done_ps == 10 * S


def test_patience_runs_from_the_last_word_of_anybody():
    """Not only from when it is known that the last one is silent."""
    pair = Pair()
    pair.sender.machine.patience_ps = 5 * S
    pair.say(2, ReportState.DONE)
    pair.go(20 * S)
    assert 5 * S <= pair.now <= 5 * S + 300 * MS
