"""Steps and fans over planes: what each row says, on pods that a plain loop runs."""

import numpy as np
import pytest

from fanfold.errors import ConfigError
from fanfold.kernels.jit import JIT
from fanfold.scenario.settings import Failure, Settings
from fanfold.schemes.program import build_program, edges_of
from fanfold.study import plane_fan, plane_steps
from fanfold.study.plane_steps import (
    MODES,
    NEVER_ENDS,
    PPM,
    STATES,
    build_step_table,
    fullest_s,
)
from fanfold.study.plane_work import How, dispatch, program_of, side_by_side
from fanfold.topo.nets import build_named_net

POD = "superpod:gpus=4,planes=4"
N_BYTES = 64 << 20 if JIT else 1 << 20


@pytest.fixture(scope="module")
def table():
    asked = plane_steps.Asked(POD, N_BYTES, 4, ("all_to_all",))
    return {(row.state, row.mode): row for row in build_step_table(asked).rows}


def test_every_state_has_a_row_of_every_mode(table):
    assert set(table) == {(state, mode.name) for state in STATES for mode in MODES}


def test_one_plane_is_cut_off_by_what_takes_it_away_and_no_other_mode_is(table):
    cut = {key for key, row in table.items() if row.step_ps == NEVER_ENDS}
    assert cut == {(state, MODES[0].name) for state in ("port", "leaf")}


def test_per_packet_slows_by_the_share_that_is_lost(table):
    for state, should in (("port", 4 / 3), ("leaf", 4 / 3), ("half-cable", 8 / 7)):
        row = table[state, "per packet"]
        assert row.should_ppm == round(should * PPM)
        if JIT:  # latency is a part of short steps
            assert row.slower_ppm == pytest.approx(row.should_ppm, rel=0.03)
        else:
            assert PPM < row.slower_ppm < row.should_ppm


def test_a_lost_leaf_leaves_every_pair_three_planes_and_a_port_its_own_pairs(table):
    for mode in MODES[1:]:
        assert table["whole", mode.name].planes == (4, 4)
        assert table["leaf", mode.name].planes == (3, 3)
        assert table["port", mode.name].planes == (3, 4)
        assert table["half-cable", mode.name].planes == (4, 4)


def test_flows_keep_order_and_hashes_leave_ports_idle(table):
    for (_, mode), row in table.items():
        assert row.again == 0
        assert (row.depth > 0) <= ("per packet" in mode or "per flowlet" in mode)
    assert table["whole", "per flow, sub-ports' addresses"].shared == 0
    assert table["whole", "per flow, loopbacks"].shared > 0
    loops, bound = (
        table["whole", f"per flow, {by}"] for by in ("loopbacks", "sub-ports' addresses")
    )
    assert loops.step_ps > bound.step_ps
    assert loops.busiest_bytes > bound.busiest_bytes


def test_the_fullest_port_is_as_counted_by_hand():
    """h0 sends 7 MB to h1: 4 planes of 800 Gbit/s; then one plane at half, one gone."""
    net = build_named_net(POD)
    messages = np.array([[0, 1, 7_000_000, 0]])
    program = build_program(messages, np.zeros((0, 2), np.int64))
    for words, seconds in (
        (None, 7e6 / 4 * 8 / 800e9),
        ("half-cable h1-plane2", 7e6 / 7 * 2 * 8 / 800e9),
        ("leaf plane2", 7e6 / 3 * 8 / 800e9),
        ("port h2-plane2", 7e6 / 4 * 8 / 800e9),
    ):
        failures = (Failure(0, fail=words),) if words else ()
        settings = Settings(planes="auto", routing="flows", failures=failures)
        assert fullest_s(net, program, settings) == pytest.approx(seconds, rel=1e-12)


def test_all_that_goes_into_a_port_counts_and_all_that_leaves_one():
    """h0 and h2 send 4 and 2 MB to h1, which sends 1 MB each to h0 and h3."""
    net = build_named_net(POD)
    messages = np.array([[0, 1, 4, 0], [2, 1, 2, 0], [1, 0, 1, 0], [1, 3, 1, 0]])
    for second, seconds in (([2, 1, 2, 0], 6e6), ([0, 3, 1, 0], 5e6)):
        messages[1] = second  # or h0 sends 1 MB to h3 too
        program = build_program(messages * [1, 1, 10**6, 1], np.zeros((0, 2), np.int64))
        found = fullest_s(net, program, Settings(planes="auto", routing="flows"))
        assert found == pytest.approx(seconds / 4 * 8 / 800e9, rel=1e-12)


def test_a_dispatch_sends_a_token_once_to_each_gpu_of_its_experts():
    program = dispatch(16, 8, 1)
    assert set(program.n_bytes.tolist()) <= {7392 * n for n in range(1, 9)}
    assert (program.src != program.dst).all()
    sent = np.bincount(program.src, program.n_bytes, 16) / 7392
    assert ((sent >= 8) & (sent <= 8 * 8)).all()
    assert (dispatch(16, 8, 1).n_bytes == program.n_bytes).all()
    assert not np.array_equal(dispatch(16, 8, 2).n_bytes, program.n_bytes)


def test_groups_run_side_by_side_each_among_its_own():
    for workload in ("all_to_all", "all_reduce", "dispatch"):
        one = program_of(workload, 4, How(1 << 16, 4, 0, 1))
        four = program_of(workload, 16, How(1 << 16, 4, 4, 1))
        assert (four.src % 4 == four.dst % 4).all()
        mine = four.src % 4 == 0
        table = np.column_stack([four.src // 4, four.dst // 4, four.n_bytes])[mine]
        assert np.array_equal(table, np.column_stack([one.src, one.dst, one.n_bytes]))
        assert four.pauses_ps.size == 4 * one.pauses_ps.size
        before, after = edges_of(four).T
        n = four.src.size
        for item in np.unique(np.concatenate([before, after])[before.size :]):
            waits = before[after == item]
            hosts = four.dst[waits[waits < n]] % 4
            assert np.unique(hosts).size <= 1
        assert sorted(four.n_needs.tolist()) == sorted(4 * one.n_needs.tolist())


def test_pauses_of_groups_stand_behind_all_their_messages():
    message, waits = np.array([[0, 1, 9, 0]]), np.array([[0, 1]])
    one = build_program(message, waits, pauses_ps=np.array([7]))
    both = side_by_side([one, one._replace(pauses_ps=np.array([8]))])
    assert edges_of(both).tolist() == [[0, 2], [1, 3]]
    assert both.pauses_ps.tolist() == [7, 8]
    assert (both.src.tolist(), both.dst.tolist()) == ([0, 1], [2, 3])


def test_rows_of_several_processes_are_those_of_one(monkeypatch):
    asked = plane_steps.Asked(
        POD, 1 << 18, 4, ("all_to_all",), modes=(MODES[0].name, MODES[-1].name)
    )
    said = []
    both = build_step_table(asked, said.append, jobs=2)
    assert both == build_step_table(asked, jobs=1)
    assert [row.step_ps == NEVER_ENDS for row in both.rows] == [0, 0, 1, 0, 0, 0, 1, 0]
    assert any("; " in text for text in said)
    with pytest.raises(ConfigError, match="fail: got 'h9-plane1'"):
        build_step_table(asked._replace(host="h9"), jobs=2)

    def refuses(net, program, settings):
        raise ConfigError("size", "of one run", "another")

    monkeypatch.setattr(plane_steps, "fullest_s", refuses)
    with pytest.raises(ConfigError, match="size: got 'of one run', allowed: another"):
        build_step_table(asked, jobs=2)


CLOS = "multi-plane:planes=2,pods=2,leaves=2,spines=2,cores=4,hosts=8,rate=400Gbps"


def test_groups_on_five_stages_lose_a_port_or_a_leaf_and_show_how_far_they_are(monkeypatch):
    step, said = plane_steps.Simulation.step, []
    monkeypatch.setattr(plane_steps.Simulation, "step", lambda sim: step(sim, 1000))
    asked = plane_steps.Asked(
        *(CLOS, N_BYTES >> 2, 4, ("all_to_all",)), group=4, modes=("per packet",)
    )
    table = build_step_table(asked, said.append)
    rows = {row.state: row for row in table.rows}
    assert list(rows) == ["whole", "port", "leaf"]  # one cable a port: it has no half
    assert [rows[state].planes for state in rows] == [(2, 2), (1, 2), (1, 2)]
    for state in ("port", "leaf"):
        assert rows[state].should_ppm == 2 * PPM
        if JIT:  # links of six microseconds there and back are not doubled
            more_ps = rows[state].step_ps - rows["whole"].step_ps
            assert more_ps == pytest.approx(3 * (N_BYTES >> 4) * 8 * 10**12 / 800e9, rel=0.06)
    for state, planes in (("whole", 2), ("leaf", 1)):
        busiest = rows[state].busiest_bytes
        assert busiest >= 3 * (N_BYTES >> 4) // planes  # three of four parts leave a GPU
        assert busiest < 1.05 * 3 * (N_BYTES >> 4) / planes
    assert said[:2] == [
        f"all_to_all, per packet, whole{x}" for x in ("", ": 24 messages by planes")
    ]
    assert any(text.startswith("all_to_all, per packet, leaf") for text in said)
    assert any(" of 24 done, " in text for text in said)


def test_what_has_no_planes_or_is_no_workload_is_told():
    with pytest.raises(ConfigError, match="hosts with planes"):
        build_step_table(plane_steps.Asked("star:hosts=4"))
    with pytest.raises(ConfigError, match="all_to_all, all_reduce, dispatch"):
        build_step_table(plane_steps.Asked(POD, workloads=("gather",)))
    with pytest.raises(ConfigError, match="group: got 3, allowed: 2 or more, a divisor of 4"):
        build_step_table(plane_steps.Asked(POD, group=3))
    with pytest.raises(ConfigError, match="modes: got 'per word', allowed: one plane"):
        build_step_table(plane_steps.Asked(POD, modes=("per word",)))
    with pytest.raises(ConfigError, match="a receiver, not h0"):
        plane_fan.build_fan_table(plane_fan.Asked(POD, 1 << 20, host="h0"))


def test_a_fan_by_weight_has_the_bytes_of_its_weights_at_every_gpu():
    n_bytes = (70 if JIT else 14) * 64 * 4096
    found = plane_fan.build_fan_table(plane_fan.Asked(POD, n_bytes))
    rows = {row.name: row for row in found.rows}
    by_weight = rows["fanfold, planes by weight"]
    assert by_weight.off_ppm < 2  # whole blocks, as many as the weights say
    assert by_weight.out_bytes == by_weight.hurt_bytes == by_weight.other_bytes
    assert by_weight.out_ppm == (285714, 142857, 285714, 285714)
    one, tree = rows["BIER, plane 0"], rows["PIM-SM, one link of plane 0"]
    assert sum(one.out_bytes[1:]) == sum(tree.out_bytes[1:]) == 0
    assert by_weight.last_ps < one.last_ps < tree.last_ps
    apart = rows["unicast, per packet by weight"]
    assert apart.hurt_ppm == by_weight.hurt_ppm
    assert apart.off_ppm < 2_000
    assert sum(apart.out_bytes) > 2.5 * sum(by_weight.out_bytes)
