import json
import re
from pathlib import Path

import numpy as np
import pytest

from fanfold.cli.main import run
from fanfold.work.catalog import CATALOG
from fanfold.work.presets import PRESETS

CONFIGS = Path(__file__).parents[1] / "work" / "configs"


def told(capsys, *argv):
    assert run(["workload", *argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_without_a_name_all_are_listed(capsys):
    listed = told(capsys)
    assert [row["name"] for row in listed["workloads"]] == [row.name for row in CATALOG]
    assert [row["name"] for row in listed["models"]] == [row.name for row in PRESETS]
    assert run(["workload"]) == 0
    assert "gpt-3b-32" in capsys.readouterr().out


def test_gpt_3b_is_told_with_its_volumes(capsys):
    value = told(capsys, "training", "--model", "gpt-3b-32")
    assert value["sent_bytes"] == {
        "TP": 83_047_219_200,
        "PP": 1_006_632_960,
        "DP": 741_564_800,
    }
    assert value["degrees"]["dp"] == 2
    assert run(["workload", "training", "--model", "gpt-3b-32"]) == 0
    text = capsys.readouterr().out
    assert "TP 83.047 GB, PP 1.007 GB, DP 741.565 MB" in text
    assert max(map(len, text.splitlines())) <= 110


@pytest.mark.parametrize("row", CATALOG, ids=lambda row: row.name)
@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_every_workload_prints_every_model_it_can(row, preset, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "110")
    # 128 ranks hold no expert of 8; 8 ranks do, everywhere.
    argv = ["workload", row.name, "--model", preset.name]
    if row.name == "moe-dispatch":
        if preset.model.experts is None:
            assert run(argv) == 2
            assert "one with routed experts" in capsys.readouterr().err
            return
        argv += ["--ep", "8", "--gpus", "128"]
        argv += ["--pp", "1"]
    assert run(argv) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 110


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.json")), ids=lambda path: path.stem)
def test_a_config_of_ones_own_is_taken(path, capsys):
    value = told(capsys, "training", "--model", str(path), "--gpus", "64", "--tp", "1")
    assert value["model"] == path.stem
    assert value["sent_bytes"]["DP"] > 0


def test_500_gb_to_four_regions(capsys):
    rows = told(capsys, "model-push", "--size", "500GB")["rows"]
    assert [row["wan_bytes"] for row in rows] == [16 * 10**12, 2 * 10**12, 500 * 10**9]


def test_gpus_hold_the_experts_where_no_degree_is_given(capsys):
    rows = told(capsys, "moe-dispatch", "--gpus", "256", "--pp", "1", "--tokens", "1000")[
        "rows"
    ]
    assert [row["way"] for row in rows] == ["by expert", "by rank", "by node", "multicast"]
    assert rows[3]["header_share_ppb"] == 44 * 10**9 // 7436
    assert rows[0]["copies"] == rows[1]["copies"], "an expert a GPU: nothing to join"


def test_a_trace_takes_the_place_of_a_gate(tmp_path, capsys):
    np.savez(tmp_path / "t.npz", experts=np.array([[0, 255], [1, 2]]))
    argv = ["--trace", str(tmp_path / "t.npz"), "--gpus", "256", "--pp", "1"]
    rows = told(capsys, "moe-dispatch", *argv)["rows"]
    assert rows[0]["tokens"] == 2
    assert rows[1]["copies"] == 3, "token 0 is at home at rank 0"


def test_the_seed_draws_other_tokens(capsys):
    got = [
        told(capsys, "moe-dispatch", "--ep", "16", "--gate", "zipf", "--seed", seed)["rows"]
        for seed in ("1", "1", "2")
    ]
    assert got[0] == got[1] != got[2]


@pytest.mark.parametrize(
    ("argv", "what"),
    [
        (["trainin"], "workload: got 'trainin'; did you mean training?"),
        (["training", "--model", "gpt-5"], "model: got 'gpt-5'"),
        (["training", "--model", "none.json"], "none.json: got"),
        (["training", "--tp", "0"], "tp: got 0, allowed: int >= 1"),
        (["training", "--zero", "4"], "zero: got 4, allowed: int <= 3"),
        (["training", "--tp", "3", "--gpus", "48", "--ep", "1"], "tp: got 3"),
        (["training", "--dispatch-dtype", "fp9"], "--dispatch-dtype: got 'fp9'"),
        (["moe-dispatch", "--gate", "best"], "gate: got 'best'"),
        (["moe-dispatch", "--ep", "7"], "ep: got 7"),
        (["moe-dispatch", "--tokens", "-1"], "tokens: got -1"),
        (["moe-dispatch", "--bits", "100"], "bsl: got 100"),
        (["moe-dispatch", "--node", "0"], "node: got 0"),
        (["model-push", "--size", "5 GBit"], "size: got '5 GBit'"),
        (["cold-start", "--replicas", "0"], "replicas: got 0"),
        (["cold-start", "--rate", "0bps"], "rate: got '0bps'"),
    ],
)
def test_what_cannot_be_ends_with_one_line_and_code_2(argv, what, capsys):
    assert run(["workload", *argv]) == 2
    err = capsys.readouterr().err
    assert what in err
    assert len(err.splitlines()) == 1


def test_a_model_of_an_unknown_family_is_told_and_said(tmp_path, capsys):
    config = {"model_type": "rwkv9", "hidden_size": 64, "num_hidden_layers": 4}
    (tmp_path / "config.json").write_text(json.dumps(config))
    asked = ("parameters", "--model", str(tmp_path))
    assert run(["workload", *asked]) == 2
    assert "with --parameters" in capsys.readouterr().err
    value = told(capsys, *asked, "--parameters", "7B")
    assert value["parameters"] == 7 * 10**9
    assert value["counted"] == "counted by --parameters: model_type rwkv9 is not known"
    assert run(["workload", "parameters", "--parameters", "7B"]) == 2
    assert "parameters: got 7000000000" in capsys.readouterr().err


def test_a_study_says_who_counted_its_model(tmp_path, capsys):
    config = {"model_type": "rwkv9", "hidden_size": 64, "num_hidden_layers": 4}
    (tmp_path / "config.json").write_text(json.dumps(config))
    out = ["--out", str(tmp_path / "out"), "--gpus", "4", "--schemes", "unicast", "--json"]
    asked = ["model-push", "--model", str(tmp_path), "--parameters", "1M", *out]
    assert run(["study", *asked]) == 0
    rows = json.loads(capsys.readouterr().out)["defaults"]
    assert [row["value"] for row in rows if row["name"] == "parameters"] == ["1,000,000"]


@pytest.mark.parametrize(
    ("asked", "head"),
    [
        (("inter-dc",), "500.000 GB, whatever the model"),
        (("inter-dc", "--size", "2TB", "--model", "llama3-70b"), "2.000 TB, whatever"),
        (("model-push", "--size", "500GB"), "500.000 GB, whatever the model"),
        (("checkpoint", "--size", "1TB"), "1.000 TB, whatever the model"),
    ],
)
def test_what_has_a_size_of_its_own_is_not_headed_by_a_model(capsys, asked, head):
    assert run(["workload", *asked]) == 0
    out = capsys.readouterr().out
    assert out.startswith(head)
    assert not [preset.name for preset in PRESETS if preset.name in out]
    value = told(capsys, *asked)
    assert "model" not in value
    assert value["size_bytes"] % 10**11 == 0
    assert told(capsys, "model-push")["model"] == "deepseek-v3"


def test_a_price_has_a_currency(capsys):
    assert run(["workload", "inter-dc"]) == 0
    out = capsys.readouterr().out
    assert "price" in out
    assert len(re.findall(r"[0-9]\.[0-9]{2} USD", out)) == len(told(capsys, "inter-dc")["rows"])
    assert all(row["price_micro_usd"] > 0 for row in told(capsys, "inter-dc")["rows"])
