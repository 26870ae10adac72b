"""A sender that dies, one that carries on, and the first one that comes back late."""

import json

import pytest
from blake3 import blake3
from kernel_nodes import BFIR
from seals_world import OTHER, Signed, gate_of, trusted
from test_push_receiving import FLOW, N_PSN, NONCE, STRIDE, Receiver, Sent
from test_push_sending import PROOF, Sender

from fanfold.core.effects import DropReason
from fanfold.errors import ConfigError, ExitCode, WireError
from fanfold.push import envelope as e
from fanfold.push import epochs as epochs_file
from fanfold.push import hands
from fanfold.push import manifest as manifests
from fanfold.push.epochs import TOP, Epochs, Holder, holder_told, title_of
from fanfold.push.peer import ABOVE_PS, State, found_newer, rival_of
from fanfold.push.receiving import REFUSED_PS
from fanfold.push.result import PushResult, ReceiverResult, TakenOver, require_complete
from fanfold.push.rivals import TAKE_OVER_PS
from fanfold.push.source import Wish, build_manifest
from fanfold.wire.report import ReportError, ReportState

H0, H5 = BFIR, 5
SOON = TAKE_OVER_PS // 2
LATER = 2 * TAKE_OVER_PS
BLOCK = STRIDE * N_PSN


class World:
    """A receiver, and senders of files to it."""

    def __init__(self, folder, epochs=None, gate=None):
        self.folder = folder
        self.receiver = Receiver(folder / "root", n_follow=16, epochs=epochs, gate=gate)
        self.machine = self.receiver.machine

    def whole(self, data, epoch, nonce=NONCE, *, name="a.bin", takes_over=False):
        """An envelope of a file."""
        path = self.folder / "source" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        made, reader = build_manifest(path, STRIDE, N_PSN)
        reader.close()
        return e.wrap(nonce, manifests.encode(made), epoch, takes_over)

    def begin(self, whole, bfir_id=H0, flow=FLOW, now=0):
        """Hand a manifest over; the session as it stands when nothing moves any more."""
        Sent.give(None, self.receiver, whole, flow, now, bfir_id)
        session = self.machine.sessions[bfir_id, flow]
        for _ in range(20):
            self.turn(now)
        return session

    def turn(self, now):
        self.machine.on_timer(now, self.receiver.send_up)

    def data(self, session, data, now=0):
        """Whole blocks of the data, from the first on."""
        flow, bfir_id = session.flow | 1, session.bfir_id
        Sent.give(None, self.receiver, data, flow, now, bfir_id)
        for _ in range(20):
            self.turn(now)

    def n_refused(self):
        return int(self.receiver.drops[list(DropReason).index(DropReason.STALE_EPOCH)])

    def landed(self, name="a.bin"):
        path = self.folder / "root" / name
        return path.read_bytes() if path.exists() else None


DATA = bytes(range(1, 201))
HALF = DATA[: 3 * BLOCK]


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def half_sent(world, epoch=10, now=0):
    """A push of h0 that reached its middle."""
    first = world.begin(world.whole(DATA, epoch), now=now)
    last = Holder(epoch, H0, NONCE)
    assert (first.state, first.holder) == (ReportState.READY, last)
    world.data(first, HALF, now)
    assert first.incoming.n_have == 2  # the last one of what came is no whole block
    return first


def held(session):
    """Its files are not put in place before what this returns is called."""
    steps, is_free = session.incoming.finish_steps, []

    def wait():
        while not is_free:
            yield hands.TURN_BYTES
        yield from steps()

    session.incoming.finish_steps = wait
    return lambda: is_free.append(True)


def told(world, session, now=0):
    report = world.machine.report_of(now, session)
    return report.state, report.error, holder_told(report.digest)


def test_a_second_sender_carries_on_where_a_silent_one_ended(world):
    first = half_sent(world)
    second = world.begin(world.whole(DATA, 11, 2), H5, now=LATER)
    assert (second.state, second.incoming.n_have) == (ReportState.READY, 2)
    assert told(world, first) == (ReportState.FAILED, ReportError.REFUSED, Holder(11, H5))
    assert "taken over by a newer push from BFR-id 5" in first.text
    assert world.n_refused() == 1
    world.data(second, DATA, LATER)
    assert second.state == ReportState.DONE
    assert world.landed() == DATA


def test_one_of_the_same_waits_for_one_that_is_alive_unless_it_takes_over(world):
    first = half_sent(world)
    waits = world.begin(world.whole(DATA, 11, 2), H5, now=SOON)
    assert (waits.state, "waits: BFR-id 9" in waits.text) == (ReportState.CHECKING, True)
    assert first.state == ReportState.READY
    at_once = world.begin(world.whole(DATA, 12, 3, takes_over=True), 7, now=SOON)
    assert (at_once.state, at_once.incoming.n_have) == (ReportState.READY, 2)
    assert told(world, first) == (ReportState.FAILED, ReportError.REFUSED, Holder(12, 7))
    world.turn(SOON + LATER)  # the one that waited is older than the one that took over
    assert told(world, waits) == (ReportState.FAILED, ReportError.REFUSED, Holder(12, 7))


def test_who_waited_ends_well_where_the_first_one_does(world):
    first = half_sent(world)
    waits = world.begin(world.whole(DATA, 11, 2), H5, now=SOON)
    world.data(first, DATA, SOON)
    for _ in range(20):
        world.turn(SOON)
    assert [first.state, waits.state] == [ReportState.DONE] * 2
    assert world.n_refused() == 0


def test_nobody_takes_over_from_one_that_puts_its_files_in_place(world):
    first = half_sent(world)
    go_on = held(first)
    world.data(first, DATA)
    assert first.state == ReportState.FINISHING
    waits = world.begin(world.whole(DATA, 11, 2, takes_over=True), H5, now=SOON)
    assert (first.state, waits.state) == (ReportState.FINISHING, ReportState.CHECKING)
    go_on()
    for _ in range(20):
        world.turn(SOON)
    assert [first.state, waits.state] == [ReportState.DONE] * 2


def test_a_late_first_sender_is_refused_for_ever_and_told_by_whom(world):
    half_sent(world)
    world.data(world.begin(world.whole(DATA, 11, 2), H5, now=LATER), DATA, LATER)
    now = LATER
    for _ in range(2):  # the refusal is forgotten after a second
        world.turn(now)
        now += 2 * REFUSED_PS
        world.turn(now)
    assert (H0, FLOW) not in world.machine.sessions
    late = world.begin(world.whole(DATA, 10), now=now)
    assert told(world, late) == (ReportState.FAILED, ReportError.REFUSED, Holder(11, H5))
    assert world.n_refused() == 2
    assert world.landed() == DATA


def test_an_older_push_of_other_content_is_never_put_in_place(world):
    old = world.begin(world.whole(b"old " * 50, 10))
    new = world.begin(world.whole(b"new " * 50, 11, 2), H5, FLOW + 2, SOON)
    assert told(world, old) == (ReportState.FAILED, ReportError.REFUSED, Holder(11, H5))
    world.data(new, b"new " * 50, SOON)
    world.data(old, b"old " * 50, SOON)
    assert world.landed() == b"new " * 50


def test_two_that_came_to_their_end_put_files_in_place_one_after_the_other(world):
    old = world.begin(world.whole(b"old " * 50, 10))
    go_on = held(old)
    world.data(old, b"old " * 50)
    new = world.begin(world.whole(b"new " * 50, 11, 2), H5, FLOW + 2, SOON)
    world.data(new, b"new " * 50, SOON)
    assert [old.state, new.state] == [ReportState.FINISHING] * 2
    assert (old.work is None, new.is_behind) == (False, True)
    go_on()
    for _ in range(20):
        world.turn(SOON)
    assert [old.state, new.state] == [ReportState.DONE] * 2
    assert world.landed() == b"new " * 50


def test_other_names_are_not_held_up(world):
    half_sent(world, epoch=50)
    other = world.begin(world.whole(DATA, 10, 2, name="b.bin"), H5, now=SOON)
    assert other.state == ReportState.READY


def test_epochs_outlive_the_receiver(tmp_path):
    path = tmp_path / "root/.fanfold" / epochs_file.EPOCHS_FILE
    world = World(tmp_path, Epochs(path))
    world.data(world.begin(world.whole(DATA, 11, 2), H5), DATA)
    again = World(tmp_path, Epochs(path))
    assert again.begin(again.whole(b"older", 10)).state == ReportState.FAILED
    assert again.n_refused() == 1
    same = again.begin(again.whole(DATA, 11, 2), H5, FLOW + 4)  # the very same goes on
    assert same.state == ReportState.DONE
    assert World(tmp_path).begin(again.whole(b"older", 10)).state == ReportState.READY


@pytest.mark.parametrize(("text", "is_sound"), [(b"", True), (b"{", False), (b"[1]", False)])
def test_a_damaged_file_of_epochs_is_named(tmp_path, text, is_sound):
    path = tmp_path / "epochs.json"
    path.write_bytes(text)
    if is_sound:  # a power cut between its name and its bytes
        assert Epochs(path).newest("a") == Holder(0)
        return
    with pytest.raises(ConfigError, match="can come back"):
        Epochs(path)


def test_a_sender_that_tells_no_epoch_is_below_all_that_tell_one(world):
    old = world.begin(world.whole(DATA, 0))
    assert (old.holder.epoch, old.state) == (0, ReportState.READY)
    new = world.begin(world.whole(b"new " * 50, 11, 2), H5, FLOW + 2, SOON)
    assert new.state == ReportState.READY
    assert old.state == ReportState.FAILED
    again = world.begin(world.whole(DATA, 0, 3), 7, FLOW + 4, SOON)
    assert (again.state, "tells no epoch" in again.text) == (ReportState.FAILED, True)


def test_two_of_one_epoch_are_not_one_push(world):
    half_sent(world, epoch=10)
    twin = world.begin(world.whole(DATA, 10, 2, takes_over=True), H5, now=LATER)
    assert told(world, twin) == (ReportState.FAILED, ReportError.REFUSED, Holder(10, H0))


def test_names_are_bounded_and_what_was_is_never_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(epochs_file, "MAX_TITLES", 2)
    path = tmp_path / "epochs.json"
    epochs = Epochs(path)
    for epoch, title in ((5, "a"), (7, "b"), (6, "c")):
        epochs.take(title, Holder(epoch, 1, 1))
    for found in (epochs, Epochs(path)):
        assert found.newest("b") == Holder(7, 1, 1)
        assert found.newest("a") == found.newest("never seen") == Holder(5)
        assert Holder(4, 1, 1).is_before(found.newest("a"))
        assert not Holder(5, 1, 1).is_before(found.newest("a"))
    assert sorted(json.loads(path.read_text())["titles"]) == ["b", "c"]


def test_the_name_that_a_push_takes(tmp_path):
    (tmp_path / "d").mkdir()
    for name in "xy":
        (tmp_path / "d" / name).write_bytes(b"1")

    def name(path, wish):
        made, reader = build_manifest(path, STRIDE, N_PSN, wish=wish)
        reader.close()
        return title_of(made)

    assert name(tmp_path / "d", Wish()) == "d"
    assert name(tmp_path / "d", Wish("runs/7")) == "runs/7"
    assert name(tmp_path / "d/x", Wish("models/x")) == "models/x"
    assert name(tmp_path / "d", Wish(".")) == "d/"


# Who may not push.


def drops_of(world):
    counted = world.receiver.drops
    words = {str(w): int(counted[i]) for i, w in enumerate(DropReason) if counted[i]}
    words.pop("unknown_flow", 0)
    return words


def test_an_epoch_of_who_may_not_push_takes_nothing(tmp_path):
    """By a stranger's key, without a key, and by changed octets of a true one."""
    world = World(tmp_path, gate=gate_of())
    true = Signed(tmp_path, FLOW, NONCE, epoch=10)
    first = world.begin(true.envelope)
    assert first.state == ReportState.READY
    forged = Signed(tmp_path, FLOW + 2, 2, epoch=99, keys=OTHER, takes_over=True).envelope
    assert world.begin(forged, H0, FLOW + 2).state == ReportState.FAILED
    open_one = world.whole(true.data, 99, 3, takes_over=True)
    assert world.begin(open_one, H0, FLOW + 4).state == ReportState.FAILED
    for flow, at, octet in ((12, 4, 1 | e.TAKES_OVER), (14, 4 + 4 + 64 + 7, 99)):
        good = Signed(tmp_path, flow, 4, epoch=11).envelope[32:]
        bent = good[:at] + bytes([octet]) + good[at + 1 :]  # its form, its epoch
        bent = blake3(bent).digest() + bent
        assert world.begin(bent, H0, flow).state == ReportState.FAILED
    assert drops_of(world) == {"not_trusted": 2, "bad_signature": 2}
    assert first.state == ReportState.READY
    assert world.machine.outside.epochs.newest("a.bin") == first.holder


def test_a_trusted_host_takes_over_from_another_one(tmp_path):
    gate = gate_of(trusted("h0"), trusted("h2", OTHER))
    world = World(tmp_path, gate=gate)
    first = world.begin(Signed(tmp_path, FLOW, NONCE, epoch=10).envelope)
    heir = Signed(tmp_path, FLOW, 2, epoch=11, keys=OTHER, takes_over=True, bfir_id=2)
    second = world.begin(heir.envelope, 2)
    assert (first.state, second.state) == (ReportState.FAILED, ReportState.READY)
    assert world.machine.report_of(0, first).mac != bytes(16)  # told so that it believes it


# The sender.


def test_a_sender_that_is_told_ends_with_a_code_of_its_own():
    sender = Sender()
    sender.has_manifest(0)
    sender.report(1, 1, ReportState.READY)
    refused = {"error": ReportError.REFUSED, "digest": Holder(11, 5).encode(), "body": b"x"}
    for bfr_id in (1, 2):
        sender.report(2, bfr_id, ReportState.FAILED, **refused)
    peers = sender.machine.peers.values()
    assert sender.machine.is_done()
    assert rival_of(peers) == Holder(11, 5)
    assert found_newer(peers, 0) is None  # one had let it in
    result = result_of("h5", ["failed", "verified"])
    with pytest.raises(TakenOver, match="taken over by h5; 1 of 2 were verified") as caught:
        require_complete(result)
    assert caught.value.exit_code == ExitCode.TAKEN_OVER == 5
    with pytest.raises(TakenOver, match="taken over by a newer push of h0"):
        require_complete(result_of("h0", ["failed"]))


def test_one_that_finds_a_newer_push_at_its_start_goes_above_it():
    sender = Sender()
    refused = {"error": ReportError.REFUSED, "digest": Holder(11, 5).encode()}
    sender.report(1, 1, ReportState.FAILED, **refused)
    peers = sender.machine.peers.values()
    assert found_newer(peers, ABOVE_PS) == Holder(11, 5)
    assert found_newer(peers, ABOVE_PS + 1) is None  # it stood still: it may be the late one


def test_other_failures_name_nobody_who_took_over():
    sender = Sender()
    sender.report(1, 1, ReportState.FAILED, error=ReportError.REFUSED, digest=bytes(32))
    more = {"error": ReportError.IO, "digest": PROOF.digest}
    sender.report(1, 2, ReportState.FAILED, **more)
    assert rival_of(sender.machine.peers.values()) is None


def test_what_a_receiver_had_before_is_told():
    sender = Sender(3)
    sender.has_manifest(0)
    sender.report(1, 1, ReportState.READY, n_have=2, body=b"\xc0")
    sender.report(2, 1, ReportState.READY, n_have=3, body=b"\xe0")
    sender.report(3, 2, ReportState.DONE)
    first, second = sender.peer(1), sender.peer(2)
    assert (sender.machine.kept(first), sender.machine.kept(second)) == (2, 3)
    assert second.state == State.VERIFIED


def result_of(heir, states):
    receivers = [
        ReceiverResult(f"h{i + 1}", s, "", 0.0, "", False) for i, s in enumerate(states)
    ]
    rest = {}, {}, 0, {}, [], [], 0.0
    numbers = 2, 1, 1, 3.0, 0.5, 16
    return PushResult("x", "h0", *numbers, receivers, [], *rest, taken_over_by=heir)


# The wire.


def test_an_open_envelope_with_an_epoch_is_the_layout_of_its_page():
    for takes_over, form in ((False, "03"), (True, "07")):
        whole = e.wrap(0x63, b"manifest", 0x0102030405060708, takes_over)
        rest = bytes.fromhex(f"00000063 {form} 000000 0102030405060708") + b"manifest"
        assert whole == blake3(rest).digest() + rest
        found = e.unwrap(whole)
        assert found == e.Envelope(
            0x63, e.OPEN, b"manifest", epoch=0x0102030405060708, takes_over=takes_over
        )
    plain = bytes.fromhex("00000063 00 000000") + b"manifest"
    assert e.wrap(0x63, b"manifest") == blake3(plain).digest() + plain
    assert e.unwrap(e.wrap(0x63, b"manifest")).epoch == 0  # it has none: 0


@pytest.mark.parametrize(
    "rest",
    [
        "00000063 03 000000 01020304050607",
        "00000063 03 000000 0000000000000000",
        f"00000063 03 000000 {TOP + 1:016x}",
        "00000063 04 000000 0102030405060708",
        "00000063 08 000000 0102030405060708",
        "00000063 0b 000000 0102030405060708",
    ],
)
def test_an_epoch_that_is_none_is_refused(rest):
    octets = bytes.fromhex(rest)
    with pytest.raises(WireError):
        e.unwrap(blake3(octets).digest() + octets)


def test_who_took_over_is_told_in_place_of_a_digest():
    assert (
        Holder(0x0102030405060708, 0x090A).encode().hex() == "0102030405060708090a" + "00" * 22
    )
    assert holder_told(bytes(32)) is None
