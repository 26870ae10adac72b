"""The receiving machine around the arrays that kernels fill: what it says, and how often."""

import numpy as np
import pytest
from kernel_nodes import BFIR, data, plain_node

from fanfold.core.flight import Shape
from fanfold.kernels import collect as c
from fanfold.kernels import due
from fanfold.kernels.codes import DROP_CORRUPT_CHUNK
from fanfold.push import hands, receiving
from fanfold.push import manifest as manifests
from fanfold.push.envelope import wrap
from fanfold.push.receiving import IDLE_PS, PushReceiver
from fanfold.push.session import Outside
from fanfold.push.source import build_manifest
from fanfold.push.store import Store
from fanfold.streams import stream
from fanfold.units import PS_PER_SECOND
from fanfold.wire.packet import parse
from fanfold.wire.report import ReportError, ReportState

MS = PS_PER_SECOND // 1000
STRIDE, N_PSN = 8, 4
NONCE = 99
FLOW = 6
LAST, POLL = 2, 1


class Receiver:
    """A PushReceiver whose packets come one by one."""

    def __init__(self, root, *, recheck=False, n_follow=4, gate=None, epochs=None):
        self.node = plain_node(folds=False)
        self.collect = c.build_collect(8, STRIDE * N_PSN, n_follow, 5_000 * n_follow)
        self.drops = self.node.counters.drops
        arrays = (self.collect, self.node.row, self.drops)
        store, outside = Store(root, recheck=recheck), Outside(gate=gate, epochs=epochs)
        self.machine = PushReceiver(1, 0x7F000001, *arrays, 1, store, outside)
        self.words = []

    def take(self, packet, now_ps=0):
        self.node.forward([packet], now_ps=now_ps)
        self.place(now_ps)
        kinds = self.collect.events[: self.collect.n_events[0], 0]
        if c.EVENT_UNKNOWN in kinds:
            self.collect.n_events[0] = 0
            if self.machine.on_unknown(now_ps, parse(packet), 1, lambda *_: None):
                self.place(now_ps)
        self.machine.on_events(now_ps, self.send_up)

    def place(self, now_ps):
        node = self.node
        n = len(node.block)
        where = 0, node.seg, n, 1
        c.collect_pass(node.block, *where, now_ps, node.plan, self.collect, self.drops)

    def send_up(self, session, packet):
        del session
        self.words.append(parse(packet.tobytes()).message)

    def run(self, now_ps, until_ps):
        """When it speaks by itself, until a time."""
        said = []
        while (now_ps := max(now_ps + 1, due.next_report(self.collect))) < until_ps:
            before = len(self.words)
            self.machine.on_timer(now_ps, self.send_up)
            if len(self.words) > before:
                said.append(now_ps)
        return said

    def block(self, n, flow=FLOW, *, is_last=False):
        for psn in range(N_PSN):
            flags = LAST * is_last + POLL * (psn == N_PSN - 1)
            self.take(manifest_packet(n, psn, flow=flow, flags=flags))


def manifest_packet(block, psn, **more):
    return data(1, block=block, psn=psn, stride=STRIDE, **{"flow": FLOW, "n_psn": N_PSN} | more)


@pytest.fixture
def receiver(tmp_path):
    return Receiver(tmp_path)


def test_gaps_that_nobody_fills_are_reported_less_and_less_often(receiver):
    receiver.take(manifest_packet(0, 0))
    receiver.take(manifest_packet(0, 3, flags=POLL))
    said = receiver.run(0, IDLE_PS)
    steps = np.diff(said)
    assert said[0] <= 20 * MS
    assert steps[0] == 60 * MS
    assert (np.diff(steps) >= 0).all()
    assert steps.max() == due.MAX_AGAIN_PS
    assert len(said) < 40


def test_a_repair_is_answered_at_once_however_long_nobody_filled_a_gap(receiver):
    receiver.take(manifest_packet(0, 0))
    receiver.take(manifest_packet(0, 3, flags=POLL))
    receiver.run(0, 10 * PS_PER_SECOND)
    now = 10 * PS_PER_SECOND
    receiver.take(manifest_packet(0, 1, flags=POLL), now)
    said = receiver.run(now, now + PS_PER_SECOND)
    assert said[0] <= now + 20 * MS
    assert said[1] - said[0] == 60 * MS
    assert [row.psn for row in receiver.words[-1].rows] == [2]


@pytest.mark.parametrize("most", [3 * 32, 3 * 32 - 1])
def test_a_manifest_is_kept_up_to_its_bound(receiver, monkeypatch, most):
    monkeypatch.setattr(receiving, "MAX_MANIFEST_BYTES", most)
    for n in range(3):
        receiver.block(n)
    (session,) = receiver.machine.sessions.values()
    if most == 3 * 32:
        assert (session.state, len(session.parts)) == (ReportState.UNKNOWN, 3)
        return
    assert (session.state, session.error) == (ReportState.FAILED, ReportError.TOO_LARGE)
    assert "95 bytes" in session.text
    receiver.block(3, is_last=True)
    assert session.parts == {}


def test_manifests_of_all_pushes_share_one_bound(receiver, monkeypatch):
    monkeypatch.setattr(receiving, "MAX_MANIFEST_BYTES", 100)
    for n in range(2):
        receiver.block(n)
        receiver.block(n, flow=FLOW + 2)
    states = [s.state for s in receiver.machine.sessions.values()]
    assert states == [ReportState.UNKNOWN, ReportState.FAILED]
    assert list(receiver.machine.sessions) == [(BFIR, FLOW), (BFIR, FLOW + 2)]


def test_a_forged_end_is_not_learnt_from_a_packet_that_is_refused(receiver):
    receiver.take(manifest_packet(4, 0))
    receiver.take(manifest_packet(4, 1, n_psn=3, flags=LAST))  # other size than its block
    receiver.take(manifest_packet(2, 0, flags=LAST))  # a later block was there before
    (session,) = receiver.machine.sessions.values()
    assert int(receiver.collect.follow[session.follow[0]]["n_blocks"]) == 0
    receiver.take(manifest_packet(5, 0, flags=LAST))
    assert int(receiver.collect.follow[session.follow[0]]["n_blocks"]) == 6


def test_a_row_that_changed_hands_claims_no_block(receiver):
    receiver.block(0)
    (session,) = receiver.machine.sessions.values()
    f = session.follow[0]
    assert len(receiver.words) == 1
    for block, n_words in ((0, 2), (1, 2), (4095, 2), (4096, 2), (2**32 - 1, 2)):
        receiver.collect.events[0] = c.EVENT_AGAIN, f, block
        receiver.collect.n_events[0] = 1
        receiver.machine.on_events(0, receiver.send_up)
        assert len(receiver.words) == n_words


class Sent:
    """A push of one file, its manifest first, as packets."""

    def __init__(self, folder, n_bytes=100, name="a.bin"):
        path = folder / name
        path.write_bytes(stream(1, "tests/file").bytes(n_bytes))
        self.data = path.read_bytes()
        made, reader = build_manifest(path, STRIDE, N_PSN)
        reader.close()
        encoded = manifests.encode(made)
        self.manifest = wrap(NONCE, encoded)

    def give(self, receiver, whole, flow, now_ps=0, bfir_id=BFIR):
        shape = Shape(len(whole), STRIDE, N_PSN)
        for n in range(shape.n_blocks):
            for psn in range(shape.psns(n)):
                at = n * shape.block_bytes + psn * STRIDE
                flags = LAST * (n == shape.n_blocks - 1) + POLL * (psn == shape.psns(n) - 1)
                more = {
                    "flags": flags,
                    "n_psn": shape.psns(n),
                    "flow": flow,
                    "bfir_id": bfir_id,
                }
                packet = manifest_packet(n, psn, payload=whole[at : at + STRIDE], **more)
                receiver.take(packet, now_ps)


def test_a_manifest_that_came_damaged_is_forgotten_so_that_it_is_sent_again(tmp_path):
    """A sum of 16 bits misses one damage of many; what is sent again fits, or is not taken."""
    sent, receiver = Sent(tmp_path), Receiver(tmp_path / "root")
    for at in (0, 40, len(sent.manifest) - 1):
        bent = bytearray(sent.manifest)
        bent[at] ^= 1
        sent.give(receiver, bytes(bent), FLOW)
        assert not receiver.machine.sessions
        assert not (receiver.collect.follow["used"] != 0).any()
    assert receiver.drops[DROP_CORRUPT_CHUNK] == 3
    sent.give(receiver, sent.manifest, FLOW)
    (session,) = receiver.machine.sessions.values()
    assert session.state in (ReportState.CHECKING, ReportState.READY)


@pytest.mark.parametrize("recheck", [False, True])
def test_a_node_answers_while_it_reads_back_what_it_got(tmp_path, monkeypatch, recheck):
    monkeypatch.setattr(receiving, "CHECK_BYTES", 4096)
    monkeypatch.setattr(hands, "TURN_BYTES", 4096)
    sent = Sent(tmp_path, 20_000)
    receiver = Receiver(tmp_path / "root", recheck=recheck)
    sent.give(receiver, sent.manifest, FLOW)
    (session,) = receiver.machine.sessions.values()
    while session.state == ReportState.CHECKING:
        receiver.machine.on_timer(0, receiver.send_up)
    assert session.state == ReportState.READY
    sent.give(receiver, sent.data, FLOW + 1)
    n_steps = 0
    cursors = []
    while session.state == ReportState.FINISHING:
        assert receiver.machine.deadline_ps(0) == 0
        cursors.append(receiver.machine.report_of(0, session).cursor)
        told = receiver.machine.on_timer(0, receiver.send_up)
        n_steps += 1
    assert session.state == ReportState.DONE
    assert (tmp_path / "root" / "a.bin").read_bytes() == sent.data
    assert told == [session]
    assert cursors == sorted(set(cursors))
    assert n_steps > (3 if recheck else 1)


def test_a_push_is_let_go_when_its_sender_is_quiet_and_not_when_the_node_was_stopped(receiver):
    receiver.block(0)
    live = receiver.machine.sessions
    for now in range(0, IDLE_PS + PS_PER_SECOND, PS_PER_SECOND):
        receiver.machine.on_timer(now, receiver.send_up)
        assert live
    receiver.machine.on_timer(IDLE_PS + PS_PER_SECOND, receiver.send_up)
    assert not live
    receiver.block(1)
    receiver.machine.on_timer(3 * IDLE_PS, receiver.send_up)  # it was stopped for a minute
    assert live
    receiver.machine.on_timer(3 * IDLE_PS + PS_PER_SECOND, receiver.send_up)
    assert not live


def test_words_leave_by_the_port_that_the_block_came_by(receiver):
    """Of several planes each has its own words, and another one may be dead."""
    receiver.take(manifest_packet(0, 0, flags=POLL))
    (session,) = receiver.machine.sessions.values()
    assert session.port == 1
    receiver.collect.blocks["port"] = 3
    assert receiver.run(0, 100 * MS)
    assert session.port == 3
    receiver.collect.follow["port"] = 2
    receiver.machine.on_events(0, receiver.send_up)
    receiver.collect.events[0], receiver.collect.n_events[0] = (c.EVENT_AGAIN, 0, 0), 1
    receiver.collect.have[:] = 1
    receiver.machine.on_events(0, receiver.send_up)
    assert session.port == 2
