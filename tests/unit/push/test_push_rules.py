"""Where the bytes of a push may go: a signed manifest's rule, and a receiver's own labels."""

import msgspec
import pytest
from seals_world import Signed, gate_of
from test_push_receiving import FLOW, NONCE
from test_push_seals import World, refused

from fanfold.errors import WireError
from fanfold.push import manifest as manifests
from fanfold.push.gate import Gate
from fanfold.wire.report import ReportError, ReportState

EU = (("owner", "x"), ("region", "eu"))


def world_of(folder, labels, gate=None):
    gate = gate or gate_of()
    gate.labels = labels
    return World(folder, gate)


@pytest.mark.parametrize(
    ("labels", "said"),
    [((), "no region"), ((("region", "us"),), "region=us"), ((("zone", "eu"),), "no region")],
)
def test_a_receiver_outside_refuses_and_says_by_which_label(tmp_path, labels, said):
    world = world_of(tmp_path, labels)
    session = world.begin(Signed(tmp_path, FLOW, NONCE, only_through="region=eu").envelope)
    assert refused(session, f"its bytes may go to region=eu only, and here is {said}")
    assert world.drops() == {"not_trusted": 1}
    assert world.landed() is None


def test_a_receiver_inside_takes_it_and_one_without_a_rule_goes_anywhere(tmp_path):
    for flow, labels, rule in ((FLOW, EU, "region=eu"), (FLOW + 2, (), "")):
        folder = tmp_path / str(flow)
        folder.mkdir()
        world = world_of(folder, labels)
        push = Signed(folder, flow, NONCE, only_through=rule)
        session = world.finish(world.begin(push.envelope, flow), push.stream)
        assert session.state == ReportState.DONE
        assert world.landed() == push.data


def test_an_open_gate_keeps_a_rule_too(tmp_path):
    world = world_of(tmp_path, (), Gate(1))
    session = world.begin(Signed(tmp_path, FLOW, NONCE, only_through="region=eu").envelope)
    assert session.error == ReportError.REFUSED


def test_a_manifest_without_a_rule_is_as_it_always_was(tmp_path):
    manifest = Signed(tmp_path, FLOW, NONCE).manifest
    plain = manifests.encode(manifest)
    assert len(msgspec.msgpack.decode(plain[len(manifests.MAGIC) :])) == 12
    ruled = msgspec.structs.replace(manifest, only_through="region=eu")
    assert len(msgspec.msgpack.decode(manifests.encode(ruled)[len(manifests.MAGIC) :])) == 13
    for one in (manifest, ruled):
        assert manifests.decode(manifests.encode(one)) == one
    assert manifests.digest(manifest) != manifests.digest(ruled)


@pytest.mark.parametrize("rule", ["region", "a=b=c", "=eu", "region= ", "r" * 64 + "=a"])
def test_a_rule_of_another_form_is_refused(tmp_path, rule):
    manifest = Signed(tmp_path, FLOW, NONCE).manifest
    with pytest.raises(WireError, match="only_through"):
        manifests.decode(manifests.encode(msgspec.structs.replace(manifest, only_through=rule)))
    empty = manifests.MAGIC + msgspec.msgpack.encode(
        (*msgspec.structs.astuple(manifest)[:-1], "")
    )
    with pytest.raises(WireError, match="canonical"):
        manifests.decode(empty)
