import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.errors import ConfigError
from fanfold.work.goal import load_goal, read_goal
from fanfold.work.trace import busy_ps, times_of

NS = 1000
TREE = """num_ranks 4
rank 0 {
l1: send 10b to 1 tag 0
l2: send 10b to 2 tag 0   // to the other half
}
rank 1 {
l1: recv 10b from 0 tag 0
}
/* rank 2 passes
   it on */
rank 2 {
l1: recv 10b from 0 tag 0 cpu 0 nic 0
l2: calc 500 cpu 1
l2 requires l1
l3: send 10b to 3
l3 requires l2
}

rank 3 {
recv 12b from 2
}
"""


def one(body, n=2):
    return read_goal(f"num_ranks {n}\nrank 0 {{\n{body}\n}}\n")


def test_a_binary_tree():
    trace = read_goal(TREE)
    assert trace.n_ranks == 4
    found = {p.ranks: p.n_bytes for p in trace.phases if p.kind == "message"}
    assert found == {(0, 1): 10, (0, 2): 10, (2, 3): 10}
    assert busy_ps(trace) == [0, 0, 500 * NS, 0]


def test_a_message_passes_on_after_its_computation():
    trace = read_goal(TREE)
    times = times_of(trace, lambda p: p.duration_ps if p.kind == "compute" else 100)
    ends = {p.ranks: end[-1] for p, end in zip(trace.phases, times.end_ps, strict=True)}
    assert ends == {(0, 1): 100, (0, 2): 100, (2,): 100 + 500 * NS, (2, 3): 200 + 500 * NS}


def test_irequires_begins_with_the_other():
    """a and b of lane 0 and 1; c begins with b, that is when a is over."""
    body = "a: calc 3\nb: calc 5 cpu 1\nb requires a\nc: calc 7 cpu 2\nc irequires b"
    trace = one(body)
    end = times_of(trace, lambda p: p.duration_ps).end_ps
    assert [e[0] for e in end] == [3 * NS, 8 * NS, 10 * NS]


def test_one_core_computes_one_thing_at_a_time():
    together = times_of(one("calc 3\ncalc 5"), lambda p: p.duration_ps).end_ps
    apart = times_of(one("calc 3\ncalc 5 cpu 1"), lambda p: p.duration_ps).end_ps
    assert together == [[3 * NS], [8 * NS]]
    assert apart == [[3 * NS], [5 * NS]]


def test_two_that_send_before_they_receive_do_not_block_each_other():
    body = "s: send 8b to {0}\nr: recv 8b from {0}\nr requires s\n"
    text = "num_ranks 2\n" + "".join(f"rank {r} {{\n{body.format(1 - r)}}}\n" for r in range(2))
    assert len(read_goal(text).phases) == 2


def test_two_that_receive_before_they_send_are_a_circle():
    body = "r: recv 8b from {0}\ns: send 8b to {0}\ns requires r\n"
    text = "num_ranks 2\n" + "".join(f"rank {r} {{\n{body.format(1 - r)}}}\n" for r in range(2))
    told = r"ranks 0, 1 wait for each other in a circle: goal:\d+ rank \d [rs] <- goal"
    with pytest.raises(ConfigError, match=told):
        read_goal(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no num_ranks"),
        ("num_ranks 0", "num_ranks: got 0"),
        ("rank 0 {", "goal:1 rank: got 0"),
        ("num_ranks 2\nrank 2 {", "goal:2 rank: got 2"),
        ("num_ranks 2\nrank 0 {", "rank 0 without }"),
        ("num_ranks 2\nrank 0 {\n}\nrank 0 {\n}", "goal:4: got 'rank 0 twice'"),
        ("num_ranks 2\nrank 0 {\nsend 8 to 1\n}", "goal:3 rank 0: got 'send 8 to 1'"),
        ("num_ranks 2\nrank 0 {\nsend 8b from 1\n}", "goal:3 rank 0: got 'send 8b from 1'"),
        ("num_ranks 2\nrank 0 {\nsend 8b to 2\n}", "goal:3 rank 0 send peer: got 2"),
        ("num_ranks 2\nrank 0 {\nrecv 8b from -1\n}", "recv peer: got -1"),
        ("num_ranks 2\nrank 0 {\nrecv 8b from 1 tag -1\n}", "recv tag: got -1"),
        ("num_ranks 2\nrank 0 {\na: calc 1\na requires b\n}", "goal:4 rank 0: got 'b'"),
        ("num_ranks 2\nrank 0 {\na: calc 1\na: calc 1\n}", "label a twice"),
        ("num_ranks 2\nrank 0 {\na: calc 1\na irequires a\n}", "begins after itself"),
        ("num_ranks 2\nrank 0 {\na: calc 1\na requires a\n}", "waits for itself"),
        ("num_ranks 2\nrank 0 {\ncalc 9999999999999999\n}", "calc: got 9999999999999999"),
        ("num_ranks 2\nrank 0 {\nx: send 8b to 1\n}", "goal:3 rank 0 x: got 'send 0 from"),
        (
            "num_ranks 2\nrank 0 {\nsend 8b to 1\n}\nrank 1 {\nrecv 7b from 0\n}",
            "goal:6 rank 1: got 'recv of 7 bytes'",
        ),
        ("num_ranks 1\nrank 0 {\nsend 8b to 0\nrecv 8b from 0\n}", "send to itself"),
    ],
)
def test_a_wrong_line_is_named(text, words):
    with pytest.raises(ConfigError) as error:
        read_goal(text)
    assert words in str(error.value)


def test_lines_are_counted_over_comments():
    with pytest.raises(ConfigError, match="goal:5: got 'x'"):
        read_goal("num_ranks 1 // one\n/* three\nlines\n */\nx")


def test_a_file_that_is_no_text(tmp_path):
    (tmp_path / "x.goal").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="text form"):
        load_goal(tmp_path / "x.goal")
    with pytest.raises(ConfigError, match="text form"):
        load_goal(tmp_path / "none.goal")


LINES = st.sampled_from([*TREE.splitlines(), "calc 5", "l1 irequires l2", "}", "send 1b to 1"])


@given(text=st.one_of(st.text(max_size=200), st.lists(LINES, max_size=12).map("\n".join)))
def test_no_text_crashes_the_reader(text):
    with contextlib.suppress(ConfigError):
        read_goal(text)
