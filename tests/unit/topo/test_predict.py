import msgspec
import pytest

from fanfold.errors import ConfigError
from fanfold.topo.fabric import Fabric, Link, Node
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.topo.predict import predict_links, receivers_behind, suspect

LAB = leaf_spine(2, 2, 8)
ALL = frozenset(f"h{i}" for i in range(1, 9))


def spine_of(entropy):
    return next(far for near, far in receivers_behind(LAB, "h0", entropy) if "spine" in far)


def test_one_copy_on_each_link_of_the_tree():
    spine = spine_of(0)
    links = predict_links(LAB, "h0", [(ALL, 10, 4000, 0)])
    tree = [("h0", "leaf1"), ("leaf1", spine), (spine, "leaf2")]
    tree += [("leaf1", f"h{i}") for i in range(1, 5)] + [
        ("leaf2", f"h{i}") for i in range(5, 9)
    ]
    assert links == dict.fromkeys(tree, (10, 4000))


def test_entropy_moves_packets_to_the_other_spine():
    assert {spine_of(0), spine_of(1)} == {"spine1", "spine2"}
    assert spine_of(2) == spine_of(0)
    links = predict_links(LAB, "h0", [(ALL, 3, 30, 0), (ALL, 5, 50, 1), (ALL, 1, 7, 2)])
    assert links["leaf1", spine_of(0)] == (4, 37)
    assert links["leaf1", spine_of(1)] == (5, 50)
    assert links["h0", "leaf1"] == (9, 87)


def test_branches_without_receivers_carry_nothing():
    links = predict_links(LAB, "h0", [(frozenset({"h2"}), 1, 100, 0)])
    assert links == {("h0", "leaf1"): (1, 100), ("leaf1", "h2"): (1, 100)}


def test_any_bfer_may_be_the_source_and_needs_no_copy_itself():
    links = predict_links(LAB, "h8", [(frozenset({"h8", "h7"}), 2, 9, 0)])
    assert links == {("h8", "leaf2"): (2, 9), ("leaf2", "h7"): (2, 9)}
    assert predict_links(LAB, "h8", [(frozenset({"h8"}), 2, 9, 0)]) == {}
    assert predict_links(LAB, "h8", []) == {}


def test_receivers_of_two_sets_take_two_packets():
    """RFC 8279 section 3: h64 and h65 share leaf1's link and no BitString of 64 bits."""
    fabric = msgspec.structs.replace(leaf_spine(1, 0, 70), bitstring_bits=64)
    links = predict_links(fabric, "h0", [(frozenset({"h64", "h65", "h66"}), 1, 100, 0)])
    assert links["h0", "leaf1"] == (2, 200)
    assert links["leaf1", "h64"] == links["leaf1", "h65"] == (1, 100)


def test_what_sits_behind_each_link():
    spine = spine_of(0)
    behind = receivers_behind(LAB, "h0", 0)
    assert behind["h0", "leaf1"] == ALL
    assert behind["leaf1", spine] == behind[spine, "leaf2"] == {"h5", "h6", "h7", "h8"}
    assert behind["leaf2", "h6"] == {"h6"}


@pytest.mark.parametrize(
    ("missing", "names"),
    [
        ("", ""),
        ("h6", "leaf2-h6 h6"),
        ("h5 h6 h7 h8", "leaf1-SPINE SPINE SPINE-leaf2 leaf2"),
        ("h5 h6 h7", "leaf2-h5 h5 leaf2-h6 h6 leaf2-h7 h7"),
        ("h1 h5 h6 h7 h8", "leaf1-h1 h1 leaf1-SPINE SPINE SPINE-leaf2 leaf2"),
        ("h1 h2 h3 h4 h5 h6 h7 h8", "h0-leaf1 leaf1"),
    ],
)
def test_losses_point_to_the_element_above_them(missing, names):
    want = sorted(names.replace("SPINE", spine_of(0)).split())
    assert sorted(suspect(LAB, "h0", set(missing.split()), 0)) == want


def test_suspects_start_near_the_source():
    spine = spine_of(0)
    want = [f"leaf1-{spine}", spine, f"{spine}-leaf2", "leaf2"]
    assert suspect(LAB, "h0", {"h5", "h6", "h7", "h8"}, 0) == want


@pytest.mark.parametrize(
    ("targets", "missing", "names"),
    [
        ("h2 h6", "h6", "leaf1-SPINE SPINE SPINE-leaf2 leaf2 leaf2-h6 h6"),
        ("h6", "h6", "h0-leaf1 leaf1 leaf1-SPINE SPINE SPINE-leaf2 leaf2 leaf2-h6 h6"),
        ("h2 h3 h6", "h2", "leaf1-h2 h2"),
        ("h2 h3 h6", "h2 h3 h6", "h0-leaf1 leaf1"),
    ],
)
def test_only_the_targets_tell_what_is_behind_an_element(targets, missing, names):
    """Nobody heard of h5 and h7, and nobody asked them."""
    found = suspect(LAB, "h0", set(missing.split()), 0, set(targets.split()))
    assert sorted(found) == sorted(names.replace("SPINE", spine_of(0)).split())


@pytest.mark.parametrize(
    ("dead", "missing", "names"),
    [
        ("leaf2", "h5 h6 h7 h8", "leaf2"),
        ("SPINE", "h5 h6 h7 h8", "SPINE"),
        ("SPINE-leaf2", "h5 h6 h7 h8", "SPINE-leaf2"),
        ("h6", "h6", "h6"),
        ("leaf2", "h5 h6 h7", "leaf2-h5 h5 leaf2-h6 h6 leaf2-h7 h7"),  # h8 was heard
        ("leaf2", "h1 h5 h6 h7 h8", "leaf2 leaf1-h1 h1"),
        ("leaf2 h5 h6", "h5 h6 h7 h8", "leaf2"),  # what they are behind explains them
        ("h5", "h5 h6", "h5 leaf2-h6 h6"),
        ("OTHER", "h5 h6 h7 h8", "leaf1-SPINE SPINE SPINE-leaf2 leaf2"),
    ],
)
def test_what_is_known_to_be_dead_is_named_for_whom_it_explains(dead, missing, names):
    spine = spine_of(0)
    other = spine_of(1)
    known = {
        tuple(e.replace("SPINE", spine).replace("OTHER", other).split("-"))
        for e in dead.split()
    }
    found = suspect(LAB, "h0", set(missing.split()), 0, None, known)
    assert sorted(found) == sorted(names.replace("SPINE", spine).split())


def test_a_second_entropy_tells_spine_from_leaf():
    missing = {"h5", "h6", "h7", "h8"}
    both = set(suspect(LAB, "h0", missing, 0)) & set(suspect(LAB, "h0", missing, 1))
    assert both == {"leaf2"}


def test_names_that_look_like_links_stay_apart():
    nodes = [Node("a", "127.0.0.1", "host", 1), Node("b", "127.0.0.2", "bfr")]
    nodes += [Node("b-c", "127.0.0.3", "host", 2), Node("c", "127.0.0.4", "host", 3)]
    fabric = Fabric("f", tuple(nodes), (Link("a", "b"), Link("b", "c"), Link("b", "b-c")))
    assert sorted(suspect(fabric, "a", {"c"}, 0)) == ["b-c", "c"]  # the link
    assert sorted(suspect(fabric, "a", {"b-c"}, 0)) == ["b-b-c", "b-c"]


@pytest.mark.parametrize("name", ["leaf1", "h99"])
def test_only_nodes_with_a_bfr_id_receive(name):
    with pytest.raises(ConfigError) as caught:
        predict_links(LAB, "h0", [(frozenset({"h1", name}), 1, 1, 0)])
    assert (caught.value.field, caught.value.got) == ("receivers", name)


def test_unknown_source_is_named():
    with pytest.raises(ConfigError) as caught:
        predict_links(LAB, "h99", [(ALL, 1, 1, 0)])
    assert (caught.value.field, caught.value.got) == ("source", "h99")


@pytest.mark.parametrize("name", ["leaf1", "h0", "h99"])
def test_only_receivers_can_be_missing(name):
    with pytest.raises(ConfigError) as caught:
        suspect(LAB, "h0", {"h1", name}, 0)
    assert (caught.value.field, caught.value.got) == ("missing", name)
