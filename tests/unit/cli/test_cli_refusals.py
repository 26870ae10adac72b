"""Flags that would change nothing, and typer's refusals in our form: one line, exit 2."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fanfold.cli import workload_flags
from fanfold.cli.main import command, run
from fanfold.cli.workload_takes import TAKES
from fanfold.errors import ConfigError
from fanfold.work.catalog import CATALOG, workload_of
from fanfold.work.volumes import WorkloadRequest

EXAMPLES = Path(__file__).parents[3] / "examples"
NET = ["--topology", "star:hosts=4"]
WORK = ["--workload", "broadcast:1kB"]


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line of a command that ends with 2."""
    assert run(list(words)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err.removeprefix("error: ").rstrip("\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["encodings", "--members", "3"], "--members: got '3', allowed: none without"),
        (["encodings", "--plan"], "--plan: got True, allowed: none without --topology"),
        (["encodings", *NET, "--plan", "--placement", "rack"], "--placement: got 'rack'"),
        (["trees", *NET], "--topology: got 'star:hosts=4', allowed: none without a PROT"),
        (["trees", "--join", "h1@1s"], "--join: got 'h1@1s', allowed: none without"),
        (["trees", "pim-sm", *NET, "--packets", "0", "--gap", "1s"], "--gap: got '1s'"),
        (["topo", "--jobs", "3"], "--jobs: got 3, allowed: none without a NAME"),
        (["vat", "--check", "x.json", "--jobs", "2"], "--jobs: got 2, allowed: none beside"),
        (["vat", "--check", "x.json", "--root", "s1"], "--root: got 's1', allowed: none be"),
        (["bitstring", "--hex", "7", "--ttl", "3"], "--ttl: got 3, allowed: none beside"),
        (["bitstring", "1-3", "--si", "1"], "--si: got 1, allowed: none beside IDS"),
        (["bitstring", "1-3", "--hex", "7"], "IDS: got '1-3 and --hex 7', allowed: either"),
        (["bitstring"], "IDS: got 'nothing', allowed: either IDS or --hex"),
        (["push", "x", "--config", "f", "--lab", "l"], "--lab: got 'l', allowed: none beside"),
        (["push", "x", "--config", "f", "--loss", "1%"], "--loss: got '1%', allowed: none b"),
        (["push", "x", "--config", "f", "--pcap", "p"], "--pcap: got 'p', allowed: none be"),
        (["reduce-bench", "--sizes", "1", "-b", "8B"], "--begin: got '8B', allowed: none be"),
        (["reduce-bench", "--collective", "send", "--op", "max"], "--op: got 'max', allowed"),
        (["reduce-bench", "-e", "4GiB"], "--end: got '4GiB', allowed: at most 1 GiB"),
        (["reduce-bench", "-b", "1MB", "-e", "1kB"], "--begin: got '1MB', allowed: at most"),
        (["study", "allreduce", "--keys", "--gpus", "8"], "--gpus: got 8, allowed: none be"),
        (["workload", "--gpus", "8"], "--gpus: got 8, allowed: none without a NAME"),
        (["workload", "goal:x", "--model", "y"], "--model: got 'y', allowed: none for a tr"),
        (["workload", "sizes", "--regions", "3"], "--regions: got 3, allowed: none but --mo"),
        (["workload", "moe-dispatch", "--skew", "3"], "--skew: got 3, allowed: none without"),
        (
            ["workload", "moe-dispatch", "--trace", "x.npz", "--tokens", "9"],
            "--tokens: got 9, allowed: none beside a trace",
        ),
        (
            ["compare", *NET, *WORK, "--fidelity", "flow", "--loss", "1%"],
            "--loss: got '1%', allowed: none beside --fidelity flow",
        ),
        (
            ["compare", *NET, *WORK, "--schemes", "ring", "--tree-start", "lost"],
            "--tree-start: got 'lost', allowed: none without one of ",
        ),
        (
            ["compare", *NET, *WORK, "--schemes", "sharp", "--tree-repair", "unicast"],
            "--tree-repair: got 'unicast', allowed: none without one of bidir-pim",
        ),
        (
            ["compare", *NET, *WORK, "--schemes", "fanfold", "--feedback", "packet"],
            "--feedback: got 'packet', allowed: none without one of bidir-pim, bier",
        ),
        (
            ["compare", *NET, *WORK, "--schemes", "ring", "--sum-numbers", "block"],
            "--sum-numbers: got 'block', allowed: none without one of fanfold",
        ),
        (
            ["compare", *NET, *WORK, "--schemes", "ring", "--repair", "nearest"],
            "--repair: got 'nearest', allowed: none without one of fanfold",
        ),
        (
            ["compare", *NET, *WORK, "--repair", "near"],
            "--repair: got 'near', allowed: source or nearest",
        ),
        (
            ["compare", *NET, *WORK, "--sum-numbers", "float"],
            "--sum-numbers: got 'float', allowed: ",
        ),
    ],
    ids=lambda words: " ".join(words)[:40] if isinstance(words, list) else "",
)
def test_a_flag_that_another_makes_idle_is_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(capsys, *words).startswith(said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["frob"],
            "command: got 'frob', allowed: bfr, bitstring, clean, compare, decode, demo, ",
        ),
        (["studdy"], "command: got 'studdy', not a command; did you mean study?"),
        (
            ["lab", "frob"],
            "command: got 'frob', allowed: down, exec, fail, heal, reroute, restart",
        ),
        (["topo", "--sed", "1"], "option: got '--sed', not an option; did you mean --seed?"),
        (
            ["topo", "-x"],
            "option: got '-x', allowed: --cost-map, --help, --jobs, --json, --lab, --seed",
        ),
        (["topo", "--jobs"], "--jobs: got 'nothing', allowed: jobs that hosts are dealt"),
        (["topo", "--json=3"], "--json: got 'a value', allowed: none: given or left out"),
        (
            ["lab", "up", "--metrics", "99999"],
            "--metrics: got '99999', allowed: a whole number, 0..65535",
        ),
        (["topo", "--jobs", "x"], "--jobs: got 'x', allowed: a whole number"),
        (["topo", "--jobs", "nan"], "--jobs: got 'nan', allowed: a whole number"),
        (["topo", "fat-tree:k=7"], "topology fat-tree.k: got 7, allowed: an even number"),
        (["topo", "a:", "b"], "argument: got 'b', allowed: nothing after NAME"),
        (["dissector", "b"], "argument: got 'b', allowed: options only"),
        (["push"], "PATH: got 'nothing', allowed: file or folder; arrives"),
        (["push", ""], "PATH: got '', allowed: file or folder; arrives"),
        (["study", "allreduce", "--topology", " "], "--topology: got ' ', allowed: such as"),
        (["push", "x", "--pcap", ""], "--pcap: got '', allowed: write a pcapng"),
        (["lab", "up", "--config="], "--config: got '', allowed: fabric TOML"),
        (["trees", "pim-sm", "--join", ""], "--join: got '', allowed: NODE@TIME"),
        (["reduce-bench", "--sizes", "9" * 5000], "--sizes: got '999"),
        (
            ["lab", "up", "--name", "no", "--limits", "array_slots=" + "9" * 5000],
            "--limits: got",
        ),
        (["study", "allreduce", "--watts", "-1"], "--watts: got -1, allowed: 0..1000000"),
    ],
    ids=lambda words: " ".join(words)[:40] if isinstance(words, list) else "",
)
def test_typer_s_refusals_have_our_form(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(capsys, *words).startswith(said)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("FANFOLD_TOPO_JOBS", "x", "--jobs (of FANFOLD_TOPO_JOBS): got 'x', allowed: a whole"),
        ("FANFOLD_TOPO_JOBS", "9", "--jobs (of FANFOLD_TOPO_JOBS): got 9, allowed: 1..4"),
        ("FANFOLD_TOPO_JSON", "maybe", "--json (of FANFOLD_TOPO_JSON): got 'maybe', allowed"),
        ("FANFOLD_TOPO_SEED", "-1", "--seed (of FANFOLD_TOPO_SEED): got -1, allowed: 0.."),
    ],
)
def test_a_twin_that_is_refused_is_named(
    name: str,
    value: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(name, value)
    assert refused(capsys, "topo", "star:hosts=4").startswith(said)


def test_a_key_of_a_file_is_no_flag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.toml").write_text('topology = "star:hosts=4"\nseed = "x"\n')
    assert ".toml: seed: got 'x'" in refused(capsys, "compare", str(tmp_path / "x.toml"))


@pytest.mark.parametrize("value", ["0", "", "no", "True", "1"])
def test_a_trace_is_shown_only_where_it_is_asked_for(
    value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FANFOLD_DEBUG", value)
    if value in ("True", "1"):
        with pytest.raises(ConfigError, match="--jobs"):
            run(["topo", "--jobs", "x"])
    else:
        assert refused(capsys, "topo", "--jobs", "x").startswith("--jobs: got 'x'")


@pytest.mark.parametrize("words", [[], ["lab"]])
def test_no_command_is_help_and_one_line(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    out, err = capsys.readouterr()
    assert "Usage:" in out
    assert err.startswith("error: command: got 'nothing', allowed: ")


@pytest.mark.parametrize("row", CATALOG, ids=lambda row: row.name)
def test_a_workload_takes_every_flag_that_changes_its_rows(row: Any) -> None:
    plain = rows_with(row.name, {})
    moved = [
        flag for flag, value in ALTERED.items() if rows_with(row.name, {flag: value}) != plain
    ]
    assert moved
    assert set(moved) <= {"model", "seed", *TAKES[row.name]}


def test_every_flag_of_workloads_is_taken_by_one() -> None:
    verb = command(["workload"]).commands["workload"]
    every = {option.name for option in verb.params} - {
        "help",
        "name",
        "model",
        "parameters",
        "seed",
        "as_json",
    }
    assert every - {"skip_unknown", "ops_rate"} == {
        f for takes in TAKES.values() for f in takes
    }


ALTERED: dict[str, Any] = {
    "model": "llama3-70b",
    "gpus": 4096,
    "tp": 2,
    "pp": 8,
    "ep": 8,
    "zero": 3,
    "seq": 512,
    "micro_batch": 2,
    "n_micro": 7,
    "recompute": False,
    "dispatch_dtype": "bf16",
    "gate": "zipf",
    "tokens": 4096,
    "node": 4,
    "bits": 1024,
    "payload": 1000,
    "size": "1GB",
    "regions": 2,
    "replicas": 12,
    "rate": "100Gbps",
    "within": "1s",
    "rtt": "5ms",
    "price": 1,
    "rounds": 3,
    "clusters": 2,
    "neighbours": 1,
    "every": "1ms",
    "latency": "1ms",
    "flops": 10,
    "seed": 2,
}


def rows_with(name: str, changes: dict[str, Any]) -> bytes:
    """Rows of a workload as bytes; empty where the layout does not fit."""
    usual: dict[str, Any] = dict.fromkeys(
        f for part in (workload_flags.Layout, workload_flags.Routing) for f in part._fields
    )
    usual |= {"model": "deepseek-v3", "skew": 1000, "tokens": 0, "node": 8, "bits": 0}
    usual |= {"payload": 0, "size": None, "regions": 4, "replicas": None, "rate": "400Gbps"}
    usual |= {"within": "10s", "rtt": "20ms,60ms", "price": 20000, "rounds": 1, "clusters": 4}
    usual |= {"neighbours": 2, "every": "10ms", "latency": "5us", "flops": 400, "seed": 1}
    usual |= changes
    parts: list[Any] = [
        kind(*(usual[field] for field in kind._fields))
        for kind in (
            *(workload_flags.Layout, workload_flags.Routing),
            *(workload_flags.Pushed, workload_flags.Served),
        )
    ]
    try:
        named = workload_flags.Named(usual["model"], None)
        ask: WorkloadRequest = workload_flags.ask_of(named, *parts, usual["seed"])
        return msgspec.json.encode(workload_of(name).rows(ask))
    except ConfigError:
        return rows_with(name, {}) if changes else b""


def test_a_file_of_trees_names_its_topology_from_where_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["vat", "--check", str(EXAMPLES / "figure1_vat.json"), "--json"]) == 0
    printed = capsys.readouterr().out
    assert json.loads(printed)["topology"] == f"import:{EXAMPLES / 'figure1.json'}"
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "trees.json").write_text(printed)
    assert run(["vat", "--check", "away/trees.json"]) == 0
    (tmp_path / "net.json").write_text((EXAMPLES / "figure1.json").read_text())
    assert run(["vat", "--topology", "import:net.json,rate=1Gbit/s", "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["topology"] == f"import:{tmp_path / 'net.json'},rate=1Gbit/s"


def test_what_this_user_may_not_read_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "closed.bin"
    file.write_bytes(b"x")
    monkeypatch.setattr("os.access", lambda *args, **more: False)  # root may read everything
    said = refused(capsys, "push", str(file))
    assert said == f"PATH: got '{file}', allowed: a file or folder that this user may read"
