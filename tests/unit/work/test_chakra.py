import gzip
import json
from types import SimpleNamespace

import pytest
from chakra_traces import COLL, COMP, FOLDER, RECV, SEND, Writer, every_file
from hypothesis import given
from hypothesis import strategies as st

from fanfold.errors import ConfigError
from fanfold.work import chakra_schema
from fanfold.work.chakra import MISSING, Wish, load_chakra
from fanfold.work.trace import busy_ps
from fanfold.work.trace_rows import rows_of

OURS = SimpleNamespace(
    GlobalMetadata=chakra_schema.GlobalMetadata,
    Node=chakra_schema.Node,
    AttributeProto=chakra_schema.AttributeProto,
)
US = 10**6


@pytest.fixture
def write(tmp_path):
    """Files of ranks from nodes: (kind, attributes) rows for each rank."""

    def made(*ranks, groups=None):
        for rank, rows in enumerate(ranks):
            w = Writer(OURS)
            for kind, attrs in rows:
                w.node(kind, attrs.pop("name", "op"), **attrs)
            (tmp_path / f"t.{rank}.et").write_bytes(w.stream())
        if groups is not None:
            (tmp_path / "t.json").write_text(json.dumps(groups))
        return tmp_path

    return made


def test_our_field_numbers_give_the_bytes_of_the_published_schema():
    made = every_file(OURS)
    assert sorted(made) == sorted(file.name for file in FOLDER.iterdir())
    assert {n: (FOLDER / n).read_bytes() for n in made} == made


def test_a_step_of_two_parallelisms():
    trace = load_chakra(FOLDER / "step")
    assert trace.n_ranks == 4
    assert [p.ranks for p in trace.phases if p.kind == "all_reduce"] == [
        (0, 1),
        (2, 3),
        (0, 2),
        (1, 3),
    ]
    (weights,) = (p for p in trace.phases if p.kind == "broadcast")
    assert weights.ranks == (3, 0, 1, 2), "the root first"
    assert busy_ps(trace) == [(310 + rank) * US for rank in range(4)]
    assert trace.skipped == {}
    assert trace.notes == ()


def test_a_pipeline_by_send_and_recv():
    trace = load_chakra(FOLDER / "pipeline")
    found = sorted(p.ranks for p in trace.phases if p.kind == "message")
    assert found == [(0, 1), (0, 1), (1, 2), (1, 2)]
    assert busy_ps(trace) == [46 * US] * 3


def test_every_type_of_collective_is_taken():
    rows = rows_of(load_chakra(FOLDER / "collectives"))
    by_kind = {row["kind"]: (row["phases"], row["all_bytes"]) for row in rows}
    n = 65_536
    assert by_kind == {
        "compute": (8, 0),
        "all_reduce": (1, n),
        "reduce": (1, n),
        "all_gather": (1, 4 * n),
        "gather": (1, 4 * n),
        "scatter": (1, n),
        "broadcast": (1, n),
        "all_to_all": (1, n),
        "reduce_scatter": (2, 2 * n),
        "barrier": (1, 0),
    }


def test_a_gzipped_trace_is_the_same(tmp_path):
    for file in FOLDER.glob("pipeline.*"):
        (tmp_path / file.name).write_bytes(gzip.compress(file.read_bytes()))
    assert load_chakra(tmp_path) == load_chakra(FOLDER / "pipeline")


BIG = {"comm_type": 0, "comm_size": 8}
WRONG = (
    ([[(COLL, {"comm_size": 8})]], "rank 0 node 0 op: comm_type: got 'nothing'"),
    ([[(COLL, {"comm_type": 77, "comm_size": 8})]], "comm_type: got 77"),
    ([[(COLL, {"comm_type": 0})]], "node 0 op: comm_size: got 'nothing'"),
    ([[(COLL, {"comm_type": 0, "comm_size": 0})]], "comm_size: got 0"),
    ([[(COLL, {"comm_type": 0, "comm_size": -1})]], "comm_size: got -1"),
    ([[(COLL, {**BIG, "pg_name": "ep"})]], "rank 0 node 0 op: pg_name: got 'ep'"),
    ([[(COLL, BIG)], []], "rank 1 lacks"),
    ([[(COLL, BIG)], [(COLL, BIG | {"comm_type": 1})]], "rank 1 node 0 op: got 'kind reduce"),
    ([[(COLL, BIG)], [(COLL, BIG | {"comm_size": 9})]], "n_bytes 9, at rank 0 node 0"),
    ([[(SEND, {"comm_size": 4})], []], "rank 0 node 0 op: comm_dst: got 'nothing'"),
    ([[(SEND, {"comm_size": 4, "comm_dst": 1})], []], "without a recv"),
    ([[(RECV, {"comm_size": 4, "comm_src": 1})], []], "without a send"),
    ([[(SEND, {"comm_size": 4, "comm_dst": 5})], []], "comm_dst: got 5"),
    ([[(SEND, {"comm_size": 4, "comm_dst": 0})], []], "to rank 0, tag 0, without a recv"),
    ([[(COMP, {"after": [9]})]], "rank 0 node 0 op: got 'waits for node 9'"),
    ([[(COMP, {"num_ops": 5})]], "num_ops 5 without time"),
    ([[(0, {})]], "type INVALID_NODE"),
    ([[(42, {})]], "type 42"),
    ([[(2, {"tensor_size": 9})]], "MEM_LOAD_NODE without duration"),
    ([[(COMP, {"us": 2**41})]], "duration_micros: got 2199023255552"),
)


@pytest.mark.parametrize(("ranks", "words"), WRONG, ids=[words for _, words in WRONG])
def test_what_is_wrong_is_named_by_rank_and_node(ranks, words, write):
    folder = write(*[[(kind, dict(attrs)) for kind, attrs in rows] for rows in ranks])
    with pytest.raises(ConfigError) as error:
        load_chakra(folder)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ({"a": [0, 2]}, "t.json: a: got '[0, 2]'"),
        ({"a": [0, 0]}, "each once"),
        ({"a": []}, "each once"),
        ({"a": "x"}, "Expected `array`"),
        ([1], "Expected `object`"),
    ],
)
def test_wrong_groups_are_named(groups, words, write):
    folder = write([(COMP, {"us": 1})], [(COMP, {"us": 1})], groups=groups)
    with pytest.raises(ConfigError) as error:
        load_chakra(folder)
    assert words in str(error.value)


def test_dependencies_in_a_circle_are_told_with_all_that_are_in_it(write):
    rows = [(COMP, {"after": [1], "us": 1}), (COMP, {"after": [0], "us": 1})]
    with pytest.raises(ConfigError, match=r"waits for itself: rank 0 node \d op <- rank 0"):
        load_chakra(write(rows))


def test_a_circle_over_two_ranks(write):
    """Rank 0 sums in group a, then in b; rank 1 the other way round."""
    groups = {"a": [0, 1], "b": [0, 1]}
    a, b = ((COLL, {**BIG, "pg_name": name}) for name in "ab")
    with pytest.raises(ConfigError, match="ranks 0, 1 wait for each other in a circle"):
        load_chakra(write([a, b], [(b[0], dict(b[1])), (a[0], dict(a[1]))], groups=groups))


def test_what_is_unknown_is_counted_where_that_is_asked_for(write):
    folder = write(
        [
            (2, {"tensor_size": 9}),
            (COMP, {"num_ops": 5, "after": [0, 9]}),
            (COLL, {**BIG, "pg_name": "ep"}),
            (COMP, {"us": 7}),
        ]
    )
    trace = load_chakra(folder, Wish(skip_unknown=True))
    assert trace.skipped == {
        "MEM_LOAD_NODE": 1,
        MISSING: 1,
        "num_ops": 1,
        "all_reduce": 1,
    }
    assert busy_ps(trace) == [7 * US]
    assert [p.needs for p in trace.phases] == [((),), ((0,),), ((1,),), ((2,),)]


@pytest.mark.parametrize(
    "attrs",
    [
        {"comm_type": 5, "comm_size": 0},
        {"comm_type": 5},
        {"comm_type": 5, "comm_size": 8, "pg_name": "ep"},
        {"comm_size": 8, "name": "ncclDevKernel_Broadcast_RING"},
    ],
)
def test_a_broadcast_is_never_left_out(attrs, write):
    with pytest.raises(ConfigError, match="rank 0 node 0"):
        load_chakra(write([(COLL, attrs)]), Wish(skip_unknown=True))


def test_operations_take_their_time_at_a_rate(write):
    trace = load_chakra(write([(COMP, {"num_ops": 3000})]), Wish(ops_per_s=10**12))
    assert busy_ps(trace) == [3000]


def test_groups_that_pytorch_lists_in_the_trace(write):
    rows = [{"pg_name": "7", "ranks": [1, 0], "group_size": 2}, {"pg_name": "0", "ranks": []}]
    folder = write(*[[(1, {"name": "## process_group:init ##"})]] * 2)
    for rank in range(2):
        w = Writer(OURS)
        w.node(1, "## process_group:init ##")
        w.messages[-1].inputs.values = str([json.dumps(rows)])
        w.node(COLL, "sum", **BIG, pg_name="7")
        (folder / f"t.{rank}.et").write_bytes(w.stream())
    (phase,) = (p for p in load_chakra(folder).phases if p.kind == "all_reduce")
    assert phase.ranks == (1, 0)


def test_files_of_a_folder(tmp_path):
    with pytest.raises(ConfigError, match="no such file"):
        load_chakra(tmp_path)
    for name in ("a.0.et", "a.2.et"):
        (tmp_path / name).write_bytes(b"\0")
    with pytest.raises(ConfigError, match=r"allowed: a\.1\.et"):
        load_chakra(tmp_path)
    (tmp_path / "b.0.et").write_bytes(b"\0")
    with pytest.raises(ConfigError, match="a, b"):
        load_chakra(tmp_path)
    assert load_chakra(tmp_path / "b").phases == ()


def test_an_id_stands_once(write):
    folder = write([(COMP, {"us": 1})])
    w = Writer(OURS)
    for _ in range(2):
        w.node(COMP, "op", us=1)
        w.n = 0
    (folder / "t.0.et").write_bytes(w.stream())
    with pytest.raises(ConfigError, match="rank 0 node 0 op: got 'id 0 twice'"):
        load_chakra(folder)


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_no_change_of_a_real_trace_is_read_past_its_end(cut, tmp_path):
    data = (FOLDER / "pipeline.0.et").read_bytes()
    (tmp_path / "x.0.et").write_bytes(data[:-cut])
    with pytest.raises(ConfigError, match=r"length \d+ at byte \d+"):
        load_chakra(tmp_path)


def load_bytes(folder, data):
    (folder / "x.0.et").write_bytes(data)
    try:
        load_chakra(folder)
        load_chakra(folder, Wish(skip_unknown=True))
    except ConfigError:
        pass


@given(data=st.binary(max_size=200))
def test_no_bytes_crash_the_reader(data, tmp_path_factory):
    load_bytes(tmp_path_factory.mktemp("x"), data)


@given(at=st.integers(0, 798), value=st.integers(0, 255), cut=st.integers(0, 799))
def test_no_change_of_a_real_trace_crashes_the_reader(at, value, cut, tmp_path_factory):
    data = bytearray((FOLDER / "collectives.0.et").read_bytes())
    data[at] = value
    load_bytes(tmp_path_factory.mktemp("x"), bytes(data[: cut or None]))
