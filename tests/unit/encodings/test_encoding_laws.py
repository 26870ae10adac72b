"""What holds for every encoding on every net: one copy for each receiver, none for others."""

from pathlib import Path

import naive
import numpy as np
import pytest
from encoding_world import CLOS, OTHERS, bare, ground_of, made, receivers, sent, sizes_on

import fanfold.encodings
from fanfold.encodings.catalog import CATALOG, offers
from fanfold.encodings.clos import Clos
from fanfold.encodings.domains import OUTSIDE, domains_of, places_of
from fanfold.encodings.encoder import Refusal
from fanfold.encodings.walk import walk
from fanfold.errors import WireError
from fanfold.topo.sketch import LINE, Sketch

NAMES = tuple(offer.name for offer in offers())
OF_CLOS = ("elmo", "elmo-s", "peel", "peel-c")
SPILLS = ("elmo", "elmo-s", "peel-c")
"""May reach hosts that are no receivers."""
PARTS = {"bit_field", "catalog", "clos", "domains", "elmo_rules", "encoder", "encoding_row"}
PARTS |= {"fixed_part", "ground", "planner", "size_sweep", "survey", "tree_pack", "walk"}
by_every_encoding = pytest.mark.parametrize("name", NAMES)
on_every_net = pytest.mark.parametrize("topology", [*CLOS, *OTHERS])


@on_every_net
@by_every_encoding
def test_every_receiver_gets_one_copy_and_others_none(topology, name):
    ground = ground_of(topology)
    done = 0
    for seed, n in enumerate(sizes_on(ground)):
        source, members = receivers(ground, n, seed)
        sending = sent(name, ground, source, members)
        if sending is None:
            continue
        went = walk(ground, *sending)
        want = dict.fromkeys(members.tolist(), 1)
        assert {h: c for h, c in went.arrivals.items() if h in want} == want
        assert went.strays == {}
        assert source not in went.arrivals
        if name not in SPILLS:
            assert went.arrivals == want
        done += 1
    assert done or name in OF_CLOS or name == "bier-h-256"


@on_every_net
def test_what_cannot_be_done_is_refused(topology):
    ground = ground_of(topology)
    source, members = receivers(ground, 5, 0)
    able = {name for name in NAMES if sent(name, ground, source, members)}
    lacking = set() if topology in CLOS else set(OF_CLOS)
    if topology.startswith(("star", "superpod", "rail:servers=8")):
        lacking.add("bier-h-256")  # one rack is all; a server's switch is no way in
    assert able == set(NAMES) - lacking


@pytest.mark.parametrize("topology", CLOS)
@pytest.mark.parametrize("limit_bits", [8, 48, 64, 120, 256])
@pytest.mark.parametrize("name", NAMES)
def test_no_packet_names_receivers_in_more_bits_than_switches_read(topology, limit_bits, name):
    ground = ground_of(topology)
    source, members = receivers(ground, ground.net.n_hosts // 2, 3)
    sending = sent(name, ground, source, members, limit_bits)
    if sending is None or name == "unicast":
        return
    went = walk(ground, *sending)
    assert all(went.arrivals[host] == 1 for host in members.tolist())
    if name == "bier-h-256":
        return  # the limit is that of each of its BitStrings
    assert all(8 * (len(copy.head) - 12) <= limit_bits for copy in sending[1])


@pytest.mark.parametrize(
    ("name", "limit_bits"),
    [
        ("bier-256", 255),
        ("bier-sd-256", 128),
        ("bier-h-256", 128),
        ("rbs", 63),
        ("rts", 15),
        ("id-list", 7),
        ("elmo", 10),
        ("elmo-s", 10),
        ("peel", 47),
        ("peel-c", 47),
    ],
)
def test_less_than_one_receiver_needs_is_refused(name, limit_bits):
    ground = ground_of("fat-tree:k=4")
    with pytest.raises(Refusal, match=r"read|fit|room"):
        made(name, ground, limit_bits).encode(0, np.array([9]))


@by_every_encoding
def test_copies_are_those_of_the_tree_where_one_packet_reaches_all(name):
    """Clos: next hops of switches and the source's tree take the same links."""
    ground = ground_of("fat-tree:k=4")
    source, members = receivers(ground, 7, 1)
    reader, copies = sent(name, ground, source, members)
    links = sum(
        map(len, ground.branches(ground.tree_of(source).into, members.tolist()).values())
    )
    if len(copies) == 1:
        assert walk(ground, reader, copies).n_copies == links
    else:
        assert walk(ground, reader, copies).n_copies > links


@by_every_encoding
def test_a_broken_header_is_a_wire_error(name):
    ground = ground_of("fat-tree:k=4")
    source, members = receivers(ground, 7, 1)
    reader, copies = sent(name, ground, source, members)
    if name == "unicast":
        return
    link, head = copies[0]
    for broken in (b"", head[:5], head[:12] if name.startswith("bier") else head[:-1]):
        with pytest.raises(WireError):
            reader.forward(ground.dst[link], link, broken)


def test_a_pod_ends_below_the_cores():
    net = ground_of("fat-tree:k=4").net
    domain = domains_of(net, places_of(net))
    assert domain[net.tier == 1].tolist() == domain[net.tier == 2].tolist()
    assert domain[net.tier == 1].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert domain[net.tier == 3].tolist() == [OUTSIDE] * 4


def test_a_spine_that_leaves_out_a_leaf_is_no_clos():
    """Two cables to one leaf, none to the other: as many as there are leaves."""
    sketch = Sketch(4)
    leaf, spine = sketch.add("leaf", 2, 1), sketch.add("spine", 2, 2)
    sketch.cable(sketch.hosts, leaf[sketch.hosts // 2], LINE)
    sketch.cable(leaf, spine[0], LINE)
    sketch.cable([leaf[0], leaf[0]], spine[1], LINE)
    with pytest.raises(Refusal, match="from every spine one link to each leaf"):
        Clos(bare(sketch.build("odd", sketch.hosts // 2)))


@pytest.mark.parametrize("topology", ["fat-tree:k=4", "dragonfly:a=4,p=2,h=2"])
def test_bier_forwards_as_its_slow_twin(topology):
    """RFC 8279 section 6.5 on tables of single next hops, at every router."""
    ground = ground_of(topology)
    source, members = receivers(ground, ground.net.n_hosts // 2, 9)
    encoder = made("bier-128", ground)
    (head,) = {copy.head for copy in encoder.encode(source, members)}
    bits = int.from_bytes(head[12:])
    for node in ground.routers:
        nbr_of = [ground.next_link(node, host) for host in range(ground.net.n_hosts)]
        f_bm = {nbr: sum(1 << h for h, n in enumerate(nbr_of) if n == nbr) for nbr in nbr_of}
        want = naive.replicate_by_masks(bits, nbr_of, f_bm)
        turn = encoder.forward(node, -1, head)
        assert [(c.link, int.from_bytes(c.head[12:])) for c in turn.copies] == want
        assert turn.n_lookups == len(want)


def test_a_host_knows_a_packet_of_another():
    ground = ground_of("leaf-spine:leaves=5,spines=3,hosts=40")
    for name in ("unicast", "bier-64", "bier-sd-256", "bier-h-256", "id-list"):
        reader, copies = sent(name, ground, 0, np.array([1]))
        head = copies[0].head
        turn = reader.forward(ground.dst[copies[0].link], copies[0].link, head)
        (copy,) = turn.copies
        assert ground.dst[copy.link] == 1
        assert reader.is_for(1, copy.head)
        assert not reader.is_for(2, copy.head)


def test_the_catalog_holds_every_encoding():
    files = {path.stem for path in Path(fanfold.encodings.__file__).parent.glob("*.py")}
    modules = {path.stem for path in map(Path, files - PARTS - {"__init__"})}
    assert modules == {
        *("unicast", "flat_bier", "sub_domains", "hierarchical_bier", "rbs", "rts"),
        *("id_list", "elmo", "prefix_blocks"),
    }
    assert len({kind.name for kind in CATALOG}) == len(CATALOG)
    assert all(kind.summary and kind.source for kind in CATALOG)
