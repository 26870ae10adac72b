"""Tenants at a BFR: what comes in by whose port, and whose slots, store and rate it uses.

A BFR with hosts of two tenants and of none on one leaf; ``Leaf`` keeps its arrays as live nodes
build them, without a socket.
"""

import msgspec
import numpy as np
import pytest
from tenant_packets import STRIDE, Aim, packets, words

from fanfold.api.tenants import with_tenants
from fanfold.core.effects import DropReason
from fanfold.kernels.forward import plan_pass
from fanfold.kernels.state import MAX_FLOWS
from fanfold.kernels.store import keep_pass
from fanfold.kernels.vat_packet import take_fold
from fanfold.live.ports import Limits, build_node_state
from fanfold.live.shares import BURST_BYTES, shares_of, uses_of
from fanfold.topo.lab_fabric import leaf_spine

RED, BLUE, NONE, UNKNOWN = 1, 2, 0, 77
QUOTAS = "rate=8Mbps,slots=64,cache=1MiB,receivers=2,array_slots=32"
FABRIC = with_tenants(leaf_spine(1, 0, 8), [f"red:h1-3:{QUOTAS}", "blue:h4-6:cache=2MiB"])
IDS = {node.name: node.bfr_id for node in FABRIC.nodes if node.bfr_id}
FLOW, GROUP = 0x100, 0xABCD
MS = 10**9
LATER = 60_000 * MS


def bit(host):
    return 1 << IDS[host] - 1


class Leaf:
    """leaf1 of the fabric."""

    def __init__(self, fabric=FABRIC):
        self.fabric = fabric
        self.node = build_node_state(fabric, "leaf1", Limits())
        self.now = LATER

    def give(self, host, *many):
        """Packets of one size from a host, in one pass; ports that get some."""
        node, seg = self.node, len(many[0])
        port = self.fabric.port_to("leaf1", host)
        block = np.frombuffer(b"".join(many), np.uint8).copy()
        plan_pass(
            block, 0, len(block), seg, port, self.now, node.row, node.bifts, node.ports,
            node.fold, node.counters, node.plan, node.vats,
        )  # fmt: skip
        keep_pass(block, 0, seg, len(block), node.plan, node.counters, node.fold)
        if node.plan.n[0] > 0:
            take_fold(
                block, 0, seg, node.plan.words[0], port, self.now, node.row, node.bifts,
                node.ports, node.vats, node.counters.drops, node.plan.scratch, False,
            )  # fmt: skip
        return {self.fabric.port_nodes("leaf1")[p].name for p in np.flatnonzero(node.plan.n)}

    def drops(self):
        counts = zip(DropReason, self.node.counters.drops.tolist(), strict=True)
        return {str(reason): n for reason, n in counts if n}

    def uses(self):
        return uses_of(self.fabric, self.node.fold, self.node.vats)

    def of_others(self, sub_domain):
        """All that others than a tenant have here, byte for byte."""
        fold, vats = self.node.fold, self.node.vats
        row, room = fold.store.shares[sub_domain], vats.shares[sub_domain]
        rows = np.ones(len(fold.rows), bool)
        rows[row["first_slot"] : row["first_slot"] + row["n_slots"]] = False
        segs = np.ones(len(fold.store.segs), bool)
        segs[row["first_seg"] : row["first_seg"] + row["n_segs"]] = False
        slots = np.ones(len(vats.slots), bool)
        slots[room[1] : room[1] + room[2]] = False
        kept = [fold.rows[rows], fold.words[rows], fold.store.segs[segs]]
        kept += [fold.store.entries[segs], vats.slots[slots], vats.owner[slots]]
        kept += [np.delete(fold.store.shares, sub_domain), fold.store.sick]
        first = int(row["first_flow"])
        mine = range(first, first + MAX_FLOWS)
        kept += [np.delete(self.node.counters.flow_key, mine)]
        others = vats.rows["used"] * (vats.rows["bift_id"] >> 8 & 0xFF != sub_domain)
        return [part.tobytes() for part in kept] + [others.tobytes()]


@pytest.fixture
def leaf():
    return Leaf()


def blue_at_work(leaf):
    """Blue's own push and group, whose flow and number red knows."""
    for block in range(4):
        for kind, packet in packets(Aim(BLUE, IDS["h4"], bit("h5") | bit("h6"), FLOW, block)):
            if kind == "data":
                assert leaf.give("h4", packet) == {"h5", "h6"}
    arm = dict(packets(Aim(BLUE, IDS["h4"], bit("h4") | bit("h5"), FLOW, 0, GROUP)))["FOLD ARM"]
    leaf.give("h4", arm)
    uses = leaf.uses()["blue"]
    assert uses["slots"][0] == 4
    assert uses["cache"][0] > 0
    assert leaf.node.vats.rows["used"].sum() == 1


@pytest.mark.parametrize("told", [-1, BLUE], ids=["alike", "words of blue"])
@pytest.mark.parametrize("sub_domain", [RED, BLUE, NONE, UNKNOWN])
def test_nothing_that_red_sends_reaches_blue_or_what_blue_has(leaf, sub_domain, told):
    """Every kind, in every name, to everybody, of flows and groups that red knows."""
    blue_at_work(leaf)
    before, n_drops = leaf.of_others(RED), sum(leaf.drops().values())
    n_sent, reached = 0, set()
    for name, bfir_id in IDS.items():
        for bits in (*(bit(to) for to in IDS), sum(map(bit, IDS)), bit("h2") | bit("h5")):
            for flow, group in ((FLOW, GROUP), (FLOW + 2, GROUP + 1)):
                aim = Aim(sub_domain, bfir_id, bits, flow, 1, group, told)
                for _, packet in packets(aim):
                    leaf.now += 10 * MS
                    n_sent += 1
                    reached |= leaf.give("h1", packet)
        assert leaf.of_others(RED) == before, name
    assert reached <= ({"h1", "h2", "h3", "leaf1"} if sub_domain == RED else set())
    drops = leaf.drops()
    if sub_domain == RED:
        assert {"h2", "h3"} <= reached
        expected = {"bad_bfir", "wrong_port", "null_nbr", "tenant_receivers"}
        assert expected <= drops.keys()
        assert ("wrong_tenant" in drops) == (told == BLUE)
        assert before == leaf.of_others(RED)
    else:
        reason = "unknown_bift" if sub_domain == UNKNOWN else "wrong_tenant"
        assert drops[reason] == sum(drops.values()) - n_drops == n_sent


def test_a_host_of_no_tenant_is_as_shut_out(leaf):
    blue_at_work(leaf)
    before = leaf.of_others(NONE)
    for sub_domain in (RED, BLUE):
        for _, packet in packets(Aim(sub_domain, IDS["h4"], bit("h5"), FLOW)):
            assert leaf.give("h7", packet) == set()
    assert leaf.of_others(NONE) == before
    assert leaf.drops().keys() == {"wrong_tenant"}


def test_a_bfr_may_bring_packets_of_all_tenants():
    fabric = with_tenants(leaf_spine(2, 1, 8), ["red:h1,h5", "blue:h2,h6"])
    leaf = Leaf(fabric)
    ids = {node.name: node.bfr_id for node in fabric.nodes if node.bfr_id}
    for sub_domain, source, to in ((1, "h5", "h1"), (2, "h6", "h2")):
        aim = Aim(sub_domain, ids[source], 1 << ids[to] - 1, FLOW)
        assert leaf.give("spine1", dict(packets(aim))["data"]) == {to}
    assert leaf.drops() == {}


def test_a_word_counts_in_slots_of_its_own_tenant_only(leaf):
    """A FEEDBACK that nobody is in would still mark the queue of the slot that it names."""
    blue_at_work(leaf)
    rows = leaf.node.fold.rows
    for _, packet in words(Aim(RED, IDS["h4"], 0, FLOW, 1, told=BLUE)):
        leaf.give("h1", packet)
    assert rows["queue"].max() == 0
    for _, packet in words(Aim(BLUE, IDS["h4"], bit("h5"), FLOW, 1)):
        leaf.give("h5", packet)
    assert rows["queue"].max() == 255


def data(block, flow=FLOW, to="h2", source="h1", sub_domain=RED, stride=STRIDE):
    aim = Aim(sub_domain, IDS[source], bit(to), flow, block, stride=stride)
    return dict(packets(aim))["data"]


def test_slots_of_a_tenant_run_out_for_itself_alone(leaf):
    blue_at_work(leaf)
    before = leaf.of_others(RED)
    for block in range(200):
        leaf.now += 10 * MS
        leaf.give("h1", data(block))
    red = leaf.uses()["red"]
    assert red["slots"][1] == 64
    assert 40 < red["slots"][0] <= 64
    assert red["full"] == 200 - red["slots"][0]
    assert leaf.of_others(RED) == before
    leaf.give("h4", data(9, FLOW, "h5", "h4", BLUE))
    assert leaf.uses()["blue"]["slots"][0] == 5
    assert leaf.uses()["blue"]["full"] == 0


def test_a_tenant_evicts_its_own_packets_only(leaf):
    blue_at_work(leaf)
    before, held = leaf.of_others(RED), leaf.uses()["blue"]["cache"][0]
    room = leaf.uses()["red"]["cache"][1]
    assert room == 1 << 20
    n = 2 * room // 4096
    for block in range(0, n, 8):
        leaf.now += 100 * MS
        many = [data(block + i, FLOW + 2 * (block % 3), stride=4096) for i in range(8)]
        leaf.give("h1", *many)
    red = leaf.uses()["red"]
    assert red["evicted"] > 0
    assert 0 < red["cache"][0] <= room
    assert leaf.of_others(RED) == before
    assert leaf.uses()["blue"]["cache"][0] == held


def test_slots_of_arrays_and_groups_are_a_tenants_own(leaf):
    blue_at_work(leaf)
    before, vats = leaf.of_others(RED), leaf.node.vats
    both = bit("h1") | bit("h2")
    for group in range(64):
        arm = dict(packets(Aim(RED, IDS["h1"], both, FLOW, 0, group)))["FOLD ARM"]
        leaf.now += 10 * MS
        leaf.give("h1", arm)
    red = vats.rows[(vats.rows["used"] != 0) & (vats.rows["bift_id"] >> 8 & 0xFF == RED)]
    assert len(red) == 64
    assert red["n_slots"].sum() == 32  # array_slots of red, eight a group
    assert leaf.of_others(RED) == before
    arm = dict(packets(Aim(BLUE, IDS["h4"], bit("h4") | bit("h6"), FLOW, 0, GROUP + 9)))
    leaf.give("h4", arm["FOLD ARM"])
    blue = vats.rows[(vats.rows["used"] != 0) & (vats.rows["bift_id"] >> 8 & 0xFF == BLUE)]
    assert blue["n_slots"].tolist() == [8, 8]


def test_rows_of_groups_are_counted_by_tenant():
    small = with_tenants(leaf_spine(1, 0, 4), ["red:h1-2", "blue:h3-4"])
    limits = type(small.limits)(array_groups=2, array_slots=64)
    leaf = Leaf(msgspec.structs.replace(small, limits=limits))
    ids = {node.name: node.bfr_id for node in small.nodes if node.bfr_id}
    for sub_domain, host, n in ((1, "h1", 20), (2, "h3", 1)):
        for group in range(n):
            aim = Aim(sub_domain, ids[host], 1 << ids[host] - 1, FLOW, 0, group)
            leaf.give(host, dict(packets(aim))["FOLD ARM"])
    rows = leaf.node.vats.rows
    tenants = (rows["bift_id"] >> 8 & 0xFF)[rows["used"] != 0].tolist()
    assert tenants.count(1) == 8  # four for each group that may have slots
    assert tenants.count(2) == 1
    assert rows["n_slots"][(rows["used"] != 0)].astype(bool).sum() == 3


def test_the_rate_lets_a_burst_in_and_then_so_many_bytes_a_second(leaf):
    packet = data(0)
    rate = next(s.rate_bps for s in shares_of(FABRIC) if s.name == "red")
    assert rate == 8_000_000
    leaf.now = LATER
    n_in = 0
    for i in range(200):  # a second of almost four times the rate, 128 packets a time
        leaf.now = LATER + i * 5 * MS
        before = leaf.uses()["red"]["packets"]
        leaf.give("h1", *[packet] * 128)
        n_in += leaf.uses()["red"]["packets"] - before
    seen = n_in * len(packet)
    assert seen == leaf.uses()["red"]["bytes"]
    assert 0.98 * (rate // 8 + BURST_BYTES) < seen <= rate // 8 + BURST_BYTES + len(packet)
    assert leaf.drops() == {"tenant_rate": 200 * 128 - n_in}
    assert leaf.uses()["red"]["refused"] == {"tenant_rate": 200 * 128 - n_in}
    assert leaf.give("h4", data(0, FLOW, "h5", "h4", BLUE)) == {"h5"}


def test_all_that_a_tenant_sends_is_charged_whatever_it_is(leaf):
    for kind, packet in packets(Aim(RED, IDS["h1"], bit("h2"), FLOW)):
        before, drops = leaf.uses()["red"]["packets"], sum(leaf.drops().values())
        leaf.now += MS
        leaf.give("h1", packet)
        came = leaf.uses()["red"]["packets"] - before + sum(leaf.drops().values()) - drops
        assert came >= 1, kind


def test_a_packet_to_more_receivers_than_a_push_may_have_is_dropped(leaf):
    wide = dict(packets(Aim(RED, IDS["h1"], bit("h1") | bit("h2") | bit("h3"), FLOW)))["data"]
    assert leaf.give("h1", wide) == set()
    assert leaf.drops() == {"tenant_receivers": 1}
    two = dict(packets(Aim(RED, IDS["h1"], bit("h2") | bit("h3"), FLOW)))["data"]
    assert leaf.give("h1", two) == {"h2", "h3"}
    three = bit("h4") | bit("h5") | bit("h6")
    assert leaf.give("h4", dict(packets(Aim(BLUE, IDS["h4"], three, FLOW)))["data"]) == {
        "h5",
        "h6",
    }


def test_flows_of_a_tenant_take_no_others_counters(leaf):
    blue_at_work(leaf)
    for flow in range(3 * MAX_FLOWS):
        leaf.now += MS
        leaf.give("h1", data(0, 2 * flow))
    keys = leaf.node.counters.flow_key.tolist()
    assert IDS["h4"] << 32 | FLOW | 1 in keys
    assert sum(key >> 32 == IDS["h1"] for key in keys) == MAX_FLOWS


def test_without_tenants_nothing_is_checked_and_all_is_everybodys():
    leaf = Leaf(leaf_spine(1, 0, 8))
    node = leaf.node
    assert node.bifts.may.size == node.fold.store.shares.size == node.vats.shares.size == 0
    assert len(node.fold.rows) == 1024
    assert leaf.uses() == {}
    aim = Aim(0, IDS["h1"], bit("h2") | bit("h8"), FLOW)
    assert leaf.give("h1", dict(packets(aim))["data"]) == {"h2", "h8"}
    assert len(data(0)) > STRIDE
