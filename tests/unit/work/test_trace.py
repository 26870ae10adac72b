import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.errors import ConfigError
from fanfold.work.trace import (
    MAX_TOTAL_BYTES,
    MAX_TOTAL_PS,
    Phase,
    Trace,
    check_trace,
    closed_form,
    critical_path_ps,
    times_of,
)
from fanfold.work.trace_ops import Op, join_ops

RATE = 8 * 10**12
"""One byte takes one ps."""


def phase(kind, ranks, n_bytes=0, needs=None, duration=0):
    return Phase(kind, ranks, n_bytes, duration, needs or ((),) * len(ranks), f"{kind} {ranks}")


@pytest.mark.parametrize(
    ("kind", "n", "n_bytes", "steps", "sent"),
    [
        ("all_reduce", 4, 100, 6, 150),
        ("all_gather", 4, 100, 3, 75),
        ("reduce_scatter", 4, 100, 3, 75),
        ("all_to_all", 4, 100, 1, 75),
        ("broadcast", 4, 100, 2, 100),
        ("reduce", 5, 100, 3, 100),
        ("gather", 4, 100, 1, 75),
        ("scatter", 4, 100, 1, 75),
        ("barrier", 4, 0, 4, 0),
        ("message", 2, 100, 1, 100),
    ],
)
def test_the_time_of_each_kind_by_hand(kind, n, n_bytes, steps, sent):
    made = phase(kind, tuple(range(n)), n_bytes)
    assert closed_form(RATE, 1000)(made) == sent + steps * 1000


def test_the_longest_path_by_hand():
    """Rank 0: 5, then an all_reduce; rank 1: 9, then it; then 3 on rank 1."""
    trace = Trace(
        2,
        (
            phase("compute", (0,), duration=5),
            phase("compute", (1,), duration=9),
            phase("all_reduce", (0, 1), 10, ((0,), (1,))),
            phase("compute", (1,), needs=((2,),), duration=3),
        ),
        {},
        (),
    )
    assert critical_path_ps(trace, RATE, 100) == 9 + 10 + 100 + 3
    times = times_of(trace, closed_form(RATE, 100))
    assert times.begin_ps[2] == [5, 9]
    assert times.end_ps[2] == [219, 219]


def test_a_receiver_counts_bytes_when_it_is_ready():
    late = Trace(
        2,
        (
            phase("compute", (1,), duration=500),
            phase("message", (0, 1), 10, ((), (0,))),
        ),
        {},
        (),
    )
    assert times_of(late, closed_form(RATE, 1)).end_ps[1] == [11, 500]


def test_a_receiver_that_is_ready_late_but_was_met_first():
    late = Trace(
        2,
        (
            phase("compute", (1,), duration=500),
            phase("compute", (0,), duration=1),
            phase("message", (0, 1), 10, ((1,), (0,))),
        ),
        {},
        (),
    )
    assert times_of(late, closed_form(RATE, 1)).end_ps[2] == [12, 500]


def test_too_much_computing_for_64_bits_is_refused():
    each = tuple(phase("compute", (0,), duration=MAX_TOTAL_PS // 2) for _ in range(2))
    with pytest.raises(ConfigError, match="of computing"):
        check_trace(Trace(1, each, {}, ()))


def test_too_many_bytes_for_64_bits_are_refused():
    each = tuple(phase("message", (0, 1), MAX_TOTAL_BYTES // 4) for _ in range(3))
    check_trace(Trace(2, each[:2], {}, ()))
    with pytest.raises(ConfigError, match="bytes at all ranks"):
        check_trace(Trace(2, each, {}, ()))


def test_a_collective_of_one_takes_no_time():
    trace = join_ops([[Op("all_reduce", "a", (), n_bytes=8, members=(0,))]])
    assert [(p.kind, p.n_bytes, p.duration_ps) for p in trace.phases] == [("compute", 0, 0)]


def test_a_root_that_nobody_names_is_the_first_and_that_is_said():
    ops = [[Op("broadcast", f"r{r}", (), n_bytes=8, group="g", members=(1, 0))] for r in (0, 1)]
    trace = join_ops(ops)
    assert trace.phases[0].ranks == (1, 0)
    assert trace.notes == ("broadcast without a root: the first member of the group is it",)
    with pytest.raises(ConfigError, match="root 7"):
        join_ops([[op._replace(root=7) for op in mine] for mine in ops])


@pytest.mark.parametrize(
    ("members", "words"), [((1,), "outside group g"), ((0, 9), "ranks 0..0"), ((0, 0), "once")]
)
def test_wrong_members_are_named(members, words):
    with pytest.raises(ConfigError, match=words):
        join_ops([[Op("all_reduce", "x", (), n_bytes=8, group="g", members=members)]])


@given(data=st.data())
def test_lanes_are_never_shared_and_order_holds(data):
    """Random computations and sums of three ranks: no two of a lane overlap, none is early."""
    ops = [[], [], []]
    for _ in range(data.draw(st.integers(1, 14))):
        kind = data.draw(st.sampled_from(["compute", "all_reduce"]))
        for rank in range(3) if kind == "all_reduce" else [data.draw(st.integers(0, 2))]:
            n = len(ops[rank])
            needs = data.draw(st.sets(st.integers(0, n - 1), max_size=2)) if n else set()
            ops[rank].append(
                Op(
                    kind,
                    f"{rank}.{n}",
                    tuple(needs),
                    n_bytes=64,
                    duration_ps=data.draw(st.integers(0, 9)) if kind == "compute" else 0,
                    lane=data.draw(st.integers(0, 1)),
                    members=(0, 1, 2) if kind == "all_reduce" else (),
                )
            )
    trace = join_ops(ops)
    times = times_of(trace, lambda p: p.duration_ps or 1)
    lanes = {}
    for i, made in enumerate(trace.phases):
        for k, needs in enumerate(made.needs):
            for need in needs:
                at = trace.phases[need].ranks.index(made.ranks[k])
                assert times.begin_ps[i][k] >= times.end_ps[need][at]
        if made.kind == "compute" and made.duration_ps:
            rank, n = map(int, made.where.split("."))
            span = (times.begin_ps[i][0], times.end_ps[i][0])
            lanes.setdefault((rank, ops[rank][n].lane), []).append(span)
    for spans in lanes.values():
        spans.sort()
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
