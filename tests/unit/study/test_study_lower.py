"""What a scheme sends for a phase: bytes against a twin with dictionaries."""

from collections import Counter

import numpy as np
import pytest

from fanfold.errors import ConfigError
from fanfold.schemes.catalog import scheme_of
from fanfold.schemes.program import edges_of
from fanfold.schemes.program_rules import check_program
from fanfold.schemes.tree_fans import Site
from fanfold.study import lower as lower_module
from fanfold.study.lower import Sent, delay, lower, merged
from fanfold.study.phases import Cast, Phase
from fanfold.study.sweep import schemes_of
from fanfold.topo.nets import build_named_net
from fanfold.trees.settings import TreeSettings
from fanfold.work.collective import Collective

NET = build_named_net("star:hosts=6")
SITE = Site(NET, TreeSettings())
CASTS = (
    Cast(0, (1, 2), 9000),
    Cast(0, (1, 2), 1000),
    Cast(3, (0, 4, 5), 5000),
    Cast(3, (0, 4), 5000),
    Cast(1, (2,), 77),
)
SCHEMES = schemes_of(["all"])


def due(casts: tuple[Cast, ...]) -> Counter[int]:
    sums: Counter[int] = Counter()
    for cast in casts:
        for host in cast.receivers:
            sums[host] += cast.n_bytes
    return sums


def got(sent: Sent) -> Counter[int]:
    sums: Counter[int] = Counter()
    program = sent.program
    for host, n_bytes in zip(program.dst.tolist(), program.n_bytes.tolist(), strict=True):
        sums[host] += n_bytes
    for fan in program.fans:
        for host in fan.receivers:
            sums[host] += fan.n_bytes
    for one in program.sums:
        for host in one.hosts[: None if one.to_all else 1]:
            sums[host] += one.n_bytes
    return sums


@pytest.mark.parametrize("name", SCHEMES)
def test_every_receiver_gets_every_byte_of_its_casts(name: str) -> None:
    sent = lower(scheme_of(name), Phase("out", casts=CASTS), SITE, compact=False)
    check_program(sent.program, NET.n_hosts)
    assert got(sent) == due(CASTS)


@pytest.mark.parametrize("name", SCHEMES)
def test_results_come_back_to_the_source(name: str) -> None:
    sent = lower(scheme_of(name), Phase("in", casts=CASTS, way="back"), SITE, compact=False)
    check_program(sent.program, NET.n_hosts)
    assert not sent.program.fans
    home = got(sent)
    assert all(home[cast.source] >= cast.n_bytes for cast in CASTS)
    is_summed = "reduce" in scheme_of(name).kinds and name != "unicast"
    assert bool(sent.note) == ("reduce" not in scheme_of(name).kinds)
    n_sent = sum(home.values())
    is_folded = bool(sent.program.sums)  # the network brings one result, whoever sent
    assert is_folded == (name == "fanfold")
    n_each = [1 if is_folded else len(cast.receivers) for cast in CASTS]
    wanted = sum(n * cast.n_bytes for n, cast in zip(n_each, CASTS, strict=True))
    assert n_sent == wanted, is_summed


def test_too_many_groups_for_slots_send_results_back_by_unicast(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lower_module, "MOST_SUMS", len(merged(CASTS)) - 1)
    sent = lower(
        scheme_of("fanfold"), Phase("in", casts=CASTS, way="back"), SITE, compact=False
    )
    assert not sent.program.sums
    assert "unicast" in sent.note


@pytest.mark.parametrize("name", SCHEMES)
def test_groups_sum_up_side_by_side(name: str) -> None:
    works = (
        Collective("all_reduce", 6000, (0, 1, 2)),
        Collective("all_reduce", 6000, (3, 4, 5)),
    )
    sent = lower(scheme_of(name), Phase("sum", collectives=works), SITE, compact=False)
    check_program(sent.program, NET.n_hosts)
    first = {0, 1, 2}
    program = sent.program
    pairs = zip(program.src.tolist(), program.dst.tolist(), strict=True)
    assert all((src in first) == (dst in first) for src, dst in pairs)
    assert all(
        {fan.source in first} == {h in first for h in fan.receivers} for fan in program.fans
    )
    sides = [src in first for src in program.src.tolist()]
    sides += [fan.source in first for fan in program.fans]
    sides += [set(one.hosts) <= first for one in program.sums]
    edges = edges_of(program).tolist()
    if program.sums:  # one item each
        assert {one.hosts for one in program.sums} == {(0, 1, 2), (3, 4, 5)}
    assert edges or program.sums
    assert all(sides[before] == sides[after] for before, after in edges)


def test_what_a_scheme_cannot_do_is_refused_by_the_workload() -> None:
    phase = Phase("all", collectives=(Collective("all_to_all", 6, (0, 1, 2)),))
    with pytest.raises(ConfigError, match=r"workload\.kind"):
        lower(scheme_of("ring"), phase, SITE, compact=False)


def test_casts_to_the_same_receivers_are_one() -> None:
    assert merged(CASTS)[0] == Cast(0, (1, 2), 10_000)
    assert len(merged(CASTS)) == 4
    later = (Cast(0, (1,), 5), Cast(0, (1,), 5, 1), Cast(0, (1,), 5, 0, 9))
    assert merged(later) == later


def test_nothing_reaches_a_host_before_it_is_ready() -> None:
    ready = np.array([0, 10, 20, 0, 0, 5], np.int64)
    sent = lower(
        scheme_of("ring"), Phase("p", casts=(Cast(0, (1, 2, 5), 9),)), SITE, compact=False
    )
    late = delay(sent.program, ready)
    for src, dst, start in zip(late.src, late.dst, late.start_ps, strict=True):
        assert start >= max(ready[src], ready[dst])


def test_items_know_where_their_bytes_begin() -> None:
    casts = (Cast(0, (1,), 300), Cast(0, (1,), 700, 1, 300), Cast(0, (2,), 300))
    sent = lower(scheme_of("unicast"), Phase("p", casts=casts), SITE, compact=False)
    assert sorted(zip(sent.begin.tolist(), sent.program.n_bytes.tolist(), strict=True)) == [
        (0, 300),
        (0, 300),
        (300, 700),
    ]
