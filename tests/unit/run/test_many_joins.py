"""Of all schemes, trees of very many members run only when they are named."""

import msgspec
import pytest

from fanfold import run
from fanfold.results.store import Store
from fanfold.scenario.scenario import read_scenario

CATALOG_TREES = {"pim-sm", "pim-dm", "bidir-pim", "mldp", "mldp-mp2mp", "sr-p2mp"}


@pytest.mark.parametrize(("most", "left"), [(7, CATALOG_TREES), (8, set())])
def test_trees_of_many_are_left_out_with_the_reason(tmp_path, monkeypatch, most, left):
    monkeypatch.setattr(run, "MAX_JOINS", most)
    table = {"topology": "star:hosts=8", "workload": {"kind": "broadcast", "n_bytes": 4096}}
    scenario = read_scenario({**table, "fidelity": "flow"})
    runs = run.run_scenario(scenario, Store(tmp_path))
    assert {r.scheme for r in runs if f"{most:,} ranks among all schemes" in r.refusal} == left
    named = msgspec.structs.replace(scenario, schemes=("mldp",))
    (one,) = run.run_scenario(named, Store(tmp_path))
    assert one.run_id
    assert not one.refusal
