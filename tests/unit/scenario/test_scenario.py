"""Scenario files: what is read, what is refused and how it is said, what a run id covers."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from fanfold.errors import ConfigError
from fanfold.scenario.scenario import (
    Scenario,
    Workload,
    bundle,
    load_scenario,
    read_scenario,
    run_id,
    save_scenario,
)
from fanfold.scenario.settings import Failure, Settings

SMALL = Scenario("fat-tree:k=4", workload=Workload("broadcast", 1 << 20))
WHOLE = Scenario(
    topology="leaf-spine:leaves=4",
    name='a "name"\twith \\ and \x7f and ü',
    schemes=("ring", "fanfold"),
    fidelity="train",
    seed=7,
    workload=Workload("all_reduce", 4096, 16, "shuffled"),
    settings=Settings(
        pfc_pkts=(15, 12),
        cut_through=True,
        failures=(Failure(5, "a", "b"), Failure(9, "a", "b", True)),
    ),
)
TABLE: dict[str, Any] = {
    "topology": "fat-tree:k=4",
    "workload": {"kind": "broadcast", "n_bytes": 1024},
}


@pytest.mark.parametrize("scenario", [SMALL, WHOLE], ids=["small", "whole"])
def test_a_saved_scenario_is_loaded_as_it_was(scenario: Scenario, tmp_path: Path) -> None:
    save_scenario(scenario, tmp_path / "s.toml")
    assert load_scenario(tmp_path / "s.toml") == scenario


def test_a_matrix_is_looked_for_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('topology = "star:n=3"\nmatrix = "some.cm"\n')
    assert load_scenario(tmp_path / "s.toml").matrix == str(tmp_path / "some.cm")


SIZED = {"kind": "broadcast", "n_bytes": 1}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"topologie": "x"}, "topologie: got 'an unknown key'; did you mean topology?"),
        ({"workload": {"kind": "broadcast"}}, "workload.n_bytes: got 'nothing'"),
        (
            {"workload": SIZED | {"kind": "multicast"}},
            "workload.kind: got 'multicast', allowed: all_gather",
        ),
        (
            {"workload": SIZED | {"n_bytes": 0}},
            "workload.n_bytes: got 0, allowed: a whole number, 1..",
        ),
        (
            {"workload": SIZED | {"ranks": 1}},
            "workload.ranks: got 1, allowed: a whole number, 2..",
        ),
        ({"workload": SIZED | {"size": 1}}, "workload.size: got 'an unknown key'"),
        ({"workload": 3}, "workload: got 3, allowed: a table of kind, n_bytes"),
        ({"workload": None}, "workload: got 'neither'"),
        ({"matrix": "x.cm"}, "workload: got 'both'"),
        (
            {"matrix": "x.cm", "workload": None, "schemes": ["ring"]},
            "schemes: got ['ring'], allowed: none beside a matrix",
        ),
        ({"seed": -1}, "seed: got -1, allowed: a whole number, 0.."),
        ({"seed": True}, "seed: got True, allowed: a whole number"),
        ({"schemes": []}, "schemes: got []"),
        ({"schemes": ["ring", "ring"]}, "schemes: got ['ring', 'ring']"),
        ({"schemes": "all"}, "schemes: got 'all', allowed: a list, each text in quotes"),
        ({"fidelity": "exact"}, "fidelity: got 'exact', allowed: auto, flow, packet, train"),
        ({"topology": ""}, "topology: got '', allowed: a topology"),
        (
            {"settings": {"loss_ppb": 10**9}},
            "settings.loss_ppb: got 1000000000, allowed: a whole number, 0..999999999",
        ),
        (
            {"settings": {"cut_through": 1}},
            "settings.cut_through: got 1, allowed: true or false",
        ),
        (
            {"settings": {"bitstring_bits": 100}},
            "settings.bitstring_bits: got 100, allowed: 0, 64, 128",
        ),
        ({"settings": {"pfc_pkts": [1]}}, "settings.pfc_pkts: got [1], allowed: a list of 2"),
        ({"settings": {"pfc_pkts": [1, 2]}}, "settings.pfc_pkts: got [1, 2], allowed: pause"),
        (
            {"settings": {"failures": [{"at_ps": -1, "a": "x", "b": "y"}]}},
            "settings.failures[0].at_ps: got -1",
        ),
        (
            {"settings": {"failures": [{"at_ps": 1, "a": "x"}]}},
            "settings.failures[0].b: got 'nothing'",
        ),
    ],
)
def test_a_fault_is_named_by_its_key(change: dict[str, Any], said: str) -> None:
    table = {k: v for k, v in (TABLE | change).items() if v is not None}
    with pytest.raises(ConfigError) as caught:
        read_scenario(table, "F: ")
    assert str(caught.value).startswith(f"F: {said}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "is_fine"),
    [({"loss_ppb": 10**9 - 1}, True), ({"block_psns": 64}, True), ({"block_psns": 65}, False)],
)
def test_limits_have_two_sides(settings: dict[str, int], is_fine: bool) -> None:
    if is_fine:
        read_scenario(TABLE | {"settings": settings})
    else:
        with pytest.raises(ConfigError):
            read_scenario(TABLE | {"settings": settings})


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_scenario(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("topology = \n")
    with pytest.raises(ConfigError, match="allowed: TOML"):
        load_scenario(tmp_path / "bad.toml")
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="allowed: TOML"):
        load_scenario(tmp_path / "bad.toml")


def test_a_run_id_covers_all_that_can_change_a_result() -> None:
    ids = {
        run_id(SMALL, "ring", "1"),
        run_id(SMALL, "fanfold", "1"),
        run_id(SMALL, "ring", "2"),
        run_id(replace(SMALL, seed=2), "ring", "1"),
        run_id(replace(SMALL, topology="fat-tree:k=6"), "ring", "1"),
        run_id(replace(SMALL, fidelity="flow"), "ring", "1"),
        run_id(replace(SMALL, workload=Workload("broadcast", 1 << 21)), "ring", "1"),
        run_id(replace(SMALL, settings=Settings(loss_ppb=1)), "ring", "1"),
    }
    assert len(ids) == 8
    assert all(len(i) == 16 for i in ids)


def test_a_run_id_covers_nothing_else() -> None:
    named = replace(SMALL, name="other", schemes=("ring", "tree"))
    assert run_id(named, "ring", "1") == run_id(SMALL, "ring", "1")


def test_a_run_id_covers_what_a_file_holds_and_not_where_it_lies(tmp_path: Path) -> None:
    ids = []
    for name, text in (("a.cm", "x"), ("b.cm", "x"), ("c.cm", "y")):
        (tmp_path / name).write_text(text)
        scenario = Scenario("star:n=3", matrix=str(tmp_path / name))
        ids.append(run_id(scenario, "matrix", "1"))
    assert ids[0] == ids[1] != ids[2]
    (tmp_path / "net.json").write_text("{}")
    drawn = Scenario(f"import:{tmp_path}/net.json,rate=1Gbps", workload=SMALL.workload)
    before = run_id(drawn, "ring", "1")
    (tmp_path / "net.json").write_text("{} ")
    assert run_id(drawn, "ring", "1") != before


def test_a_bundle_loads_anywhere(tmp_path: Path) -> None:
    (tmp_path / "a.cm").write_text("x")
    (tmp_path / "b.graphml").write_text("y")
    net = f"import:{tmp_path}/b.graphml,rate=1Gbps,delay=1us"
    asked = Scenario(net, name="n", matrix=str(tmp_path / "a.cm"))
    kept, files = bundle(asked, "matrix")
    assert files == {"matrix.cm": b"x", "b.graphml": b"y"}
    assert str(tmp_path) not in repr(kept)
    there = tmp_path / "there"
    there.mkdir()
    for name, content in files.items():
        (there / name).write_bytes(content)
    save_scenario(kept, there / "scenario.toml")
    again = load_scenario(there / "scenario.toml")
    assert again.matrix == str(there / "matrix.cm")
    assert again.topology == f"import:{there}/b.graphml,rate=1Gbps,delay=1us"
    assert run_id(again, "matrix", "1") == run_id(asked, "matrix", "1")


def test_the_run_id_of_a_scenario_stays_what_it_is() -> None:
    """A change here orphans every result that was kept: then say so in the changelog."""
    assert run_id(SMALL, "ring", "1") == "a50586c2d33a581b"


def test_schema_and_reader_agree_on_what_a_field_may_hold() -> None:
    schema = msgspec.json.schema(Scenario)["$defs"]["Settings"]["properties"]
    assert schema["loss_ppb"]["exclusiveMaximum"] == 10**9
    assert schema.keys() == {f.name for f in msgspec.structs.fields(Settings)}


def test_a_kept_net_has_its_file_s_name_and_never_that_of_a_file_of_the_run(
    tmp_path: Path,
) -> None:
    for name, kept in (
        ("zoo.gml", "zoo.gml"),
        ("a,b c.json", "a_b_c.json"),
        ("scenario.toml", "net-scenario.toml"),
        ("trace.json", "net-trace.json"),
        ("digests.json", "net-digests.json"),
    ):
        (tmp_path / name).write_text("y")
        asked = Scenario(f"import:{tmp_path}/{name}", workload=SMALL.workload)
        alone, files = bundle(asked, "ring")
        assert (alone.topology, files) == (f"import:{kept}", {kept: b"y"})
