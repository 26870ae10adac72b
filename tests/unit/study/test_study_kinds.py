"""Graphs of studies: bytes and sets against twins, by small numbers."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from fanfold.errors import ConfigError
from fanfold.study.ask import Setting, StudyRequest
from fanfold.study.catalog import CATALOG, kind_of
from fanfold.study.fabrics import default_topology
from fanfold.study.keys import defaults_of
from fanfold.study.phases import Graph, Phase, Style, check_graph
from fanfold.study.sweep import tasks_of
from fanfold.study.task import setting_of
from fanfold.topo.nets import build_named_net

STYLES: tuple[Style, ...] = ("copies", "relay", "fan", "tree")


def setting(kind: str, **given: str) -> Setting:
    return setting_of(tasks_of(StudyRequest(kind, given, ("fanfold",)))[0])


def graph(kind: str, style: Style, **given: str) -> Graph:
    return kind_of(kind).graph(setting(kind, **given), style)


def phase(made: Graph, name: str) -> Phase:
    return next(p for p in made.phases if p.name == name)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", [row.name for row in CATALOG])
def test_every_study_has_a_graph_on_a_fabric_that_holds_it(kind: str, style: Style) -> None:
    made = graph(kind, style, gpus="16")
    check_graph(made.phases)
    net = build_named_net(made.topology, 1)
    assert net.n_hosts >= made.n_hosts >= made.gpus == 16
    hosts = {h for p in made.phases for c in p.casts for h in (c.source, *c.receivers)}
    hosts |= {h for p in made.phases for w in p.collectives for h in w.hosts}
    assert hosts <= set(range(made.n_hosts))
    for p in made.phases:
        assert p.compute_ps is None or p.compute_ps.shape == (made.gpus,)


@pytest.mark.parametrize("gpus", [2, 8, 16, 60, 64, 256, 1000, 1024])
def test_a_default_fabric_holds_its_hosts(gpus: int) -> None:
    assert build_named_net(default_topology(gpus, 10**11)).n_hosts >= gpus


def test_a_rail_fabric_is_not_oversubscribed() -> None:
    net = build_named_net(default_topology(256, 4 * 10**11))
    leaves = np.nonzero([net.node_name(n).startswith("leaf") for n in range(net.n_nodes)])[0]
    for leaf in leaves:
        out = net.dst[net.src == leaf]
        assert (out < net.n_hosts).sum() == (out >= net.n_hosts).sum()


def test_tokens_of_a_trace_go_to_the_ranks_of_their_experts(tmp_path: Path) -> None:
    # mixtral: 8 experts on 4 ranks, two each; one token on each rank, in order.
    trace = tmp_path / "trace.npz"
    np.savez(trace, experts=np.array([[0, 1], [0, 7], [4, 5], [2, 3]]))
    given = {"model": "mixtral-8x7b", "gpus": "4", "tokens": "1", "trace": str(trace)}
    made = graph("moe-dispatch", "fan", **given)
    sets = [(c.source, c.receivers, c.n_bytes) for c in phase(made, "dispatch").casts]
    assert sets == [(1, (0, 3), 8192), (3, (1,), 8192)]  # the rest is at home
    each = graph("moe-dispatch", "copies", way="expert", **given)
    counts = Counter(h for c in phase(each, "dispatch").casts for h in c.receivers)
    assert counts == {0: 1, 3: 1, 1: 2}
    back = phase(made, "combine")
    assert [(c.source, c.receivers) for c in back.casts] == [s[:2] for s in sets]
    assert back.way == "back"


def test_by_node_reaches_the_same_ranks_over_fewer_copies_between_nodes() -> None:
    given = {"gpus": "16", "tokens": "4", "node": "4"}
    by_rank = phase(graph("moe-dispatch", "fan", **given), "dispatch").casts
    made = graph("moe-dispatch", "fan", way="node", **given)
    across, inside = phase(made, "dispatch across").casts, phase(made, "dispatch inside").casts
    for cast in across:
        assert all(
            h % 4 == cast.source % 4 and h // 4 != cast.source // 4 for h in cast.receivers
        )
    assert all(h // 4 == cast.source // 4 for cast in inside for h in cast.receivers)
    between = sum(h // 4 != c.source // 4 for c in by_rank for h in c.receivers)
    assert sum(len(c.receivers) for c in across) < between
    wanted = Counter(h for c in by_rank for h in c.receivers)
    reached = Counter(h for c in (*across, *inside) for h in c.receivers)
    assert all(reached[h] >= n for h, n in wanted.items())


def test_a_flood_takes_every_token_to_every_rank_from_some_of_them() -> None:
    made = phase(graph("moe-dispatch", "tree", gpus="64", tokens="2"), "dispatch")
    assert sum(c.n_bytes for c in made.flood) == sum(c.n_bytes for c in made.casts)
    assert len(made.flood) == 32
    assert {len(c.receivers) for c in made.flood} == {63}
    assert graph("moe-dispatch", "fan", gpus="64").phases[1].flood == ()


def test_more_gpus_than_experts_are_several_groups() -> None:
    made = graph("moe-dispatch", "fan", model="mixtral-8x7b", gpus="16", tokens="1")
    for cast in phase(made, "dispatch").casts:
        assert all(h // 8 == cast.source // 8 for h in cast.receivers)


def test_packets_cut_a_token_evenly() -> None:
    made = graph("moe-dispatch", "fan", gpus="16", tokens="1")
    assert phase(made, "dispatch").payload_bytes == 3696  # 7392 = 2 x 3696
    assert phase(made, "combine").payload_bytes == 3584  # 14336 = 4 x 3584


def test_every_joiner_gets_every_piece_once_after_it_came() -> None:
    made = graph("cold-start", "fan", gpus="5", size="64MB", within="1s", rate="1Gbps")
    draw = phase(made, "draw")
    assert draw.ready_ps is not None
    got: Counter[int] = Counter()
    for cast in draw.casts:
        for host in cast.receivers:
            got[host] += cast.n_bytes
            assert cast.start_ps >= draw.ready_ps[host]
    assert got == dict.fromkeys(range(1, 6), 64_000_000)
    pieces = {(c.begin, h) for c in draw.casts for h in c.receivers}
    assert len(pieces) == 5 * 64


def test_a_checkpoint_lies_on_replicas_of_different_nodes() -> None:
    made = graph("checkpoint", "fan", gpus="16", replicas="3", size="160MB")
    casts = phase(made, "send").casts
    assert all(len(set(c.receivers)) == 3 and min(c.receivers) >= 16 for c in casts)
    assert sum(c.n_bytes for c in casts) == 160_000_000
    # 480 MB over 3 nodes at 25 GB/s each.
    assert phase(made, "disk").idle_ps == 160 * 10**6 * 10**12 // (25 * 10**9)


def test_copies_go_to_regions_and_multicast_to_all() -> None:
    copies = graph("inter-dc", "copies", gpus="8", regions="4")
    assert [len(p.casts) for p in copies.phases] == [1, 4]
    assert copies.phases[0].casts[0].receivers == (2, 4, 6, 8)
    fan = graph("inter-dc", "fan", gpus="8", regions="4")
    assert [p.casts[0].receivers for p in fan.phases] == [tuple(range(2, 10))]


def test_gradients_of_gpt_3b_are_741_6_mb_on_each_gpu() -> None:
    made = graph("allreduce", "fan", model="gpt-3b-32", gpus="32", tp="4", pp="4")
    works = [w for p in made.phases for w in p.collectives]
    assert abs(works[0].n_bytes - 741_600_000) < 50_000  # ADR 0015: to four digits
    assert len(works) == 16
    assert {len(w.hosts) for w in works} == {2}


@pytest.mark.parametrize(
    ("kind", "given", "field"),
    [
        ("moe-dispatch", {"model": "llama3-70b"}, "model"),
        ("moe-dispatch", {"gpus": "31"}, "--gpus"),
        ("moe-dispatch", {"gpus": "16", "ep": "3"}, "ep"),
        ("moe-dispatch", {"gpus": "64", "tokens": "999"}, "tokens"),
        ("moe-dispatch", {"gpus": "16", "trace": "none.npz"}, "trace"),
        ("allreduce", {"gpus": "64", "tp": "64"}, "--gpus"),
        ("checkpoint", {"gpus": "16", "nodes": "2"}, "nodes"),
        ("inter-dc", {"gpus": "7"}, "--gpus"),
        ("federated", {"gpus": "15"}, "clusters"),
        ("federated", {"gpus": "16", "form": "decentralised", "neighbours": "3"}, "neighbours"),
        ("cold-start", {"gpus": "4", "size": "1kB", "first": "2kB"}, "first"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(
    kind: str, given: dict[str, str], field: str
) -> None:
    with pytest.raises(ConfigError) as told:
        graph(kind, "fan", **given)
    assert told.value.field == field


def test_every_default_says_where_it_is_from() -> None:
    for row in CATALOG:
        for default in defaults_of(row.all_keys, {}):
            assert default.source
            assert default.value
