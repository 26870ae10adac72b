"""A port speaks for those it leads to, and for nobody else."""

import naive
import numpy as np
import pytest
from kernel_nodes import KernelFabric, KernelNode, data, feedback, three_levels
from vat_nodes import GROUP, VatNode, figure_one, message, said

from fanfold.kernels import vat as v
from fanfold.topo.bift import build_bifts
from fanfold.topo.fabric_routes import FabricRoutes
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.wire import bitstring as bs
from fanfold.wire.ask import Ask
from fanfold.wire.bier import BierHeader
from fanfold.wire.fold import FoldFlag, FoldScope, FoldWhat
from fanfold.wire.inner import GROUP_ADDRESS
from fanfold.wire.kinds import Kind
from fanfold.wire.packet import build
from fanfold.wire.report import Report, ReportState

SOURCE = 13
"""h0 of ``three_levels``."""


def node_of(fabric, name: str) -> KernelNode:
    ends = fabric.port_nodes(name)
    return KernelNode(
        build_bifts(FabricRoutes(fabric), name),
        [n.bfr_id for n in ends],
        bfr_id=fabric.by_name[name].bfr_id,
        folds=fabric.by_name[name].role == "bfr",
    )


def port(name: str, neighbour: str) -> int:
    return three_levels().port_to(name, neighbour)


def word(heard: int) -> naive.Word:
    return naive.Word(bs.bift_id(1, 0, 0), 4, heard=heard, done=heard, rows={})


def control(report: Report | Ask, bfir_id: int, bits: int) -> bytes:
    header = BierHeader(bs.bift_id(1, 0, 0), 64, bfir_id, bits)
    return build(header, 5, GROUP_ADDRESS, 50_000, report)


# Data of a BFIR.


@pytest.mark.parametrize("bfir_id", [0, 14, 64, 65, 0xFFFF])
def test_data_of_nobody_is_dropped_by_its_own_reason(bfir_id: int) -> None:
    leaf = node_of(three_levels(), "leaf1")
    assert leaf.forward([data(0b1, bfir_id=bfir_id)], 1) == {}
    assert leaf.drops() == {"bad_bfir": 1}
    assert leaf.n_armed() == 0


def test_data_comes_by_a_port_that_leads_to_its_bfir() -> None:
    leaf = node_of(three_levels(), "leaf1")
    for spine in ("spine0", "spine1"):  # equal paths: any of them will do
        found = leaf.forward([data(0b111000, bfir_id=SOURCE)], port("leaf1", spine))
        assert sorted(found) == [1, 2, 3]
    for host in ("h4", "h5"):
        assert leaf.forward([data(0b110111, bfir_id=SOURCE)], port("leaf1", host)) == {}
    assert leaf.drops() == {"wrong_port": 2}
    own = leaf.forward([data(0b110000, bfir_id=4)], port("leaf1", "h4"))
    assert sorted(own) == [port("leaf1", "h5"), port("leaf1", "h6")]


def test_a_core_takes_data_by_every_equal_path_and_by_no_other() -> None:
    core = node_of(three_levels(), "core0")
    for spine in ("spine0", "spine1"):
        assert core.forward([data(0b1 << 11, bfir_id=SOURCE)], port("core0", spine))
    for spine in ("spine2", "spine3"):
        assert core.forward([data(0b1, bfir_id=SOURCE)], port("core0", spine)) == {}
    assert core.drops() == {"wrong_port": 2}


def test_several_sets_are_told_apart() -> None:
    fabric = leaf_spine(1, 0, 70, name="sets", prefix=0)
    fabric = type(fabric)(
        fabric.name, fabric.nodes, fabric.links, bitstring_bits=64, mtu=fabric.mtu
    )
    leaf = node_of(fabric, "leaf1")
    last = next(n for n in fabric.nodes if n.bfr_id == 70)
    first = next(n for n in fabric.nodes if n.bfr_id == 6)  # the same bit of another set
    inlet = fabric.port_to("leaf1", last.name)
    assert leaf.forward([data(0b1, bfir_id=70)], inlet)
    assert leaf.forward([data(0b1, bfir_id=6)], inlet) == {}
    assert leaf.forward([data(0b1, bfir_id=6)], fabric.port_to("leaf1", first.name))
    assert leaf.forward([data(0b1, bfir_id=129)], inlet) == {}
    assert leaf.drops() == {"wrong_port": 1, "bad_bfir": 1}


def test_nothing_leaves_by_the_port_it_came_in_by() -> None:
    leaf = node_of(three_levels(), "leaf1")
    found = leaf.forward([data(0b111000, bfir_id=4)], port("leaf1", "h4"))
    assert sorted(found) == [port("leaf1", "h5"), port("leaf1", "h6")]
    assert leaf.drops() == {"turned_back": 1}


def test_a_ttl_beyond_the_largest_is_taken_down_to_it() -> None:
    leaf = node_of(three_levels(), "leaf1")
    for ttl, left in ((255, 63), (65, 63), (64, 63), (63, 62)):
        (copies,) = leaf.forward([data(0b1000, bfir_id=SOURCE, ttl=ttl)], 4).values()
        assert copies[0].packet[3] == left


# Words of receivers.


def test_a_host_does_not_vouch_for_another() -> None:
    world = KernelFabric(three_levels())
    world.send("h0", [data(0b111, bfir_id=SOURCE)])
    world.delivered.clear()
    lie = feedback(word(0b110), (SOURCE, 7, 0), outer_bits=1 << (SOURCE - 1))
    world.up("h2", [lie])
    assert world.nodes["leaf0"].drops() == {"wrong_port": 1}
    assert world.delivered == []
    for i in (1, 2):
        own = feedback(word(1 << (i - 1)), (SOURCE, 7, 0), outer_bits=1 << (SOURCE - 1))
        world.up(f"h{i}", [own])
    assert world.delivered == [], "h3 was not heard yet"


def test_a_bfir_itself_believes_no_port_that_does_not_lead_there() -> None:
    fabric = leaf_spine(2, 1, 2, name="pair", prefix=0)
    node = node_of(fabric, "h0")
    n = fabric.bitstring_bits // 64
    bift = bs.bift_id(n.bit_length(), 0, 0)
    me = fabric.by_name["h0"].bfr_id
    for heard, reason in ((0b1, {}), (1 << 200, {"wrong_port": 1})):
        said_so = naive.Word(bift, 4, heard=heard, done=0, rows={})
        outer = 1 << (me - 1)
        found = node.forward([feedback(said_so, (me, 7, 0), outer_bits=outer)], 1)
        assert (list(found), node.drops()) == ([0] if not reason else [], reason)


def test_a_report_comes_from_who_it_is_of() -> None:
    leaf = node_of(three_levels(), "leaf1")
    bits = 1 << (SOURCE - 1)
    report = control(Report(ReportState.DONE, 4, 6), 4, bits)
    assert leaf.forward([report], port("leaf1", "h4"))
    assert leaf.forward([report], port("leaf1", "h5")) == {}
    assert leaf.forward([control(Ask(6, 0, 0), 0, 0b1000)], port("leaf1", "spine0")) == {}
    assert leaf.drops() == {"wrong_port": 1, "bad_bfir": 1}


@pytest.mark.parametrize(
    ("flow_port", "leaves"), [(53, 0), (19_999, 0), (20_000, 1), (8138, 1)]
)
def test_a_last_hop_sends_to_ports_of_pushes_and_groups_only(
    flow_port: int, leaves: int
) -> None:
    leaf = node_of(three_levels(), "leaf1")
    header = BierHeader(bs.bift_id(1, 0, 0), 64, 5, 0b1000)
    report = build(header, 5, 0x7F510004, flow_port, Report(ReportState.DONE, 5, 6))
    assert len(leaf.forward([report], port("leaf1", "h5"))) == leaves
    assert leaf.drops() == ({} if leaves else {"foreign_port": 1})


# Arrays of ranks.

UP = 1
"""s1: neighbours by name s5, w1, w2."""


def s1(*, is_armed: bool = True) -> VatNode:
    node = VatNode(figure_one(), "s1")
    if is_armed:
        arm = message(0b11, what=FoldWhat.ARM, n_slots=4, kind=Kind.SPREAD, armer=3)
        node.take(arm, UP)
        assert node.said_by() == {"armed": 1}
    return node


def test_an_array_in_anothers_name_is_not_added() -> None:
    node = s1()
    assert node.take(message(0b10, [1_000_000]), 2) == []  # w1 says it were w2
    assert node.take(message(0b11, [1_000_000]), 2) == []
    assert node.take(message(0b01, [1]), 2) == []
    ((where, packet),) = node.take(message(0b10, [2]), 3)
    assert (where, said(packet).words) == (UP, (3,))
    assert node.drops() == {"wrong_port": 2}


@pytest.mark.parametrize("what", [FoldWhat.REQUEST, FoldWhat.CLOSE, FoldWhat.ARRAY])
def test_no_word_of_a_group_is_taken_in_anothers_name(what: int) -> None:
    node = s1()
    assert node.take(message(0b10, [1] if not what else [], what=what), 2) == []
    assert node.drops() == {"wrong_port": 1}
    assert int(node.vats.rows[0]["used"]) == 1


def test_a_result_comes_from_the_root_only() -> None:
    forged = message(0b11, [666], kind=Kind.SPREAD, n_merged=4)
    for node in (s1(), s1(is_armed=False)):
        assert node.take(forged, 2) == []
        assert node.drops() == {"wrong_port": 1}
        assert sorted(p for p, _ in node.take(forged, UP)) == [2, 3]


def test_a_host_that_is_the_root_sends_its_results() -> None:
    node = VatNode(figure_one(), "s1")
    up = message(0b111, what=FoldWhat.ARM, n_slots=4, scope=FoldScope.ONLY, only=1, armer=3)
    ((where, _),) = node.take(up, UP)
    assert where == 2  # to w1, which is to be the root
    down = message(
        0b111,
        what=FoldWhat.ARM,
        n_slots=4,
        scope=FoldScope.ONLY,
        only=1,
        armer=3,
        kind=Kind.SPREAD,
    )
    assert node.take(down, 3) == []  # w2 says it were w1
    assert node.take(down, 2)
    result = message(0b110, [5], kind=Kind.SPREAD, n_merged=3)
    assert sorted(p for p, _ in node.take(result, 2)) == [UP, 3]
    assert node.take(result, 3) == []
    assert node.drops() == {"wrong_port": 2}


def test_a_rank_reaches_the_root_at_its_own_host() -> None:
    """By its BFR: what it sends comes back by the port it came in by, to the host's node."""
    node = VatNode(figure_one(), "s1")
    own = {"scope": FoldScope.ONLY, "only": 1, "armer": 1, "what": FoldWhat.ARM, "n_slots": 4}
    assert [p for p, _ in node.take(message(0b111, **own), 2)] == [2]
    assert node.take(message(0b111, kind=Kind.SPREAD, **own), 2)
    for what in (FoldWhat.REQUEST, FoldWhat.CLOSE):
        assert 2 in [p for p, _ in node.take(message(0b001, what=what, n_merged=0), 2)]
    assert node.drops() == {}


def test_only_a_rank_arms_its_group_and_only_who_armed_it_closes_it() -> None:
    node = VatNode(figure_one(), "s1")
    arm = {"what": FoldWhat.ARM, "n_slots": 4}
    assert node.take(message(0b01, armer=2, **arm), 2) == []  # w1 in w2's name
    assert node.take(message(0b10, armer=1, **arm), 2) == []  # w1 for a group without w1
    assert node.drops() == {"wrong_port": 2}
    assert node.take(message(0b101, armer=1, **arm), 2)
    assert node.take(message(0b111, armer=2, **arm), 3) == []  # w2 is not of it
    assert node.take(message(0b10, what=FoldWhat.CLOSE), 3) == []
    assert node.drops() == {"wrong_port": 2, "not_member": 2}
    assert int(node.vats.rows[0]["used"]) == 1
    assert node.take(message(0b01, what=FoldWhat.CLOSE), 2)
    assert int(node.vats.rows[0]["used"]) == 0


def test_a_group_that_stands_is_not_taken_away() -> None:
    """By who is not of it, from this BFR or from another one."""
    arm = {"what": FoldWhat.ARM, "n_slots": 4}
    node = s1()  # w3 armed it for w1 and w2, the root is up
    node.take(message(0b01, armer=3, kind=Kind.SPREAD, **arm), UP)  # w1 is left: w2 is out
    assert node.take(message(0b11, armer=2, **arm), 3) == []
    assert node.drops() == {"not_member": 1}
    assert node.take(message(0b01, armer=1, flags=FoldFlag.RETRY, **arm), 2)
    spine = VatNode(figure_one(), "s5")  # neighbours s1, s2, s7
    spine.take(message(0b0011, armer=3, kind=Kind.SPREAD, **arm), 2)
    for port_in, n_leave in ((3, 0), (2, 1)):
        down = message(0b0011, armer=8, kind=Kind.SPREAD, **arm)
        assert len(spine.take(down, port_in)) == n_leave
    assert spine.drops() == {"not_member": 1}


def test_a_ping_comes_back_to_who_sent_it_and_to_nobody_else() -> None:
    node = s1()
    heard = {"what": FoldWhat.HEARD, "kind": Kind.SPREAD, "root_level": 1, "heard": 0}
    ((where, _),) = node.take(message(0b01, **heard), 2)
    assert where == 2
    assert node.take(message(0b10, **heard), 2) == []
    assert node.take(message(0b10, **(heard | {"root_level": 0})), 3) == []
    assert node.drops() == {"wrong_port": 2}


def test_rows_that_point_at_each_other_pass_nothing_back_and_forth() -> None:
    node = s1()
    for ttl in (255, 64, 2):
        packet = message(0b0100, what=FoldWhat.REQUEST, ttl=ttl, n_merged=0)
        assert node.take(packet, UP) == []
    assert node.drops() == {"turned_back": 3}


def test_what_is_too_large_for_its_row_is_not_copied() -> None:
    """A result at a host's own node, where no group is: once copied into a row of 80 bytes."""
    node = VatNode(figure_one(), "w1")
    before = node.vats.small.copy()
    big = message(0b1, list(range(16_000)), kind=Kind.SPREAD)
    for port_in in (0, 1):
        node.take_any(big, port_in)
    assert (node.vats.small == before).all()
    assert int(node.vats.n_todo[0]) == 0
    assert node.drops()["not_mine"] >= 1


def test_configured_trees_need_not_follow_shortest_paths() -> None:
    node = VatNode(figure_one(), "s6")  # neighbours s3, s4, s7
    at = node.arm(0, 0b1111, is_root=True)
    assert node.take(message(0b0011, [1]), 1) == []
    assert node.drops() == {"wrong_port": 1}
    node.vats.rows[at]["is_laid"] = 1
    node.take(message(0b0011, [1]), 1)
    assert node.take(message(0b1100, [2]), 3)
    assert int(node.vats.events[v.VAT_COMPLETE]) == 1


def test_retry_flags_change_nothing_of_it() -> None:
    node = s1()
    assert node.take(message(0b10, [9], flags=FoldFlag.RETRY), 2) == []
    assert node.drops() == {"wrong_port": 1}
    assert int(node.vats.rows[0]["group"]) == GROUP
    assert not np.any(node.vats.words[:, v.HEARD_BM])
