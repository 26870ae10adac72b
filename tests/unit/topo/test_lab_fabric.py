import pytest
from msgspec.structs import replace

from fanfold.errors import ConfigError
from fanfold.topo.fabric_rules import check_fabric
from fanfold.topo.lab_fabric import MAX_LAB_NODES, lab_fabric, leaf_spine
from fanfold.topo.nets import build_named_net


def test_the_lab_as_designed():
    fabric = leaf_spine(2, 2, 8, name="lab", prefix=7)
    assert fabric.neighbours["leaf1"] == ("h0", "h1", "h2", "h3", "h4", "spine1", "spine2")
    assert fabric.neighbours["leaf2"] == ("h5", "h6", "h7", "h8", "spine1", "spine2")
    assert fabric.neighbours["spine1"] == fabric.neighbours["spine2"] == ("leaf1", "leaf2")
    assert [(i, n.name) for i, n in fabric.by_bfr_id.items()] == [
        *((i, f"h{i}") for i in range(1, 9)),
        (9, "h0"),
    ]
    assert {n.name for n in fabric.nodes if not n.bfr_id} == {
        "leaf1",
        "leaf2",
        "spine1",
        "spine2",
    }
    assert fabric.by_name["h1"].address == "127.81.7.1"
    assert fabric.by_name["h0"].address == "127.81.7.9"
    assert fabric.by_name["spine2"].address == "127.81.7.13"
    assert fabric.n_ecmp == 2


@pytest.mark.parametrize(
    ("leaves", "hosts", "split"), [(2, 7, [4, 3]), (3, 8, [3, 3, 2]), (4, 2, [1, 0, 1, 0])]
)
def test_uneven_receivers_differ_by_one_a_leaf(leaves, hosts, split):
    fabric = leaf_spine(leaves, 1, hosts)
    homes = [fabric.neighbours[f"h{i}"][0] for i in range(1, hosts + 1)]
    assert [homes.count(f"leaf{i}") for i in range(1, leaves + 1)] == split
    assert homes == sorted(homes)


def test_one_leaf_needs_no_spine():
    fabric = leaf_spine(1, 0, 3)
    assert fabric.neighbours["leaf1"] == ("h0", "h1", "h2", "h3")
    assert fabric.n_ecmp == 1


def test_more_than_a_block_of_nodes_goes_on_in_the_next():
    fabric = leaf_spine(4, 2, 600, prefix=255)
    assert fabric.by_name["h250"].address == "127.81.255.250"
    assert fabric.by_name["h251"].address == "127.82.255.1"
    assert len(fabric.by_address) == len(fabric.nodes) == 607


def test_labs_share_no_address():
    one, two = leaf_spine(2, 2, 300, prefix=0), leaf_spine(2, 2, 300, prefix=1)
    assert not one.by_address.keys() & two.by_address.keys()


@pytest.mark.parametrize(
    ("args", "field"),
    [
        ((0, 1, 1), "leaves"),
        ((2, 0, 1), "spines"),
        ((1, -1, 1), "spines"),
        ((1, 1, 0), "hosts"),
        ((1, 1, MAX_LAB_NODES + 1), "hosts"),
        ((1, 1, MAX_LAB_NODES - 2), "leaves, spines, hosts"),
    ],
)
def test_counts_out_of_bounds_are_refused(args, field):
    with pytest.raises(ConfigError) as caught:
        leaf_spine(*args)
    assert caught.value.field == field


@pytest.mark.parametrize("prefix", [-1, 256])
def test_lab_index_is_an_octet(prefix):
    with pytest.raises(ConfigError) as caught:
        leaf_spine(1, 1, 1, prefix=prefix)
    assert (caught.value.field, caught.value.allowed) == ("prefix", "0..255")


def test_names_of_a_file_become_names_of_nodes(tmp_path):
    file = tmp_path / "net.json"
    file.write_text(
        '{"nodes": [{"id": "a b", "role": "host"}, {"id": "a_b", "role": "host"},'
        ' {"id": "a/b", "role": "host"}, {"id": "<Zürich>"}], "links": ['
        '{"source": "a b", "target": "<Zürich>"}, {"source": "a_b", "target": "<Zürich>"},'
        ' {"source": "<Zürich>", "target": "a/b"}, {"source": "a/b", "target": "<Zürich>"}]}',
        encoding="utf-8",
    )
    fabric, notes = lab_fabric(build_named_net(f"import:{file},rate=7bps,delay=1234567ps"))
    assert [n.name for n in fabric.nodes] == ["a-b-0", "a_b", "a-b-2", "Z-rich"]
    assert notes == (
        "3 nodes have other names here, a-b-0 is 'a b'",
        "1 cables beside one between the same nodes are left out",
    )
    assert {(link.rate, link.delay) for link in fabric.links} == {("7bit/s", "1234567ps")}


def test_switches_inside_servers_are_parts_of_their_own():
    net = build_named_net("rail:servers=2,gpus=2,spines=1")
    fabric, _ = lab_fabric(net)
    assert fabric.neighbours["h0"] == ("inner0", "leaf0")
    alone = replace(fabric, links=tuple(x for x in fabric.links if x.b != "leaf1"))
    with pytest.raises(ConfigError, match="over links, not through hosts"):
        check_fabric(alone, "lab")


def test_more_nodes_than_addresses_are_refused():
    with pytest.raises(ConfigError, match="at most 43750"):
        lab_fabric(build_named_net("star:hosts=43750"))
