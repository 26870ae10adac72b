import json
from pathlib import Path

import pytest

from fanfold.cli.main import run

EXAMPLES = Path(__file__).parents[3] / "examples"
NET = ["--topology", f"import:{EXAMPLES / 'figure1.json'}"]
FABRIC = ["--topology", "leaf-spine:leaves=4,spines=2,hosts=16"]


def told(capsys, *args, code=0):
    assert run(["vat", *args, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_figure_1_is_drawn_with_its_masks(capsys):
    assert run(["vat", *NET, "--check", str(EXAMPLES / "figure1_vat.json")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.strip("├─└│ ") for line in lines[2:-1]] == [
        *("s6 11110000", "s1 11000000", "w1 w2", "s7 00110000", "w3 w4"),
    ]
    assert lines[-1] == "1 of 1 trees keep all rules"


def test_what_is_printed_can_be_checked(capsys, tmp_path):
    plan = told(capsys, *FABRIC, "--jobs", "2", "--slots", "5")
    assert [job["quota"] for job in plan["jobs"]] == [2, 2]
    assert plan["faults"] == []
    assert [row["n_links"] for row in plan["figures"]] == [12, 12]
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    assert told(capsys, "--check", str(file)) == plan


def test_a_fault_is_told_by_rule_and_ends_with_code_4(capsys, tmp_path):
    plan = told(capsys, *FABRIC, "--jobs", "2")
    plan["jobs"][1]["nodes"][1]["a_bm"].append("h0")
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    again = told(capsys, "--check", str(file), code=4)
    assert {(row["job"], row["rule"]) for row in again["faults"]} >= {
        ("job1", "not-a-superset")
    }
    assert [row["job"] for row in again["figures"]] == ["job0"]
    assert run(["vat", "--check", str(file)]) == 4
    assert "1 of 2 trees keep all rules" in capsys.readouterr().out
    crowded = told(capsys, *FABRIC, "--check", str(EXAMPLES / "none.json"), code=2)
    assert "none.json" in crowded["error"]


def test_a_root_may_be_a_server(capsys):
    plan = told(capsys, *NET, "--members", "w1-4", "--root", "w8")
    root = plan["jobs"][0]["nodes"][0]
    assert (root["at"], root["parent"], root["a_bm"]) == ("w8", "", ["w1", "w2", "w3", "w4"])


def test_a_large_plan_fits_a_screen(capsys):
    assert run(["vat", "--topology", "fat-tree:k=8", "--members", "96", "--jobs", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 90
    assert max(map(len, lines)) <= 132
    assert lines[-1] == "3 of 3 trees keep all rules"


@pytest.mark.parametrize(
    ("args", "field"),
    [
        ([], "--topology"),
        ([*FABRIC, "--members", "17"], "--members"),
        ([*FABRIC, "--members", "h0,h99"], "--members"),
        ([*FABRIC, "--members", "leaf0"], "--members"),
        ([*FABRIC, "--root", "s9"], "--root"),
        ([*FABRIC, "--jobs", "0"], "--jobs"),
        ([*FABRIC, "--jobs", "17"], "--jobs"),
        ([*FABRIC, "--slots", "0"], "--slots"),
        ([*FABRIC, "--slots", "4", "--quota", "5"], "--quota"),
        ([*FABRIC, "--slots", "1", "--jobs", "8"], "job"),
    ],
    ids=lambda x: "-".join(x[-2:]) if isinstance(x, list) else None,
)
def test_a_wrong_flag_is_named(args, field, capsys):
    assert run(["vat", *args]) == 2
    assert field in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"at": "s9"}, "jobs[0].nodes[0].at"),
        ({"a_bm": "111"}, "jobs[0].nodes[0].a_bm"),
        ({"a_bm": ["s1"]}, "jobs[0].nodes[0].a_bm"),
        ({"a_bm": ["w1", "w1"]}, "jobs[0].nodes[0].a_bm"),
        ({"color": 1}, "color"),
    ],
)
def test_a_wrong_file_is_named_by_its_key(change, field, capsys, tmp_path):
    table = json.loads((EXAMPLES / "figure1_vat.json").read_text())
    table["jobs"][0]["nodes"][0].update(change)
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(table))
    assert run(["vat", *NET, "--check", str(file)]) == 2
    assert field in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"jobs": []}, "jobs: got 'nothing', allowed: one job or more"),
        ({"slots": 0}, "slots: got 0"),
        ({"jobs": [0, 0]}, "jobs[1].name: got 'figure 1', allowed: another name"),
    ],
)
def test_a_file_without_jobs_of_their_own_is_refused(change, said, capsys, tmp_path):
    table = json.loads((EXAMPLES / "figure1_vat.json").read_text())
    change["jobs"] = [table["jobs"][i] for i in change.get("jobs", [0])]
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(table | change))
    assert run(["vat", *NET, "--check", str(file)]) == 2
    assert f"error: {said}" in capsys.readouterr().err
