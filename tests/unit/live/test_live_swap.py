"""A node's table changes whole or not at all, and only for one that fits."""

import copy
import json

import numpy as np
import pytest
from msgspec.structs import replace

from fanfold.errors import ConfigError
from fanfold.live.swap import Swap
from fanfold.topo.bift import build_bifts, table_rows
from fanfold.topo.fabric_routes import FabricRoutes
from fanfold.topo.lab_fabric import leaf_spine

FABRIC = leaf_spine(2, 2, 4)
CUT = replace(
    FABRIC,
    links=tuple(
        replace(link, up=(link.a, link.b) != ("leaf1", "spine1")) for link in FABRIC.links
    ),
)


def tables_of(fabric, name):
    return build_bifts(FabricRoutes(fabric), name)


def request(fabric, name, version=2, **changes):
    rows = table_rows(FabricRoutes(fabric), name)
    return json.loads(json.dumps({"do": "table", "version": version, "rows": rows} | changes))


@pytest.mark.parametrize("name", ["h0", "leaf1", "leaf2", "spine1"])
def test_a_new_table_is_the_one_that_a_node_of_the_changed_fabric_starts_with(name):
    bifts = tables_of(FABRIC, name)
    swap = Swap(FABRIC, name, bifts)
    assert swap.version == 1
    assert swap.take(request(CUT, name)) == {"ok": True, "version": 2}
    new, old = tables_of(CUT, name), tables_of(FABRIC, name)
    assert np.array_equal(bifts.nbr_of, new.nbr_of)
    assert np.array_equal(bifts.f_bm, new.f_bm)
    assert np.array_equal(bifts.behind, old.behind | new.behind)


def test_words_that_answer_the_last_table_are_believed_until_the_one_after_next():
    bifts, first = tables_of(CUT, "leaf1"), tables_of(CUT, "leaf1")
    swap = Swap(CUT, "leaf1", bifts)
    swap.take(request(FABRIC, "leaf1", 2))
    assert np.array_equal(bifts.behind, tables_of(FABRIC, "leaf1").behind | first.behind)
    swap.take(request(CUT, "leaf1", 3))
    assert (bifts.behind != first.behind).any()
    swap.take(request(CUT, "leaf1", 4))
    assert np.array_equal(bifts.behind, first.behind)


def test_who_cannot_be_reached_has_no_neighbour():
    bifts = tables_of(FABRIC, "leaf1")
    rows = request(FABRIC, "leaf1")["rows"]
    rows[3]["nbrs"] = []
    Swap(FABRIC, "leaf1", bifts).take(request(FABRIC, "leaf1", rows=rows))
    assert bifts.nbr_of[:, 3].tolist() == [-1, -1]
    assert (bifts.f_bm[:, 0, 0] & np.uint64(1 << 3)).all()


def with_row(i, **changes):
    rows = request(FABRIC, "leaf1")["rows"]
    rows[i] = {key: v for key, v in (rows[i] | changes).items() if v is not ...}
    return rows


@pytest.mark.parametrize(
    ("changes", "field", "allowed"),
    [
        ({"version": 1}, "table.version", "above 1, the version in use"),
        ({"version": 2**31}, "table.version", "a whole number, 1..2147483647"),
        ({"version": "2"}, "table.version", "a whole number, 1..2147483647"),
        ({"when": 7}, "table.when", "version"),
        ({"rows": 5}, "table.rows", "a list, each a table of bfr_id, nbrs"),
        ({"rows": [1]}, "table.rows", "a list, each a table of bfr_id, nbrs"),
        ({"rows": []}, "table.rows", "one for each BFR-id of the fabric"),
        ({"rows": with_row(2, bfr_id=9)}, "table.rows[2].bfr_id", "the BFR-id of a node"),
        ({"rows": with_row(2, bfr_id=1)}, "table.rows[2].bfr_id", "one that rows[0] has not"),
        ({"rows": with_row(2, bfr_id=...)}, "table.rows[2].bfr_id", "a whole number"),
        ({"rows": with_row(2, nbrs="spine1")}, "table.rows[2].nbrs", "a list"),
        ({"rows": with_row(2, nbrs=["spine1"] * 3)}, "table.rows[2].nbrs", "1, 2 of them"),
        ({"rows": with_row(2, nbrs=["leaf2"])}, "table.rows[2].nbrs[0]", "h0, h1, h2, spine1"),
        ({"rows": with_row(0, nbrs=["leaf1"])}, "table.rows[0].nbrs[0]", "h0, h1, h2, spine1"),
        ({"rows": with_row(2, nbr=["spine1"])}, "table.rows[2].nbr", "nbrs"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_by_field_and_changes_nothing(
    changes, field, allowed
):
    bifts = tables_of(FABRIC, "leaf1")
    before = copy.deepcopy(bifts)
    swap = Swap(FABRIC, "leaf1", bifts)
    with pytest.raises(ConfigError) as caught:
        swap.take(request(CUT, "leaf1") | changes)
    assert caught.value.field == field
    assert allowed in caught.value.allowed
    assert swap.version == 1
    assert all(np.array_equal(a, b) for a, b in zip(bifts, before, strict=True))


def test_a_host_is_its_own_neighbour_and_nobody_elses():
    swap = Swap(FABRIC, "h1", tables_of(FABRIC, "h1"))
    rows = request(FABRIC, "h1")["rows"]
    assert rows[0] == {"bfr_id": 1, "nbrs": ["h1"]}
    rows[0] = {"bfr_id": 1, "nbrs": ["leaf1"]}
    with pytest.raises(ConfigError, match=r"rows\[0\].nbrs\[0\]: got 'leaf1', allowed: h1"):
        swap.take(request(FABRIC, "h1", rows=rows))
