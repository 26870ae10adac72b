"""Every scheme does what its collective promises, in any order of events."""

import time
from pathlib import Path

import numpy as np
import pytest
from symbolic import check_plan

from fanfold import schemes
from fanfold.errors import ConfigError
from fanfold.schemes import catalog, draft, program_rules
from fanfold.schemes.catalog import CATALOG, scheme_of
from fanfold.schemes.options import LATENCY_BYTES, SchemeOptions
from fanfold.schemes.program import RECEIVED, build_program, edges_of, expand
from fanfold.schemes.program_rules import check_order, check_program
from fanfold.schemes.tree_shape import depth_of, in_order_parents, second_parents
from fanfold.work.collective import Collective

NOT_SCHEMES = {
    *("__init__", "catalog", "draft", "exchange", "options", "program", "program_rules"),
    *("traced", "tree_fans", "tree_shape"),
}
PAIRS = [(scheme.name, kind) for scheme in CATALOG for kind in scheme.kinds]


def work_of(kind, n, per_rank=24, spread=3):
    return Collective(kind, n * per_rank, tuple(range(0, n * spread, spread)))


@pytest.mark.parametrize(("name", "kind"), PAIRS)
@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 13, 16])
def test_every_rank_ends_with_what_is_promised(name, kind, n):
    work = work_of(kind, n)
    if name == "halving-doubling" and n & (n - 1):
        with pytest.raises(ConfigError, match="a power of two"):
            scheme_of(name).build(work)
        return
    is_piped = "tree" in name or name in ("chain", "bier", "parameter-server")
    for chunks in (1, 5) if is_piped else (0,):
        plan = scheme_of(name).explained(work, SchemeOptions(chunks=chunks))
        check_plan(plan, work)
        check_program(plan.program, 3 * n)


def test_an_all_reduce_stays_plain_unless_it_is_huge(monkeypatch):
    work, options = work_of("all_reduce", 8), SchemeOptions(chunks=3, compact=True)
    for limit, chunks in ((2 * 7 * 3, 1), (2 * 7 * 3 - 1, 3)):
        monkeypatch.setattr(catalog, "MAX_MESSAGES", limit)
        assert scheme_of("binary-tree").build(work, options).chunks == chunks
    assert scheme_of("binary-tree").build(work_of("reduce", 8), options).chunks == 3


def assert_same(row, other):
    for a, b in zip(row, other, strict=True):
        assert np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b


@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test_the_compact_form_expands_to_the_plain_one(name, kind, monkeypatch):
    monkeypatch.setattr(catalog, "MAX_MESSAGES", 0)
    work = work_of(kind, 8)
    plain = draft.spell_out(scheme_of(name).explained(work, SchemeOptions(chunks=3)))
    compact = scheme_of(name).explained(work, SchemeOptions(chunks=3, compact=True))
    assert_same(expand(compact.program), plain.program)
    assert_same(draft.spell_out(compact)[1:], plain[1:])


@pytest.mark.parametrize(
    ("name", "kind", "n_bytes"),
    [
        # a vector of 24 * 16 = 384 bytes at 16 ranks; a shard is 24
        ("unicast", "broadcast", 15 * 384),
        ("unicast", "all_reduce", 2 * 15 * 384),
        ("parameter-server", "all_reduce", 2 * 15 * 384),
        ("ring", "all_reduce", 2 * 15 * 384),
        ("ring", "all_gather", 15 * 384),
        ("ring", "broadcast", 15 * 384),
        ("binary-tree", "all_reduce", 2 * 15 * 384),
        ("double-binary-tree", "broadcast", 15 * 384),
        ("halving-doubling", "all_reduce", 2 * 15 * 384),
        # scatter: 4 rounds of half the vector; then all but what the scatter brought
        ("halving-doubling", "broadcast", 15 * 384),
        ("direct", "all_to_all", 16 * 15 * 24),
        ("bier", "broadcast", 384),
        ("fanfold", "all_gather", 384),
    ],
)
def test_bytes_that_hosts_send(name, kind, n_bytes):
    program = scheme_of(name).build(work_of(kind, 16))
    fans = sum(fan.n_bytes for fan in program.fans)
    assert int(program.n_bytes.sum()) + fans == n_bytes


@pytest.mark.parametrize("n", range(2, 70))
def test_two_trees_share_no_rank_inside(n):
    first, second = in_order_parents(n), second_parents(n)
    inside = []
    for parent in (first, second):
        n_children = np.bincount(parent[1:], minlength=n)
        assert n_children.max() <= 2
        assert depth_of(parent) <= 1 + (n - 1).bit_length()
        inside.append(set(np.nonzero(n_children)[0].tolist()) - {0})
    assert inside[0] & inside[1] == set()


def test_chunks_follow_the_formula():
    work = Collective("broadcast", 2**26, tuple(range(1024)))
    # (1023 - 1) * 2**26 / 2**16 = 1022 * 1024, square root 1022.99
    assert LATENCY_BYTES == 2**16
    chain = scheme_of("chain")
    assert chain.build(work, SchemeOptions(compact=True)).chunks == 1022
    assert chain.build(work).n_items == 1022 * 1023
    wide = Collective("broadcast", 2**26, tuple(range(65536)))
    assert chain.build(wide, SchemeOptions(compact=True)).chunks == 8191
    assert chain.build(wide).n_items == 2**20 // 65535 * 65535
    small = Collective("broadcast", 8192, tuple(range(1024)))
    assert chain.build(small, SchemeOptions(compact=True)).chunks == 2


def test_a_server_sends_a_piece_back_when_all_have_pushed_it():
    work = work_of("all_reduce", 4)
    program = scheme_of("parameter-server").build(work, SchemeOptions(chunks=2))
    # pieces 0 and 1 of pushes 0..2 and pulls 3..5; six items a piece
    waits = {tuple(edge) for edge in edges_of(program).tolist()}
    assert waits == {
        (6 * j + a, 6 * j + 3 + b) for j in (0, 1) for a in range(3) for b in range(3)
    }


def test_large_programs_are_built_at_once():
    work = Collective("broadcast", 2**26, tuple(range(1024)))
    scheme_of("chain").build(work, SchemeOptions(chunks=2))
    for name in ("chain", "binary-tree", "double-binary-tree"):
        start = time.perf_counter()
        program = scheme_of(name).build(work, SchemeOptions(chunks=64))
        assert time.perf_counter() - start < 0.5
        assert program.n_items >= 64 * 1023


def test_a_catalog_row_for_every_file_and_a_file_for_every_row():
    here = Path(schemes.__file__).parent
    files = {path.stem for path in here.glob("*.py")} - NOT_SCHEMES
    assert files == {s.name.replace("-", "_") for s in CATALOG if not s.protocol}
    assert files == {scheme.plan.__module__.rpartition(".")[2] for scheme in CATALOG}


@pytest.mark.parametrize(
    ("name", "work", "field"),
    [
        ("chain", work_of("all_to_all", 4), "workload.kind"),
        ("unicast", Collective("broadcast", 8, (1,)), "workload.ranks"),
        ("unicast", Collective("broadcast", 8, (1, 1)), "workload.ranks"),
        ("unicast", Collective("broadcast", 0, (0, 1)), "workload.n_bytes"),
        ("ring", Collective("all_gather", 10, (0, 1, 2)), "workload.n_bytes"),
        ("ring", Collective("all_reduce", 2, (0, 1, 2)), "workload.n_bytes"),
        ("double-binary-tree", Collective("reduce", 1, (0, 1)), "workload.n_bytes"),
        ("no-such", work_of("broadcast", 4), "schemes"),
    ],
)
def test_what_cannot_be_done_is_refused_by_field(name, work, field):
    with pytest.raises(ConfigError) as caught:
        scheme_of(name).build(work)
    assert caught.value.field == field


@pytest.mark.parametrize("chunks", [-1, 97])
def test_chunks_beyond_the_bytes_are_refused(chunks):
    work = work_of("broadcast", 4)  # 96 bytes
    assert scheme_of("chain").build(work, SchemeOptions(chunks=96)).n_items == 96 * 3
    with pytest.raises(ConfigError, match=r"1\.\.96"):
        scheme_of("chain").build(work, SchemeOptions(chunks=chunks))


def program_of(edges, n=4):
    messages = np.array([(i, i + 1, 10, 0) for i in range(n)], np.int64)
    return build_program(messages, np.array(edges, np.int64).reshape(-1, 2), on=RECEIVED)


def test_a_cycle_is_refused_by_its_first_item():
    check_order(program_of([(0, 1), (1, 2), (0, 2), (2, 3)]))
    with pytest.raises(ConfigError, match="message 1: got 'waits for itself"):
        check_order(program_of([(0, 1), (1, 2), (2, 1), (2, 3)]))
    lost = program_of([(0, 1)])
    lost.n_needs[3] = 1
    with pytest.raises(ConfigError, match="message 3"):
        check_order(lost)


@pytest.mark.parametrize("row", [(0, 9, 10, 0), (-1, 1, 10, 0), (1, 1, 10, 0), (0, 1, 0, 0)])
def test_messages_that_make_no_sense_are_refused(row):
    messages = np.array([(0, 8, 1, 0), row], np.int64)
    with pytest.raises(ConfigError, match="message 1"):
        check_program(build_program(messages, np.zeros((0, 2), np.int64)), 9)


def test_edges_come_back_as_given():
    edges = [(0, 1), (0, 2), (2, 3)]
    assert edges_of(program_of(edges)).tolist() == [list(e) for e in edges]


def test_all_wait_for_all_by_way_of_the_first_where_edges_would_be_too_many(monkeypatch):
    work = work_of("all_reduce", 9)
    monkeypatch.setattr(draft, "MAX_EDGES", 8)
    for name in ("unicast", "direct"):
        plan = scheme_of(name).explained(work)
        assert plan.program.dep.size < 9 * 8 * 3
        check_plan(plan, work)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("direct", "all_to_all"),
        ("direct", "all_reduce"),
        ("unicast", "all_gather"),
        ("ring", "all_reduce"),
        ("fanfold", "all_gather"),
    ],
)
def test_a_program_that_would_fill_the_memory_is_refused_before_it_does(name, kind):
    work = Collective(kind, 2**16 * 8, tuple(range(2**16)))
    with pytest.raises(ConfigError, match="got 65536, allowed: fewer"):
        scheme_of(name).build(work)


def test_rules_see_fans_that_make_no_sense():
    plan = scheme_of("bier").build(work_of("broadcast", 4, spread=1))
    check_program(plan, 4)
    with pytest.raises(ConfigError, match="fan 0"):
        program_rules.check_program(plan, 3)
