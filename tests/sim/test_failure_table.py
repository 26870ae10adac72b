"""A table of failures: counted rows, elements on each scheme's own way, the same timers."""

import msgspec
import pytest

from fanfold.errors import ConfigError
from fanfold.kernels.jit import JIT
from fanfold.scenario.settings import Settings
from fanfold.study import failure_table
from fanfold.study.failure_rows import SCHEMES, parameters, schemes_of
from fanfold.study.failure_table import (
    NEVER_COMES,
    NOBODY,
    Asked,
    build_failure_table,
)
from fanfold.trees.settings import TreeSettings
from fanfold.units import PS_PER_MS, PS_PER_US

heavy = pytest.mark.skipif(not JIT, reason="some hundred thousand packet hops")
HELLO_PS = 20 * PS_PER_US
NEW_PATHS_PS = 2 * PS_PER_MS
QUICK = Settings(hello_ps=HELLO_PS, reroute_ps=NEW_PATHS_PS, tree_start="standing")
ASKED = Asked("fat-tree:k=4,rate=400Gbps", 8 << 20, settings=QUICK)


@pytest.fixture(scope="module")
def table():
    return build_failure_table(ASKED)


def rows(table, failure):
    return {row.scheme: row for row in table.rows if row.failure == failure}


@heavy
def test_every_scheme_has_a_row_for_each_failure(table):
    pairs = [(row.failure, row.scheme) for row in table.rows]
    assert len(pairs) == len(set(pairs)) == 3 * len(SCHEMES)


@heavy
def test_all_notice_by_the_same_timers(table):
    for row in table.rows:
        assert 2 * HELLO_PS < row.detect_ps <= 3 * HELLO_PS + PS_PER_US


@heavy
def test_only_receivers_behind_the_element_miss_something(table):
    for row in table.rows:
        assert row.gap_receivers == row.behind > 0
        assert row.lost_pkts > 0


@heavy
def test_what_is_made_ahead_comes_before_new_paths(table):
    spine = rows(table, "spine")
    for name in ("fanfold", "bier-frr", "mldp", "mofrr"):
        assert 0 < spine[name].gap_ps < 200 * PS_PER_US
    assert spine["bier"].gap_ps > NEW_PATHS_PS
    assert spine["bier"].whole_ps > NEW_PATHS_PS > spine["bier-frr"].whole_ps


@heavy
def test_who_lacks_nothing_is_sent_nothing_again(table):
    """Slots go up before their sender asks, so that it knows whom to ask."""
    for failure in ("link", "spine", "leaf"):
        assert rows(table, failure)["fanfold"].elsewhere_bytes == 0


@heavy
def test_who_hangs_on_a_dead_leaf_is_cut_off_and_the_others_end(table):
    for row in rows(table, "leaf").values():
        assert row.cut_off == row.behind == 2
        assert row.gap_ps == row.last_gap_ps == NOBODY
        assert row.whole_ps != NEVER_COMES


@heavy
def test_a_transfer_takes_no_less_time_for_a_failure(table):
    for row in table.rows:
        assert row.whole_ps >= row.base_ps > row.at_ps


@heavy
def test_messages_are_counted_or_said_to_be_none(table):
    for row in table.rows:
        assert bool(row.by_definition) == (row.scheme in ("bier", "bier-frr"))
        assert row.control == 0 or not row.by_definition
    assert rows(table, "link")["fanfold"].control > rows(table, "link")["mldp"].control > 0


@heavy
def test_the_same_seed_gives_the_same_table(table):
    again = build_failure_table(ASKED._replace(schemes="fanfold,bier-frr"))
    mine = [row for row in table.rows if row.scheme in ("fanfold", "bier-frr")]
    assert msgspec.json.encode(again.rows) == msgspec.json.encode(mine)


@heavy
def test_words_say_what_fails():
    asked = ASKED._replace(schemes="fanfold", failures=("node core0", "pause h3 100us"))
    first, second = build_failure_table(asked).rows
    assert (first.failure, first.words) == ("node core0", "node core0")
    assert (second.behind, second.gap_receivers, second.control) == (1, 1, 0)


def test_an_unknown_scheme_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match="bier-frr"):
        schemes_of("bier-fr")


def test_parameters_name_the_timers():
    told = parameters(QUICK, TreeSettings())
    assert "3 HELLOs of 20 us" in told["detection"]
    assert told["new unicast paths"].startswith("2 ms")


@heavy
def test_side_by_side_is_as_one_after_the_other(table):
    told = []
    ask = ASKED._replace(schemes="mldp,bier-frr", failures=("leaf",))
    beside = build_failure_table(ask, lambda *what: told.append(what), jobs=2)
    alone = {one.scheme: one for one in table.rows if one.failure == "leaf"}
    assert list(beside.rows) == [alone["mldp"], alone["bier-frr"]]
    assert {scheme for scheme, _ in told} == {"mldp", "bier-frr"}
    assert told[-1][1] == "done, 2 of 2"


@heavy
def test_a_refusal_beside_others_is_told():
    ask = ASKED._replace(schemes="mldp,bier", failures=("node zz",))
    with pytest.raises(ConfigError, match="got 'zz', allowed: a node"):
        build_failure_table(ask, jobs=2)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_row_that_needs_more_room_is_left_out_and_said_so(monkeypatch, jobs):
    """The others stand; what is wrong with the question is still refused."""

    def no_room(ground, scheme, failures, ways):
        raise ConfigError("fidelity", "262144 words at once", "fewer receivers")

    monkeypatch.setattr(failure_table, "_play", no_room)
    monkeypatch.setattr(failure_table, "_undisturbed", lambda *_: (100, {}))
    found = build_failure_table(
        ASKED._replace(schemes="mldp,bier", failures=("node core0",)), jobs=jobs
    )
    assert found.rows == ()
    assert found.left_out == (
        "mldp, node core0: 262144 words at once",
        "bier, node core0: 262144 words at once",
    )
