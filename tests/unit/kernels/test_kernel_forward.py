import naive
import numpy as np
import pytest
from kernel_nodes import (
    BFIR,
    BIFT_ID,
    FLOW_PORT,
    FOLD_PS,
    GROUP_ADDRESS,
    ROWS,
    KernelNode,
    data,
    feedback,
    plain_node,
    table,
)

from fanfold.kernels import codes
from fanfold.kernels.forward import plan_pass
from fanfold.kernels.layout import BIER_PORT
from fanfold.kernels.slots import MAX_WAITS
from fanfold.kernels.state import MAX_FLOWS, MAX_PKTS
from fanfold.kernels.tables import NULL_NBR
from fanfold.wire import bier
from fanfold.wire.ask import Ask
from fanfold.wire.bier import BierHeader
from fanfold.wire.packet import build, parse
from fanfold.wire.report import Report, ReportState

EVERYONE = 0b1111111


def bits_by_port(node, packets, port=-1):
    found = node.forward(packets, port)
    return {p: [(copy.k, copy.bits) for copy in copies] for p, copies in found.items()}


def test_one_copy_for_each_neighbour_and_one_for_the_node_itself():
    node = plain_node()
    packet = data(EVERYONE, ttl=9, entropy=5)
    found = node.forward([packet])
    assert {p: [c.bits for c in copies] for p, copies in found.items()} == {
        0: [0b0000001],
        1: [0b0000110],
        2: [0b0001000],
        3: [0b1110000],
    }
    before = bier.decode(packet)
    for copies in found.values():
        after = bier.decode(copies[0].packet)
        assert after.bitstring == copies[0].bits
        assert after.ttl == before.ttl - 1
        assert (after.bfir_id, after.entropy) == (before.bfir_id, before.entropy)
        assert copies[0].packet[20:] == packet[20:]
        assert parse(copies[0].packet).message == parse(packet).message
    assert node.drops() == {}


def test_all_places_at_once_and_a_null_one_among_them():
    """More BFR-NBRs than ports: the null one is dropped and counted, all others get theirs."""
    node = plain_node()
    assert bits_by_port(node, [data(EVERYONE | 1 << 7 | 1 << 63)]) == {
        0: [(0, 0b0000001)],
        1: [(0, 0b0000110)],
        2: [(0, 0b0001000)],
        3: [(0, 0b1110000)],
    }
    assert node.drops() == {"null_nbr": 1}


def test_a_null_next_hop_does_not_stop_those_after_it():
    rows = [NULL_NBR, 1, NULL_NBR, 2, *[0] * 60]
    node = KernelNode(table([rows], 3, bift_ids=[BIFT_ID]), [0, 0, 0])
    assert bits_by_port(node, [data(0b11111)]) == {
        0: [(0, 0b10000)],
        1: [(0, 0b00010)],
        2: [(0, 0b01000)],
    }
    assert node.drops() == {"null_nbr": 1}


def test_a_packet_for_null_next_hops_only_goes_nowhere():
    node = plain_node()
    assert bits_by_port(node, [data(1 << 9 | 1 << 30)]) == {}
    assert node.drops() == {"null_nbr": 1}


def test_ttl_0_is_dropped_and_ttl_1_is_delivered_here_only():
    node = plain_node()
    assert bits_by_port(node, [data(EVERYONE, ttl=0)]) == {}
    assert node.drops() == {"ttl_expired": 1}
    node = plain_node()
    found = node.forward([data(EVERYONE, ttl=1)])
    assert [(p, copies[0].bits) for p, copies in found.items()] == [(0, 1)]
    assert node.drops() == {"ttl_expired": 3}
    node = plain_node()
    found = node.forward([data(EVERYONE, ttl=2)])
    assert [bier.decode(c.packet).ttl for copies in found.values() for c in copies] == [1] * 4
    assert node.drops() == {}


def test_what_a_node_imposes_itself_leaves_with_the_ttl_written():
    node = plain_node()
    found = node.forward([data(EVERYONE, ttl=64)], port=0)
    assert {bier.decode(c.packet).ttl for copies in found.values() for c in copies} == {64}


WRONG = {
    "unknown_bift": data(1, bift_id=0x10001),
    "bad_version": data(1)[:4] + b"\x0f" + data(1)[5:],
    "bad_bsl": data(1)[:5] + b"\x00" + data(1)[6:],
    "bsl_mismatch": data(1)[:5] + b"\x30" + data(1)[6:],
    "truncated": data(1)[:19],
    "zero_bitstring": data(0),
    "null_nbr": data(1 << 8),
    "ttl_expired": data(1, ttl=0),
}


@pytest.mark.parametrize("reason", WRONG)
def test_each_cause_of_a_drop_is_counted_by_its_word(reason):
    node = plain_node()
    assert bits_by_port(node, [WRONG[reason]]) == {}
    assert node.drops() == {reason: 1}
    assert node.n_armed() == int(reason == "null_nbr")


@pytest.mark.parametrize("reason", sorted(WRONG.keys() - {"truncated"}))
def test_a_bad_packet_does_not_disturb_its_neighbours(reason):
    node = plain_node()
    found = bits_by_port(node, [data(0b110), WRONG[reason], data(0b110)])
    assert found == {1: [(0, 0b110), (2, 0b110)]}
    assert node.drops() == {reason: 1}


def test_a_last_packet_that_is_cut_does_not_disturb_those_before():
    node = plain_node()
    assert bits_by_port(node, [data(0b110), data(0b110), data(1)[:15]]) == {
        1: [(0, 0b110), (1, 0b110)]
    }
    assert node.drops() == {"truncated": 1}


def test_a_packet_cut_anywhere_is_never_sent_on_as_something_else():
    packet = data(0b110)
    for n in range(1, len(packet)):
        node = plain_node()
        found = bits_by_port(node, [packet[:n]])
        if n < 20:
            assert (found, node.drops()) == ({}, {"truncated": 1})
            continue
        assert found == {1: [(0, 0b110)]}  # BIER carries what it does not understand
        kind = codes.CLASS_OPAQUE if n < 20 + 28 + 16 else codes.CLASS_DATA
        assert node.plan.kind[0] == kind
        assert node.n_armed() == int(kind == codes.CLASS_DATA)


def test_a_block_of_many_packets_takes_several_passes():
    node = plain_node()
    packets = [data(1 << (k % 7), psn=k % 4, block=k) for k in range(MAX_PKTS + 5)]
    block = np.array([*b"".join(packets)], np.uint8)
    seg, at, seen = len(packets[0]), 0, []
    while at < len(block):
        first = at
        at = node_pass(node, block, at, seg)
        for port in range(4):
            got = node.plan.pkt[port, : node.plan.n[port]]
            seen += [(first // seg + int(k), port) for k in got]
        assert (at - first) // seg <= MAX_PKTS
    ports = {k: ROWS[k] for k in range(7)}
    assert sorted(seen) == [(k, ports[k % 7]) for k in range(MAX_PKTS + 5)]


def node_pass(node, block, at, seg):
    return plan_pass(
        block,
        at,
        len(block),
        seg,
        node.inlet,
        0,
        node.row,
        node.bifts,
        node.ports,
        node.fold,
        node.counters,
        node.plan,
        node.vats,
    )


def test_equal_entropy_takes_the_same_of_several_paths():
    rows = [[1 + t % 3] * 64 for t in range(6)]
    node = KernelNode(table(rows, 4, bift_ids=[BIFT_ID], n_ecmp=6), [0, 0, 0, 0])
    for entropy in [*range(12), 2**20 - 1, 2**19]:
        packets = [data(1 << k, entropy=entropy) for k in range(8)]
        assert list(node.forward(packets)) == [1 + entropy % 6 % 3]
        assert list(node.forward([data(EVERYONE, entropy=entropy)])) == [1 + entropy % 6 % 3]


def test_each_set_has_a_table_of_its_own():
    ids = [0x10000, 0x10003, 0x10005]
    rows = [[1] * 64, [2] * 64, [NULL_NBR] * 63 + [3]]
    node = KernelNode(table(rows, 4, bift_ids=ids), [0, 0, 0, 0])
    packets = [data(1 << 63 | 1, bift_id=i) for i in ids]
    found = node.forward([*packets, data(1, bift_id=0x10001)])
    assert {p: [(c.k, c.bits) for c in copies] for p, copies in found.items()} == {
        1: [(0, 1 << 63 | 1)],
        2: [(1, 1 << 63 | 1)],
        3: [(2, 1 << 63)],
    }
    assert node.drops() == {"null_nbr": 1, "unknown_bift": 1}


def test_bitstrings_of_several_lengths_live_side_by_side():
    small, large = (
        table([[1] * 64], 3, bift_ids=[0x10000]),
        table([[2] * 256], 3, bift_ids=[0x30000]),
    )
    bifts = small._replace(
        ids=np.array([0x10000, 0x30000]),
        n_words=np.array([1, 4]),
        n_ecmp=np.ones(2, np.int64),
        first=np.arange(2),
        nbr_of=np.concatenate([np.pad(small.nbr_of, ((0, 0), (0, 192))), large.nbr_of]),
        f_bm=np.concatenate([np.pad(small.f_bm, ((0, 0), (0, 0), (0, 3))), large.f_bm]),
    )
    node = KernelNode(bifts, [0, 0, 0])
    assert bits_by_port(node, [data(1 << 63)]) == {1: [(0, 1 << 63)]}
    assert bits_by_port(node, [data(1 << 255, bift_id=0x30000)]) == {2: [(0, 1 << 255)]}


# Wrong tables: RFC 8279 has none, memory may.


def test_a_row_whose_neighbour_has_no_mask_leads_nowhere():
    for nbr in (4, 5, 1 << 40, -2, -(1 << 40)):
        node = plain_node()
        node.bifts.nbr_of[0, 3] = nbr
        assert bits_by_port(node, [data(EVERYONE)]) == {
            0: [(0, 0b0000001)],
            1: [(0, 0b0000110)],
            3: [(0, 0b1110000)],
        }
        assert node.drops() == {"null_nbr": 1}


def test_a_mask_without_its_own_bit_leads_nowhere():
    node = plain_node()
    node.bifts.f_bm[0, 1 + 3, 0] = np.uint64(0b1000000)  # bits 4 and 5 are missing
    assert bits_by_port(node, [data(EVERYONE | 1 << 20)]) == {
        0: [(0, 0b0000001)],
        1: [(0, 0b0000110)],
        2: [(0, 0b0001000)],
        3: [(0, 0b1000000)],
    }
    assert node.drops() == {"null_nbr": 1}


@pytest.mark.parametrize("mask", [0, 2**64 - 1])
def test_masks_all_empty_or_all_full_end(mask):
    node = plain_node()
    node.bifts.f_bm[:] = np.uint64(mask)
    found = bits_by_port(node, [data(2**64 - 1)])
    assert found == ({} if mask == 0 else {0: [(0, 2**64 - 1)]})
    assert node.drops() == ({"null_nbr": 1} if mask == 0 else {})


# Arming, counting, ports.


def test_data_arms_the_slot_of_its_block_with_what_it_says():
    node = plain_node(depth=4)
    packet = data(
        0b1010, flow=0x12345678, block=0x9ABCDEF0, n_psn=33, psn=32, ttl=62, first_ttl=64
    )
    node.forward([packet], port=2, now_ps=5000)
    row = node.fold.rows[node.fold.rows["armed"] != 0]
    assert len(row) == 1
    said = {name: int(row[0][name]) for name in row.dtype.names}
    assert {k: said[k] for k in ("bfir_id", "flow", "block", "bift_id", "n_words")} == {
        "bfir_id": BFIR,
        "flow": 0x12345678,
        "block": 0x9ABCDEF0,
        "bift_id": BIFT_ID,
        "n_words": 1,
    }
    assert (said["port"], said["n_psn"], said["flow_port"]) == (2, 33, FLOW_PORT)
    assert said["bfir_addr"] == parse(packet).inner.src
    assert said["deadline_ps"] == 5000 + FOLD_PS * (4 - 2)  # two hops below the BFIR, of four
    assert int(node.row[0]["next_ps"]) == said["deadline_ps"]
    slot = int(np.flatnonzero(node.fold.rows["armed"])[0])
    assert int(node.fold.words[slot, 0, 0]) == 0b1010  # as received, before the walk


def test_words_go_home_the_way_that_the_newest_data_came():
    """A repair comes by another port once a link is dead: a slot that waits turns to it."""
    node = plain_node()
    node.forward([data(0b10)], port=2)
    slot = int(np.flatnonzero(node.fold.rows["armed"])[0])
    assert node.fold.rows[slot]["port"] == 2
    deadline = node.fold.rows[slot]["deadline_ps"]
    node.forward([data(0b10, flags=4)], port=1, now_ps=7)
    assert node.fold.rows[slot]["port"] == 1
    assert node.fold.rows[slot]["deadline_ps"] == deadline  # what was heard is not held back


@pytest.mark.parametrize("hops", [0, 1, 2, 3, 4, 60])
def test_deadlines_grow_with_height(hops):
    node = plain_node(depth=4)
    node.forward([data(2, ttl=64 - hops, first_ttl=64)], now_ps=100)
    slot = int(np.flatnonzero(node.fold.rows["armed"])[0])
    height = min(max(4 - hops, 1), 4)
    assert node.fold.rows[slot]["deadline_ps"] == 100 + FOLD_PS * height


@pytest.mark.parametrize("hops", [0, 1, 2, 3])
def test_who_is_late_is_waited_for_once_not_once_for_each_level_below(hops):
    """A lag has all levels in it: a child goes up before its parent, and no sooner."""
    node = plain_node(depth=4)
    node.row["lag_ps"], node.row["lag_at_ps"] = 10 * FOLD_PS, 100
    node.forward([data(2, ttl=64 - hops, first_ttl=64)], now_ps=100)
    slot = int(np.flatnonzero(node.fold.rows["armed"])[0])
    height = 4 - hops
    deadline = 100 + FOLD_PS * (height - 1 + MAX_WAITS)
    assert node.fold.rows[slot]["deadline_ps"] == deadline


def test_packets_of_one_block_join_their_receivers():
    node = plain_node()
    node.forward([data(0b010, psn=0), data(0b100, psn=1), data(0b010, block=1)])
    node.forward([data(0b1000, psn=2, flags=4)], now_ps=7)  # a repair arms as well
    slots = np.flatnonzero(node.fold.rows["armed"])
    by_block = {int(node.fold.rows[s]["block"]): int(node.fold.words[s, 0, 0]) for s in slots}
    assert by_block == {0: 0b1110, 1: 0b010}
    assert node.events() == {"armed": 2}


def test_another_set_has_a_slot_of_its_own():
    rows = [[1] * 64, [1] * 64]
    node = KernelNode(table(rows, 2, bift_ids=[0x10000, 0x10001]), [0, 0])
    node.forward([data(0b1, bift_id=0x10000), data(0b10, bift_id=0x10001)])
    slots = np.flatnonzero(node.fold.rows["armed"])
    found = {int(node.fold.rows[s]["bift_id"]): int(node.fold.words[s, 0, 0]) for s in slots}
    assert found == {0x10000: 0b1, 0x10001: 0b10}


def test_a_node_that_does_not_fold_carries_feedback_as_it_is():
    node = plain_node(folds=False)
    node.forward([data(0b110)])
    word = naive.Word(BIFT_ID, 4, heard=2, done=2, rows={})
    found = bits_by_port(node, [feedback(word, outer_bits=0b1000)])
    assert found == {2: [(0, 0b1000)]}
    assert (node.n_armed(), node.events(), node.drops()) == (0, {}, {})


HEADER = BierHeader(bift_id=BIFT_ID, ttl=9, bfir_id=4, bitstring=0b1000)
REPORT = build(HEADER, 1, 0x7F510004, 50_007, Report(ReportState.DONE, 3, 2))
ASK = build(HEADER, 1, GROUP_ADDRESS, 50_007, Ask(flow=2, cursor=0, nonce=0))
WORD = naive.Word(BIFT_ID, 4, heard=2, done=2, rows={})


@pytest.mark.parametrize(
    ("packet", "dport"),
    [
        (REPORT, 50_007),
        (feedback(WORD, (4, 7, 0), outer_bits=0b1000), FLOW_PORT),
        (ASK, BIER_PORT),
        (data(0b1000), BIER_PORT),
    ],
    ids=["report", "feedback", "ask", "data"],
)
def test_the_last_hop_aims_at_the_bfir_that_is_meant(packet, dport):
    """Port 2 leads to the BFER with BFR-id 4, bit 3: a host may run several BFIRs."""
    bfir = KernelNode(table([[2] * 64], 4, bift_ids=[BIFT_ID]), [1, 0, 4, 0], folds=False)
    assert bfir.forward([packet])[2][0].dport == dport
    bfir.ports.bfr_id[2] = 5
    assert bfir.forward([packet])[2][0].dport == BIER_PORT  # not the last hop


def test_flows_have_rows_of_their_own_and_the_idle_one_makes_room():
    node = plain_node()
    for flow in range(MAX_FLOWS):
        node.forward([data(2, flow=flow)], now_ps=flow + 1)
        assert node.plan.flow[0] == flow
    node.forward([data(2, flow=0)], now_ps=1000)
    node.counters.flow_tx[1] = 7
    node.forward([data(2, flow=99)], now_ps=1001)
    assert node.plan.flow[0] == 1
    assert not node.counters.flow_tx[1].any()
    assert node.counters.flow_key[0] == BFIR << 32
    assert node.counters.flow_key[1] == BFIR << 32 | 99
