from pathlib import Path

import fanfold.topo
from fanfold.topo.catalog import CATALOG
from fanfold.topo.fabric_rules import check_fabric
from fanfold.topo.graph import Paths

MACHINERY = {
    *("__init__", "catalog", "fabric", "fabric_rules", "graph"),
    *("birt", "bift", "predict"),
}
SMALL = {"leaf_spine": (2, 2, 8)}


def test_folder_and_catalog_agree():
    files = {p.stem for p in Path(fanfold.topo.__file__).parent.glob("*.py")}
    listed = {row.build.__module__.rpartition(".")[2] for row in CATALOG}
    assert files - MACHINERY == listed
    assert len({row.name for row in CATALOG}) == len(CATALOG)


def test_every_topology_is_a_usable_fabric_in_which_all_bfers_reach_each_other():
    assert SMALL.keys() == {row.name for row in CATALOG}
    for row in CATALOG:
        fabric = row.build(*SMALL[row.name])
        check_fabric(fabric, row.name)
        paths = Paths(fabric)
        names = [n.name for n in fabric.by_bfr_id.values()]
        assert all(paths.hops(a, b) for a in names for b in names if a != b)
        assert row.summary
