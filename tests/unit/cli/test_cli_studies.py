import json
import subprocess
import sys

import pytest

from fanfold.cli.main import run
from fanfold.cli.study import micro_usd, read_sweep
from fanfold.errors import ConfigError
from fanfold.study.catalog import CATALOG
from fanfold.study.sweep import schemes_of

SMALL = ("--topology", "star:hosts=4", "--gpus", "4", "--jobs", "1", "--sweep", "size=20kB")
PUSH = ("study", "model-push", *SMALL)


def told(capsys, *argv):
    code = run([*argv, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_study_by_every_scheme_with_prices(capsys, tmp_path):
    argv = (
        *PUSH,
        "--out",
        str(tmp_path),
        "--price",
        "0.02",
        "--pj-per-bit",
        "5",
        "--watts",
        "700",
    )
    code, value = told(capsys, *argv)
    assert code == 0
    assert [row["scheme"] for row in value["rows"]] == list(schemes_of(["all"]))
    assert len(value["rows"]) == 12
    for row in value["rows"]:
        assert row["refusal"] == ""
        values = row["values"]
        assert values["time_all_ps"] > 0
        assert values["energy_mj"] == values["fabric_bytes"] * 8 * 5 // 10**9
        assert values["idle_energy_mj"] == values["idle_gpu_ps"] * 700 // 10**9
        money = -(-values["source_bytes"] * 20_000 // 10**9)
        assert values["egress_micro_usd"] == money
    assert value["command"] == (
        "fanfold study model-push --gpus 4 --topology star:hosts=4 --sweep size=20kB"
        " --price 0.020000 --pj-per-bit 5 --watts 700 --seed 1"
    )
    assert run([*argv]) == 0
    text = capsys.readouterr().out
    assert "=> size 20kB: choose fanfold" in text
    assert "topology" not in text.split("assumed")[1].split("\n")[1]
    for scheme in ("unicast", "sr-p2mp", "fanfold"):
        assert scheme in text


def test_keys_of_every_study_are_listed(capsys):
    assert run(["study", "all", "--keys", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["study"] for row in rows} == {row.name for row in CATALOG}
    assert run(["study", "moe-dispatch", "--keys"]) == 0
    assert "node-limited" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (("modl-push",), "model-push?"),
        (("model-push", "--model", "llama3-71b"), "llama3-70b?"),
        (("model-push", "--gpus", "1"), "gpus"),
        (("model-push", "--topology", "star:hosts=3", "--gpus", "4", "--jobs", "1"), "4 hosts"),
        (("model-push", "--gpus", "4", "--sweep", "gpus=4,8"), "beside its own flag"),
        (("model-push", "--sweep", "size"), "KEY=VALUE"),
        (("model-push", "--price", "cheap"), "USD a GB"),
        (("model-push", "--jobs", "0"), "--jobs"),
        (("model-push", "--submit", "local", "--jobs", "2"), "the cluster decides"),
        (("moe-dispatch", "--model", "llama3-70b"), "routed experts"),
        (("all", "--sweep", "nokey=1"), "nokey"),
    ],
)
def test_a_wrong_request_is_one_line_and_code_2(capsys, tmp_path, argv, text):
    assert run(["study", *argv, "--out", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert text in told


def test_a_cluster_that_is_not_here_is_code_3(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run(["study", "model-push", "--submit", "slurm", "--out", str(tmp_path)]) == 3
    assert "sbatch" in capsys.readouterr().err


def test_who_interrupts_is_told_what_is_kept(capsys, tmp_path, monkeypatch):
    def stopped(*_, tell, **__):
        tell(3, 12, "unicast")
        raise KeyboardInterrupt

    monkeypatch.setattr("fanfold.cli.study.run_all", stopped)
    assert run([*PUSH, "--out", str(tmp_path)]) == 4
    assert "3 of 12 runs are kept; the same command goes on" in capsys.readouterr().err


def test_sweeps_and_prices_are_read_exactly():
    assert read_sweep(["a=1,2", "topology=rail:servers=2,gpus=4;star:hosts=8"]) == (
        ("a", ("1", "2")),
        ("topology", ("rail:servers=2,gpus=4", "star:hosts=8")),
    )
    assert [micro_usd(t) for t in (None, "0.02", "$1", ".5", "12.345678")] == [
        *(0, 20_000, 1_000_000, 500_000, 12_345_678)
    ]
    for text in ("", "-1", "1e3", "0.0000001", "."):
        with pytest.raises(ConfigError):
            micro_usd(text)


def test_importing_fanfold_imports_no_study():
    code = "import sys, fanfold; print('fanfold.study' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout.split() == [b"False", b"False"]
