import naive
import numpy as np
import pytest
from kernel_nodes import (
    BFIR,
    BIFT_ID,
    FLOW_PORT,
    FOLD_PS,
    KernelNode,
    data,
    feedback,
    plain_node,
    table,
    word_of,
    write_all,
)

from fanfold.kernels.feedback import own_report, whole_block
from fanfold.kernels.slots import (
    LATE_WAITS,
    NEVER_PS,
    PROBES,
    find_slot,
    open_slot,
    slot_home,
)
from fanfold.kernels.state import build_fold
from fanfold.wire import bitstring as bs
from fanfold.wire.feedback import FeedbackFlag
from fanfold.wire.packet import parse


def word(heard, done=None, rows=None, **more):
    done = heard if done is None else done
    return naive.Word(BIFT_ID, 4, heard=heard, done=done, rows=rows or {}, **more)


def armed(bits=0b1110, now_ps=0, **kwargs):
    node = plain_node(**kwargs)
    node.forward([data(bits)], port=4, now_ps=now_ps)
    return node


def give(node, *words, now_ps=1):
    for said in words:
        assert node.forward([feedback(said)], port=1, now_ps=now_ps) == {}


def deadline_of(node):
    rows = node.fold.rows
    return int(rows["deadline_ps"][rows["armed"] != 0].max())


def test_one_packet_goes_up_when_all_were_heard_and_the_slot_is_free():
    node = armed()
    give(node, word(0b0010), word(0b0100))
    assert node.send_ready() == []
    give(node, word(0b1000))
    ((port, packets),) = node.send_ready()
    assert port == 4  # where the data came from
    assert word_of(packets) == word(0b1110, n_merged=3)
    assert (node.n_armed(), node.drops()) == (0, {})
    assert node.events() == {"armed": 1, "merged": 3, "complete": 1}


def test_what_goes_up_is_addressed_to_the_bfir():
    node = armed()
    give(node, word(0b1110))
    ((_, (packet,)),) = node.send_ready()
    parsed = parse(packet)
    assert parsed.header.bfir_id == BFIR
    assert parsed.header.bift_id == BIFT_ID
    assert parsed.header.bitstring == 1 << (BFIR - 1)
    assert parsed.inner.src == int(node.row[0]["addr"])
    assert parsed.inner.dst == parse(data(1)).inner.src
    assert (parsed.inner.sport, parsed.inner.dport) == (8139, FLOW_PORT)


@pytest.mark.parametrize(("bfir_id", "si"), [(1, 0), (64, 0), (65, 1), (128, 1), (16384, 255)])
def test_the_bfir_is_addressed_in_its_own_set(bfir_id, si):
    node = plain_node()
    node.forward([data(0b10, bfir_id=bfir_id)])
    give_key = (bfir_id, 7, 0)
    node.forward([feedback(word(0b10), give_key)], port=1)
    ((_, (packet,)),) = node.send_ready()
    header = parse(packet).header
    assert header.bift_id == BIFT_ID | si
    assert bs.ids_of(header.si, header.bitstring, header.bsl) == (bfir_id,)


def test_heard_twice_is_heard_once():
    node = armed()
    give(node, word(0b0010), word(0b0010), word(0b0110, done=0b0010, rows={1: 0b0100}))
    give(node, word(0b0110, done=0b0010, rows={1: 0b0100}))
    assert node.send_ready() == []
    give(node, word(0b1000))
    ((_, packets),) = node.send_ready()
    said = word_of(packets)
    assert said._replace(n_merged=0) == word(0b1110, done=0b1010, rows={1: 0b0100}, n_merged=0)


def test_done_wins_over_gaps_in_whatever_order():
    late_gap = [word(0b10, done=0, rows={0: 0b10, 3: 0b10}), word(0b10)]
    for said in (late_gap, late_gap[::-1]):
        node = armed(0b110)
        give(node, *said, word(0b100, done=0, rows={3: 0b100}))
        ((_, packets),) = node.send_ready()
        assert word_of(packets) == word(0b110, done=0b010, rows={3: 0b100}, n_merged=3)


def test_the_worst_branch_wins_and_is_named():
    node = armed()
    give(
        node,
        word(0b0010, queue=10, room=200, worst=2, round=3, behind=2),
        word(0b0100, queue=90, room=255, worst=3, round=1, behind=7),
        word(0b1000, queue=20, room=180, worst=4, round=2, behind=0),
    )
    ((_, packets),) = node.send_ready()
    said = word_of(packets)
    assert (said.queue, said.room, said.worst, said.round, said.behind) == (90, 180, 3, 1, 7)


def test_reports_are_counted_up_to_65535():
    node = armed()
    give(node, word(0b0010, n_merged=65_000), word(0b1100, n_merged=600))
    ((_, packets),) = node.send_ready()
    assert word_of(packets).n_merged == 65_535


@pytest.mark.parametrize(
    "said",
    [
        naive.Word(BIFT_ID, 5, heard=0b1110, done=0, rows={}),
        naive.Word(0x10001, 4, heard=0b1110, done=0, rows={}),
        naive.Word(0x20000, 4, heard=0b1110, done=0, rows={}),
    ],
    ids=["another n_psn", "another set", "another length"],
)
def test_feedback_that_does_not_fit_the_slot_passes(said):
    node = armed()
    packet = feedback(said, outer_bits=0b1000, outer_bift=BIFT_ID)
    assert list(node.forward([packet], port=1)) == [2]
    assert node.events() == {"armed": 1, "unfolded": 1}


def test_without_a_slot_feedback_passes_unfolded_and_is_counted():
    node = plain_node()
    packet = feedback(word(0b10), outer_bits=0b1000)
    ((port, (copy,)),) = node.forward([packet], port=1).items()
    assert (port, copy.packet[20:], copy.bits) == (2, packet[20:], 0b1000)
    assert (node.events(), node.drops()) == ({"unfolded": 1}, {})


def test_a_full_table_lets_feedback_pass_and_loses_none():
    node = plain_node(n_slots=8)
    for block in range(20):
        node.forward([data(0b10, block=block)], port=4)
    assert node.events() == {"armed": 8, "full": 12}
    n_up = n_passed = 0
    for block in range(20):
        packet = feedback(word(0b10), (BFIR, 7, block), outer_bits=0b1000)
        n_passed += len(node.forward([packet], port=1).get(2, ()))
        n_up += len(node.send_ready())
    assert (n_up, n_passed) == (8, 12)
    assert node.events() == {"armed": 8, "full": 12, "merged": 8, "complete": 8, "unfolded": 12}
    node.forward([data(0b10, block=30)], port=4)
    assert node.n_armed() == 1


def test_a_key_is_found_beside_its_neighbours_whatever_was_freed():
    fold = build_fold(16, 1)
    assert fold.rows.shape[0] == PROBES
    places = {block: open_slot(fold, 1, 2, block, 5) for block in range(16)}
    assert sorted(places.values()) == list(range(16))
    assert open_slot(fold, 1, 2, 99, 5) == -1
    for block in range(0, 16, 2):
        fold.rows[places[block]]["armed"] = 0
    for block in range(16):
        wanted = places[block] if block % 2 else -1
        assert find_slot(fold, 1, 2, block, 5) == wanted
        assert find_slot(fold, 2, 2, block, 5) == -1
        assert find_slot(fold, 1, 3, block, 5) == -1
        assert find_slot(fold, 1, 2, block, 6) == -1


def test_keys_spread_over_the_table():
    homes = {slot_home(1, 2, block, 5) % 1024 for block in range(512)}
    assert len(homes) > 300
    assert all(
        slot_home(b, f, k, 2**20 - 1) >= 0
        for b in (0, 65_535)
        for f in (0, 2**32 - 1)
        for k in (0, 9)
    )


def test_a_deadline_sends_up_what_was_heard_and_keeps_the_silent():
    node = armed(0b1110, now_ps=10, depth=2)
    node.forward([data(0b10, block=1)], port=4, now_ps=10)
    node.forward([data(0b10, block=2)], port=4, now_ps=500)
    give(node, word(0b0110, done=0b0100, rows={2: 0b0010}))
    deadline = 10 + FOLD_PS * 1
    assert node.expire(deadline - 1) == deadline
    assert (node.send_ready(), node.n_armed()) == ([], 3)
    assert node.expire(deadline) == 500 + FOLD_PS
    ((port, packets),) = node.send_ready()
    assert port == 4
    assert word_of(packets) == word(0b0110, done=0b0100, rows={2: 0b0010}, is_partial=True)
    assert node.n_armed() == 2
    assert node.events() == {"armed": 3, "merged": 1, "partial": 1, "unheard": 1}
    over = 500 + FOLD_PS
    assert node.expire(over) == deadline + LATE_WAITS * FOLD_PS
    assert node.events()["unheard"] == 2
    assert node.expire(over + LATE_WAITS * FOLD_PS) == NEVER_PS
    assert (node.send_ready(), node.n_armed()) == ([], 0)
    assert node.events()["unheard"] == 2


def test_words_that_all_come_after_the_deadline_are_folded():
    """Data waits in a queue longer than the slot: busy is not lost."""
    node = armed(0b1110, now_ps=10, depth=2)
    late = 10 + 3 * FOLD_PS
    assert node.expire(late) == late + LATE_WAITS * FOLD_PS
    give(node, word(0b0010), now_ps=late + 1)
    assert node.expire(late + 1) == late + 1 + FOLD_PS  # the others have as long again
    assert node.fold.ready[0] == 0  # nor early
    give(node, word(0b0100), word(0b1000), now_ps=late + FOLD_PS)
    ((_, packets),) = node.send_ready()
    assert word_of(packets) == word(0b1110, n_merged=3)
    assert node.events() == {"armed": 1, "unheard": 1, "merged": 3, "complete": 1}


def test_a_late_slot_gives_way_where_no_place_is_free_the_oldest_first():
    node = plain_node(n_slots=8, depth=2)
    for block in range(8):
        node.forward([data(0b10, block=block)], port=4, now_ps=block)
    node.forward([data(0b10, block=8)], port=4, now_ps=8)
    assert node.events() == {"armed": 8, "full": 1}
    node.expire(FOLD_PS + 8)
    node.forward([data(0b10, block=9)], port=4, now_ps=FOLD_PS + 9)
    blocks = sorted(node.fold.rows["block"].tolist())
    assert blocks == [1, 2, 3, 4, 5, 6, 7, 9]
    assert node.events() == {"armed": 9, "full": 1, "unheard": 8}


def test_a_repair_lets_a_late_slot_wait_anew():
    node = armed(0b1110, now_ps=10, depth=2)
    node.expire(5 * FOLD_PS)
    node.forward([data(0b10, flags=4)], port=4, now_ps=6 * FOLD_PS)
    assert deadline_of(node) == 7 * FOLD_PS


@pytest.mark.parametrize(
    ("first_ttl", "ttl", "height"),
    [(64, 64, 3), (64, 63, 2), (64, 62, 1), (64, 61, 1), (64, 2, 1), (1, 60, 3), (0, 255, 3)],
)
def test_a_deadline_is_that_of_a_height_between_one_and_the_depth(first_ttl, ttl, height):
    """A first_ttl below the TTL says nothing: no deadline is longer than the depth makes it."""
    node = plain_node(depth=3)
    node.forward([data(0b10, first_ttl=first_ttl, ttl=ttl)], port=2, now_ps=10)
    assert deadline_of(node) == 10 + height * FOLD_PS
    assert node.fold.rows["near_ps"].max() == (2 * height - 1) * FOLD_PS


def test_a_late_word_after_the_deadline_passes():
    node = armed(0b110)
    give(node, word(0b010))
    node.expire(10**9)
    node.send_ready()
    assert list(node.forward([feedback(word(0b100), outer_bits=0b1000)], port=1)) == [2]


def test_partials_of_children_complete_their_parent():
    node = armed(0b1110)
    give(node, word(0b0110, is_partial=True), word(0b1000, is_partial=True))
    ((_, packets),) = node.send_ready()
    assert word_of(packets) == word(0b1110, n_merged=2)  # nobody was missed here


def test_a_slot_completed_twice_in_one_pass_goes_up_once():
    node = armed(0b110)
    packet = feedback(word(0b110))
    assert node.forward([packet, packet, packet], port=1) == {}
    assert len(node.send_ready()) == 1
    assert node.events() == {"armed": 1, "merged": 3, "complete": 1}


def test_several_slots_may_be_complete_in_one_pass():
    node = plain_node()
    for block in range(3):
        node.forward([data(0b10, block=block)], port=4)
    packets = [feedback(word(0b10), (BFIR, 7, block)) for block in (0, 1, 2, 1, 0)]
    assert node.forward(packets, port=1) == {}
    assert [parse(p).message.block for _, (p,) in node.send_ready()] == [0, 1, 2]
    assert node.n_armed() == 0


def test_a_repair_does_not_hold_back_what_was_heard():
    node = armed(0b1110, now_ps=10, depth=2)
    deadline = deadline_of(node)
    node.forward([data(0b10, flags=4)], port=4, now_ps=500)
    assert deadline_of(node) == deadline
    node.forward([data(0b10)], port=4, now_ps=500)
    assert deadline_of(node) == deadline + 490


@pytest.mark.parametrize(
    ("late", "low", "high"),
    [
        (200, FOLD_PS - 1, FOLD_PS),
        (400, 4 * 380, 4 * 400),
        (800, 3 * FOLD_PS - 1, 3 * FOLD_PS),
    ],
)
def test_a_busy_machine_is_given_more_time(late, low, high):
    """Deadlines grow with the mean time from the last data packet to a complete slot.

    Up to three times the shortest one, or slots that wait for what was lost wait longer still.
    """
    node = plain_node(depth=2)
    waits = []
    for block in range(60):
        now = 2 * FOLD_PS * block
        node.forward([data(0b10, block=block)], port=4, now_ps=now)
        waits.append(deadline_of(node) - now)
        give_late = feedback(word(0b10), (BFIR, 7, block))
        node.forward([give_late], port=1, now_ps=now + late)
        assert len(node.send_ready()) == 1
    assert waits == sorted(waits)
    assert waits[0] == FOLD_PS
    assert low < waits[-1] <= high
    now += late + 4 * FOLD_PS + 1  # what was slow then need not be so now
    node.forward([data(0b10, block=60)], port=4, now_ps=now)
    assert deadline_of(node) - now == FOLD_PS


def test_a_repair_arms_again_for_those_it_goes_to():
    node = armed(0b1110)
    give(node, word(0b1110, done=0b1100, rows={0: 0b10}))
    node.send_ready()
    node.forward([data(0b10, flags=4, round_=1)], port=4)
    give(node, word(0b10, round=1))
    ((_, packets),) = node.send_ready()
    assert word_of(packets) == word(0b10, round=1)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda p: p[:-1], "bad_checksum"),
        (lambda p: p[:60] + bytes([p[60] ^ 1]) + p[61:], "bad_checksum"),
        (lambda p: p[:46] + b"\0\0" + p[48:], "bad_checksum"),
    ],
)
def test_broken_feedback_is_dropped_and_counted(change, reason):
    node = armed()
    packet = change(feedback(word(0b10), outer_bits=0b1000))
    assert node.forward([packet], port=1) == {}
    assert node.drops() == {reason: 1}
    assert node.events() == {"armed": 1}


# Rows and the MTU.


def gaps(n, who=0b10):
    return dict.fromkeys(range(n), who)


@pytest.mark.parametrize("n_rows", [0, 1, 2, 3, 4, 5, 6, 7, 63, 64])
def test_rows_that_do_not_fit_go_on_in_further_packets(n_rows):
    """BSL 64: 20 + 28 + 24 + 16 bytes, 12 for each row, 28 outside."""
    mtu = 28 + 88 + 3 * 12
    node = plain_node(mtu=mtu)
    node.forward([data(0b10, n_psn=64)], port=4)
    said = naive.Word(BIFT_ID, 64, heard=0b10, done=0, rows=gaps(n_rows))
    assert node.forward([feedback(said)], port=1) == {}
    ((_, packets),) = node.send_ready()
    assert [len(parse(p).message.rows) for p in packets] == [
        *[3] * (n_rows // 3),
        *([n_rows % 3] if n_rows % 3 or not n_rows else []),
    ]
    assert all(len(p) + 28 <= mtu for p in packets)
    assert word_of(packets) == said


def in_parts(said):
    """A word as two packets: rows of an MTU for two of four."""
    child = plain_node(mtu=28 + 88 + 2 * 12)
    child.forward([data(said.heard)], port=4)
    child.forward([feedback(said)], port=1)
    ((_, packets),) = child.send_ready()
    assert [bool(parse(p).message.flags & FeedbackFlag.MORE) for p in packets] == [True, False]
    return packets


def test_a_slot_waits_for_the_further_packets_of_a_word():
    said = word(0b10, done=0, rows=gaps(4))
    packets = in_parts(said)
    at_once, one_by_one = armed(0b10), armed(0b10)
    assert at_once.forward(packets, port=1) == {}
    one_by_one.forward(packets[:1], port=1)
    assert one_by_one.send_ready() == []
    one_by_one.forward(packets[1:], port=1)
    for node in (at_once, one_by_one):
        ((_, folded),) = node.send_ready()
        assert word_of(folded) == said
        assert node.events() == {"armed": 1, "merged": 2, "complete": 1}


def test_words_in_parts_of_several_receivers_go_up_as_one():
    node = armed(0b110)
    first, second = (in_parts(word(who, done=0, rows=gaps(4, who))) for who in (0b10, 0b100))
    for packet in (first[0], second[0], first[1], second[1]):
        assert node.send_ready() == []
        assert node.forward([packet], port=1) == {}
    ((_, folded),) = node.send_ready()
    assert word_of(folded) == word(0b110, done=0, rows=gaps(4, 0b110), n_merged=2)


def test_what_came_of_a_word_goes_up_at_the_deadline():
    node = armed(0b10)
    node.forward(in_parts(word(0b10, done=0, rows=gaps(4)))[:1], port=1)
    node.expire(10**12)
    ((_, folded),) = node.send_ready()
    said = word_of(folded)
    assert (said.heard, said.rows) == (0b10, gaps(2))
    assert parse(folded[0]).message.flags == FeedbackFlag.PARTIAL


def test_a_row_that_never_fits_goes_out_all_the_same():
    """A BitString of 4096 bits on an MTU of 1500: too large to send, never an endless loop."""
    node = KernelNode(table([[1] * 4096], 2, bift_ids=[0x70000]), [0, 0], mtu=1500)
    node.forward([data(1 << 4000, bift_id=0x70000)], port=1)
    said = naive.Word(0x70000, 4, heard=1 << 4000, done=0, rows=gaps(4, 1 << 4000))
    node.forward([feedback(said)], port=1)
    ((_, packets),) = node.send_ready()
    assert [len(parse(p).message.rows) for p in packets] == [1, 1, 1, 1]
    assert word_of(packets) == said


# A receiver's own word.


@pytest.mark.parametrize("n_psn", [1, 2, 63, 64])
@pytest.mark.parametrize("index", [0, 63, 64, 255])
def test_a_receiver_says_what_it_lacks(n_psn, index):
    full = (1 << n_psn) - 1
    assert int(whole_block(n_psn)) == full
    node = plain_node()
    node.fold = build_fold(1, 4)
    row = node.fold.rows[0]
    row["bift_id"], row["n_words"], row["n_psn"], row["bfir_id"] = 0x30000, 4, n_psn, BFIR
    row["flow"], row["block"], row["round"], row["room"], row["worst"] = 7, 3, 2, 100, 55
    row["behind"] = 9
    for have in (0, 1, full >> 1, full, full | 1 << 63):
        own_report(node.fold, index, np.uint64(have))
        said = word_of(write_all(node, 0))
        lacks = naive.members(full & ~have)
        assert said == naive.Word(
            0x30000,
            n_psn,
            heard=1 << index,
            done=0 if lacks else 1 << index,
            rows=dict.fromkeys(sorted(lacks), 1 << index),
            round=2,
            room=100,
            worst=55,
            behind=9,
        )
