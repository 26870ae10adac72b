"""Bytes worked out by hand: h0 and h1 on leaf0, h2 and h3 on leaf1, one spine; h0 to the rest.

Ports of leaf0: h0, h1, spine0; of leaf1: h2, h3, spine0; of spine0: leaf0, leaf1.
"""

import numpy as np
import pytest
from encoding_world import bare, ground_of, made

from fanfold.encodings.elmo_rules import cluster
from fanfold.encodings.walk import walk
from fanfold.topo.nets import build_named_net

SMALL = "leaf-spine:leaves=2,spines=1,hosts=4"
LEAF0, LEAF1, SPINE = 4, 5, 6

# BIER: BIFT-id, S and TTL 64; BSL 1; Proto 4 and BFIR-id 1. fixed part: table, length, as BIER.
HEADS = {
    "bier-64": ["10000140 00100000 00040001 000000000000000e"],
    # rack 0 by its own numbers; rack 1 behind a stack: domain 1, SI 0, both hosts
    "bier-h-256": [
        "10000140 00100000 00040001 0000000000000002",
        "1ff00140 00100000 003e0001 0000000000000002 0100 0000000000000003",
    ],
    # length 8, offset 0; leaf0 011, spine 01, leaf1 110; one sub-unit each: no address field
    "rbs": ["1ff00140 00100000 00040001 008 000 6e 00000000"],
    # leaf0: B R, RULL 4, 1 byte of bits 011; spine: R, RULL 2; leaf1: b, SID 2
    "rts": ["00002140 00800000 00040001 0c 04 08 60 04 02 a002"],
    "id-list": ["00001140 00300000 00040001 010203"],
    # leaf 10 0 1 1, spine 10 0 0, list 1 0, bitmap 11, leaf 1, no more ids, no more rules
    "elmo": ["00003140 00200000 00040001 9c5c"],
    # this pod, this leaf, all of it (but for the source); this pod, all leaves, all hosts
    "peel": [
        "00004140 00600000 00040001 0001 0002 0001",
        "00004140 00600000 00040001 0001 0001 0001",
    ],
}
# what leaf0 sends of the last packet, then spine0, then leaf1; without the fixed 12 bytes
HOPS = {
    "bier-64": ["0000000000000002 000000000000000c", "000000000000000c", "04 08"],
    "rbs": ["0000006e00000000 0050036e00000000", "0030056e00000000", "0000006e00000000"],
    "rts": ["40 0402a002", "80", "40"],
    "id-list": ["01 0203", "0203", "02 03"],
    "elmo": ["- 8b80", "b800", "-"],
    "peel": ["000100010001", "000100010001", "000100010001"],
}


@pytest.mark.parametrize("name", HEADS)
def test_the_header_is_as_worked_out(name):
    copies = made(name, ground_of(SMALL)).encode(0, np.array([1, 2, 3]))
    assert [c.head.hex() for c in copies] == [head.replace(" ", "") for head in HEADS[name]]


@pytest.mark.parametrize("name", HOPS)
def test_every_hop_sends_what_was_worked_out(name):
    ground = ground_of(SMALL)
    encoder = made(name, ground)
    copy = encoder.encode(0, np.array([1, 2, 3]))[-1]
    for node, want in zip((LEAF0, SPINE, LEAF1), HOPS[name], strict=True):
        assert ground.dst[copy.link] == node
        copies = encoder.forward(node, copy.link, copy.head).copies
        bodies = {c.head[12:].hex().lstrip("0" if name == "bier-64" else "") for c in copies}
        stripped = {w.strip("-") for w in want.split()}
        assert bodies == {w.lstrip("0" if name == "bier-64" else "") for w in stripped}
        copy = max(copies, key=lambda c: ground.dst[c.link])


def test_a_border_takes_its_entry_and_imposes_the_numbers_of_its_rack():
    ground = ground_of(SMALL)
    encoder = made("bier-h-256", ground)
    copy = encoder.encode(0, np.array([1, 2, 3]))[1]
    (up,) = encoder.forward(LEAF0, copy.link, copy.head).copies
    assert up.head == copy.head  # transit leaves the stack alone
    (down,) = encoder.forward(SPINE, up.link, up.head).copies
    turn = encoder.forward(LEAF1, down.link, down.head)
    heads = sorted(c.head.hex() for c in turn.copies)
    word = "101001400010000000040001"
    assert heads == [word + "0000000000000001", word + "0000000000000002"]
    assert turn.n_lookups == 3  # its own bit, then a row for each host
    (copy,) = encoder.encode(2, np.array([0]))
    (up,) = encoder.forward(LEAF1, copy.link, copy.head).copies
    (down,) = encoder.forward(SPINE, up.link, up.head).copies
    (last,) = encoder.forward(LEAF0, down.link, down.head).copies
    assert last.head[10:12] == copy.head[10:12] == b"\x00\x03"  # the BFIR-id goes along


@pytest.mark.parametrize(("n_leaves", "n_bits"), [(9, 344), (4, 184)])
def test_rbs_in_two_tiers_is_as_long_as_was_worked_out(n_leaves, n_bits):
    """24 of fields, 24 of the source's leaf, 16 of a spine; 24 a leaf, 8 for each but one."""
    ground = bare(build_named_net("leaf-spine:leaves=16,spines=8,hosts=256"))
    assert rbs_bits(ground, np.arange(1, n_leaves + 1) * 16) == n_bits


def test_rbs_of_nine_pods_of_65_536_hosts_is_as_long_as_was_worked_out():
    """24, 64 for each of 3 switches up, 128 for each of 9 pods, 8 for each pod but one."""
    ground = bare(build_named_net("fat-tree:k=64"))
    assert rbs_bits(ground, np.arange(1, 10) * 1024) == 24 + 3 * 64 + 9 * 128 + 8 * 8 == 1432


def rbs_bits(ground, members):
    encoder = made("rbs", ground)
    (copy,) = encoder.encode(0, members)
    return 24 + int.from_bytes(copy.head[12:14]) // 16


def test_rbs_takes_long_lengths_where_a_unit_is_longer_than_eight_bits_tell():
    """Two pods of 12 leaves, 24 ports each: 24 + 12 x 24 + 11 x 8 bits are a pod's unit."""
    ground = bare(build_named_net("fat-tree:k=24"))
    members = np.arange(144, 432, 12)
    encoder = made("rbs", ground)
    (copy,) = encoder.encode(0, members)
    assert copy.head[:3].hex()[1:3] == "fe"
    assert rbs_bits(ground, members) == 24 + 3 * 24 + 13 + 2 * (24 + 12 * 24 + 11 * 8)
    assert walk(ground, encoder, [copy]).arrivals == dict.fromkeys(members.tolist(), 1)
    (copy,) = encoder.encode(0, members[:12])  # one pod: the last unit's length is not told
    assert copy.head[:3].hex()[1:3] == "ff"


def test_rts_of_the_same_trees_is_as_long_as_its_draft_makes_it():
    """2 of the root, 3 a switch with a SID and a list, 2 a host with a SID."""
    ground = bare(build_named_net("leaf-spine:leaves=16,spines=8,hosts=256"))
    (copy,) = made("rts", ground).encode(0, np.arange(1, 10) * 16)
    as_sids = 2 + 3 + 9 * 3 + 9 * 2
    assert as_sids - 9 <= len(copy.head) - 12 <= as_sids
    ground = bare(build_named_net("fat-tree:k=64"))
    (copy,) = made("rts", ground).encode(0, np.arange(1, 10) * 1024)
    assert len(copy.head) - 12 <= 2 + 3 + 3 + 9 * (3 + 3 + 2)


def test_rts_pads_a_long_list_and_reads_over_the_padding():
    ground = bare(build_named_net("star:hosts=1100"))
    encoder = made("rts", ground)
    members = np.array([1, *range(100, 161), 1030])  # one SID is long: 2 * 62 + 3 bytes
    (copy,) = encoder.encode(0, members)
    assert len(copy.head) - 12 == 2 + 127
    members = np.array([1, *range(100, 162), 1030])
    (copy,) = encoder.encode(0, members)
    assert (len(copy.head) - 12, copy.head[13]) == (2 + 131, 128)
    turn = encoder.forward(ground.dst[copy.link], copy.link, copy.head)
    assert sorted(ground.dst[c.link] for c in turn.copies) == members.tolist()


def test_the_last_bfr_id_of_a_sub_domain_is_followed_by_another_sub_domain():
    ground = ground_of("star:hosts=65600")
    encoder = made("bier-256", ground)
    copies = encoder.encode(0, np.array([65534, 65535, 65536]))
    ids = [copy.head[:3].hex()[:5] for copy in copies]
    assert ids == ["300ff", "30100"]  # 65,535 is the last id; the two others are 1 and 2
    assert [int.from_bytes(copy.head[12:]) for copy in copies] == [1 << 254, 0b11]


def test_switches_share_a_bitmap_as_long_as_few_ports_are_too_many():
    bitmaps = {0: 0b1111, 1: 0b0111, 2: 0b1000, 3: 0b0001}
    rules = cluster(bitmaps, 3, 1, is_stored=False)
    assert rules.shared == ((0b1000, (2,)), (0b0001, (3,)), (0b1111, (1, 0)))
    assert (rules.default, rules.stored) == (0, {})
    rules = cluster(bitmaps, 2, 2, is_stored=False)
    assert rules.shared == ((0b1001, (2, 3)), (0b1111, (1, 0)))
    rules = cluster(bitmaps, 2, 1, is_stored=False)
    assert rules.shared == ((0b1000, (2,)), (0b0001, (3,)))
    assert (rules.default, rules.stored) == (0b1111, {})
    rules = cluster(bitmaps, 2, 0, is_stored=True)
    assert (rules.default, rules.stored) == (0, {1: 0b0111, 0: 0b1111})
    assert cluster(bitmaps, 4, 0, is_stored=False).shared[3] == (0b0001, (3,))
    nested = {0: 0b0001, 1: 0b0011, 2: 0b0111}
    assert cluster(nested, 1, 2, is_stored=False).shared == ((0b0011, (0, 1)),)
    same = dict.fromkeys(range(9), 5)
    assert cluster(same, 2, 0, is_stored=True) == ((), {}, 5)
