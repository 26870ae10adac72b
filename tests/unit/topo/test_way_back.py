"""Words go back over the nodes that the data came by."""

import msgspec
import pytest

from fanfold.topo.fabric import Fabric, Link, Node
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.topo.predict import predict_links
from fanfold.topo.way_back import WaysBack


def nodes_between(fabric, source, target, entropy):
    """The single path that the tables of all nodes have."""
    links = dict(predict_links(fabric, source, [(frozenset({target}), 1, 1, entropy)]))
    way, at = [source], source
    while at != target:
        at = next(b for a, b in links if a == at)
        way.append(at)
    return tuple(way)


@pytest.mark.parametrize("spines", [1, 2, 3, 4])
@pytest.mark.parametrize("leaves", [1, 2, 3])
def test_every_word_passes_the_spine_that_the_data_passed(leaves, spines):
    fabric = leaf_spine(leaves, spines, 6)
    for target in (n.name for n in fabric.nodes if n.name.startswith("h") and n.name != "h0"):
        ways = WaysBack(fabric, target)
        for entropy in range(2 * fabric.n_ecmp):
            came = nodes_between(fabric, "h0", target, entropy)
            back = ways.entropy(fabric.by_name["h0"].bfr_id, entropy)
            assert nodes_between(fabric, target, "h0", back) == came[::-1]


def test_ways_are_those_of_the_tables():
    fabric = leaf_spine(3, 4, 6)
    ways = WaysBack(fabric, "h6")
    for entropy in range(4):
        assert ways.way("h0", "h6", entropy) == nodes_between(fabric, "h0", "h6", entropy)
        assert (
            ways.way("leaf3", "h0", entropy) == nodes_between(fabric, "h6", "h0", entropy)[1:]
        )


def three_tiers():
    """Two pods of two leaves and two spines, four cores; the same as a small fat tree."""
    hosts = [Node(f"h{i}", f"10.0.0.{i + 1}", "host", i + 1) for i in range(8)]
    names = [f"leaf{i}" for i in range(4)] + [f"pod{i}" for i in range(4)]
    names += [f"core{i}" for i in range(4)]
    bfrs = [Node(n, f"10.0.1.{i + 1}", "bfr") for i, n in enumerate(names)]
    links = [Link(f"h{i}", f"leaf{i // 2}") for i in range(8)]
    links += [Link(f"leaf{i}", f"pod{2 * (i // 2) + j}") for i in range(4) for j in (0, 1)]
    links += [Link(f"pod{i}", f"core{2 * (i % 2) + j}") for i in range(4) for j in (0, 1)]
    return Fabric("fat", tuple(hosts + bfrs), tuple(links), n_ecmp=4)


def test_most_of_the_way_is_kept_where_no_table_has_all_of_it():
    fabric = three_tiers()
    ways = WaysBack(fabric, "h7")
    for entropy in range(4):
        came = nodes_between(fabric, "h0", "h7", entropy)
        shared = [len(set(came) & set(nodes_between(fabric, "h7", "h0", t))) for t in range(4)]
        back = ways.entropy(1, entropy)
        assert shared[back] == max(shared)


def test_a_sender_that_is_not_in_the_fabric_keeps_its_entropy():
    fabric = leaf_spine(2, 2, 4)
    ways = WaysBack(fabric, "h3")
    assert ways.entropy(0, 7) == 7
    assert ways.entropy(65535, 1048575) == 1048575
    assert ways.entropy(fabric.by_name["h3"].bfr_id, 5) == 5
    one = WaysBack(msgspec.structs.replace(fabric, n_ecmp=1), "h3")
    assert one.entropy(fabric.by_name["h0"].bfr_id, 9) == 9
