import json
from typing import Any

import msgspec
import pytest

from fanfold.cli import gap as verb
from fanfold.cli.main import run
from fanfold.study.gap import REQUIREMENTS, measure_gap
from fanfold.study.gap_examples import regions
from fanfold.study.gap_ground import ROWS, build_ground

NAMES = ("unicast", "bier", "bier+plain", "fanfold")


@pytest.fixture(scope="module")
def small():
    ground = build_ground(
        "leaf-spine:leaves=4,spines=2,hosts=16",
        n_members=3,
        message_bytes=16 * 4096,
        far_topology="fat-tree:k=4",
    )
    gap = measure_gap(ground, [row for row in ROWS if row.name in NAMES], n_seeds=2)
    return msgspec.structs.replace(gap, command="fanfold gap again", examples=(regions(),))


@pytest.fixture
def asked(small, monkeypatch):
    """What the verb asks for; it gets the small table."""
    seen: dict[str, Any] = {}

    def build(topology, **asked):
        seen.update(asked, topology=topology)
        return small

    monkeypatch.setattr(verb, "build_gap", build)
    return seen


def test_a_table_has_words_numbers_limits_reasons_and_examples(asked, capsys):
    assert run(["gap"]) == 0
    text = capsys.readouterr().out
    lines = text.splitlines()
    head = next(line for line in lines if "scheme" in line)
    assert all(requirement in head for requirement in REQUIREMENTS)
    row = next(line for line in lines if line.strip().startswith("bier "))
    assert row.count("draft") == 5
    assert "no detour before new paths" in text
    limit = next(line for line in lines if line.strip().startswith("recover_ps"))
    assert "50 ms" in limit
    assert "fanfold, reliability: Poor: recover_ps never comes" in text
    assert "goodput with loss, by seeds" in text
    assert "WAN egress: 4.0 x less" in text
    assert "again: fanfold gap again" in text
    assert "assumed" not in text


def test_numbers_are_all_told_with_what_was_assumed(asked, capsys):
    assert run(["gap", "--numbers"]) == 0
    text = capsys.readouterr().out
    for name in ("named_ps", "feedback_pkts", "control_msgs", "idle_state_entries"):
        assert name in text
    assert "assumed" in text
    assert "RFC 9776 8.8 and 8.9" in text
    assert "bier+plain, reliability: Poor: recover_ps 200 ms, above 50 ms" in text
    assert "given: --detect" in text


def test_json_is_the_whole_value(asked, small, capsys):
    assert run(["gap", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == json.loads(msgspec.json.encode(small))


def test_flags_reach_the_measurement(asked):
    flags = ["--receivers", "9", "--members", "4", "--loss", "0.1%", "--detect", "10ms"]
    assert (
        run(
            [
                "gap",
                "--topology",
                "star:hosts=12",
                *flags,
                "--seed",
                "7",
                "--seeds",
                "3",
                "--json",
            ]
        )
        == 0
    )
    del asked["progress"]
    assert asked == {
        "topology": "star:hosts=12",
        "n_receivers": 9,
        "n_members": 4,
        "loss_ppb": 10**6,
        "detect_ps": 10**10,
        "seed": 7,
        "n_seeds": 3,
    }


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--topology", "fat-tree:k=3"], "even number"),
        (["--topology", "nothing"], "nothing"),
        (["--topology", "star:hosts=2"], "3 or more"),
        (["--receivers", "300"], "--receivers"),
        (["--members", "255"], "--members"),
        (["--members", "0"], "--members"),
        (["--loss", "1"], "--loss"),
        (["--loss", "x"], "--loss"),
        (["--detect", "10"], "--detect"),
        (["--seed", "-1"], "--seed"),
        (["--seeds", "0"], "--seeds"),
    ],
)
def test_a_wrong_flag_is_named_in_one_line(flags, named, capsys):
    assert run(["gap", *flags]) == 2
    told = capsys.readouterr()
    assert named in told.err
    assert len(told.err.strip().splitlines()) == 1
    assert told.out == ""
