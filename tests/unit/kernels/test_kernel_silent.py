"""Slots do not wait for who says nothing; after one word of theirs they do again."""

import naive
import numpy as np
import pytest
from kernel_nodes import BFIR, BIFT_ID, FOLD_PS, data, feedback, plain_node, word_of

from fanfold.kernels.tables import NULL_NBR

UP, LEFT, RIGHT = 4, 1, 3
"""The inlet; ports of bits 1 and 2, and of bits 4 to 6."""
ALL = 0b110110


def word(heard, block, **more):
    said = naive.Word(BIFT_ID, 4, heard=heard, done=heard, rows={}, **more)
    return feedback(said, (BFIR, 7, block), outer_bits=0b1000)


def node_of():
    node = plain_node(depth=2)
    behind = np.zeros((1, 5, 1), np.uint64)
    behind[0, :, 0] = [1, 0b110, 0b1000, 0b1110000, 1 << BFIR - 1]
    node.bifts = node.bifts._replace(behind=behind)
    return node


def arm(node, block, now_ps, bits=ALL):
    node.forward([data(bits, block=block)], port=UP, now_ps=now_ps)


def up(node):
    return [word_of(packets) for _, packets in node.send_ready()]


def missed(node, *blocks, now_ps=0, heard=0b110010):
    """Blocks whose slots wait for bit 2 in vain; who is heard is at port 1 or 3."""
    for block in blocks:
        arm(node, block, now_ps)
        node.forward([word(heard & 0b110, block)], port=LEFT, now_ps=now_ps + 1)
        node.forward([word(heard & 0b110000, block)], port=RIGHT, now_ps=now_ps + 1)
    node.expire(now_ps + FOLD_PS)
    assert [(said.heard, said.is_partial) for said in up(node)] == [(heard, True)] * len(blocks)
    return now_ps + FOLD_PS


def answered(node, block, now_ps):
    """Words that went up before any deadline, all but bit 2 having spoken."""
    arm(node, block, now_ps)
    node.forward([word(0b10, block)], port=LEFT, now_ps=now_ps + 1)
    node.forward([word(0b110000, block)], port=RIGHT, now_ps=now_ps + 2)
    return [(said.heard, said.is_partial) for said in up(node)]


def test_who_was_missed_twice_is_waited_for_no_more_and_the_word_says_that_some_lack():
    node = node_of()
    now = missed(node, 0, 1)
    assert answered(node, 2, now) == [(0b110010, True)]
    assert node.events()["complete"] == 1


def test_who_was_missed_once_is_waited_for():
    node = node_of()
    now = missed(node, 0)
    assert answered(node, 1, now) == []


def test_who_spoke_of_another_block_meanwhile_is_not_silent():
    """Two words were lost, and others of the same receiver came: loss is no silence."""
    node = node_of()
    arm(node, 9, FOLD_PS // 2)
    for block in (0, 1):
        arm(node, block, 0)
        node.forward([word(0b110000, block)], port=RIGHT, now_ps=1)
    node.forward([word(0b110, 9)], port=LEFT, now_ps=FOLD_PS // 2 + 1)
    node.expire(FOLD_PS)
    assert len(up(node)) == 2
    assert answered(node, 2, FOLD_PS) == []


@pytest.mark.parametrize("block", [2, 77], ids=["folded", "without a slot"])
def test_one_word_ends_the_silence(block):
    node = node_of()
    now = missed(node, 0, 1)
    assert answered(node, 2, now) == [(0b110010, True)]
    node.forward([word(0b100, block)], port=LEFT, now_ps=now + 3)
    assert answered(node, 3, now + 10) == []
    node.forward([word(0b100, 3)], port=LEFT, now_ps=now + 12)
    assert [(said.heard, said.is_partial) for said in up(node)] == [(ALL, False)]


def test_a_silent_one_that_speaks_in_time_is_in_the_word():
    node = node_of()
    now = missed(node, 0, 1)
    arm(node, 2, now)
    node.forward([word(0b110, 2)], port=LEFT, now_ps=now + 1)
    node.forward([word(0b110000, 2)], port=RIGHT, now_ps=now + 2)
    assert [(said.heard, said.is_partial) for said in up(node)] == [(ALL, False)]


def test_a_slot_below_that_waited_in_vain_ends_the_wait_of_the_one_above():
    """All others were heard: what goes up says so at once, not at this node's own deadline."""
    node = node_of()
    arm(node, 0, 0)
    node.forward([word(0b10, 0, is_partial=True)], port=LEFT, now_ps=5)
    assert up(node) == []
    node.forward([word(0b110000, 0)], port=RIGHT, now_ps=6)
    assert [(said.heard, said.is_partial) for said in up(node)] == [(0b110010, True)]


def test_it_speaks_for_its_own_branch_only():
    node = node_of()
    arm(node, 0, 0)
    node.forward([word(0b100000, 0, is_partial=True)], port=RIGHT, now_ps=5)
    node.forward([word(0b10, 0)], port=LEFT, now_ps=6)
    assert up(node) == []  # bit 2 may speak yet
    node.forward([word(0b100, 0)], port=LEFT, now_ps=7)
    assert [(said.heard, said.is_partial) for said in up(node)] == [(0b100110, True)]


def test_who_is_asked_anew_is_waited_for_anew():
    node = node_of()
    arm(node, 0, 0)
    node.forward([word(0b10, 0, is_partial=True)], port=LEFT, now_ps=5)
    node.forward([data(0b100, flags=4)], port=UP, now_ps=6)
    node.forward([word(0b110000, 0)], port=RIGHT, now_ps=7)
    assert up(node) == []
    node.forward([word(0b100, 0)], port=LEFT, now_ps=8)
    assert [(said.heard, said.is_partial) for said in up(node)] == [(ALL, False)]


def test_where_nobody_knows_who_is_behind_a_port_the_slot_waits_as_before():
    node = plain_node(depth=2)
    arm(node, 0, 0)
    node.forward([word(0b10, 0, is_partial=True)], port=LEFT, now_ps=5)
    node.forward([word(0b110000, 0)], port=RIGHT, now_ps=6)
    assert up(node) == []


def test_whom_no_neighbour_leads_to_is_not_waited_for_and_the_word_says_that_some_lack():
    node = node_of()
    node.bifts.nbr_of[0, 2] = NULL_NBR  # bit 2: its leaf died, and tables do without it
    node.bifts.f_bm[0, NULL_NBR + 1] |= np.uint64(0b100)
    for nbr in range(node.bifts.f_bm.shape[1] - 1):
        node.bifts.f_bm[0, nbr + 1] &= ~np.uint64(0b100)
    assert answered(node, 0, 0) == [(0b110010, True)]


def test_when_a_way_leads_to_it_again_it_is_waited_for():
    node = node_of()
    assert answered(node, 0, 0) == []
