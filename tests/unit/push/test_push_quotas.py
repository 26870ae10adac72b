"""What one sender may hold at a receiver: sessions, rows, files, bytes, manifests."""

import numpy as np
import pytest
from kernel_nodes import data
from test_push_receiving import FLOW, LAST, MS, N_PSN, STRIDE, Receiver, Sent

from fanfold.kernels import collect as c
from fanfold.push import quotas, receiving
from fanfold.push.quotas import MAX_OF_SENDER, MAX_PUSHES, who_gives_way
from fanfold.push.session import Session
from fanfold.push.store import Store
from fanfold.units import PS_PER_SECOND
from fanfold.wire.report import ReportError, ReportState

HONEST, EVIL = 2, 3


def packet(bfir, flow, block, psn, **more):
    given = {"n_psn": N_PSN, "stride": STRIDE} | more
    return data(1, bfir_id=bfir, flow=flow, block=block, psn=psn, **given)


def rows_of(receiver, bfir):
    return c.rows_of(receiver.collect, bfir)


@pytest.fixture
def receiver(tmp_path):
    return Receiver(tmp_path)


def fill(receiver, bfir, flow, n, now_ps=0):
    for block in range(n):
        receiver.take(packet(bfir, flow, block, 0), now_ps)


def test_blocks_begun_and_left_lock_nobody_out(receiver):
    """Ten times as many half-filled blocks as there are rows, and an honest push after them."""
    n_rows = receiver.collect.blocks.shape[0]
    fill(receiver, EVIL, FLOW, 10 * n_rows)
    assert rows_of(receiver, EVIL) == n_rows
    for block in range(n_rows // 2):
        for psn in range(N_PSN):
            receiver.take(packet(HONEST, FLOW, block, psn), MS)
        fill(receiver, EVIL, FLOW, 10 * n_rows, MS)  # it goes on
    (session,) = [s for s in receiver.machine.sessions.values() if s.bfir_id == HONEST]
    assert sorted(session.parts) == list(range(n_rows // 2))


def test_rows_are_shared_evenly_and_go_to_and_fro_with_nobody(receiver):
    n_rows = receiver.collect.blocks.shape[0]
    fill(receiver, EVIL, FLOW, n_rows)
    fill(receiver, HONEST, FLOW, n_rows)
    held = rows_of(receiver, HONEST), rows_of(receiver, EVIL)
    assert held == (n_rows // 2, n_rows - n_rows // 2)
    before = receiver.collect.blocks.copy()
    fill(receiver, EVIL, FLOW, 4 * n_rows)
    fill(receiver, HONEST, FLOW, 4 * n_rows)
    assert (rows_of(receiver, HONEST), rows_of(receiver, EVIL)) == held
    assert (receiver.collect.blocks["block"] == before["block"]).all()


@pytest.mark.parametrize("is_late", [False, True])
def test_a_sender_alone_keeps_its_rows_but_for_a_flow_that_is_dead(receiver, is_late):
    n_rows = receiver.collect.blocks.shape[0]
    fill(receiver, HONEST, FLOW, n_rows)
    now = c.IDLE_ROW_PS - 1 + is_late
    receiver.take(packet(HONEST, FLOW, n_rows, 0), now)
    assert set(receiver.collect.blocks["block"]) == set(range(n_rows))
    receiver.take(packet(HONEST, FLOW + 8, 77, 0), now)
    assert (77 in receiver.collect.blocks["block"]) == is_late


def test_the_row_that_is_idle_longest_goes(receiver):
    n_rows = receiver.collect.blocks.shape[0]
    for block in range(n_rows):
        receiver.take(packet(EVIL, FLOW, block, 0), (block * 3 % n_rows) * MS)
    receiver.take(packet(HONEST, FLOW, 0, 0), n_rows * MS)
    left = receiver.collect.blocks["block"][receiver.collect.blocks["follow"] == 0]
    assert set(range(n_rows)) - set(left) == {0}


def test_strange_pushes_at_any_rate_lock_nobody_out(tmp_path):
    """32 a second, each of a flow of its own, and one that is real."""
    sent = Sent(tmp_path)
    receiver = Receiver(tmp_path / "root", n_follow=2 * MAX_PUSHES + 2)
    flows = iter(range(1000, 100_000, 2))
    for i in range(64):
        receiver.take(packet(EVIL, next(flows), 0, 0), i * PS_PER_SECOND // 32)
    now = 2 * PS_PER_SECOND
    n = len(sent.manifest)
    size = STRIDE * N_PSN
    for at in range(0, n, size):
        whole = sent.manifest[at : at + size]
        n_psn = -(-len(whole) // STRIDE)
        for psn in range(n_psn):
            more = {"flags": LAST * (at + size >= n), "n_psn": n_psn}
            part = whole[psn * STRIDE : (psn + 1) * STRIDE]
            receiver.take(packet(HONEST, FLOW, at // size, psn, payload=part, **more), now)
        receiver.take(packet(EVIL, next(flows), 0, 0), now)
        now += PS_PER_SECOND // 32
    mine = [s for s in receiver.machine.sessions.values() if s.bfir_id == HONEST]
    assert [s.incoming is not None for s in mine] == [True]
    assert len(receiver.machine.sessions) <= MAX_OF_SENDER + 1


def session(bfir_id, flow, heard_ps, state=ReportState.READY):
    made = Session(heard_ps, bfir_id, flow)
    made.state = state
    return made


def heard(s):
    return s.heard_ps


def given(sessions, bfir_id=HONEST, now=10 * PS_PER_SECOND):
    found = who_gives_way(now, sessions, bfir_id, heard)
    return found and (found.bfir_id, found.flow)


NOW = 10 * PS_PER_SECOND
LONG_AGO = NOW - quotas.QUIET_PS - 1


def test_who_gives_way():
    busy = [session(EVIL + i % 4, i, NOW - i) for i in range(MAX_PUSHES)]
    assert given(busy) == (EVIL + 3, 15)  # idlest of senders that hold four, this one none
    assert given(busy, EVIL) is None
    assert given(busy[:2] + [session(40 + i, i, NOW) for i in range(14)]) is None
    quiet = [*busy[1:], session(9, 9, LONG_AGO)]
    assert given(quiet) == (9, 9)
    assert given([*busy[1:], session(9, 9, LONG_AGO + 1)]) == (EVIL + 3, 15)
    assert given([*busy[1:], session(9, 9, LONG_AGO, ReportState.FINISHING)]) != (9, 9)
    bare = [*quiet[1:], session(8, 8, NOW, ReportState.UNKNOWN)]
    assert given(bare) == (8, 8)


def test_a_sender_at_its_own_limit_takes_from_itself_only():
    own = [session(EVIL, i, NOW, ReportState.READY) for i in range(MAX_OF_SENDER)]
    others = [session(HONEST, 100, LONG_AGO), session(7, 7, 0, ReportState.UNKNOWN)]
    assert quotas.is_full([*own, *others], EVIL)
    assert not quotas.is_full([*own[1:], *others], EVIL)
    assert not quotas.is_full([*own, *others], HONEST)
    assert given([*own, *others], EVIL) is None
    own[3] = session(EVIL, 3, LONG_AGO)
    assert given([*own, *others], EVIL) == (EVIL, 3)


@pytest.mark.parametrize("spare", [0, -1])
def test_bytes_of_one_sender_at_once_are_bounded(tmp_path, spare):
    receiver = Receiver(tmp_path / "root", n_follow=2 * MAX_PUSHES + 2)
    receiver.machine.store = Store(tmp_path / "root", recheck=False, max_bytes=200 + spare)
    for i in range(2):
        sent = Sent(tmp_path, 100, f"{i}.bin")
        sent.give(receiver, sent.manifest, FLOW + 2 * i)
    last = list(receiver.machine.sessions.values())[-1]
    for _ in range(100):
        receiver.machine.on_timer(0, receiver.send_up)
    if spare == 0:
        assert last.state == ReportState.READY
        return
    assert (last.state, last.error) == (ReportState.FAILED, ReportError.TOO_LARGE)
    assert last.text == "200 bytes of one sender at once, allowed 199 (--max-bytes)"


def test_an_idle_push_goes_where_a_new_one_of_its_sender_needs_its_bytes(tmp_path):
    receiver = Receiver(tmp_path / "root", n_follow=2 * MAX_PUSHES + 2)
    receiver.machine.store = Store(tmp_path / "root", recheck=False, max_bytes=199)
    for i in range(2):
        now = i * (quotas.QUIET_PS + 1)
        sent = Sent(tmp_path, 100, f"{i}.bin")
        sent.give(receiver, sent.manifest, FLOW + 2 * i, now)
        for _ in range(100):
            receiver.machine.on_timer(now, receiver.send_up)
    (left,) = receiver.machine.sessions.values()
    assert (left.flow, left.state) == (FLOW + 2, ReportState.READY)


def test_the_largest_manifest_that_is_not_whole_goes_first(receiver, monkeypatch):
    monkeypatch.setattr(receiving, "MAX_MANIFEST_BYTES", 4 * 32)
    for bfir, n in ((EVIL, 4), (HONEST, 1)):
        for block in range(n):
            for psn in range(N_PSN):
                receiver.take(packet(bfir, FLOW, block, psn))
    (left,) = receiver.machine.sessions.values()
    assert (left.bfir_id, left.state) == (HONEST, ReportState.UNKNOWN)
    assert np.flatnonzero(receiver.collect.follow["used"]).size == 1
