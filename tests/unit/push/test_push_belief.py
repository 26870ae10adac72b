"""Which words of receivers count: nonce and digest, and READY against FEEDBACK."""

import pytest
from test_push_sending import (
    FLOW,
    MS,
    PROOF,
    Sender,
    asked,
    fill_and_send,
    sent,
)

from fanfold.errors import WireError
from fanfold.push import envelope, sending, stuck
from fanfold.push.sending import State
from fanfold.push.stuck import STALL_PS
from fanfold.units import PS_PER_SECOND
from fanfold.wire.feedback import Feedback
from fanfold.wire.report import ReportState

OTHER = b"\x08" * 32


def ready(n=2):
    """Both receivers have the manifest and lack all of the data, which left once."""
    sender = Sender(n)
    fill_and_send(sender, 0)
    sender.report(0, 1, ReportState.READY)
    sender.report(0, 2, ReportState.READY)
    fill_and_send(sender, 0)
    return sender


def claim_done(sender, now, blocks, who=0b11):
    for block in blocks:
        word = Feedback(0x10000, FLOW | 1, block, 2, who, who, ())
        sender.machine.on_feedback(now, word, [])


@pytest.mark.parametrize("nonce", [0, PROOF.nonce - 1, PROOF.nonce + 1, 2**32 - 1])
@pytest.mark.parametrize("state", list(ReportState))
def test_a_word_without_the_nonce_of_the_push_changes_nothing(nonce, state):
    sender = ready()
    more = {"body": b"\x80"} if state == ReportState.READY else {}
    sender.report(5, 1, state, nonce=nonce, n_have=1, **more)
    assert (sender.peer(1).state, sender.peer(1).heard_ps) == (State.RECEIVING, 0)
    assert sender.peer(1).n_restarts == 0
    assert sender.machine.n_reports == 2
    assert sender.machine.data_fan.lacking() == 0b11


def test_an_end_counts_only_with_the_digest_of_the_source():
    sender = ready()
    claim_done(sender, 0, (0, 1))
    sender.report(0, 1, ReportState.DONE)
    assert sender.peer(1).state == State.VERIFIED
    now = sender.run(
        0, 60 * PS_PER_SECOND, lambda now: sender.report(now, 2, ReportState.DONE, digest=OTHER)
    )
    assert now >= STALL_PS
    assert (sender.peer(2).state, sender.peer(2).digest) == (State.FAILED, b"")
    assert "done with BLAKE3 0808080808080808" in sender.peer(2).error
    assert "0707070707070707" in sender.peer(2).error


def test_a_forged_end_keeps_nobody_from_its_own():
    sender = ready()
    sender.report(0, 1, ReportState.DONE, digest=OTHER)
    sender.report(0, 1, ReportState.DONE, digest=bytes(32))
    assert sender.peer(1).state == State.RECEIVING
    sender.report(1, 1, ReportState.DONE)
    assert (sender.peer(1).state, sender.peer(1).digest) == (State.VERIFIED, PROOF.digest)


def test_who_was_not_asked_and_knows_nothing_is_asked_at_once_and_not_more_often():
    """A late joiner has no nonce yet: data of a push that it does not know are all it saw."""
    sender = ready()
    times = []
    for ms in range(1, 200):
        sender.report(ms * MS, 1, ReportState.UNKNOWN, nonce=0)
        sender.machine.peers[1].heard_ps = ms * MS
        sender.machine.peers[0].heard_ps = ms * MS
        out = []
        sender.machine.on_timer(ms * MS, out)
        times += [ms] * (0b01 in asked(out))
    assert times
    assert times[0] <= 41
    assert len(times) <= 200 * MS // sending.FIRST_ASK_PS
    sender.report(200 * MS, 1, ReportState.UNKNOWN)
    assert sender.peer(1).state == State.WAITING
    assert sender.machine.manifest_fan.lacking() == 0b01


def test_ready_is_believed_where_feedback_claimed_what_is_not_there():
    """One FEEDBACK made by somebody else, and a receiver that says what it has."""
    sender = ready(3)
    claim_done(sender, MS, range(3))
    sender.report(MS, 2, ReportState.DONE)
    assert sender.machine.data_fan.lacking() == 0
    out, now = [], 0
    while now < PS_PER_SECOND and not sent(out):
        now += 50 * MS
        sender.report(now, 1, ReportState.READY, n_have=2, body=b"\xa0")
        sender.machine.on_timer(now, out)
        sender.machine.fill(now, out)
    assert sent(out) == [(FLOW | 1, (0b01,))]
    assert [e.block for e in out if hasattr(e, "block")] == [1]
    assert sending.DOUBT_PS <= now <= sending.DOUBT_PS + 100 * MS
    assert sender.peer(1).state == State.RECEIVING
    sender.report(now, 1, ReportState.DONE)
    assert sender.machine.is_done()


def test_ready_of_before_the_last_block_brings_no_repair():
    """It came by another way than the FEEDBACK, later; the next word is of an end."""
    sender = ready(3)
    claim_done(sender, MS, range(3))
    for ms in (2, 3, 200):
        sender.report(ms * MS, 1, ReportState.READY, n_have=2, body=b"\xa0")
    sender.report(201 * MS, 1, ReportState.CHECKING, n_have=3, cursor=9)
    sender.report(600 * MS, 1, ReportState.READY, n_have=2, body=b"\xa0")
    out = []
    sender.machine.fill(600 * MS, out)
    assert sent(out) == []
    assert sender.machine.data_fan.lacking() == 0


def test_a_manifest_that_feedback_claimed_and_is_not_there_comes_again():
    sender = Sender()
    fill_and_send(sender, 0)
    sender.has_manifest(0)
    sender.report(0, 2, ReportState.READY)
    out, now = [], 0
    while now < PS_PER_SECOND and not sent(out):
        now += 50 * MS
        sender.report(now, 1, ReportState.CHECKING)
        sender.machine.on_timer(now, out)
        sender.machine.fill(now, out)
    assert (FLOW, (0b01,)) in sent(out)
    assert sending.DOUBT_PS <= now <= sending.DOUBT_PS + 100 * MS


@pytest.mark.parametrize("states", [[ReportState.CHECKING], [2, 1], [1, 2, 2]])
@pytest.mark.parametrize("cursor", [1, 7])
def test_who_was_ready_and_checks_for_ever_is_given_up(states, cursor):
    sender = ready()
    sender.report(0, 2, ReportState.DONE)
    claim_done(sender, 0, (0, 1), 0b01)
    count = iter(range(10**6))

    def answer(now):
        state = states[next(count) % len(states)]
        more = {"cursor": cursor} if state == ReportState.CHECKING else {}
        sender.report(now, 1, state, n_have=2, **more)

    end = sender.run(0, 100 * PS_PER_SECOND, answer)
    assert STALL_PS <= end <= STALL_PS + PS_PER_SECOND
    assert sender.peer(1).state == State.FAILED


@pytest.mark.parametrize("first", [ReportState.CHECKING, ReportState.READY])
def test_progress_that_never_ends_has_a_bound_too(first):
    sender = ready() if first == ReportState.READY else Sender()
    sender.has_manifest(0)
    sender.report(0, 2, ReportState.DONE)
    if first == ReportState.READY:
        claim_done(sender, 0, (0, 1), 0b01)
    end = sender.run(
        0,
        400 * PS_PER_SECOND,
        lambda now: sender.report(
            now, 1, ReportState.CHECKING, n_have=2, cursor=1 + now // PS_PER_SECOND
        ),
    )
    assert stuck.CHECK_PS <= end <= stuck.CHECK_PS + 2 * PS_PER_SECOND
    assert sender.peer(1).error == "works on its disk without end"


def test_a_nonce_travels_in_the_envelope_and_nothing_else_is_let_through():
    whole = envelope.wrap(0xA1B2C3D4, b"manifest")
    assert whole[32:] == bytes.fromhex("a1b2c3d4 00000000") + b"manifest"
    assert envelope.unwrap(whole) == envelope.Envelope(0xA1B2C3D4, envelope.OPEN, b"manifest")
    bad = [whole[:n] for n in range(len(whole))] + [whole + b"\0", envelope.wrap(0, b"x")]
    bad += [
        bytes([*whole[:i], whole[i] ^ 1 << b, *whole[i + 1 :]])
        for i in range(len(whole))
        for b in range(8)
    ]
    for each in bad:
        with pytest.raises(WireError):
            envelope.unwrap(each)
