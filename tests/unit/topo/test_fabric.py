"""Fabric files: what is read, what is refused and under which key."""

import msgspec
import pytest

from fanfold.errors import ConfigError
from fanfold.topo.fabric import ArrayLimits, Fabric, Link, Node
from fanfold.topo.fabric_file import load_fabric, save_fabric

GOOD = """
[fabric]
name = "lab"
bitstring_bits = 64
sub_domain = 3
mtu = 1500
port = 9000
n_ecmp = 2
[[node]]
name = "h1"
address = "127.81.1.1"
role = "host"
bfr_id = 1
[[node]]
name = "h2"
address = "127.81.1.2"
role = "host"
bfr_id = 2
[[node]]
name = "leaf1"
address = "127.81.1.3"
role = "bfr"
[[link]]
between = ["h1", "leaf1"]
[[link]]
between = ["leaf1", "h2"]
"""
LAB = Fabric(
    "lab",
    (
        Node("h1", "127.81.1.1", "host", 1),
        Node("h2", "127.81.1.2", "host", 2),
        Node("leaf1", "127.81.1.3", "bfr"),
    ),
    (Link("h1", "leaf1"), Link("leaf1", "h2")),
    sub_domain=3,
    bitstring_bits=64,
    mtu=1500,
    port=9000,
    n_ecmp=2,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lab.toml"


def load(path, text):
    path.write_text(text, encoding="utf-8")
    return load_fabric(path)


def refusal(path, text):
    with pytest.raises(ConfigError) as caught:
        load(path, text)
    field = caught.value.field
    assert field.startswith(str(path))
    return field.removeprefix(str(path)).removeprefix(": "), caught.value


def test_file_becomes_a_fabric(path):
    assert load(path, GOOD) == LAB


def test_defaults_are_those_of_the_standard(path):
    text = '[fabric]\nname="one"\n[[node]]\nname="a"\naddress="127.0.0.1"\nrole="bfr"\n'
    fabric = load(path, text)
    assert (fabric.bitstring_bits, fabric.sub_domain, fabric.port) == (256, 0, 8138)
    assert (fabric.mtu, fabric.n_ecmp, fabric.links) == (9000, 1, ())


def test_saved_fabric_reads_back_equal(path):
    save_fabric(LAB, path)
    assert load_fabric(path) == LAB


def test_limits_of_arrays_are_kept(path):
    few = ArrayLimits(array_groups=128, array_slots=0, group_slots=7)
    fabric = msgspec.structs.replace(LAB, limits=few)
    save_fabric(fabric, path)
    assert load_fabric(path) == fabric
    text = GOOD + "[limits]\narray_groups = 128\ngroup_slots = 7\n"
    assert load(path, text).limits == ArrayLimits(array_groups=128, group_slots=7)


def test_broken_fabric_is_not_saved(path):
    with pytest.raises(ConfigError):
        save_fabric(msgspec.structs.replace(LAB, name='"'), path)
    assert not path.exists()


def test_lookups():
    assert LAB.by_name["leaf1"] is LAB.by_address["127.81.1.3"]
    assert list(LAB.by_bfr_id) == [1, 2]
    assert LAB.by_bfr_id[2].name == "h2"


def test_ports_follow_the_names_of_neighbours_not_the_file():
    turned = msgspec.structs.replace(LAB, links=LAB.links[::-1])
    for fabric in (LAB, turned):
        assert fabric.neighbours["leaf1"] == ("h1", "h2")
        assert [n.name for n in fabric.port_nodes("leaf1")] == ["leaf1", "h1", "h2"]
        assert [fabric.port_to("leaf1", n) for n in ("leaf1", "h1", "h2")] == [0, 1, 2]


NODE = '[[node]]\nname="x"\naddress="127.81.1.9"\nrole="bfr"\n'
LINK_X = '[[link]]\nbetween=["x","leaf1"]\n'


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("mtu = 1500", "mtu = 575", "fabric.mtu"),
        ("mtu = 1500", "mtu = 65536", "fabric.mtu"),
        ("mtu = 1500", 'mtu = "big"', "fabric.mtu"),
        ("mtu = 1500", "mtu = true", "fabric.mtu"),
        ("mtu = 1500", "mtu = 1500.5", "fabric.mtu"),
        ("mtu = 1500", "mut = 1500", "fabric.mut"),
        ("[fabric]", "[limits]\narray_groups = 0\n[fabric]", "limits.array_groups"),
        ("[fabric]", "[limits]\narray_groups = 65537\n[fabric]", "limits.array_groups"),
        ("[fabric]", "[limits]\narray_slots = -1\n[fabric]", "limits.array_slots"),
        ("[fabric]", '[fabric]\ncache = "1023KiB"', "fabric.cache"),
        ("[fabric]", '[fabric]\ncache = "65GiB"', "fabric.cache"),
        ("[fabric]", '[fabric]\ncache = "much"', "fabric.cache"),
        ("[fabric]", "[limits]\narray_slots = 262145\n[fabric]", "limits.array_slots"),
        ("[fabric]", "[limits]\ngroup_slots = -1\n[fabric]", "limits.group_slots"),
        ("[fabric]", "[limits]\ngroup_slots = 262145\n[fabric]", "limits.group_slots"),
        ("[fabric]", "[limits]\nslots = 3\n[fabric]", "limits.slots"),
        ("port = 9000", "port = 0", "fabric.port"),
        ("port = 9000", "port = 65536", "fabric.port"),
        ("n_ecmp = 2", "n_ecmp = 0", "fabric.n_ecmp"),
        ("n_ecmp = 2", "n_ecmp = 257", "fabric.n_ecmp"),
        ("sub_domain = 3", "sub_domain = 256", "fabric.sub_domain"),
        ("sub_domain = 3", "sub_domain = -1", "fabric.sub_domain"),
        ("bitstring_bits = 64", "bitstring_bits = 32", "fabric.bitstring_bits"),
        ("bitstring_bits = 64", "bitstring_bits = 8192", "fabric.bitstring_bits"),
        ("bitstring_bits = 64", "bitstring_bits = 65", "fabric.bitstring_bits"),
        ('name = "lab"', 'name = ""', "fabric.name"),
        ('name = "lab"\n', "", "fabric.name"),
        ("[fabric]", "[[fabric]]", "fabric"),
        ("[fabric]", "[fabrik]", "fabrik"),
        ('name = "h2"', 'name = "h1"', "node[1].name"),
        ('name = "h2"', 'name = "h,2"', "node[1].name"),
        ('name = "h2"', 'name = "h\\u0032\\n"', "node[1].name"),
        ('name = "h2"', f'name = "{"h" * 64}"', "node[1].name"),
        ('name = "h2"', "name = 2", "node[1].name"),
        ("127.81.1.2", "127.81.1.1", "node[1].address"),
        ("127.81.1.2", "127.81.1.256", "node[1].address"),
        ("127.81.1.2", "127.81.01.2", "node[1].address"),
        ("127.81.1.2", "::1", "node[1].address"),
        ("127.81.1.2", "localhost", "node[1].address"),
        ('address = "127.81.1.2"\n', "", "node[1].address"),
        ('role = "bfr"', 'role = "leaf"', "node[2].role"),
        ('role = "bfr"\n', "", "node[2].role"),
        ("bfr_id = 2", "bfr_id = 1", "node[1].bfr_id"),
        ("bfr_id = 2", "bfr_id = 0", "node[1].bfr_id"),
        ("bfr_id = 2\n", "", "node[1].bfr_id"),
        ("bfr_id = 2", "bfr_id = -1", "node[1].bfr_id"),
        ("bfr_id = 2", "bfr_id = 65536", "node[1].bfr_id"),
        ("bfr_id = 2", "bfr_id = 16385", "node[1].bfr_id"),  # SI 256 of 64 bits
        ('role = "bfr"', 'role = "bfr"\nbfr_id = 65536', "node[2].bfr_id"),
        ("bfr_id = 2", "brf_id = 2", "node[1].brf_id"),
        ('["leaf1", "h2"]', '["leaf1", "h3"]', "link[1].between"),
        ('["leaf1", "h2"]', '["h2", "h2"]', "link[1].between"),
        ('["leaf1", "h2"]', '["leaf1", "h1"]', "link[1].between"),  # link[0] turned round
        ('["leaf1", "h2"]', '["leaf1"]', "link[1].between"),
        ('["leaf1", "h2"]', '"leaf1"', "link[1].between"),
        ('between = ["leaf1", "h2"]', 'ends = ["leaf1", "h2"]', "link[1].ends"),
        ('["leaf1", "h2"]', '["h1", "h2"]', "node[1]"),  # hosts pass nothing on
        ("[[link]]", NODE + "[[link]]", "node[3]"),
        ('role = "bfr"', 'role = "host"\nbfr_id = 3', "node[1]"),  # a host in between
    ],
)
def test_each_fault_is_named_by_its_key(path, old, new, field):
    assert old in GOOD
    assert refusal(path, GOOD.replace(old, new, 1))[0] == field


FAR = GOOD.replace("127.81.1.", "10.9.8.")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("127.0.1.1", "one that other machines reach; loopback only where all nodes have it"),
        ("0.0.0.0", "an address of one machine; this is of no machine (RFC 1122"),
        ("0.1.2.3", "an address of one machine; this is of no machine (RFC 1122"),
        ("255.255.255.255", "an address of one machine; this is the broadcast of every link"),
        ("224.0.0.0", "an address of one machine; this is a multicast group"),
        ("239.1.1.1", "an address of one machine; this is a multicast group"),
        ("240.0.0.1", "an address of one machine; this is reserved"),
        ("169.254.7.7", "an address of one machine; this is link-local"),
        ("127.0.0.0", "an address of one machine; this is the network of loopback"),
        ("127.255.255.255", "an address of one machine; this is the broadcast of loopback"),
        ("10.9.8.1", "one that node[0] has not"),
        ("10.9.8.2/24", "an IPv4 address such as"),
        ("10.9.8.2:8138", "an IPv4 address such as"),
        ("10.9.8", "an IPv4 address such as"),
        ("168364034", "an IPv4 address such as"),
        (" 10.9.8.2", "an IPv4 address such as"),
    ],
)
def test_an_address_that_is_not_of_one_reachable_machine_is_refused(path, address, said):
    load(path, FAR)
    field, error = refusal(path, FAR.replace("10.9.8.2", address, 1))
    assert field == "node[1].address"
    assert error.got == address
    assert error.allowed.startswith(said)


@pytest.mark.parametrize(
    "address", ["1.0.0.0", "126.255.255.255", "128.0.0.1", "169.253.0.1", "223.255.255.255"]
)
def test_the_addresses_beside_those_that_are_refused_work(path, address):
    assert load(path, FAR.replace("10.9.8.2", address, 1)).by_name["h2"].address == address


def test_loopback_is_for_fabrics_of_one_machine_whoever_stands_first(path):
    text = FAR.replace("10.9.8.3", "127.0.1.1", 1)
    assert refusal(path, text)[0] == "node[2].address"
    assert refusal(path, GOOD.replace("127.81.1.3", "10.9.8.3", 1))[0] == "node[0].address"


def test_last_values_that_work(path):
    for old, new in (
        ("mtu = 1500", "mtu = 576"),
        ("mtu = 1500", "mtu = 65535"),
        ("n_ecmp = 2", "n_ecmp = 256"),
        ("sub_domain = 3", "sub_domain = 255"),
        ("bitstring_bits = 64", "bitstring_bits = 4096"),
        ("bfr_id = 2", "bfr_id = 16384"),
        ('name = "h2"', f'name = "{"h" * 63}"'),
        ("[[link]]", NODE + LINK_X + "[[link]]"),
    ):
        text = GOOD.replace(old, new, 1)
        load(path, text.replace('"h2"]', f'"{"h" * 63}"]') if "hhh" in new else text)


def test_unknown_key_suggests_the_nearest(path):
    assert (
        refusal(path, GOOD.replace("bfr_id = 2", "brf_id = 2"))[1].allowed
        == "did you mean bfr_id?"
    )
    far = refusal(path, GOOD.replace("bfr_id = 2", "colour = 2"))[1]
    names = "name, address, role, bfr_id, link_key, link_key_also, labels, label_seal, site"
    assert far.allowed == names


def test_duplicates_name_the_first_holder(path):
    error = refusal(path, GOOD.replace("bfr_id = 2", "bfr_id = 1"))[1]
    assert (error.got, error.allowed) == (1, "one that node[0] has not")


def test_unreachable_node_is_named(path):
    error = refusal(path, GOOD.replace("[[link]]", NODE + "[[link]]", 1))[1]
    assert error.got == "x"
    assert "leaf1" in error.allowed


def test_missing_file_and_bad_toml_name_the_file(path):
    with pytest.raises(ConfigError, match="No such file") as caught:
        load_fabric(path)
    assert caught.value.field == str(path)
    field, error = refusal(path, "[fabric]\nname = \n")
    assert (field, error.allowed) == ("", "TOML")
    assert "line 2" in str(error.got)
    path.write_bytes(b'[fabric]\nname = "\xff"')
    with pytest.raises(ConfigError, match="utf-8"):
        load_fabric(path)


def test_empty_files_ask_for_their_tables(path):
    assert refusal(path, "")[0] == "fabric"
    assert refusal(path, '[fabric]\nname="lab"\n')[0] == "node"
    assert refusal(path, 'node=[]\n[fabric]\nname="lab"\n')[0] == "node"
