"""Receipts: who can make one, what of it can be changed, and for which push it stands."""

import json

import msgspec
import pytest
from kernel_nodes import BFIR
from seals_world import NAMES, OTHER, RECEIVER, SENDER, Signed, gate_of, trusted
from test_push_receiving import FLOW, NONCE
from test_push_seals import World

from fanfold.api.one_push import Order, _receipts_of
from fanfold.api.receipts import check_receipts
from fanfold.errors import ConfigError
from fanfold.live.ports import Limits, build_node_state
from fanfold.push.attesting import AllowList, Verdict, challenge_of, software_digest
from fanfold.push.gate import Gate
from fanfold.push.manifest import whole_digest
from fanfold.push.peer import Peer, State
from fanfold.push.receipts import (
    Desk,
    ReceiptRole,
    Receipts,
    keep,
    opened_of,
    require_folder,
    sealed_for,
)
from fanfold.push.receiver_role import ReceiverRole
from fanfold.push.result import PushResult, ReceiverResult
from fanfold.push.store import Store
from fanfold.seals.pairs import PairContext, PairKeys
from fanfold.seals.receipts import Facts, ReceiptError, decode, encode, read_given, verify
from fanfold.seals.trust import TrustRow, save_trust
from fanfold.topo.fabric import Node
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.wire.ask import WHAT_RECEIPT, Ask
from fanfold.wire.bier import BierHeader
from fanfold.wire.bitstring import bift_id
from fanfold.wire.inner import GROUP_ADDRESS
from fanfold.wire.packet import Packet, build, parse
from fanfold.wire.report import Report, ReportState

SOFTWARE = bytes(range(32))
LABELS = (("owner", "x"), ("region", "eu"))
CONTEXT = PairContext(FLOW, NONCE, BFIR, 1)
TRUST = {"h1": (trusted("h1", RECEIVER),), "h2": (trusted("h2", OTHER),)}


class Ended:
    """A push that one receiver has, and what it gives for it."""

    def __init__(self, folder, **more):
        self.world = World(folder, gate_of())
        self.push = Signed(folder, FLOW, NONCE, **more)
        session = self.world.begin(self.push.envelope)
        self.session = self.world.finish(session, self.push.stream)
        assert self.session.state == ReportState.DONE
        self.gate = self.world.receiver.machine.outside.gate
        self.desk = Desk("h1", 1, self.gate, NAMES.__getitem__, LABELS, lambda: SOFTWARE)
        manifest = self.push.manifest
        what = manifest.name, manifest.total_bytes, whole_digest(manifest), FLOW, NONCE
        self.facts = Facts("h0", BFIR, SENDER.public, *what)

    def report(self, body, **changes):
        bare = self.world.receiver.machine.report_of(0, self.session)
        changed = msgspec.structs.replace(bare, body=body, **changes)
        return self.gate.vouched(changed, BFIR, self.session.grant)


class Loop:
    """What a ``ReceiptRole`` needs of a sender's role."""

    def __init__(self):
        self.event_loop = self.node = self.counters = self
        self.drops, self.asked = [0] * 99, []


@pytest.fixture(params=[False, True], ids=["signed", "sealed"])
def ended(tmp_path, request):
    return Ended(tmp_path, is_sealed=request.param)


def asking(ended, facts=None):
    author = ended.push.author
    author.trust = TRUST
    return ReceiptRole(Loop(), author, facts or ended.facts, {1: "h1"})


def hear(role, report):
    head = type("Head", (), {"bfir_id": report.bfr_id})()
    role.on_packet(0, Packet(head, None, report, b""), 1)
    return role


def receipt(ended):
    return hear(asking(ended), ended.report(ended.desk.body(ended.session))).found[1]


def test_a_receipt_says_what_when_from_whom_and_where(ended):
    one = receipt(ended)
    assert (one.receiver, one.sender, one.bfir_id, one.bfr_id) == ("h1", "h0", BFIR, 1)
    assert (one.name, one.n_bytes) == ("a.bin", len(ended.push.data))
    assert one.digest == whole_digest(ended.push.manifest).hex()
    assert (one.flow, one.nonce, one.labels) == (FLOW, NONCE, LABELS)
    assert one.software == SOFTWARE.hex()
    assert one.at_ns > 1_700_000_000 * 10**9
    verify(decode(encode(one)), TRUST)


def test_it_is_the_same_however_often_one_asks(ended):
    assert ended.desk.body(ended.session) == ended.desk.body(ended.session)


def test_nobody_on_the_way_reads_it(ended):
    body = ended.desk.body(ended.session)
    assert b"region" not in body
    for keys, is_sender in ((OTHER, True), (OTHER, False)):
        with pytest.raises(ReceiptError, match="not sealed for this push"):
            opened_of(PairKeys(keys, is_sender=is_sender), RECEIVER.public, CONTEXT, body)


def test_one_of_another_push_is_refused_when_it_is_played_again(ended):
    body = ended.desk.body(ended.session)
    role = hear(asking(ended, ended.facts._replace(nonce=NONCE + 1)), ended.report(body))
    assert role.found == {}
    assert "replayed or forged" in role.refused[1]
    assert sum(role._role.drops) == 1


@pytest.mark.parametrize("at", [0, 12, 40, -1])
def test_a_changed_body_is_refused(ended, at):
    body = bytearray(ended.desk.body(ended.session))
    body[at] ^= 1
    role = hear(asking(ended), ended.report(bytes(body)))
    assert role.found == {}
    assert role.lacking()[1].startswith("replayed or forged")


def test_a_word_of_who_is_not_the_receiver_is_dropped(ended):
    report = ended.report(ended.desk.body(ended.session))
    role = hear(asking(ended), msgspec.structs.replace(report, mac=bytes(16)))
    assert role.found == role.refused == {}
    assert sum(role._role.drops) == 1
    assert role.lacking() == {1: "gave none"}


def test_an_insider_signs_in_no_others_name(ended):
    """h2 has keys of its own, and knows all of the push: its signature is not h1's."""
    desk = Desk("h1", 1, Gate(1, OTHER, {}), NAMES.__getitem__)
    body = desk.body(ended.session)
    plain = opened_of(PairKeys(SENDER, is_sender=True), OTHER.public, CONTEXT, body)
    again = sealed_for(PairKeys(RECEIVER, is_sender=False), SENDER.public, CONTEXT, plain)
    role = hear(asking(ended), ended.report(again))
    assert role.found == {}
    assert role.refused[1] == "changed after it was signed, or never was"


@pytest.mark.parametrize("plain", [b"", b"\x00", b"\x95\x00\xc0\xc4\x00\xc4\x00\xc4\x00"])
def test_what_is_no_receipt_is_malformed(plain):
    with pytest.raises(ReceiptError, match="malformed"):
        read_given(plain)


def test_a_node_without_keys_and_an_open_push_give_none(tmp_path, ended):
    bare = Desk("h1", 1, Gate(1), NAMES.__getitem__)
    assert bare.body(ended.session) == b""
    ended.session.grant = None
    assert ended.desk.body(ended.session) == b""


def test_a_report_that_is_not_done_or_has_no_body_is_none(ended):
    role = asking(ended)
    hear(role, ended.report(b""))
    hear(role, Report(ReportState.READY, 1, FLOW, nonce=NONCE, body=b"x"))
    assert role.found == role.refused == {}


@pytest.fixture
def files(tmp_path, ended):
    """A receipt and a trust file on disk, and the JSON of the push."""
    path = keep(tmp_path, receipt(ended))
    rows = [TrustRow("h1", RECEIVER.public.text), TrustRow("h2", OTHER.public.text)]
    save_trust(tmp_path / "trusted.toml", rows)
    told = {"flow": FLOW, "receivers": [{"id": "h1", "blake3": ended.facts.digest.hex()}]}
    (tmp_path / "push.json").write_text(json.dumps(told))
    return path, tmp_path / "trusted.toml", tmp_path / "push.json"


def said(path, trust, push=None):
    (row,) = check_receipts([path], trust, push)
    return row["said"]


def test_a_file_is_checked_without_a_network(files):
    path, trust, push = files
    (row,) = check_receipts([path], trust, push)
    assert row["is_good"]
    assert row["said"].startswith("h1 (owner=x, region=eu) has 'a.bin', ")
    assert ", from h0, 20" in row["said"]


def test_every_changed_field_of_a_file_is_found(files):
    path, trust, _ = files
    whole = json.loads(path.read_text())
    other = {str: "h9", list: [["region", "us"]]}
    for field, value in whole.items():
        changed = value + 1 if isinstance(value, int) else other[type(value)]
        if field in ("digest", "software", "signature"):
            changed = value[:-2] + ("00" if value[-2:] != "00" else "01")
        if field == "quote":
            changed = "00"
        path.write_text(json.dumps(whole | {field: changed}))
        assert said(path, trust).startswith("refused: "), field


def test_forged_files_are_named(files, tmp_path):
    path, trust, _ = files
    whole = json.loads(path.read_text())
    path.write_text(json.dumps(whole | {"key": OTHER.public.text}))
    assert said(path, trust) == "refused: forged: the key of h2 signs for h1"
    save_trust(trust, [TrustRow("h2", OTHER.public.text)])
    path.write_text(json.dumps(whole))
    assert said(path, trust).startswith("refused: forged: signature of an unknown key ff1:")
    path.write_text("{}")
    assert said(path, trust) == "refused: malformed"
    with pytest.raises(ConfigError, match="a receipt that can be read"):
        check_receipts([tmp_path / "none"], trust)


def test_replayed_files_are_named(files):
    path, trust, push = files
    rows = check_receipts([path, path], trust)
    assert [row["is_good"] for row in rows] == [True, False]
    assert rows[1]["said"] == "refused: replayed: h1 stands for itself already"
    told = json.loads(push.read_text())
    push.write_text(json.dumps(told | {"flow": FLOW + 2}))
    assert "replayed: it is of flow" in said(path, trust, push)
    push.write_text(json.dumps(told | {"receivers": [{"id": "h2", "blake3": "00"}]}))
    assert said(path, trust, push) == "refused: replayed: the push was not to h1"
    push.write_text(json.dumps(told | {"receivers": [{"id": "h1", "blake3": "00"}]}))
    assert said(path, trust, push) == "refused: replayed: the push was of other bytes"
    push.write_text("[]")
    with pytest.raises(ConfigError, match="--of"):
        check_receipts([path], trust, push)


def test_receipts_need_a_folder_and_keys(tmp_path):
    require_folder(tmp_path / "r" / "s")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="a folder that can be made"):
        require_folder(tmp_path / "file" / "s")
    for more in ({"receipts": tmp_path}, {"attest": tmp_path / "list"}):
        with pytest.raises(ConfigError, match="none without --sign or --seal"):
            _receipts_of(Order(tmp_path, **more), is_signed=False)
    assert _receipts_of(Order(tmp_path), is_signed=True) is None


# Attestation.


def result_of(tmp_path, ended, verifier):
    """What a push's result says of its receiver."""
    receipts = Receipts(tmp_path, verifier)
    job = type("Job", (), {})()
    job.author, job.source, job.manifest = ended.push.author, "h0", ended.push.manifest
    job.flow, job.nonce, job.fabric = FLOW, NONCE, type("F", (), {})()
    job.author.trust, job.fabric.by_bfr_id = TRUST, {1: Node("h1", "127.0.0.1", "host", 1)}
    role = Loop()
    role.machine = type("M", (), {"peers": {0: Peer(0)}})()
    role.machine.peers[0].state = State.VERIFIED
    body = ended.desk.body(ended.session)
    role.role = None
    role.step = lambda until: hear(role.role, ended.report(body))
    receipts.collect(job, role)
    row = ReceiverResult("h1", "verified", "", 0.0, "", False)
    bare = PushResult(*["", "h0", FLOW, 0, 0, 0.0, 0.0, 0, [row], []], {}, {}, 0, {}, [], [], 0)
    return receipts.into(bare)


def listed(tmp_path, *lines):
    (tmp_path / "list").write_text("\n".join(lines))
    return AllowList(tmp_path / "list")


def test_without_a_verifier_nobody_is_attested(tmp_path, ended):
    (row,) = result_of(tmp_path, ended, None).receivers
    assert row.attested == "not attested"
    assert row.receipt == str(tmp_path / f"a.bin-{FLOW:08x}-h1.json")
    assert ReceiverResult("h1", "verified", "", 0.0, "", False).attested == "not attested"


def test_a_list_of_software_attests_who_runs_it_and_nobody_else(tmp_path, ended):
    known = listed(tmp_path, "# ours", f"{SOFTWARE.hex()}  # 0.1.0", "")
    (row,) = result_of(tmp_path, ended, known).receivers
    assert row.attested == "attested: software 0001020304050607.. is in list"
    (row,) = result_of(tmp_path, ended, listed(tmp_path, "00" * 32)).receivers
    assert row.attested == "not attested: software 0001020304050607.. is not in list"
    ended.desk.software = bytes
    ended.desk._given.clear()
    (row,) = result_of(tmp_path, ended, known).receivers
    assert row.attested == "not attested: it told no software"


def test_a_verifier_of_ones_own_reads_the_quote_over_this_push(tmp_path, ended):
    ended.desk.quote = lambda challenge: b"quote of " + challenge

    class Quoted:
        def judge(self, receipt):
            challenge = challenge_of(receipt.flow, receipt.nonce, bytes.fromhex(receipt.digest))
            is_good = bytes.fromhex(receipt.quote) == b"quote of " + challenge
            return Verdict(is_good, "a quote" if is_good else "no quote")

    (row,) = result_of(tmp_path, ended, Quoted()).receivers
    assert row.attested == "attested: a quote"
    ended.desk.quote = lambda challenge: b"quote of " + bytes(32)
    ended.desk._given.clear()
    (row,) = result_of(tmp_path, ended, Quoted()).receivers
    assert row.attested == "not attested: no quote"


def test_a_list_that_is_none_is_refused_by_its_line(tmp_path):
    with pytest.raises(ConfigError, match="line 2: got 'abc', allowed: 64 digits"):
        listed(tmp_path, "# x", "abc")
    with pytest.raises(ConfigError, match="--attest"):
        AllowList(tmp_path / "none")


def test_software_is_all_files_of_the_program():
    assert len(software_digest()) == 32
    assert software_digest() == software_digest()


def test_who_gave_no_receipt_is_named(tmp_path, ended):
    ended.desk.body = lambda session: b""
    receipts = Receipts(tmp_path)
    receipts._lacking = {"h1": "gave none"}
    row = ReceiverResult("h1", "verified", "", 0.0, "", False)
    bare = PushResult(*["", "h0", FLOW, 0, 0, 0.0, 0.0, 0, [row], []], {}, {}, 0, {}, [], [], 0)
    assert receipts.into(bare).warnings == ["h1: receipt: gave none"]


# The nodes' drivers around it.


class Sink:
    """A node's loop that keeps what is sent."""

    def __init__(self, fabric, name):
        self.node, self.sent = build_node_state(fabric, name, Limits()), []

    def wake(self):
        """Nobody waits."""

    def send(self, packet, port, dport):
        self.sent.append((bytes(packet), port, dport))
        return True


def asked_packet(fabric, what):
    """An ASK of h0 to h1, as it comes in."""
    ids = {node.name: node.bfr_id for node in fabric.nodes}
    header = BierHeader(bift_id(3, 0, 0), 60, ids["h0"], 1 << ids["h1"] - 1)
    message = Ask(FLOW, 0, NONCE, what)
    return parse(build(header, 0x7F510001, GROUP_ADDRESS, 50_001, message))


def test_a_node_answers_a_question_for_a_receipt_with_one(tmp_path, ended):
    fabric = leaf_spine(1, 0, 1)
    loop = Sink(fabric, "h1")
    role = ReceiverRole(fabric, "h1", loop, Store(tmp_path / "other"), gate=ended.gate)
    packet = asked_packet(fabric, WHAT_RECEIPT)
    bfir_id = packet.header.bfir_id
    role.on_packet(0, packet, 1)
    unknown = parse(loop.sent.pop()[0]).message
    assert (unknown.state, unknown.body) == (ReportState.UNKNOWN, b"")
    role.machine.sessions[bfir_id, FLOW] = ended.session
    role.desk = ended.desk
    role.on_packet(0, asked_packet(fabric, 0), 1)
    assert parse(loop.sent.pop()[0]).message.body == b""
    role.on_packet(0, packet, 1)
    octets, port, dport = loop.sent.pop()
    report = parse(octets).message
    assert (report.state, port, dport) == (ReportState.DONE, 1, 8138)
    assert hear(asking(ended), report).found[1].labels == LABELS


def test_a_sender_asks_those_whose_receipt_has_not_come(ended):
    role = asking(ended)
    role._role.machine = type("M", (), {"peers": {0: Peer(0)}})()
    role._role.send_control = role._role.asked.append
    role.on_timer(0)
    role.on_timer(1)
    (one,) = role._role.asked
    assert (one.message.what, one.message.flow, one.bits) == (WHAT_RECEIPT, FLOW, 1)
    role.on_timer(role.deadline_ps(1))
    assert len(role._role.asked) == 2
    hear(role, ended.report(ended.desk.body(ended.session)))
    role.on_timer(role.deadline_ps(1))
    assert len(role._role.asked) == 2
