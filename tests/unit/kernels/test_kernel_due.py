"""When a receiver tells of its gaps, and what it says."""

import naive
import numpy as np
import pytest
from collect_world import AGAIN_PS, IDLE_PS, N_PSN, ONE, REORDER_PS, STRIDE, Receiver, said
from kernel_nodes import (
    BFIR,
    BFIR_ADDR,
    BIFT_ID,
    FLOW_PORT,
    data,
    word_of,
)

from fanfold.kernels import due
from fanfold.kernels.layout import FLAG_REPAIR
from fanfold.kernels.slots import NEVER_PS
from fanfold.streams import stream
from fanfold.wire.packet import parse

# When gaps are due.


def test_a_poll_makes_the_gaps_due_after_the_time_of_reordering():
    rx = Receiver()
    rx.take(rx.packet(0, 3, flags=1), now_ps=10)
    assert rx.due(10 + REORDER_PS - 1) == []
    rx.take(rx.packet(0, 3, flags=1), now_ps=50)  # asked again: not later than at first
    assert rx.due(10 + REORDER_PS) == [0]


def test_without_a_poll_silence_makes_the_gaps_due():
    rx = Receiver()
    rx.take(rx.packet(0, 0), now_ps=10)
    rx.take(rx.packet(0, 2), now_ps=30)
    assert rx.due(30 + IDLE_PS - 1) == []
    assert rx.due(30 + IDLE_PS) == [0]


def test_what_may_not_have_been_sent_yet_is_no_gap():
    """A slow sender's block stands still between two pieces; nothing of it is lost."""
    rx = Receiver()
    rx.take(rx.packet(0, 0), rx.packet(0, 1), now_ps=10)
    assert rx.due(10 + IDLE_PS) == []
    assert rx.row(0)["report_ps"] == 10 + 2 * IDLE_PS
    rx.take(rx.packet(0, 3, flags=1), now_ps=20)
    assert rx.due(20 + REORDER_PS) == [0]
    assert set(word_of(said(rx, 0, is_whole=False)).rows) == {2}


def test_a_block_two_further_on_makes_the_gaps_due():
    rx = Receiver()
    rx.take(rx.packet(0, 0), rx.packet(1, 0), now_ps=10)
    assert rx.due(10 + REORDER_PS) == []
    rx.take(rx.packet(2, 0), now_ps=20)
    assert rx.due(10 + REORDER_PS - 1) == []
    assert rx.due(10 + REORDER_PS) == [0]


def test_what_was_reported_is_not_due_again_before_its_time():
    """Also where the sender has passed on: each turn of a node would say it otherwise."""
    rx = Receiver()
    rx.take(rx.packet(0, 0), rx.packet(2, 0, flags=1), now_ps=10)
    rx.row(2)["report_ps"] = 4999
    assert rx.due(200) == [0]
    assert rx.due(201) == []
    assert int(due.next_report(rx.state)) == 200 + AGAIN_PS
    assert rx.due(200 + AGAIN_PS - 1) == []
    assert rx.due(200 + AGAIN_PS) == [0]
    rx.take(rx.packet(0, 1, flags=1), now_ps=700)  # a repair asks for a word at once
    assert rx.due(700 + REORDER_PS) == [0]


def test_packets_still_coming_put_off_what_was_told():
    rx = Receiver()
    rx.take(rx.packet(0, 0), rx.packet(2, 0), now_ps=10)
    assert rx.due(10 + REORDER_PS) == [0]
    again = 10 + REORDER_PS + AGAIN_PS
    rx.take(rx.packet(0, 3), now_ps=again - 1)
    assert rx.due(again - 2 + IDLE_PS) == []
    assert rx.due(again - 1 + IDLE_PS) == [0]


def test_a_pass_that_begins_anew_is_judged_by_itself():
    """A late comer gets the end of the blocks first, what went by after it."""
    rx = Receiver(n_blocks=20, n_bytes=20 * STRIDE * N_PSN)
    rx.take(*(rx.packet(9, psn) for psn in range(4)), now_ps=10)
    rx.take(rx.packet(2, 0), rx.packet(2, 1), now_ps=20)
    rx.take(rx.packet(9, 3, flags=FLAG_REPAIR), now_ps=25)  # of what came before
    assert rx.due(25 + REORDER_PS) == []
    assert set(word_of(said(rx, 2, is_whole=False)).rows) == set()
    rx.take(rx.packet(4, 0), now_ps=30)
    assert rx.due(30 + REORDER_PS) == [2]
    assert set(word_of(said(rx, 2, is_whole=False)).rows) == {2, 3}


def test_a_repair_of_an_earlier_block_begins_no_pass():
    rx = Receiver(n_blocks=20, n_bytes=20 * STRIDE * N_PSN)
    rx.take(rx.packet(3, 0), now_ps=10)
    rx.take(rx.packet(0, 0, flags=FLAG_REPAIR), rx.packet(5, 0), now_ps=20)
    assert rx.due(20 + REORDER_PS) == [0, 3]


@pytest.mark.parametrize("seed", range(8))
def test_the_next_report_is_due_exactly_when_it_is_said(seed):
    """Never earlier, or a node that waits for it would not wait at all."""
    rng = stream(seed, "tests/due")
    rx = Receiver(n_bytes=70 * 32, n_blocks=5)
    assert due.next_report(rx.state) == NEVER_PS
    now = 0
    for _ in range(40):
        now += int(rng.integers(1, 300))
        place = int(rng.integers(0, 6)), int(rng.integers(0, 4))
        rx.take(rx.packet(*place, flags=int(rng.integers(2))), now_ps=now)
        when = int(due.next_report(rx.state))
        assert rx.due(when - 1) == []
        rx.due(now)
        assert int(due.next_report(rx.state)) > now


def test_one_flow_cannot_have_two_geometries():
    rx = Receiver(is_known=False)
    rx.take(rx.packet(0, 0))
    rx.take(data(ONE, block=0, psn=1, n_psn=3, stride=STRIDE, payload=b"12345678", flags=2))
    assert rx.node.drops() == {"bad_fan": 1}


def test_no_more_are_due_than_there_is_room_for():
    rx = Receiver(n_blocks=5, n_bytes=5 * STRIDE * N_PSN)
    rx.take(*(rx.packet(b, 0) for b in range(5)), now_ps=10)
    out = np.zeros(2, np.int64)
    assert due.due_reports(rx.state, 10**6, AGAIN_PS, out) == 2
    assert due.due_reports(rx.state, 10**6, AGAIN_PS, out) == 1  # what found no room stays due
    assert due.due_reports(rx.state, 10**6, AGAIN_PS, out) == 0


def test_whole_blocks_are_never_due():
    rx = Receiver()
    rx.take(*(rx.packet(0, psn, flags=1) for psn in range(4)))
    assert rx.due(10**9) == []


def test_a_block_remembers_the_latest_round():
    rx = Receiver()
    rx.take(*(rx.packet(0, psn, round_=r) for psn, r in enumerate((2, 5, 3))))
    assert rx.row(0)["round"] == 5


def test_a_word_names_the_gaps_of_a_block_and_how_full_the_receiver_is():
    rx = Receiver(n_blocks=4)
    rx.node.row[0]["queue"], rx.node.row[0]["bfr_id"] = 33, 6
    rx.take(rx.packet(0, 0), rx.packet(0, 2, round_=3, flags=1))
    packets = said(rx, 0, is_whole=False)
    assert word_of(packets) == naive.Word(
        BIFT_ID,
        N_PSN,
        heard=1 << 5,
        done=0,
        rows={1: 1 << 5, 3: 1 << 5},
        round=3,
        queue=33,
        room=3 * 255 // 4,
        worst=6,
        behind=0,
    )
    parsed = parse(packets[0])
    assert (parsed.message.flow, parsed.message.block, parsed.header.bfir_id) == (7, 0, BFIR)
    assert (parsed.inner.dst, parsed.inner.dport) == (BFIR_ADDR, FLOW_PORT)


def test_a_word_goes_on_in_a_further_packet_where_it_does_not_fit():
    rx = Receiver()
    rx.take(rx.packet(0, 0, flags=1))
    packets = said(rx, 0, is_whole=False, mtu=28 + 88 + 2 * 12)
    assert [len(parse(p).message.rows) for p in packets] == [2, 1]
    assert word_of(packets).rows == dict.fromkeys((1, 2, 3), 1 << 5)


@pytest.mark.parametrize("block", [0, 3])
def test_a_word_on_a_whole_block(block):
    rx = Receiver(100)
    rx.take(*(rx.packet(block, psn) for psn in range(rx.psns(block))))
    word = word_of(said(rx, block, is_whole=True))
    assert (word.n_psn, word.done, word.rows, word.round) == (rx.psns(block), 1 << 5, {}, 255)


def test_a_word_tells_how_far_back_the_oldest_gap_is():
    rx = Receiver(n_bytes=70 * 32, n_blocks=2)
    rx.take(rx.packet(60, 0))
    have = rx.state.have[10:80]
    assert word_of(said(rx, 60, is_whole=False)).behind == 60
    have[[0, 1, 2, 4]] = 1
    assert word_of(said(rx, 60, is_whole=False)).behind == 57
    have[:60] = 1
    assert word_of(said(rx, 60, is_whole=False)).behind == 0
    have[:70] = 1
    assert word_of(said(rx, 60, is_whole=False)).behind == 0
