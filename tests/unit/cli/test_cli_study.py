"""`fanfold compare`, `explain` and `sim-bench` as an operator types them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from fanfold.cli import compare as compare_module
from fanfold.cli import pulse as pulse_module
from fanfold.cli import sim_bench as sim_bench_module
from fanfold.cli import study_tables
from fanfold.cli.main import run
from fanfold.cli.sim_bench import measure
from fanfold.results.outcome import NOT_DONE, Outcome
from fanfold.sim.bench_cases import Case, cases, copies, permutation, ring

BASE = ("--topology", "star:hosts=4", "--workload", "broadcast:20kB")
EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in [n for n in os.environ if n.startswith("FANFOLD_COMPARE")]:
        monkeypatch.delenv(name)
    return tmp_path / "state" / "fanfold" / "results"


def told(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_comparison_as_json_is_integers_and_text(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compare", *BASE, "--schemes", "all", "--json"]) == 0
    value = told(capsys)
    assert {r["scheme"] for r in value["runs"]} >= {"unicast", "bier", "fanfold"}
    assert [r["scheme"] for r in value["refused"]] == ["parameter-server", "direct", "sharp"]
    for row in value["runs"]:
        assert all(isinstance(v, int | str) for v in row.values())
        assert row["hops_per_s"] > 0
        assert (home / row["run_id"] / "runs.parquet").is_file()
    ends = [row["last_ps"] for row in value["runs"]]
    assert ends == sorted(ends)


def test_comparison_for_people_says_all_that_was_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["compare", *BASE, "--schemes", "unicast,fanfold,direct"]) == 0
    out = capsys.readouterr().out
    words = (
        "last receiver|p50|p99|acknowledged|busiest link|source|feedback|drops|repairs|h0 > "
    )
    for word in words.split("|"):
        assert word in out, word
    assert "fanfold: packet by packet: about" in out
    assert "left out: direct: workload.kind: takes" in out


def test_the_second_time_it_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", *BASE, "--schemes", "fanfold", "--json"]
    assert run(words) == 0
    first = told(capsys)["runs"][0]
    assert run(words) == 0
    second = told(capsys)["runs"][0]
    assert (first["is_cached"], second["is_cached"]) == (False, True)
    assert run([*words, "--no-cache"]) == 0
    assert told(capsys)["runs"][0]["is_cached"] is False
    speed = ("is_cached", "wall_ps", "hops_per_s")
    assert {k: v for k, v in first.items() if k not in speed} == {
        k: v for k, v in second.items() if k not in speed
    }


def test_flags_reach_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("--gpus", "3", "--order", "shuffled", "--loss", "5%", "--seed", "9")
    more = ("--fidelity", "packet", "--transport", "roce", "--schemes", "unicast")
    out = ("--out", str(tmp_path / "here"), "--json")
    assert run(["compare", *BASE, *flags, *more, *out]) == 0
    (row,) = told(capsys)["runs"]
    assert (row["n_ranks"], row["seed"], row["fidelity_why"]) == (3, 9, "asked for")
    kept = (tmp_path / "here" / row["run_id"] / "scenario.toml").read_text()
    for line in (
        'order = "shuffled"',
        "loss_ppb = 50000000",
        'transport = "roce"',
        "ranks = 3",
    ):
        assert line in kept


def test_flags_have_twins_in_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FANFOLD_COMPARE_SCHEMES", "chain")
    monkeypatch.setenv("FANFOLD_COMPARE_SEED", "5")
    assert run(["compare", *BASE, "--json"]) == 0
    (row,) = told(capsys)["runs"]
    assert (row["scheme"], row["seed"]) == ("chain", 5)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*BASE, "--schemes", "fanfol"), "--schemes: got 'fanfol'; did you mean fanfold?"),
        ((*BASE, "--loss", "1.0"), "--loss: got '1.0', allowed: less than one"),
        ((*BASE, "--loss", "1"), "--loss: got '1', allowed: less than one"),
        ((*BASE, "--gpus", "5"), "--gpus: got 5, allowed: 2..4"),
        ((*BASE, "--gpus", "1"), "--gpus: got 1, allowed: a whole number, 2.."),
        ((*BASE, "--transport", "tcp"), "--transport: got 'tcp', allowed: ndp, plain, roce"),
        ((*BASE, "--fidelity", "exact"), "--fidelity: got 'exact'"),
        ((*BASE, "--order", "random"), "--order: got 'random'"),
        ((*BASE, "--seed", "-1"), "--seed: got -1"),
        ((*BASE[:2], "--workload", "broadcast:0"), "--workload: got 0"),
        ((*BASE[:2], "--workload", "broadcast"), "--workload: got 'broadcast', allowed: KIND"),
        ((*BASE[:2], "--workload", "cast:1"), "--workload: got 'cast', allowed: all_gather"),
        ((*BASE[:2], "--workload", "all-gather:5"), "--workload: got 5, allowed: a multiple"),
        (BASE[:2], "--workload: got 'nothing'"),
        (BASE[2:], "--topology: got 'nothing'"),
        (("--topology", "stars:n=4", *BASE[2:]), "--topology: got 'stars'; did you mean star?"),
        ((str(EXAMPLES / "first.toml"), "--seed", "2"), "--seed: got 2, allowed: no such flag"),
        (("nowhere.toml",), "nowhere.toml: got 'No such file"),
    ],
)
def test_bad_input_is_one_line_and_exit_two(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compare", *words]) == 2
    err = capsys.readouterr().err.strip()
    assert err.startswith(f"error: {said}")
    assert len(err.splitlines()) == 1


def test_an_unknown_key_of_a_file_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (EXAMPLES / "first.toml").read_text() + "\n[settings]\nloss = 1\n"
    (tmp_path / "s.toml").write_text(text)
    assert run(["compare", str(tmp_path / "s.toml"), "--json"]) == 2
    value = told(capsys)
    assert value["exit_code"] == 2
    assert "settings.loss: got 'an unknown key'; did you mean loss_ppb?" in value["error"]


def test_what_could_not_finish_is_named_and_exits_four(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from fanfold import run as run_module  # noqa: PLC0415 - patched

    real = run_module.simulate_job

    def hang(*args: Any, **named: Any) -> Outcome:
        outcome = real(*args, **named)
        host_ps = outcome.host_ps.copy()
        host_ps[3] = NOT_DONE
        lines = tuple(f"message {i} to h3: 0 of 5 acknowledged" for i in range(12))
        return outcome._replace(host_ps=host_ps, stuck=lines, reason="no event left")

    monkeypatch.setattr(run_module, "simulate_job", hang)
    assert run(["compare", *BASE, "--schemes", "unicast", "--json"]) == 4
    said = capsys.readouterr()
    assert json.loads(said.out)["runs"][0]["n_stuck"] == 12
    assert json.loads(said.out)["runs"][0]["last_ps"] is None
    assert "unicast: no event left: message 0 to h3" in said.err
    assert "message 9 to h3: 0 of 5 acknowledged; and 2 more" in " ".join(said.err.split())
    assert run(["compare", *BASE, "--schemes", "unicast"]) == 4
    assert "never" in capsys.readouterr().out


def test_explain_follows_a_packet(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", *BASE, "--schemes", "fanfold,unicast", "--json"]) == 0
    ids = {row["scheme"]: row["run_id"] for row in told(capsys)["runs"]}
    assert run(["explain", ids["unicast"][:9], "--item", "1", "--packet", "4", "--json"]) == 0
    value = told(capsys)
    assert (value["run_id"], value["what"]) == (
        ids["unicast"],
        "message 1, h0 to h2, 20,000 bytes",
    )
    assert [s["what"] for s in value["steps"]] == ["data", "data", "ack", "ack"]
    assert value["steps"][0]["src"] == value["steps"][-1]["node"] == "h0"
    assert run(["explain", ids["fanfold"], "--packet", "4"]) == 0
    out = capsys.readouterr().out
    assert "fan 0, h0 to 3 hosts, 20,000 bytes" in out
    assert "feedback" in out
    assert run(["explain", "nothing"]) == 2
    capsys.readouterr()
    assert run(["explain", "--last", "--json"]) == 0
    assert told(capsys)["run_id"] == ids["unicast"]
    assert run(["explain", "--last", "--scheme", "fanfold", "--json"]) == 0
    assert told(capsys)["run_id"] == ids["fanfold"]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ((), "RUN: got 'nothing', allowed: a run, or --last"),
        (("--last",), "a run of"),
        (("x", "--last"), "RUN: got 'x and --last'"),
        (("x", "--scheme", "ring"), "--scheme: got 'ring'"),
    ],
)
def test_explain_says_which_run_it_wants(
    argv: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", *argv]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("scheme", "settings", "code", "words"),
    [
        ("unicast", "queue_bytes = 4159", 2, "or 4160 and more: a packet"),
        ("unicast", "queue_bytes = 4160", 0, ""),
        ("fanfold", "queue_bytes = 4160", 2, "settings.queue_bytes: got 4160"),
    ],
)
def test_a_queue_holds_a_packet(
    scheme: str,
    settings: str,
    code: int,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """4,096 bytes and 64 of headers; a fan's packet has a BitString more."""
    text = 'topology = "star:hosts=3"\nschemes = ["%s"]\n[workload]\nkind = "broadcast"\n'
    file = tmp_path / "a.toml"
    file.write_text(f"{text % scheme}n_bytes = 20000\n[settings]\n{settings}\n")
    assert run(["compare", str(file)]) == code
    assert words in capsys.readouterr().err


def test_a_window_holds_a_train(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.toml"
    head = 'topology = "star:hosts=3"\nschemes = ["unicast"]\nfidelity = "train"\n'
    work = '[workload]\nkind = "broadcast"\nn_bytes = 20000\n[settings]\nwindow_pkts = '
    file.write_text(f"{head}{work}1\n")
    assert run(["compare", str(file)]) == 2
    assert "or 2 and more, a train" in capsys.readouterr().err
    file.write_text(f"{head}{work}2\n")
    assert run(["compare", str(file)]) == 0


def test_a_flag_that_was_not_given_is_not_blamed(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["compare", "--workload", "all_reduce:1MiB", "--schemes", "halving-doubling"]
    assert run([*asked, "--topology", "star:hosts=6"]) == 2
    assert "--topology: got 6" in capsys.readouterr().err
    assert run([*asked, "--topology", "star:hosts=8", "--gpus", "6"]) == 2
    assert "--gpus: got 6" in capsys.readouterr().err


def test_a_log_has_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    second = 10**12
    times = iter([0, 4 * second, 5 * second, 6 * second, 10 * second])
    monkeypatch.setattr(pulse_module, "now_ps", lambda: next(times))
    pulse = pulse_module.Pulse(is_on=True)
    for word in ("early", "first", "soon", "second"):
        pulse.tell(word)
    assert capsys.readouterr().err.splitlines() == ["5 s: first", "10 s: second"]


def test_bench_programs_are_those_of_the_rule() -> None:
    program = permutation(16, 8192, 1)
    assert sorted(program.src) == sorted(program.dst) == list(range(16))
    assert (program.src != program.dst).all()
    at, seen = 0, []
    after = dict(zip(program.src.tolist(), program.dst.tolist(), strict=True))
    for _ in range(16):
        at = after[at]
        seen.append(at)
    assert sorted(seen) == list(range(16))
    assert copies(5, 1).dst.tolist() == [1, 2, 3, 4]
    program = ring(4, 400)
    assert program.src.size == 4 * 6
    assert program.src[:6].tolist() == [0, 1, 2, 3, 0, 1]
    assert program.dst[:6].tolist() == [1, 2, 3, 0, 1, 2]
    assert program.n_needs.tolist() == [0, 1, 1, 1, 1, 1] * 4
    assert set(program.n_bytes.tolist()) == {100}
    assert [(c.name, c.program.src.size) for c in cases(1)] == [
        *(("S1a", 128), ("S1b", 1024), ("S3", 127), ("S4", 32_512)),
    ]


def test_bench_prints_hops_and_what_of_a_heap_that_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sim_bench_module, "HEAP_TURNS", 1000)
    small = (Case("S3", "star:hosts=4", copies(4, 8192)),)
    monkeypatch.setattr(sim_bench_module, "cases", lambda _: small)
    assert run(["sim-bench", "--json", "--rounds", "1"]) == 0
    (row,) = told(capsys)
    assert row["n_hops"] == 3 * 2 * 2 * 2
    assert row["hops_per_s"] > 0
    assert row["of_heap_ppb"] == row["hops_per_s"] * 10**9 // row["heap_per_s"]
    assert run(["sim-bench", "--rounds", "1"]) == 0
    assert "of the heap" in capsys.readouterr().out
    assert measure(small[0], 3, 1).end_ps == row["end_ps"]
    for words in (["--rounds", "0"], ["--only", "S9"], ["--seed", "-1"]):
        assert run(["sim-bench", *words]) == 2
    assert "--seed: got -1" in capsys.readouterr().err


def test_the_progress_line_is_no_part_of_the_output(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two schemes tell in turns: each is as fast as it was since its own first word."""
    lines: list[str] = []
    seconds = iter([0, 1, 2, 4])
    bar = compare_module.Bar(is_shown=True)
    monkeypatch.setattr(study_tables, "now_ps", lambda: next(seconds) * 10**12)
    monkeypatch.setattr(bar._bar, "update", lambda _, description: lines.append(description))
    from fanfold.scenario.fidelity import Choice  # noqa: PLC0415

    choice = Choice("packet", 1, "", 1000)
    for name, n_hops in (("ring", 250), ("chain", 900), ("ring", 450), ("chain", 900)):
        bar.show(name, choice, {"n_hops": n_hops, "n_done": 3, "n_items": 9, "now_ps": 5})
    assert lines[0].startswith("ring, packet: 25 % of 1,000 hops, 3 of 9 items, ")
    assert [line.split("items, ")[1] for line in lines] == [
        *("? hops/s, ? left", "? hops/s, ? left"),
        *("100 hops/s, 5.5 s left", "? hops/s, ? left"),
    ]
    assert capsys.readouterr().out == ""
