"""BIRT and BIFT of fabrics small enough to check by hand."""

import msgspec
import numpy as np
import pytest

from fanfold.kernels.bift import pick_way
from fanfold.kernels.tables import NULL_NBR, SELF_NBR
from fanfold.topo.bift import build_bifts, table_of
from fanfold.topo.fabric import Fabric, Link, Node
from fanfold.topo.fabric_routes import FabricRoutes
from fanfold.topo.lab_fabric import leaf_spine


def fabric_of(ids, pairs, **numbers):
    """Fabric of BFRs by name and BFR-id."""
    nodes = (
        Node(name, f"127.0.0.{i}", "bfr", bfr_id)
        for i, (name, bfr_id) in enumerate(ids.items())
    )
    return Fabric("f", tuple(nodes), tuple(Link(*p) for p in pairs), **numbers)


def masks(fabric, name, table=0):
    """F-BM by neighbour name; "" is the null next hop."""
    bifts = build_bifts(FabricRoutes(fabric), name)
    names = ("", name, *fabric.neighbours[name])
    ints = (int.from_bytes(row.tobytes(), "little") for row in bifts.f_bm[table])
    return dict(zip(names, ints, strict=True))


def rows(fabric, name, table=0):
    """BFR-NBR by BFR-id, by name."""
    bifts = build_bifts(FabricRoutes(fabric), name)
    names = ("", name, *fabric.neighbours[name])
    return {i: names[bifts.nbr_of[table, i - 1] + 1] for i in fabric.by_bfr_id}


# RFC 8279 figures 1 and 6: BFERs A 4, D 1, E 3, F 2
FIGURE_IDS = {"A": 4, "B": 0, "C": 0, "D": 1, "E": 3, "F": 2}
FIGURE_1 = fabric_of(FIGURE_IDS, ("AB", "BC", "CD", "BE", "CF"), bitstring_bits=64)
FIGURE_6 = fabric_of(
    FIGURE_IDS, ("AB", "BC", "CD", "BE", "CF", "EF"), bitstring_bits=64, n_ecmp=2
)
UNUSED = (1 << 64) - 1 - 0b1111


@pytest.mark.parametrize(
    ("name", "nbrs", "f_bms"),
    [
        ("A", "BBBA", {"A": 0b1000, "B": 0b0111}),
        ("B", "CCEA", {"B": 0, "A": 0b1000, "C": 0b0011, "E": 0b0100}),
        ("C", "DFBB", {"C": 0, "B": 0b1100, "D": 0b0001, "F": 0b0010}),
        ("D", "DCCC", {"D": 0b0001, "C": 0b1110}),
    ],
)
def test_worked_example_of_rfc_8279(name, nbrs, f_bms):
    """RFC 8279 section 6.6; the null next hop has exactly the unused bits."""
    assert rows(FIGURE_1, name) == dict(enumerate(nbrs, 1))
    assert masks(FIGURE_1, name) == {"": UNUSED} | f_bms


def test_paths_of_the_worked_example():
    routes = FabricRoutes(FIGURE_1)
    assert [routes.hops("B", far) for far in "DFEA"] == [2, 2, 1, 1]
    assert [routes.next_hops("B", far) for far in "DFEA"] == [("C",), ("C",), ("E",), ("A",)]
    assert (routes.hops("A", "A"), routes.next_hops("A", "A")) == (0, ())


def test_equal_paths_of_figure_6_go_to_different_tables():
    """RFC 8279 section 6.7.2: at B, F has the paths C and E; D and E have one each."""
    assert FabricRoutes(FIGURE_6).next_hops("B", "F") == ("C", "E")
    tables = [masks(FIGURE_6, "B", table) for table in range(2)]
    tables.sort(key=lambda m: m["C"])
    assert (tables[0]["C"], tables[0]["E"]) == (0b0001, 0b0110)
    assert (tables[1]["C"], tables[1]["E"]) == (0b0011, 0b0100)


def test_111_with_three_bfers_splits_hop_by_hop():
    """McBride, ChiNOG 2025: each BFR replicates and clears the bits it forwards."""
    ids = {"S": 0, "R1": 0, "R2": 0, "R3": 0, "E1": 1, "E2": 2, "E3": 3}
    pairs = [("S", "R1"), ("R1", "R2"), ("R1", "R3"), ("R2", "E1"), ("R2", "E2"), ("R3", "E3")]
    fabric = fabric_of(ids, pairs)
    sent = {name: {n: 0b111 & m for n, m in masks(fabric, name).items() if n} for name in ids}
    assert sent["S"] == {"S": 0, "R1": 0b111}
    assert sent["R1"] == {"R1": 0, "S": 0, "R2": 0b011, "R3": 0b100}
    assert sent["R2"] == {"R2": 0, "R1": 0b100, "E1": 0b001, "E2": 0b010}
    assert sent["E3"] == {"E3": 0b100, "R3": 0b011}


def test_each_set_has_a_bift_id_and_its_own_tables():
    """RFC 8279 section 3: ids 64 and 65 of 64 bits are SI 0 bit 64 and SI 1 bit 1."""
    ids = {"a": 64, "b": 65, "c": 0, "d": 300}
    fabric = fabric_of(ids, ("ac", "bc", "dc"), bitstring_bits=64, sub_domain=5, n_ecmp=3)
    bifts = build_bifts(FabricRoutes(fabric), "c")
    assert bifts.ids.tolist() == [0x10500, 0x10501, 0x10504]
    assert bifts.first.tolist() == [0, 3, 6]
    assert bifts.n_ecmp.tolist() == [3, 3, 3]
    assert bifts.n_words.tolist() == [1, 1, 1]
    assert bifts.nbr_of.shape == (9, 64)
    assert bifts.f_bm.shape == (9, 5, 1)
    assert bifts.nbr_of[0, 63] == 1
    assert bifts.nbr_of[3, 0] == 2
    assert bifts.nbr_of[6, 43] == 3  # 300 = 4 * 64 + 44
    assert np.count_nonzero(bifts.nbr_of != NULL_NBR) == 9


def test_bits_beyond_the_first_word():
    """Bit index k is bit k % 64 of word k // 64."""
    fabric = fabric_of({"a": 1, "b": 130}, ("ab",), bitstring_bits=256)
    bifts = build_bifts(FabricRoutes(fabric), "a")
    assert bifts.n_words.tolist() == [4]
    assert bifts.f_bm[0, 1 + 1].tolist() == [0, 0, 2, 0]
    assert bifts.f_bm[0, SELF_NBR + 1].tolist() == [1, 0, 0, 0]
    assert bifts.f_bm[0, NULL_NBR + 1].tolist() == [2**64 - 2, 2**64 - 1, 2**64 - 3, 2**64 - 1]


def test_bfer_without_a_path_leads_to_null():
    """RFC 8279 section 6.5: unreachable ids share the F-BM of the null next hop."""
    fabric = fabric_of({"a": 1, "b": 2, "c": 3}, ("ab",), bitstring_bits=64)
    assert rows(fabric, "a") == {1: "a", 2: "b", 3: ""}
    assert masks(fabric, "a")[""] == (1 << 64) - 1 - 0b11


def test_fabric_without_bfers_has_no_table():
    bifts = build_bifts(FabricRoutes(fabric_of({"a": 0, "b": 0}, ("ab",))), "a")
    assert bifts.ids.shape == (0,)
    assert bifts.nbr_of.shape == (0, 256)
    assert bifts.f_bm.shape == (0, 3, 4)


def test_arrays_are_of_the_types_kernels_take():
    bifts = build_bifts(FabricRoutes(FIGURE_1), "A")
    assert [a.dtype for a in bifts] == [np.int64] * 5 + [np.uint64] * 2 + [np.uint8]
    assert all(a.flags.c_contiguous for a in bifts)


@pytest.mark.parametrize("spines", [1, 2, 3, 5])
def test_leaves_spread_the_tables_evenly_over_the_spines(spines):
    fabric = leaf_spine(2, spines, 4)
    used = [rows(fabric, "leaf1", table)[4] for table in range(fabric.n_ecmp)]
    assert sorted(used) == [f"spine{i}" for i in range(1, spines + 1)]


def test_leaves_start_at_different_spines():
    fabric = leaf_spine(2, 2, 4)
    assert rows(fabric, "leaf1")[4] != rows(fabric, "leaf2")[1]


@pytest.mark.parametrize("n_hops", [3, 4])
def test_even_split_needs_the_least_common_multiple(n_hops):
    """RFC 8279 section 6.7.2: three and four paths are even over twelve tables."""
    for n_paths in (2, 3, 4):
        picks = [
            pick_way(n_paths, n_hops, table, 12, node=5, is_flat=False) for table in range(12)
        ]
        assert {picks.count(at) for at in range(n_paths)} == {12 // n_paths}


def test_two_tiers_of_choice_do_not_polarise():
    """Four tables use all four paths over two aggregation BFRs and their two cores each."""
    ids = {
        "s": 1,
        "a1": 0,
        "a2": 0,
        "c1": 0,
        "c2": 0,
        "c3": 0,
        "c4": 0,
        "b1": 0,
        "b2": 0,
        "t": 2,
    }
    pairs = [("s", "a1"), ("s", "a2"), ("a1", "c1"), ("a1", "c2"), ("a2", "c3"), ("a2", "c4")]
    pairs += [("c1", "b1"), ("c2", "b1"), ("c3", "b2"), ("c4", "b2"), ("b1", "t"), ("b2", "t")]
    fabric = fabric_of(ids, pairs, n_ecmp=4)
    cores = []
    for table in range(4):
        cores.append(rows(fabric, rows(fabric, "s", table)[2], table)[2])
    assert sorted(cores) == ["c1", "c2", "c3", "c4"]


def test_tables_do_not_depend_on_the_order_of_links():
    fabric = leaf_spine(3, 4, 9)
    turned = msgspec.structs.replace(
        fabric, links=tuple(Link(link.b, link.a) for link in fabric.links[::-1])
    )
    for name in ("h0", "leaf2", "spine4"):
        one, two = (
            build_bifts(FabricRoutes(fabric), name),
            build_bifts(FabricRoutes(turned), name),
        )
        assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


def test_entropy_picks_its_table_by_remainder():
    assert [table_of(entropy, 3) for entropy in range(7)] == [0, 1, 2, 0, 1, 2, 0]
