"""Words before a slot's end: of those who have the block, while others are waited for."""

import naive
import pytest
from kernel_nodes import BFIR, BIFT_ID, FOLD_PS, data, feedback, plain_node, word_of

from fanfold.kernels.slots import EARLY_LAGS, EARLY_PART, NEVER_PS
from fanfold.wire.feedback import FeedbackFlag
from fanfold.wire.packet import parse


def word(heard, done=None, rows=None, **more):
    done = heard if done is None else done
    return naive.Word(BIFT_ID, 4, heard=heard, done=done, rows=rows or {}, **more)


def deadline_of(node):
    rows = node.fold.rows
    return int(rows["deadline_ps"][rows["armed"] != 0].max())


def quick(late=200):
    """A node whose words come so late as a rule; when block 99 was armed."""
    node = plain_node(depth=2)
    for block in range(60):
        now = 2 * FOLD_PS * block
        node.forward([data(0b10, block=block, ttl=64)], port=4, now_ps=now)
        node.forward([feedback(word(0b10), (BFIR, 7, block))], port=1, now_ps=now + late)
        node.send_ready()
    start = now + late
    node.forward([data(0b1110, block=99, ttl=64)], port=4, now_ps=start)
    return node, start


def hear(node, said, now_ps):
    node.forward([feedback(said, (BFIR, 7, 99))], port=1, now_ps=now_ps)


def flags_of(packets):
    return [parse(packet).message.flags for packet in packets]


def test_who_has_a_block_is_told_early_where_others_are_long_in_coming():
    node, start = quick()
    hear(node, word(0b0010), start + 50)
    due = node.expire(start + 60)
    node.row["next_ps"] = NEVER_PS
    node.forward([data(0b1110, block=99, ttl=64)], port=4, now_ps=start)
    assert node.row["next_ps"] == due  # the node's loop looks then
    assert due - start == EARLY_LAGS * 200  # the longest lag lately
    assert node.send_ready() == []
    assert node.expire(due) == deadline_of(node)
    ((port, packets),) = node.send_ready()
    assert (port, word_of(packets), flags_of(packets)) == (
        4,
        word(0b0010),
        [FeedbackFlag.EARLY],
    )
    assert node.n_armed() == 1
    node.expire(due + 100)
    assert node.send_ready() == []  # once
    hear(node, word(0b1100, n_merged=2), due + 200)
    ((_, packets),) = node.send_ready()
    assert (word_of(packets), flags_of(packets)) == (word(0b1110, n_merged=3), [0])
    assert node.n_armed() == 0


def test_after_an_early_word_a_deadline_tells_all_that_is_known():
    node, start = quick()
    hear(node, word(0b0010), start + 50)
    node.expire(start + 400)
    node.send_ready()
    hear(node, word(0b0100, done=0, rows={2: 0b0100}), start + 500)
    node.expire(deadline_of(node))
    ((_, packets),) = node.send_ready()
    said = word(0b0110, done=0b0010, rows={2: 0b0100}, n_merged=2, is_partial=True)
    assert (word_of(packets), flags_of(packets)) == (said, [1])
    assert node.n_armed() == 0


@pytest.mark.parametrize("what", ["gaps", "nobody", "unknown"])
def test_what_is_not_told_early(what):
    node, start = quick()
    if what == "unknown":  # how long words take
        node, start = plain_node(depth=2), 0
        node.forward([data(0b1110, block=99, ttl=64)], port=4)
        hear(node, word(0b0010), 50)
    elif what == "gaps":
        hear(node, word(0b0110, done=0b0010, rows={1: 0b0100}), start + 50)
    for now in range(start + 60, deadline_of(node), 20):
        node.expire(now)
        assert node.send_ready() == []


def test_no_word_is_earlier_than_a_part_of_the_shortest_deadline():
    node, start = quick(8)
    hear(node, word(0b0010), start + 1)
    assert node.expire(start + 2) == start + FOLD_PS // EARLY_PART


def test_the_longest_lag_is_forgotten_by_an_eighth_a_block():
    node, start = quick(400)
    for block in range(100, 103):
        node.forward([data(0b10, block=block, ttl=64)], port=4, now_ps=start)
        node.forward([feedback(word(0b10), (BFIR, 7, block))], port=1, now_ps=start + 10)
        node.send_ready()
    node.forward([data(0b1110, block=98, ttl=64)], port=4, now_ps=start)
    row = node.fold.rows[(node.fold.rows["armed"] != 0) & (node.fold.rows["block"] == 98)]
    assert int(row["early_ps"][0]) - start == EARLY_LAGS * 269  # 400, 350, 307, 269


def test_a_slot_that_was_late_tells_nobody_early():
    node, start = quick()
    late = start + 3 * FOLD_PS
    node.expire(late)
    hear(node, word(0b0010), late + 1)
    node.expire(late + 300)
    assert node.send_ready() == []


def test_lags_of_long_ago_say_nothing():
    node, start = quick()
    now = start + 5 * FOLD_PS
    node.forward([data(0b110, block=100, ttl=64)], port=4, now_ps=now)
    rows = node.fold.rows
    assert rows["early_ps"][(rows["armed"] != 0) & (rows["block"] == 100)] == [0]


@pytest.mark.parametrize("late", [1100, 1600])
def test_no_word_is_later_than_half_a_wait(late):
    node, start = quick(late)
    hear(node, word(0b0010), start + 1)
    assert node.expire(start + 2) == start + (deadline_of(node) - start) // 2


def test_a_parent_waits_on_for_whom_an_early_word_does_not_name():
    child, start = quick()
    hear(child, word(0b0010), start + 50)
    child.expire(start + 400)
    ((_, packets),) = child.send_ready()
    parent = plain_node(depth=3)
    parent.forward([data(0b0110, block=99, ttl=64)], port=4, now_ps=start)
    parent.forward(packets, port=1, now_ps=start + 410)
    assert parent.send_ready() == []
    hear(parent, word(0b0100), start + 500)
    ((_, packets),) = parent.send_ready()
    assert (word_of(packets), flags_of(packets)) == (word(0b0110, n_merged=2), [0])


def test_only_the_source_s_own_bfr_tells_early():
    node, start = quick()
    node.forward([data(0b1110, block=98, ttl=63)], port=4, now_ps=start)
    rows = node.fold.rows
    assert rows["early_ps"][(rows["armed"] != 0) & (rows["block"] == 98)] == [0]
