"""Graphs of phases, and costs, by hand."""

from typing import Literal

import numpy as np
import pytest

from fanfold.errors import MisuseError
from fanfold.results.outcome import Outcome
from fanfold.study.costs import Prices, link_costs, priced, step_costs
from fanfold.study.phases import Graph, Phase, schedule
from fanfold.topo.nets import build_named_net
from fanfold.units import PS_PER_SECOND

ZERO = np.zeros(0, np.int64)


def compute(name: str, ps: list[int], *needs: str) -> Phase:
    return Phase(name, needs, compute_ps=np.array(ps, np.int64))


def outcome(host_ps: list[int], due: list[int]) -> Outcome:
    """Of one phase on star:hosts=3; each host's uplink carries 10 x its number + 1 bytes."""
    net = build_named_net(f"star:hosts={len(host_ps)}")
    link_bytes = np.zeros((net.n_links, 4), np.int64)
    link_bytes[: len(host_ps), 0] = 10 * np.arange(len(host_ps)) + 1
    none = np.zeros(net.n_links, np.int64)
    return Outcome(
        fidelity="packet",
        end_ps=max(host_ps),
        host_ps=np.array(host_ps, np.int64),
        item_ps=ZERO,
        got_bytes=np.array(due, np.int64),
        due_bytes=np.array(due, np.int64),
        link_pkts=link_bytes,
        link_bytes=link_bytes,
        link_drops=none,
        link_trims=none,
        link_peak_bytes=none + 7,
        feedback_at_source=np.array([3], np.int64),
        repairs=(1, 50),
        n_folds=(0, 0, 0),
        n_hops=0,
        n_events=0,
        stuck=(),
        reason="",
    )


def graph(*phases: Phase, waits: str = "receivers", durable: str = "") -> Graph:
    return Graph("star:hosts=3", 3, 3, phases, waits=waits, durable=durable)  # type: ignore[arg-type]


def test_a_phase_begins_when_the_last_of_its_needs_has_ended() -> None:
    phases = [Phase("a"), Phase("b"), Phase("c", ("a", "b")), Phase("d", ("a",))]
    spans = schedule(phases, {"a": 5, "b": 9, "c": 2, "d": 1})
    assert [spans[name] for name in "abcd"] == [(0, 5), (0, 9), (9, 11), (5, 6)]


@pytest.mark.parametrize(
    "phases", [[Phase("a"), Phase("a")], [Phase("a", ("b",)), Phase("b")]], ids=str
)
def test_a_graph_that_does_not_hold_is_a_bug(phases: list[Phase]) -> None:
    with pytest.raises(MisuseError):
        schedule(phases, {"a": 1, "b": 1})


def test_a_step_by_hand() -> None:
    # GPUs compute 4, 6, 2; the net takes 10; then all compute 1: 17 in all, 15 of 51 busy.
    steps = graph(
        compute("in", [4, 6, 2]), Phase("move", ("in",)), compute("out", [1] * 3, "move")
    )
    values = step_costs(
        steps, {"in": 6, "move": 10, "out": 1}, {"move": outcome([0, 8, 10], [0, 5, 5])}
    )
    assert values["step_ps"] == 17
    assert values["idle_gpu_ps"] == 51 - 15
    assert values["utilisation_ppm"] == 15 * 10**6 // 51
    assert (values["time_all_ps"], values["time_p50_ps"], values["straggler_ps"]) == (10, 8, 2)


def test_receivers_of_two_phases_wait_for_both() -> None:
    moves = {"a": outcome([0, 8, 10], [0, 5, 5]), "b": outcome([0, 3, 1], [0, 5, 5])}
    values = step_costs(graph(Phase("a"), Phase("b", ("a",))), {"a": 10, "b": 3}, moves)
    assert values["time_all_ps"] == 13
    assert values["time_p50_ps"] == 11
    assert values["idle_gpu_ps"] == 24


def test_times_of_joiners_count_from_their_arrival() -> None:
    ready = np.array([0, 2, 7], np.int64)
    moves = {"a": outcome([0, 8, 10], [0, 5, 5])}
    values = step_costs(graph(Phase("a", ready_ps=ready)), {"a": 10}, moves)
    assert (values["time_all_ps"], values["time_p50_ps"]) == (6, 3)


def test_all_gpus_wait_for_disks() -> None:
    phases = (
        Phase("send"),
        Phase("disk", idle_ps=25),
        Phase("done", ("send", "disk"), idle_ps=0),
    )
    moves = {"send": outcome([0, 8, 10], [0, 5, 5])}
    steps = graph(*phases, waits="gpus", durable="done")
    values = step_costs(steps, {"send": 10, "disk": 25, "done": 0}, moves)
    assert values["durable_ps"] == 25
    assert values["idle_gpu_ps"] == 75


@pytest.mark.parametrize("waits", ["receivers", "gpus"])
def test_idle_time_of_many_gpus_is_not_bound_by_64_bits(
    waits: Literal["receivers", "gpus"],
) -> None:
    """65,536 hosts x 10^5 s are 6.55 x 10^21 ps, seven hundred times 2^63."""
    n, each = 65_536, 10**5 * PS_PER_SECOND
    moves = {"a": outcome([0] + [each] * (n - 1), [0] + [5] * (n - 1))}
    steps = graph(Phase("a"), waits=waits)._replace(gpus=n)
    values = step_costs(steps, {"a": each}, moves)
    assert values["idle_gpu_ps"] == each * (n if waits == "gpus" else n - 1)
    assert values["time_p99_ps"] == each


def test_time_of_gpus_that_compute_is_not_bound_by_64_bits() -> None:
    n, each = 65_536, 10**5 * PS_PER_SECOND
    values = step_costs(graph(compute("in", [each] * n))._replace(gpus=n), {"in": 2 * each}, {})
    assert values["idle_gpu_ps"] == each * n
    assert values["utilisation_ppm"] == 500_000


def test_links_of_two_phases_add_up() -> None:
    net = build_named_net("star:hosts=3")
    moves = [outcome([0, 8, 10], [0, 5, 5])] * 2
    values = link_costs(net, (1,), moves, has_exit=False)
    assert values["source_bytes"] == 2 * 11
    assert values["busiest_bytes"] == 2 * 21
    assert values["fabric_bytes"] == 2 * (1 + 11 + 21)
    assert values["feedback_pkts"] == 6
    assert values["queue_bytes"] == 7
    assert values["repair_bytes"] == 100


def test_egress_is_what_the_first_source_s_site_hands_to_its_border() -> None:
    net = build_named_net("wan:sites=3,hosts=2", seed=1)
    one = outcome([0, 8, 10], [0, 5, 5])
    tier = net.tier
    up = (tier[net.src] == 1) & (tier[net.dst] == 2)
    home = net.src == net.dst[net.src == 0][0]
    link_bytes = np.zeros((net.n_links, 4), np.int64)
    link_bytes[up & home, 0], link_bytes[up & ~home, 0] = 70, 900
    between = (tier[net.src] == 2) & (tier[net.dst] == 2)
    link_bytes[between, 0] = 10
    moves = [one._replace(link_bytes=link_bytes, link_drops=ZERO, link_peak_bytes=ZERO)]
    values = link_costs(net, (0,), moves, has_exit=True)
    assert values["egress_bytes"] == 70
    assert values["wan_bytes"] == 10 * int(between.sum())


def test_money_and_energy_only_where_somebody_gave_a_price() -> None:
    values = {"source_bytes": 3 * 10**9, "fabric_bytes": 10**9, "idle_gpu_ps": 2 * 10**12}
    assert priced(values, Prices()) == {}
    assert priced(values, Prices(20_000, 5, 700)) == {
        "egress_micro_usd": 60_000,
        "energy_mj": 40,
        "idle_energy_mj": 2 * 700 * 1000,
    }
    assert priced(values | {"egress_bytes": 1}, Prices(20_000))["egress_micro_usd"] == 1
