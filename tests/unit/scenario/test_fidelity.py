"""How much work a program is, and which fidelity it gets."""

import numpy as np
import pytest

from fanfold.errors import ConfigError
from fanfold.kernels.jit import JIT
from fanfold.scenario import fidelity
from fanfold.scenario.fidelity import Work, are_trains_exact, choose, distances
from fanfold.scenario.ranks import place_ranks, sources_of
from fanfold.scenario.rung_bounds import UNKNOWN, bound_ppm, bound_text
from fanfold.scenario.scenario import Workload
from fanfold.scenario.settings import Settings
from fanfold.schemes.catalog import CATALOG, scheme_of
from fanfold.schemes.options import SchemeOptions
from fanfold.schemes.program import Fan, Sum, build_program
from fanfold.schemes.tree_fans import Site
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes
from fanfold.trees.settings import TreeSettings
from fanfold.work.collective import Collective

NET = build_named_net("fat-tree:k=4")
ROUTES = build_routes(NET)
SETTINGS = Settings()
NO_EDGES = np.zeros((0, 2), np.int64)


def messages(*rows: tuple[int, int, int]) -> np.ndarray:
    return np.array([(*row, 0) for row in rows], np.int64).reshape(-1, 4)


def test_hosts_of_a_fat_tree_are_two_four_or_six_links_apart() -> None:
    src, dst = np.array([0, 0, 0]), np.array([1, 2, 15])
    assert distances(NET, ROUTES, src, dst).tolist() == [2, 4, 6]


def test_a_host_with_several_links_takes_the_nearest() -> None:
    net = build_named_net("multi-plane:planes=2,leaves=2,spines=1,hosts=4")
    a, b = np.array([0, 0]), np.array([1, 3])
    assert sorted(distances(net, build_routes(net), a, b).tolist()) == [2, 4]


def test_a_message_is_its_packets_and_their_acknowledgements() -> None:
    program = build_program(messages((0, 15, 4096 * 3), (0, 1, 1)), NO_EDGES)
    work = Work(NET, ROUTES, program, SETTINGS)
    assert work.records(1) == 2 * (3 * 6 + 1 * 2)
    assert work.records(2) == 2 * (2 * 6 + 1 * 2)
    assert work.records(64) == 2 * (1 * 6 + 1 * 2)
    pulled = Work(NET, ROUTES, program, Settings(transport="ndp"))
    assert pulled.records(1) == 3 * (3 * 6 + 1 * 2)


def test_a_fan_is_its_tree_and_a_word_for_each_block() -> None:
    fan = Fan(0, (1, 2, 3), 4096 * 65)
    folded, unfolded = (
        build_program(messages(), NO_EDGES, fans=(fan,), folds=folds) for folds in (True, False)
    )
    # a link to each receiver, one path of 1 and one of 3 links to their edge switches
    assert Work(NET, ROUTES, folded, SETTINGS).records(1) == (65 + 2) * (3 + 1 + 3)
    assert Work(NET, ROUTES, unfolded, SETTINGS).records(1) == 65 * 7 + 2 * (2 + 4 + 4)


def test_a_sum_is_its_tree_up_and_down() -> None:
    one = Sum((0, 1, 2, 3), 816 * 4 * 65)  # with as many exponents 4,080 bytes a packet
    program = build_program(messages(), NO_EDGES, sums=(one,))
    # the links that a fan from rank 0 would take, its own among them, both ways
    assert Work(NET, ROUTES, program, SETTINGS).records(1) == 2 * 65 * (3 + 1 + 3)
    assert Work(NET, ROUTES, program, SETTINGS).records(64) == 2 * 65 * (3 + 1 + 3)


def test_sums_of_installed_trees_go_by_flow_only() -> None:
    work = Collective("all_reduce", 4096, (0, 1, 2, 3))
    program = scheme_of("sharp").build(work, site=Site(NET, TreeSettings()))
    for asked in ("auto", "flow"):
        choice = choose(asked, NET, ROUTES, program, SETTINGS)
        assert (choice.rung, choice.error_ppm) == ("flow", UNKNOWN)
    for asked in ("packet", "train"):
        with pytest.raises(ConfigError, match=f"workload.kind: got .*{asked}"):
            choose(asked, NET, ROUTES, program, SETTINGS)


def test_more_hosts_than_bfr_ids_need_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    fan, one = Fan(0, (1, 2), 1), Sum((0, 1), 1)
    for more in ({"fans": (fan,)}, {"sums": (one,)}):
        program = build_program(messages(), NO_EDGES, **more)
        for limit, rung in ((16, "packet"), (15, "flow")):
            monkeypatch.setattr(fidelity, "MAX_BFR_ID", limit)
            assert choose("auto", NET, ROUTES, program, SETTINGS).rung == rung
    program = build_program(messages((0, 1, 1)), NO_EDGES)
    assert choose("auto", NET, ROUTES, program, SETTINGS).rung == "packet"


def test_words_to_sources_have_a_limit_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    fans = tuple(Fan(h, (h + 1, h + 2, h + 3), 4096 * 65) for h in range(2))
    for folds, n_slots, words in ((True, 2, 4), (True, 1, 12), (False, 2, 12)):
        program = build_program(messages(), NO_EDGES, fans=fans, folds=folds)
        settings = Settings(n_slots=n_slots)
        assert Work(NET, ROUTES, program, settings).words == words
        monkeypatch.setattr(fidelity, "MAX_WORDS", words)
        assert choose("auto", NET, ROUTES, program, settings).rung == "packet"
        monkeypatch.setattr(fidelity, "MAX_WORDS", words - 1)
        assert choose("auto", NET, ROUTES, program, settings).rung == "flow"


def test_pieces_of_the_compact_form_count_as_pieces() -> None:
    plain = build_program(messages((0, 1, 8192), (0, 1, 8192)), NO_EDGES)
    compact = build_program(messages((0, 1, 16384)), NO_EDGES, chunks=2)
    for segment in (1, 2, 8):
        a, b = (Work(NET, ROUTES, p, SETTINGS).records(segment) for p in (plain, compact))
        assert a == b


@pytest.mark.parametrize(
    ("limit", "rung", "segment"),
    [(2 * 6 * 100, "packet", 1), (2 * 6 * 100 - 1, "train", 2), (2 * 6 * 49, "train", 4),
     (2 * 6 * 2, "train", 64), (2 * 6 * 2 - 1, "flow", 0)],
)  # fmt: skip
def test_the_finest_fidelity_within_the_limit(
    limit: int, rung: str, segment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fidelity, "MAX_RECORDS", limit)
    # trains better than flow, whatever was measured
    monkeypatch.setattr(fidelity, "bound_ppm", lambda *of: 2 if of[3] == 0 else 1)
    program = build_program(messages((0, 15, 4096 * 100)), NO_EDGES)
    choice = choose("auto", NET, ROUTES, program, SETTINGS)
    assert (choice.rung, choice.segment_pkts) == (rung, segment)
    assert "1,200 packet hops" in choice.why
    for asked in ("packet", "train", "flow"):
        told = choose(asked, NET, ROUTES, program, SETTINGS)
        assert (told.rung, told.why) == (asked, "asked for")


@pytest.mark.parametrize(
    ("train", "flow", "rung"),
    [(20, 10, "flow"), (10, 20, "train"), (10, 10, "train"), (UNKNOWN, 10, "flow"),
     (10, UNKNOWN, "train"), (UNKNOWN, UNKNOWN, "train")],
)  # fmt: skip
def test_of_trains_and_flow_the_one_with_the_smaller_bound(
    train: int, flow: int, rung: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fidelity, "MAX_RECORDS", 2 * 6 * 49)
    bounds = {1: 0, 4: train, 0: flow}
    monkeypatch.setattr(fidelity, "bound_ppm", lambda *of: bounds[of[3]])
    program = build_program(messages((0, 15, 4096 * 100)), NO_EDGES)
    choice = choose("auto", NET, ROUTES, program, SETTINGS)
    assert (choice.rung, choice.error_ppm) == (rung, train if rung == "train" else flow)
    assert f"trains of 4 {bound_text(train)}, flow {bound_text(flow)}" in choice.why


@pytest.mark.parametrize(
    "settings",
    [
        Settings(loss_ppb=1),
        Settings(transport="ndp"),
        Settings(pfc_pkts=(2, 1)),
        Settings(queue_bytes=1),
    ],
)
def test_what_may_lose_a_packet_moves_packet_by_packet(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fidelity, "MAX_RECORDS", 1)
    program = build_program(messages((0, 15, 4096)), NO_EDGES)
    assert not are_trains_exact(settings)
    assert choose("auto", NET, ROUTES, program, settings).rung == "packet"
    monkeypatch.setattr(fidelity, "MAX_LOSSY_RECORDS", 1)
    choice = choose("auto", NET, ROUTES, program, settings)
    assert choice.rung == "flow"
    assert "not in it" in choice.why


def test_a_dozen_schemes_at_the_limit_end_within_a_minute() -> None:
    assert 12 * fidelity.MAX_RECORDS * 2 <= 60 * 4_000_000  # two events a record


@pytest.mark.parametrize(
    ("n_hosts", "share"), [(1, 1), (4095, 1), (4096, 2), (32_767, 2), (32_768, 4), (65_536, 4)]
)
def test_large_nets_have_fewer_records_since_each_takes_longer(n_hosts, share) -> None:
    assert fidelity.limit_of(n_hosts) == fidelity.MAX_RECORDS // share


@pytest.mark.skipif(not JIT, reason="a thousand hosts: for compiled code")
def test_a_thousand_hosts_and_64_mib_go_by_the_rung_that_is_off_least() -> None:
    """Trains where these are nearer to packets, flow for pipelines and for words of many."""
    net = build_named_net("fat-tree:k=16")
    routes = build_routes(net)
    work = Collective("broadcast", 64 << 20, tuple(range(1024)))
    rungs = {}
    for scheme in CATALOG:
        if work.kind in scheme.kinds:
            options = SchemeOptions(compact=True)
            program = scheme.build(work, options, Site(net, TreeSettings()))
            choice = choose("auto", net, routes, program, SETTINGS)
            rungs[scheme.name] = choice.rung
            n = fidelity.Work(net, routes, program, SETTINGS).segment(fidelity.MAX_RECORDS)
            train, flow = (bound_ppm(net, program, SETTINGS, k) for k in (n, 0))
            has_words = program.fans and not program.folds
            assert choice.error_ppm == (flow if has_words else min(train, flow)), scheme.name
    assert rungs["fanfold"] == rungs["unicast"] == "train"
    assert rungs["chain"] == rungs["halving-doubling"] == rungs["mldp"] == "flow"


def test_ranks_stand_as_asked() -> None:
    def hosts(order: str, seed: int = 1) -> tuple[int, ...]:
        return place_ranks(Workload("reduce", 1, 4, order), 16, seed).hosts

    assert hosts("packed") == (0, 1, 2, 3)
    assert hosts("spread") == (0, 4, 8, 12)
    assert hosts("shuffled") == hosts("shuffled") != hosts("shuffled", 2)
    assert len(set(hosts("shuffled"))) == 4
    assert place_ranks(Workload("reduce", 1), 16, 1).hosts == tuple(range(16))


@pytest.mark.parametrize(("ranks", "is_fine"), [(16, True), (17, False)])
def test_no_more_ranks_than_hosts(ranks: int, is_fine: bool) -> None:
    if is_fine:
        place_ranks(Workload("reduce", 1, ranks), 16, 1)
    else:
        with pytest.raises(ConfigError, match=r"workload.ranks: got 17, allowed: 2..16"):
            place_ranks(Workload("reduce", 1, ranks), 16, 1)


def test_who_starts() -> None:
    hosts = (4, 2, 9)
    assert sources_of(Collective("broadcast", 1, hosts)) == (4,)
    assert sources_of(Collective("reduce", 1, hosts)) == (2, 9)
    assert sources_of(Collective("all_reduce", 1, hosts)) == hosts
