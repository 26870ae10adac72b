import json

import pytest

from fanfold.cli.main import run
from fanfold.trees.catalog import CATALOG

FABRIC = ["--topology", "leaf-spine:leaves=4,spines=2,hosts=16"]


@pytest.mark.parametrize("row", CATALOG, ids=lambda row: row.name)
def test_every_protocol_tells_its_numbers_as_json(row, capsys):
    events = ["--leave", "h5@2s", "--fail", "leaf0-spine0@6s", "--join", "h5@9s"]
    assert run(["trees", row.name, *FABRIC, "--members", "h1,h3-5", *events, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["protocol"], told["n_members"]) == (row.name, 4)
    assert told["join"]["n"] == 5
    assert 0 < told["join"]["p50_ps"] <= told["join"]["max_ps"]
    leave = told["leave"]
    assert (leave["n"], leave["n_never"]) == (1, 0)
    assert leave["p50_ps"] == leave["max_ps"] > 2 * 10**12
    assert told["n_messages"] == sum(message["n"] for message in told["messages"])
    assert told["state"]["n_entries"] >= told["state"]["most_entries"] > 0
    assert [h["what"] for h in told["events"]][-3:] == ["join", "leave", "fail"]


@pytest.mark.parametrize("row", CATALOG, ids=lambda row: row.name)
def test_every_protocol_is_shown_on_a_screen(row, capsys):
    assert run(["trees", row.name, *FABRIC, "--members", "5", "--fail", "leaf1-spine0@1s"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "5 members" in lines[0]
    assert any("join latency" in line for line in lines)
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 132


def test_without_a_name_all_are_listed(capsys):
    assert run(["trees", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == [row.name for row in CATALOG]
    assert run(["trees"]) == 0
    assert "RFC 7761" in capsys.readouterr().out


def test_a_number_of_members_is_spread_over_all_hosts(capsys):
    assert run(["trees", "pim-sm", *FABRIC, "--members", "3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [h["host"] for h in told["events"] if h["what"] == "join"] == [1, 6, 11]


def test_settings_are_taken(capsys):
    told = []
    for pair in ("process_ps=100us", "process_ps=2ms"):
        flags = [*FABRIC, "--set", pair, "--set", "switch_over=false", "--set", "rp=spine1"]
        assert run(["trees", "pim-sm", *flags, "--json"]) == 0
        told.append(json.loads(capsys.readouterr().out))
    fast, slow = (row["join"]["max_ps"] for row in told)
    assert slow > fast
    counts = {row["kind"]: row["n"] for row in told[0]["messages"]}
    assert counts["join (S,G)"] == 1  # spine1 to the source's leaf


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        (["pim"], "PROTOCOL: got 'pim', allowed: pim-sm"),
        (["pim-sm"], "--topology: got 'nothing'"),
        (["pim-sm", *FABRIC, "--members", "16"], "--members: got '16', allowed: 0..15"),
        (["pim-sm", *FABRIC, "--members", "h16"], "--members: got 'h16'"),
        (["pim-sm", *FABRIC, "--members", "h3-x"], "--members: got 'h3-x'"),
        (["pim-sm", *FABRIC, "--source", "leaf0"], "--source: got 'leaf0'"),
        (["pim-sm", *FABRIC, "--gap", "5"], "--gap: got '5'"),
        (["pim-sm", *FABRIC, "--packets", "-1"], ".n: got -1"),
        (["pim-sm", *FABRIC, "--leave", "h3"], "--leave: got 'h3', allowed: NODE@TIME"),
        (["pim-sm", *FABRIC, "--fail", "h3-h4@1s"], "two nodes with a cable"),
        (["pim-sm", *FABRIC, "--fail", "h3@1s"], "--fail: got 'h3@1s'"),
        (["pim-sm", *FABRIC, "--set", "speed=1"], "--set: got 'speed=1'"),
        (["pim-sm", *FABRIC, "--set", "n_offers=-1"], "n_offers"),
        (["pim-sm", *FABRIC, "--set", "rp=h0"], "settings.rp: got 'h0'"),
    ],
)
def test_what_cannot_be_ends_with_one_line_and_code_2(flags, what, capsys):
    assert run(["trees", *flags]) == 2
    told = capsys.readouterr().err
    assert what in told
    assert len(told.splitlines()) == 1
