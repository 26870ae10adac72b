import json
from pathlib import Path

import pytest
from chakra_traces import MEM_LOAD, RECV, SEND, Writer

from fanfold.cli.main import run
from fanfold.results.store import Store
from fanfold.scenario.scenario import load_scenario, run_id
from fanfold.work import chakra_schema

TRACES = Path(__file__).parents[1] / "work" / "traces"
GOAL = """num_ranks 2
rank 0 {
a: calc 50000
b: send 8192b to 1
b requires a
}
rank 1 {
recv 8192b from 0
}
"""


@pytest.fixture
def goal(tmp_path):
    (tmp_path / "two.goal").write_text(GOAL)
    return f"goal:{tmp_path / 'two.goal'}"


def told(capsys, *argv):
    assert run([*argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def compare(capsys, workload, out, *more):
    argv = ["compare", "--topology", "star:hosts=4", "--workload", workload, "--out", str(out)]
    return told(capsys, *argv, *more)


def test_a_trace_is_told_before_it_runs(capsys):
    value = told(capsys, "workload", f"chakra:{TRACES / 'step'}", "--rate", "400Gbps")
    assert (value["n_ranks"], value["busy_ps"]) == (4, 313 * 10**6)
    # 303 us, a sum of 1 MiB and one of 4 MiB by two, a broadcast of 1 MiB to four, 10 us
    sent = (1 << 20) * 20 + (1 << 22) * 20 + (1 << 20) * 20
    assert value["path_ps"] == 313 * 10**6 + sent
    late = told(capsys, "workload", f"chakra:{TRACES / 'step'}", "--latency", "5us")
    assert late["path_ps"] == 313 * 10**6 + sent + 3 * 5 * 10**6
    assert [row["kind"] for row in value["rows"]] == ["compute", "all_reduce", "broadcast"]
    assert run(["workload", f"chakra:{TRACES / 'step'}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 110
    assert any("4 ranks" in line for line in lines)


def test_every_scheme_that_is_asked_for_runs_a_trace(capsys, tmp_path):
    value = compare(
        capsys,
        f"chakra:{TRACES / 'step'}",
        tmp_path,
        *("--schemes", "unicast,fanfold,ring", "--fidelity", "flow"),
    )
    assert len(value["runs"]) == 3
    for row in value["runs"]:
        assert (row["workload"], row["n_ranks"], row["n_bytes"]) == ("chakra", 4, 11 << 20)
        assert row["busy_ps"] == 313 * 10**6
        assert row["end_ps"] > row["busy_ps"]
        assert row["n_stuck"] == 0


@pytest.mark.parametrize("name", ["step", "collectives", "pipeline"])
def test_no_scheme_is_faster_than_the_bound(name, capsys, tmp_path):
    """Links of the star have 400 Gbit/s and some latency."""
    folder = f"chakra:{TRACES / name}"
    bound = told(capsys, "workload", folder, "--rate", "400Gbps")["path_ps"]
    schemes = "unicast,ring,chain,double-binary-tree,direct,sharp,bier,fanfold"
    more = ("--schemes", schemes, "--topology", "star:hosts=4,rate=400Gbps")
    rows = compare(capsys, folder, tmp_path, *more, "--fidelity", "flow")["runs"]
    assert all(row["end_ps"] >= bound for row in rows)
    assert len(rows) == (1 if name == "pipeline" else 8)
    assert min(row["end_ps"] for row in rows) < 3 * bound


def test_a_trace_without_collectives_is_one_row(capsys, goal, tmp_path):
    value = compare(capsys, goal, tmp_path, "--fidelity", "flow")
    assert [row["scheme"] for row in value["runs"]] == ["unicast"]
    assert value["notes"][:-1] == [
        "the trace has no collectives: all 17 schemes send the same; one is shown"
    ]


def test_what_a_comparison_left_out_of_a_trace_is_listed(capsys, tmp_path):
    (tmp_path / "left").mkdir()
    load = (MEM_LOAD, {"tensor_size": 9})
    send = (SEND, {"comm_dst": 1, "comm_src": 0, "comm_size": 4096, "comm_tag": 1})
    recv = (RECV, {"comm_dst": 1, "comm_src": 0, "comm_size": 4096, "comm_tag": 1})
    for rank, nodes in enumerate(([load, send], [recv])):
        writer = Writer(chakra_schema)
        for kind, attrs in nodes:
            writer.node(kind, "op", **attrs)
        (tmp_path / "left" / f"t.{rank}.et").write_bytes(writer.stream())
    asked = (f"chakra:{tmp_path / 'left'}", tmp_path / "out", "--schemes", "unicast")
    value = compare(capsys, *asked, "--skip-unknown", "--fidelity", "flow")
    assert value["notes"][:-1] == ["left out of the trace: MEM_LOAD_NODE, 1 times"]
    again = compare(capsys, *asked, "--skip-unknown", "--fidelity", "flow")
    assert value["notes"][-1].startswith("ran with: star:hosts=4,rate=400Gbps; ")
    assert (again["runs"][0]["is_cached"], again["notes"]) == (True, value["notes"])


def test_who_stood_in_is_printed(capsys, tmp_path):
    argv = ["compare", "--topology", "star:hosts=4", "--out", str(tmp_path)]
    argv += ["--workload", f"chakra:{TRACES / 'collectives'}", "--fidelity", "flow"]
    assert run([*argv, "--schemes", "fanfold"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "all_to_all by direct, reduce_scatter by direct" in text
    assert "the busiest rank computes 5 us" in text


def test_a_run_of_a_trace_is_kept_with_its_files_and_found_again(capsys, tmp_path):
    folder = f"chakra:{TRACES / 'step'}"
    more = ("--schemes", "direct", "--fidelity", "flow")
    (first,) = compare(capsys, folder, tmp_path, *more)["runs"]
    assert not first["is_cached"]
    (again,) = compare(capsys, folder, tmp_path, *more)["runs"]
    assert again["is_cached"]
    kept = Store(tmp_path).place(first["run_id"])
    names = {"trace.json", *(f"trace.{rank}.et" for rank in range(4))}
    assert names <= {file.name for file in kept.iterdir()}
    scenario = load_scenario(kept / "scenario.toml")
    assert run_id(scenario, "direct", first["version"]) == first["run_id"]


def test_goal_runs_and_can_be_explained(capsys, goal, tmp_path):
    (row,) = compare(capsys, goal, tmp_path, "--schemes", "unicast", "--fidelity", "packet")[
        "runs"
    ]
    assert (row["workload"], row["busy_ps"]) == ("goal", 50 * 10**6)
    assert row["last_ps"] > 50 * 10**6
    argv = ["explain", row["run_id"], "--out", str(tmp_path)]
    assert run([*argv, "--item", "0", "--packet", "1"]) == 0
    assert "8,192 bytes" in capsys.readouterr().out
    assert run([*argv, "--item", "1"]) == 2
    assert "not a host that computes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--gpus", "2"), "--gpus: got 2, allowed: none beside a trace"),
        (("--topology", "star:hosts=2"), "up to 2, the hosts"),
        (("--ops-rate", "-1"), "--ops-rate"),
    ],
)
def test_wrong_flags_beside_a_trace(more, words, capsys):
    argv = ["compare", "--topology", "star:hosts=9", "--workload", f"chakra:{TRACES / 'step'}"]
    assert run([*argv, *more]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("flag", [("--skip-unknown",), ("--ops-rate", "5")])
def test_flags_of_traces_alone_are_refused(flag, capsys):
    argv = ["compare", "--topology", "star:hosts=4", "--workload", "broadcast:1MiB", *flag]
    assert run(argv) == 2
    assert "a trace as --workload" in capsys.readouterr().err


def test_a_trace_that_sends_nothing_is_no_comparison(capsys, tmp_path):
    (tmp_path / "x.goal").write_text("num_ranks 2\nrank 0 {\ncalc 5\n}\n")
    argv = ["compare", "--topology", "star:hosts=4", "--workload"]
    assert run([*argv, f"goal:{tmp_path / 'x.goal'}"]) == 2
    assert "nothing that is sent" in capsys.readouterr().err
    assert run([*argv, f"goal:{tmp_path / 'y.goal'}"]) == 2
    assert "y.goal" in capsys.readouterr().err
