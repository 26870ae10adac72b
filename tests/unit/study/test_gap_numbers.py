"""Numbers of the gap table, worked out by hand on small fabrics."""

import msgspec
import numpy as np
import pytest

from fanfold.results.outcome import DATA, NOT_DONE
from fanfold.study.gap_ground import ROWS, SchemeRow, build_ground
from fanfold.study.gap_sim import play, program_of, settings_of
from fanfold.study.gap_table import NEVER_HERE
from fanfold.study.measure_dynamics import measure_dynamics
from fanfold.study.measure_faults import measure_faults
from fanfold.study.measure_feedback import measure_feedback, victim_link
from fanfold.study.measure_loss import measure_loss, on_ways
from fanfold.study.measure_simplicity import measure_simplicity, spread_ppm
from fanfold.study.measure_sparseness import build_sparse, measure_sparseness
from fanfold.trees.settings import TreeSettings
from fanfold.units import PS_PER_SECOND

MS = PS_PER_SECOND // 1000
SMALL = "leaf-spine:leaves=4,spines=2,hosts=16,rate=400Gbps,delay=500ns"
GROUND = build_ground(
    SMALL, n_members=3, message_bytes=16 * 4096, far_topology="fat-tree:k=4", loss_ppb=10**6
)
BY_NAME = {row.name: row for row in ROWS}


def of(name: str) -> SchemeRow:
    return BY_NAME[name]


@pytest.fixture(scope="module")
def sparse():
    return build_sparse(GROUND)


def base_of(name: str, n_bytes: int = 16 * 4096):
    row = of(name)
    return play(GROUND, program_of(GROUND, row, GROUND.receivers, n_bytes), settings_of(row))


def test_groups_are_spread_and_drawn_without_the_source():
    assert GROUND.receivers == tuple(range(1, 16))
    assert len(set(GROUND.members)) == 3
    assert not {0, *GROUND.members} & set(GROUND.others)
    assert sorted((0, *GROUND.members, *GROUND.others)) == list(range(16))
    assert build_ground(SMALL, n_members=3, seed=2).members != GROUND.members


def test_every_variant_belongs_to_a_row_of_its_own():
    own = {row.name for row in ROWS if not row.variant_of}
    assert {row.variant_of for row in ROWS if row.variant_of} <= own
    assert len(BY_NAME) == len(ROWS)


# Faults. detect 150 ms; new paths 200 ms later; then one message and one change of a table,
# 0.1 ms and 1 ms, at each of two routers that overlap but for the first message.


@pytest.mark.parametrize(
    ("name", "least_ms", "most_ms"),
    [("bier", 0, 0), ("bier+plain", 200, 200), ("sr-p2mp", 0, 0), ("pim-sm+plain", 200, 203)],
)
def test_time_that_a_dead_link_cuts_somebody_off(name, least_ms, most_ms):
    numbers = measure_faults(GROUND, of(name))
    assert least_ms * MS <= numbers["recover_ps"] <= most_ms * MS
    assert numbers["detect_ps"] == 150 * MS
    assert numbers["gap_receivers"] == numbers["behind_receivers"] == 4


@pytest.mark.parametrize(
    ("aided", "plain"), [("mldp", "mldp+plain"), ("pim-sm", "pim-sm+plain")]
)
def test_aids_take_over_when_the_fault_is_noticed(aided, plain):
    with_aid, without = (measure_faults(GROUND, of(name)) for name in (aided, plain))
    assert with_aid["recover_ps"] <= MS < 200 * MS <= without["recover_ps"]


def test_a_fault_that_is_noticed_at_once_is_not_waited_for():
    row = of("bier")
    row = row._replace(tree=msgspec.structs.replace(row.tree, detect_ps=10 * MS))
    numbers = measure_faults(GROUND, row)
    assert (numbers["detect_ps"], numbers["recover_ps"]) == (10 * MS, 0)


def test_a_source_names_those_behind_the_fault_before_routers_notice_it():
    assert 0 < measure_faults(GROUND, of("bier"))["named_ps"] < 10 * MS


def test_fanfold_gives_up_those_behind_a_dead_link_as_it_runs():
    numbers = measure_faults(GROUND, of("fanfold"))
    assert 0 < numbers["detect_ps"] < 10 * MS  # by its own feedback
    assert numbers["recover_ps"] == NEVER_HERE
    assert numbers["gap_receivers"] == numbers["behind_receivers"] == 4


def test_nothing_dies_between_routers_where_there_is_one():
    star = build_ground("star:hosts=4", n_members=2, message_bytes=16 * 4096)
    for name in ("unicast", "pim-sm", "bier"):
        assert measure_faults(star, of(name)) == {}


def test_a_cable_without_a_detour_does_not_die():
    wan = build_ground("wan:sites=3,hosts=2,leaves=1", n_members=2, message_bytes=16 * 4096)
    numbers = measure_faults(wan, of("bier"))
    assert numbers["recover_ps"] == 0 < numbers["behind_receivers"] <= 4


def test_copies_by_unicast_go_round_a_dead_link_when_sent_again():
    numbers = measure_faults(GROUND, of("unicast"))
    assert 0 < numbers["recover_ps"] < 150 * MS  # before routers notice it
    assert numbers["behind_receivers"] == 4


# Dynamics.


def test_leaving_takes_two_queries_unless_routers_know_each_member():
    asked, known = (
        measure_dynamics(GROUND, of(name)) for name in ("pim-sm+plain", "pim-sm+acks")
    )
    assert 2 * PS_PER_SECOND < asked["leave_ps"] < 2 * PS_PER_SECOND + 10 * MS
    assert known["leave_ps"] < 10 * MS
    assert asked["join_ps"] == known["join_ps"]


def test_a_controller_computes_before_a_new_leaf_is_reached():
    plain = measure_dynamics(GROUND, of("sr-p2mp"))
    assert TreeSettings().compute_ps < plain["setup_ps"]
    assert plain["leave_ps"] < 100 * MS
    assert measure_dynamics(GROUND, of("sr-p2mp+plain"))["leave_ps"] > 2 * PS_PER_SECOND


def test_two_trees_take_twice_the_messages():
    one, two = (measure_dynamics(GROUND, of(name)) for name in ("pim-sm+plain", "pim-sm"))
    assert two["change_writes"] == 2 * one["change_writes"]


@pytest.mark.parametrize("name", ["unicast", "bier", "fanfold"])
def test_a_set_in_the_packet_changes_with_the_next_packet(name):
    numbers = measure_dynamics(GROUND, of(name))
    assert not any(numbers[key] for key in ("setup_ps", "join_ps", "leave_ps", "change_msgs"))
    assert numbers["change_gap_ps"] <= 150_000


def test_a_host_that_joins_a_chain_changes_three_pairs():
    numbers = measure_dynamics(GROUND, of("ring"))
    assert 1 <= numbers["change_writes"] <= 3
    assert numbers["join_ps"] > 2 * 2 * 500_000  # at least two links there and back
    assert 2 <= numbers["change_msgs"] <= 6  # to each host of them and back


# Interactivity.


def test_each_receiver_acknowledges_each_packet_unless_words_are_folded():
    n = len(GROUND.receivers)
    alone = measure_feedback(GROUND, of("bier+plain"), base_of("bier+plain"))
    folded = measure_feedback(GROUND, of("fanfold"), base_of("fanfold"))
    copies = measure_feedback(GROUND, of("unicast"), base_of("unicast"))
    assert alone["feedback_per_kpkt"] == 1000 * n
    assert folded["feedback_per_kpkt"] == 1000 // 16
    assert copies["feedback_per_kpkt"] == 1000
    assert 0 < folded["feedback_ps"] <= alone["feedback_ps"]
    assert "reaction_ps" not in copies


def test_a_ring_counts_only_what_the_source_hears():
    numbers = measure_feedback(GROUND, of("ring"), base_of("ring"))
    assert numbers["feedback_per_kpkt"] == 1000


def test_the_slow_line_is_one_that_carries_the_receivers_data():
    rail = build_ground("rail:servers=2,gpus=4,spines=1", message_bytes=16 * 4096, n_members=2)
    row = of("fanfold")
    program = program_of(rail, row, rail.receivers, 16 * 4096)
    base = play(rail, program, settings_of(row))
    link = victim_link(rail, base)
    assert int(rail.net.dst[link]) == rail.receivers[-1]
    assert base.link_pkts[link, DATA] == 16


# Losses.


def test_a_tree_repairs_to_everybody_and_fanfold_to_those_who_lack_it():
    ground = GROUND._replace(message_bytes=256 * 4096)
    tree, fan = (
        measure_loss(ground, of(name), base_of(name), ())
        for name in ("pim-sm+plain", "fanfold")
    )
    assert tree["healthy_repair_ppm"] > 0
    assert (fan["healthy_repair_ppm"], fan["healthy_repair_bytes"]) == (0, 0)


def test_goodput_is_kept_where_nothing_was_lost():
    base = base_of("fanfold")
    numbers = measure_loss(GROUND, of("fanfold"), base, [base])
    assert (numbers["goodput_ppm"], numbers["drops"], numbers["repair_bytes"]) == (10**6, 0, 0)
    assert numbers["goodput_bps"] == 8 * 16 * 4096 * PS_PER_SECOND // base.end_ps


def test_half_the_goodput_is_left_when_it_takes_twice_as_long():
    base = base_of("fanfold")
    slow, slower = (base._replace(end_ps=n * base.end_ps) for n in (2, 9))
    stuck = base._replace(stuck=("one",))

    def kept(*lossy):
        return measure_loss(GROUND, of("fanfold"), base, lossy)["goodput_ppm"]

    assert kept(slow) == kept(slower, base, slow) == kept(base, slow, stuck) == 500_000
    assert kept(stuck) == kept(stuck, base, stuck) == NEVER_HERE


def test_links_on_shortest_paths_between_two_leaves():
    ways = on_ways(GROUND, 0, 15)
    net = GROUND.net
    ends = {
        (net.node_name(int(a)), net.node_name(int(b)))
        for a, b in zip(net.src[ways], net.dst[ways], strict=True)
    }
    assert ends == {
        ("h0", "leaf0"),
        *(("leaf0", f"spine{i}") for i in (0, 1)),
        *((f"spine{i}", "leaf3") for i in (0, 1)),
        ("leaf3", "h15"),
    }


# Sparseness and simplicity.


def test_unicast_saves_nothing_and_trees_all(sparse):
    copies, tree, bits = (
        measure_sparseness(of(name), sparse) for name in ("unicast", "pim-sm", "bier")
    )
    assert copies["lost_saving_ppm"] == copies["far_lost_saving_ppm"] == 10**6
    assert tree["lost_saving_ppm"] == tree["extra_copies_ppm"] == 0
    assert (tree["header_bytes"], bits["header_bytes"]) == (0, 12 + 64 // 8)
    assert bits["lost_saving_ppm"] == 0


def test_dense_mode_has_state_where_no_member_is(sparse):
    flooded, joined = (measure_sparseness(of(name), sparse) for name in ("pim-dm", "pim-sm"))
    assert 6 > flooded["idle_state_entries"] > 0 == joined["idle_state_entries"]


def test_kinds_of_messages_and_tables(sparse):
    base = base_of("fanfold")
    told = {
        name: measure_simplicity(GROUND, of(name), sparse, base)
        for name in ("unicast", "pim-sm", "mldp", "sr-p2mp", "fanfold")
    }
    assert told["pim-sm"]["message_kinds"] > told["mldp"]["message_kinds"] == 5
    assert told["sr-p2mp"]["message_kinds"] == 5  # report, leaf report, install, answer, NACK
    assert told["pim-sm"]["state_kinds"] == 3
    assert told["fanfold"]["state_kinds"] == 2  # BIFTs, slots
    assert told["unicast"]["message_kinds"] == 1  # ACK
    assert told["fanfold"]["message_kinds"] == 4  # ASK, REPORT, CLOSE, FEEDBACK
    assert told["fanfold"]["lookups_per_pkt"] > told["unicast"]["lookups_per_pkt"]


def test_bier_has_no_slots(sparse):
    told = measure_simplicity(GROUND, of("bier"), sparse, base_of("bier"))
    assert (told["state_kinds"], told["most_entries"], told["control_msgs"]) == (1, 16, 0)


def test_spread_is_the_99th_percentile_over_the_median():
    base = base_of("unicast")
    host_ps = np.zeros(200, np.int64)
    host_ps[:100] = np.arange(100, 200)
    late = base._replace(host_ps=host_ps)
    assert spread_ppm(late, tuple(range(100))) == 10**6 * (198 - 149) // 149
    host_ps[3] = NOT_DONE
    assert spread_ppm(late, tuple(range(100))) == NEVER_HERE
