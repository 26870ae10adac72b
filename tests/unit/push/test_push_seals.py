"""Whose pushes a receiver with a trust file takes; each attack by what its actor has."""

import msgspec
import pytest
from blake3 import blake3
from kernel_nodes import BFIR
from seals_world import NAMES, OTHER, RECEIVER, SENDER, Signed, gate_of, trusted
from test_push_receiving import FLOW, NONCE, Receiver, Sent
from test_push_sending import PROOF, Sender, fill_and_send

from fanfold.core.effects import DropReason
from fanfold.errors import ConfigError, FanfoldError, WireError
from fanfold.push import envelope as e
from fanfold.push import manifest as manifests
from fanfold.push import placed as placed_file
from fanfold.push.author import Author
from fanfold.push.gate import Gate, open_manifest
from fanfold.push.peer import State
from fanfold.push.placed import Placed
from fanfold.push.receiving import REFUSED_PS
from fanfold.push.store import StoreError
from fanfold.seals.primitives import sign
from fanfold.seals.trust import Seals
from fanfold.units import PS_PER_SECOND
from fanfold.wire.close import Close, CloseReason
from fanfold.wire.report import NO_MAC, Report, ReportError, ReportState

WORD_FIELDS = ("state", "bfr_id", "flow", "n_have", "digest", "mac", "body")


class World:
    """A receiver of keys, and what it says of a push."""

    def __init__(self, folder, gate=None):
        self.folder, self.receiver = folder, Receiver(folder / "root", gate=gate or gate_of())
        self.give = Sent.give

    def drops(self):
        counted = self.receiver.drops
        words = {str(w): int(counted[i]) for i, w in enumerate(DropReason) if counted[i]}
        words.pop("unknown_flow", 0)  # the first packet of each flow, looked at again at once
        return words

    def begin(self, whole, flow=FLOW, now=0):
        """Hand a manifest over; the session."""
        self.give(None, self.receiver, whole, flow, now)
        session = self.receiver.machine.sessions[BFIR, flow]
        while session.state == ReportState.CHECKING:
            self.receiver.machine.on_timer(now, self.receiver.send_up)
        return session

    def finish(self, session, stream, now=0):
        self.give(None, self.receiver, stream, session.flow | 1, now)
        while session.state == ReportState.FINISHING:
            self.receiver.machine.on_timer(now, self.receiver.send_up)
        return session

    def report(self, session, now=0):
        return self.receiver.machine.report_of(now, session)

    def landed(self, name="a.bin"):
        path = self.folder / "root" / name
        return path.read_bytes() if path.exists() else None


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


@pytest.fixture
def make(tmp_path):
    def build(flow=FLOW, nonce=NONCE, **more):
        return Signed(tmp_path, flow, nonce, **more)

    return build


def refused(session, text):
    state = session.state, session.error
    return state == (ReportState.FAILED, ReportError.REFUSED) and text in session.text


@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_push_of_a_trusted_key_arrives_and_its_end_carries_the_mac(world, make, is_sealed):
    sent = make(is_sealed=is_sealed)
    session = world.finish(world.begin(sent.envelope), sent.stream)
    assert session.state == ReportState.DONE
    assert world.landed() == sent.data
    report = world.report(session)
    assert sent.author.is_from(report)
    digest = sent.manifest.entries[0].blake3
    cipher = sent.author.cipher
    assert report.digest == (cipher.hide(digest) if cipher else digest)
    assert world.drops() == {}


def test_nothing_of_a_sealed_push_can_be_read_on_the_way(world, make):
    sent = make(
        is_sealed=True, data=b"the secret words of a model" * 20, name="secret-name.bin"
    )
    session = world.finish(world.begin(sent.envelope), sent.stream)
    assert world.landed("secret-name.bin") == sent.data
    whole = sent.envelope + sent.stream
    for secret in (b"secret", b"words", sent.manifest.chunks[:32], session.incoming.key):
        assert secret not in whole
    assert sent.manifest.entries[0].blake3 not in (*whole, world.report(session).digest)
    assert len(sent.stream) == len(sent.data) + 16 * -(-len(sent.data) // 16)


@pytest.mark.parametrize(
    "field", ["state", "bfr_id", "flow", "n_have", "digest", "mac", "body"]
)
def test_a_word_that_was_changed_on_the_way_is_of_nobody(world, make, field):
    sent = make()
    report = world.report(world.begin(sent.envelope))
    assert sent.author.is_from(report)
    other = {"state": ReportState.READY, "digest": b"\1" * 32, "mac": NO_MAC, "body": b"\xff"}
    was = getattr(report, field)
    changed = other.get(field, 7)
    if changed == was:
        changed = ReportState.DONE
    assert not sent.author.is_from(msgspec.structs.replace(report, **{field: changed}))


def test_an_insider_cannot_say_the_end_of_another_receiver(make):
    """h2 has the manifest, so flow, nonce and digest; and its own keys, not those of h1."""
    sent = make()
    digest = sent.manifest.entries[0].blake3
    word = Report(ReportState.DONE, 1, FLOW, nonce=NONCE, digest=digest)
    assert not sent.author.is_from(word)
    signed = gate_of(keys=OTHER).vouched(word, BFIR, None)
    assert signed.mac != NO_MAC
    assert not sent.author.is_from(signed)
    assert sent.author.is_from(gate_of().vouched(word, BFIR, None))


def test_a_push_that_is_not_signed_is_refused_and_one_that_is_comes_through(world, make):
    """A downgrade: the true manifest, flow and nonce, its signature left out."""
    sent = make()
    plain = e.wrap(NONCE, e.unwrap(sent.envelope).body)
    session = world.begin(plain)
    assert refused(session, "not signed")
    assert world.report(session).mac == NO_MAC  # or a forger could end the true push by it
    assert world.drops() == {"not_trusted": 1}
    forget(world)
    assert world.finish(world.begin(sent.envelope), sent.stream).state == ReportState.DONE


def forget(world, now=0):
    for step in (0, REFUSED_PS):
        world.receiver.machine.on_timer(now + step, world.receiver.send_up)
    assert world.receiver.machine.sessions == {}


def test_the_signature_of_an_unknown_key_is_refused_and_its_owner_told(world, make):
    sent = make(keys=OTHER)
    session = world.begin(sent.envelope)
    assert refused(session, f"signature of an unknown key {OTHER.public.short}")
    assert sent.author.is_from(world.report(session))
    assert not make().author.is_from(world.report(session))  # says nothing to h0
    assert world.drops() == {"not_trusted": 1}


def test_a_key_signs_for_its_own_node_only(tmp_path, make):
    """A mix-up of keys, or an insider: h2's key is trusted, and signs in the name of h0."""
    world = World(tmp_path, gate_of(trusted(), trusted("h2", OTHER)))
    session = world.begin(make(keys=OTHER).envelope)
    assert refused(session, "the key of h2 signs for h0")
    assert world.drops() == {"not_trusted": 1}


def test_a_key_that_is_trusted_for_words_only_may_not_push(tmp_path, make):
    world = World(tmp_path, gate_of(trusted(is_sender=False)))
    assert refused(world.begin(make().envelope), "h0 may not push here")


def test_every_changed_bit_of_an_envelope_is_refused(make):
    whole, gate = make(is_sealed=True).envelope, gate_of()
    body = whole[32:]
    for i in range(len(body)):
        bent = bytearray(body)
        bent[i] ^= 1 << i % 8
        whole = blake3(bent).digest() + bent
        with pytest.raises(FanfoldError) as caught:
            gate.admit(e.unwrap(bytes(whole)), FLOW, BFIR)
        code = getattr(caught.value, "code", ReportError.REFUSED)
        assert code == ReportError.REFUSED


def test_what_is_signed_for_one_push_is_refused_in_another(world, make):
    """A recorded manifest under another flow, nonce or sender; and each told as forged."""
    sent, gate = make(), gate_of()
    found = e.unwrap(sent.envelope)
    assert gate.admit(found, FLOW, BFIR).signer == SENDER.public
    moved = [(found, FLOW + 2, BFIR), (found, FLOW, 2)]
    for change in ({"nonce": NONCE + 1}, {"epoch": found.epoch + 1}, {"form": e.SEALED}):
        moved.append((msgspec.structs.replace(found, **change), FLOW, BFIR))
    for each in moved:
        with pytest.raises(StoreError, match="signature is wrong"):
            gate.admit(*each)
    session = world.begin(sent.envelope, FLOW + 2)
    assert refused(session, "signature is wrong")
    assert world.drops() == {"bad_signature": 1}
    assert world.report(session).mac == NO_MAC


def test_garbage_in_the_name_of_a_trusted_sender_ends_no_push_of_it(world, make):
    sent = make()
    session = world.begin(b"x" * 200)
    assert refused(session, "digest")
    assert not sent.author.is_from(world.report(session))
    forget(world)
    assert world.finish(world.begin(sent.envelope), sent.stream).state == ReportState.DONE
    assert world.drops() == {"bad_signature": 1}


def test_a_replay_of_a_recorded_push_is_refused(world, make):
    sent = make()
    world.finish(world.begin(sent.envelope), sent.stream)
    world.receiver.machine.close_all()
    session = world.begin(sent.envelope)
    assert refused(session, "a replay")
    assert world.drops() == {"replayed": 1}


def test_an_older_push_never_takes_the_place_of_a_newer_one(tmp_path, make):
    """The old one was recorded elsewhere: this receiver has never seen it."""
    path = tmp_path / "placed.json"
    world = World(tmp_path, gate_of(path=path))
    old, new = make(nonce=1, data=b"old " * 9), make(FLOW + 2, 2, data=b"new " * 9)
    world.finish(world.begin(new.envelope, FLOW + 2), new.stream)
    assert refused(world.begin(old.envelope), "a replay")
    again = World(tmp_path, gate_of(path=path))  # the node was started anew
    assert refused(again.begin(old.envelope), "a replay")
    assert again.landed() == new.data


def test_an_older_push_that_waited_is_refused_at_its_end(world, make):
    """An attacker keeps a half push alive until a newer one is in place."""
    old, new = make(nonce=1, data=b"old " * 9), make(FLOW + 2, 2, data=b"new " * 9)
    waits = world.begin(old.envelope)
    assert waits.state == ReportState.READY
    world.finish(world.begin(new.envelope, FLOW + 2), new.stream)
    assert refused(world.finish(waits, old.stream), "taken over by a newer push")
    assert world.drops() == {"stale_epoch": 1}
    assert world.landed() == new.data


def test_an_older_push_of_a_place_below_is_refused_at_its_end(world, make, tmp_path):
    """Its name is another one, so that only what stands there tells."""
    (tmp_path / "source/d").mkdir(parents=True)
    below = make(nonce=1, data=b"old " * 9, wish_name="d/a.bin")
    new = make(FLOW + 2, 2, data=b"new " * 9, wish_name="d")
    waits = world.begin(below.envelope)
    assert waits.state == ReportState.READY
    world.finish(world.begin(new.envelope, FLOW + 2), new.stream)
    assert refused(world.finish(waits, below.stream), "a replay")
    assert world.landed("d") == new.data


def test_who_ended_after_it_put_all_in_place_says_so_when_it_is_asked_again(tmp_path, make):
    """A crash between the last rename and the word of it: the manifest comes again."""
    path, sent = tmp_path / "placed.json", make()
    world = World(tmp_path, gate_of(path=path))
    world.finish(world.begin(sent.envelope), sent.stream)
    again = World(tmp_path, gate_of(path=path))
    session = again.finish(again.begin(sent.envelope), b"")
    assert session.state == ReportState.DONE
    assert sent.author.is_from(again.report(session))
    again.receiver.machine.close_all()
    assert refused(again.begin(sent.envelope), "a replay")  # once is enough
    assert again.landed() == sent.data
    assert [p.name for p in (tmp_path / "root").iterdir()] == ["a.bin"]


def test_no_byte_of_a_push_is_taken_twice(tmp_path, make):
    path, sent = tmp_path / "placed.json", make()
    world = World(tmp_path, gate_of(path=path))
    world.finish(world.begin(sent.envelope), sent.stream)
    (tmp_path / "root" / "a.bin").write_bytes(b"changed since")
    again = World(tmp_path, gate_of(path=path))
    assert refused(again.begin(sent.envelope), "changed since")
    assert again.drops() == {"replayed": 1}
    assert again.landed() == b"changed since"


def test_other_places_are_not_held_up_by_a_newer_push(world, make):
    older, newer = make(nonce=1, name="b.bin"), make(FLOW + 2, 2)
    world.finish(world.begin(newer.envelope, FLOW + 2), newer.stream)
    assert world.finish(world.begin(older.envelope), older.stream).state == ReportState.DONE


def test_places_are_bounded_and_what_was_is_never_forgotten(tmp_path, make, monkeypatch):
    monkeypatch.setattr(placed_file, "MAX_PLACES", 2)
    placed = Placed(tmp_path / "placed.json")
    pushes = [make(nonce=n + 1, name=f"{n}.bin").manifest for n in range(6)]
    for epoch, manifest in enumerate(pushes):
        placed.note(SENDER.public, manifest, 10 + epoch)
    for epoch, manifest in enumerate(pushes):
        assert placed.is_stale(SENDER.public, manifest, 10 + epoch)
        assert not placed.is_stale(OTHER.public, manifest, 0)
    assert not placed.is_stale(SENDER.public, pushes[5], 16)
    (tmp_path / "placed.json").write_text("{")
    with pytest.raises(ConfigError, match="replayed"):
        Placed(tmp_path / "placed.json")


@pytest.mark.parametrize(
    ("may", "text"),
    [({"prefix": "models"}, "'a.bin' is not below 'models'"), ({"max_bytes": 99}, "write 99")],
)
def test_a_key_writes_only_where_and_as_much_as_it_may(tmp_path, make, may, text):
    world = World(tmp_path, gate_of(trusted(**may)))
    sent = make()
    session = world.begin(sent.envelope)
    assert refused(session, text)
    assert sent.author.is_from(world.report(session))
    assert world.drops() == {"not_trusted": 1}


def test_a_key_writes_below_its_prefix_and_up_to_its_quota(tmp_path, make):
    world = World(tmp_path, gate_of(trusted(prefix="a.bin", max_bytes=100, label="lab")))
    sent = make()
    assert len(sent.data) == 100
    assert world.finish(world.begin(sent.envelope), sent.stream).state == ReportState.DONE


def test_content_that_was_replaced_is_asked_for_again(world, make):
    """Data has no signature of its own: its hashes are in the manifest that has one."""
    sent = make()
    session = world.begin(sent.envelope)
    world.finish(session, b"X" + sent.stream[1:])
    assert session.state == ReportState.READY
    assert world.drops()["corrupt_chunk"] == 1
    assert world.landed() is None


@pytest.mark.parametrize("reason", list(CloseReason))
def test_a_forged_farewell_ends_no_signed_push(world, make, reason):
    sent = make()
    session = world.begin(sent.envelope)
    forgeries = [Close(FLOW, reason), Close(FLOW, reason, NONCE)]
    other = make(nonce=NONCE + 1).author.signed(Close(FLOW, reason))
    true = sent.author.signed(Close(FLOW, reason))
    forgeries += [other, msgspec.structs.replace(true, reason=(reason + 1) % 3)]
    forgeries.append(make(keys=OTHER).author.signed(Close(FLOW, reason)))
    packet = type("Packet", (), {"header": type("Header", (), {"bfir_id": BFIR})})
    for forged in forgeries:
        world.receiver.machine.on_close(packet, forged)
    assert world.receiver.machine.sessions == {(BFIR, FLOW): session}
    assert world.drops() == {"bad_signature": len(forgeries)}
    world.receiver.machine.on_close(packet, true)
    assert world.receiver.machine.sessions == {}


def test_a_sealed_push_opens_for_those_it_was_sealed_for(tmp_path, make):
    sent = make(is_sealed=True)
    found = e.unwrap(sent.envelope)
    with pytest.raises(StoreError, match="not for this key"):
        gate_of(keys=OTHER).admit(found, FLOW, BFIR)
    with pytest.raises(StoreError, match="no keys"):
        gate_of(keys=None).admit(found, FLOW, BFIR)
    with pytest.raises(StoreError, match="not for this key"):
        gate_of(bfr_id=2).admit(found, FLOW, BFIR)
    assert gate_of().admit(found, FLOW, BFIR).cipher is not None


def test_a_manifest_cannot_say_sealed_where_it_is_not(world, make):
    """Blocks of the length of sealed ones, in the clear: no byte of them is taken."""
    sealed = make(is_sealed=True)
    keys = Seals(SENDER, {"h1": (trusted("h1", RECEIVER),)})
    author = Author(keys, {"h1": 1}, FLOW, NONCE, BFIR)
    session = world.begin(author.envelope(manifests.encode(sealed.manifest)))
    assert (session.state, session.error) == (ReportState.FAILED, ReportError.BAD_MANIFEST)


def test_a_receiver_without_a_trust_file_takes_what_comes(tmp_path, make):
    """The open mode, as it always was: signed or not, by whomever."""
    world = World(tmp_path, Gate(1, RECEIVER, None, NAMES.get))
    signed, plain = make(keys=OTHER), Sent(tmp_path, name="b.bin")
    assert world.finish(world.begin(signed.envelope), signed.stream).state == ReportState.DONE
    session = world.finish(world.begin(plain.manifest, FLOW + 2), plain.data)
    assert session.state == ReportState.DONE
    assert world.report(session).mac == NO_MAC
    assert world.drops() == {}


def test_receivers_whose_keys_are_not_known_are_named_before_anything_is_sent(make):
    seals = Seals(SENDER, {"h1": (trusted("h1", RECEIVER),)})
    with pytest.raises(ConfigError, match="--to: got 'no key of h2, h3'"):
        Author(seals, {"h1": 1, "h2": 2, "h3": 3}, FLOW, NONCE, BFIR)


def test_a_receiver_that_changes_its_key_is_believed_with_either(make):
    old, new = gate_of(keys=RECEIVER), gate_of(keys=OTHER)
    both = {"h1": (trusted("h1", RECEIVER), trusted("h1", OTHER))}
    author = Author(Seals(SENDER, both, is_sealed=True), {"h1": 1}, FLOW, NONCE, BFIR)
    found = e.unwrap(author.envelope(b"manifest"))
    for gate in (old, new):
        assert open_manifest(gate.admit(found, FLOW, BFIR), found, FLOW) == b"manifest"
        assert author.is_from(gate.vouched(Report(1, 1, FLOW, nonce=NONCE), BFIR, None))


def test_the_envelope_is_the_layout_of_its_page(make, monkeypatch):
    """docs/wire/envelope.md sections 1 and 2, by hand."""
    monkeypatch.setattr("fanfold.push.author.unix_ns", lambda: 0x0102030405060708)
    sent = make()
    encoded = manifests.encode(sent.manifest)
    key = SENDER.public
    bound = b"fanfold manifest 1" + bytes.fromhex("01 00000006 00000063 0009 0102030405060708")
    bound += key.agreement + blake3(encoded).digest()
    head = bytes.fromhex("00000063 01 000000") + key.signing + key.agreement
    head += bytes.fromhex("0102030405060708") + sign(SENDER.signing, bound)
    assert sent.envelope == blake3(head + encoded).digest() + head + encoded
    sealed = e.unwrap(make(is_sealed=True).envelope)
    assert sealed.sealed[:6].hex() == "00000001" + "0001"
    assert len(sealed.sealed) == 4 + 2 + 80
    close = sent.author.signed(Close(FLOW, CloseReason.GONE))
    bound = b"fanfold close 1" + bytes.fromhex("02 00000006 00000063 0009")
    assert (close.nonce, close.signature) == (NONCE, sign(SENDER.signing, bound))


@pytest.mark.parametrize("is_sealed", [False, True])
def test_an_envelope_cut_at_any_length_is_refused(make, is_sealed):
    body = make(is_sealed=is_sealed).envelope[32:]
    n_head = e.SIGNATURE_END - 32 + (86 if is_sealed else 0)
    for n in range(n_head):
        cut = body[:n]
        with pytest.raises(WireError):
            e.unwrap(blake3(cut).digest() + cut)
    for more in (b"\0\0\1", b"\1\0\0"):
        bent = body[:5] + more + body[8:]
        with pytest.raises(WireError):
            e.unwrap(blake3(bent).digest() + bent)


def test_a_word_without_the_mac_never_makes_a_push_say_verified():
    """The sending machine: an end by whoever knows flow, nonce and digest."""
    sender = Sender()
    known = Report(ReportState.DONE, 1, FLOW, nonce=PROOF.nonce, digest=PROOF.digest)
    true = msgspec.structs.replace(known, mac=b"\7" * 16)
    is_from = {known: False, true: True}.__getitem__
    sender.machine.proof = msgspec.structs.replace(PROOF, is_from=is_from, shown=b"\5" * 32)
    assert not sender.machine.on_report(0, known, [])
    assert (sender.peer(1).state, sender.machine.n_forged) == (State.WAITING, 1)
    assert sender.machine.on_report(0, true, [])
    assert (sender.peer(1).state, sender.peer(1).digest) == (State.VERIFIED, b"\5" * 32)


def test_one_that_answers_without_the_mac_of_its_key_is_named_so():
    sender = Sender()
    sender.machine.proof = msgspec.structs.replace(PROOF, is_from=lambda report: False)
    fill_and_send(sender, 0)
    sender.has_manifest(0)
    end = sender.run(0, 60 * PS_PER_SECOND, lambda now: sender.report(now, 1, 1))
    assert end < 40 * PS_PER_SECOND
    assert "words without the MAC of its key" in sender.peer(1).error
    assert "MAC" not in sender.peer(2).error
