import json

import pytest
from topo_samples import SAMPLES

from fanfold.cli.main import run
from fanfold.topo.net_catalog import NET_CATALOG

SCREEN = 40


def test_a_topology_is_described_as_json(capsys):
    assert run(["topo", "fat-tree:k=4", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["n_hosts"], told["n_routers"], told["diameter"]) == (16, 20, 6)
    assert [row["n_nodes"] for row in told["tiers"]] == [16, 8, 8, 4]
    assert {row["placement"] for row in told["packets"]} == {"naive", "rack", "job"}


@pytest.mark.parametrize("row", NET_CATALOG, ids=lambda row: row.name)
def test_the_picture_of_every_topology_fits_a_screen(row, capsys):
    assert run(["topo", f"{row.name}:{row.example}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= SCREEN
    assert max(map(len, lines)) <= 132
    assert any("[ ]" in line for line in lines)


def test_a_net_of_few_hosts_needs_no_flag(capsys):
    assert run(["topo", "star:hosts=1"]) == 0
    assert "hosts 1, routers 1" in capsys.readouterr().out


def test_without_a_name_all_are_listed(capsys):
    assert run(["topo", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"].partition(":")[0] for row in rows] == [
        *(row.name for row in NET_CATALOG),
        *["import"] * 8,
    ]
    assert run(["topo"]) == 0
    assert "fat-tree:k=4" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "what"),
    [
        (["topo", "fat-tree:k=5"], "k: got 5, allowed: an even number in 2..64"),
        (["topo", "fat-tree:k=4", "--jobs", "17"], "jobs: got 17, allowed: 1..16"),
        (["topo", "fat-tree:k=4", "--jobs", "0"], "jobs: got 0"),
        (["topo", "fat-tee:k=4"], "topology: got 'fat-tee'; did you mean fat-tree?"),
    ],
)
def test_what_cannot_be_ends_with_one_line_and_code_2(argv, what, capsys):
    assert run(argv) == 2
    told = capsys.readouterr().err
    assert what in told
    assert len(told.splitlines()) == 1


def test_the_seed_draws_another_graph(capsys):
    told = []
    for seed in ("1", "1", "2"):
        assert (
            run(["topo", "wan:sites=6,hosts=4", "--json", "--seed", seed, "--jobs", "2"]) == 0
        )
        told.append(capsys.readouterr().out)
    assert told[0] == told[1] != told[2]


def test_what_a_file_leaves_open_is_a_line_and_a_note_of_json(capsys, tmp_path):
    path = tmp_path / "places.graphml"
    path.write_text(SAMPLES["places.graphml"])
    assert run(["topo", f"import:{path}"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "delays by distance: 1 of 1 cables, great circle at 5 us a km of fibre" in out
    assert run(["topo", f"import:{path}", "--json"]) == 0
    loop, placed = json.loads(capsys.readouterr().out)["notes"]
    assert loop.startswith("left out, from a node to itself")
    assert placed in out
    assert run(["encodings", "--topology", f"import:{path}", "--members", "1"]) == 0
    assert f"note: {placed}" in " ".join(capsys.readouterr().err.split())


def test_cost_maps_are_json_of_two_media_types(capsys):
    assert run(["topo", "fat-tree:k=4", "--cost-map"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert list(told) == ["application/alto-networkmap+json", "application/alto-costmap+json"]


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        (["--cost-map"], "--cost-map: got 'alone', allowed: NAME or --lab"),
        (["fat-tree:k=4", "--cost-map", "--lab", "x"], "--cost-map: got 'both'"),
        (["--lab", "x"], "--lab: got 'x', allowed: with --cost-map"),
        (["fat-tree:k=4", "--cost-map", "--jobs", "2"], "--jobs"),
    ],
)
def test_cost_maps_are_of_a_name_or_of_a_lab(capsys, flags, what):
    assert run(["topo", *flags]) == 2
    told = capsys.readouterr().err
    assert what in told
    assert len(told.splitlines()) == 1
