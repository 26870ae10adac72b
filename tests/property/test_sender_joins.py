"""Laws of the sending machine when receivers join late, leave, or restart and join again."""

import naive
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sender_world import BIFT_ID, LAW, MS, N_PSN, NETWORKS, Receiver, World, feedback_of

from fanfold.core import waiting
from fanfold.core.books import MAX_LANES
from fanfold.core.effects import ReceiverLost, ReceiverSplit, SendBlock
from fanfold.kernels.jit import JIT
from fanfold.units import PS_PER_SECOND

pytestmark = pytest.mark.skipif(JIT, reason="no kernel is in it; once is enough")


@LAW
@given(NETWORKS, st.integers(2, 40), st.integers(1, 14), st.integers(0, 2**32), st.data())
def test_late_joiners_get_everything_they_lack(network, n_blocks, n_late, seed, data):
    """More of them than there are lanes, at any time, one of them twice."""
    world = World(n_blocks, 2, seed=seed, network=network)
    shape = world.shape
    for k in range(2, 2 + n_late):
        world.run(world.now + data.draw(st.sampled_from([0, 1, 5, 40])) * MS)
        has = data.draw(st.sets(st.integers(0, shape.n_blocks - 1), max_size=3))
        receiver = Receiver(k, shape, has)
        world.receivers[k] = receiver
        lacks = [b for b in range(shape.n_blocks) if b not in has]
        world.checked.call("add", world.now, k, lacks)
    again = data.draw(st.integers(0, 1 + n_late))
    world.run(world.now + data.draw(st.integers(0, 30)) * MS)
    world.checked.call("remove", 1 << again)  # it restarts and forgets all
    del world.receivers[again]
    world.run(world.now + data.draw(st.sampled_from([0, 1, 30])) * MS, to_the_end=True)
    world.receivers[again] = Receiver(again, shape)
    world.checked.call("add", world.now, again, range(shape.n_blocks))
    world.checked.check_books()
    assert world.run(max(network.heals_ps, world.now) + 60 * PS_PER_SECOND)
    assert all(r.is_complete() for r in world.receivers.values())
    assert world.effects(ReceiverLost) == []


@LAW
@given(NETWORKS, st.integers(2, 40), st.integers(2, 6), st.integers(0, 2**32), st.data())
def test_who_is_silent_for_a_while_gets_the_rest_when_it_speaks_again(
    network, n_blocks, n, seed, data
):
    """At any time, for any time, several of them; some forget everything meanwhile."""
    world = World(n_blocks, n, seed=seed, network=network, cap_bps=20_000)
    machine = world.checked.machine
    mute = data.draw(st.sets(st.integers(0, n - 1), min_size=1, max_size=n))
    restarted = set()
    for k in mute:
        receiver = world.receivers[k]
        receiver.silent_ps = data.draw(st.sampled_from([0, 5 * MS, 300 * MS]))
        receiver.back_ps = receiver.silent_ps + data.draw(st.integers(1, 8000)) * MS
        restarted |= {k} if data.draw(st.booleans()) else set()
    aside = set()
    until = network.heals_ps + 90 * PS_PER_SECOND
    while world.now < until and not (machine.is_done() and not aside):
        world.run(world.now + 200 * MS, to_the_end=True)
        aside |= {e.bit for e in world.effects(ReceiverLost)}
        world.checked.effects = [
            e for e in world.checked.effects if not isinstance(e, ReceiverLost)
        ]
        for k in [k for k in aside if not world.receivers[k].is_mute(world.now)]:
            aside.remove(k)
            forgets = k in restarted
            if forgets:
                restarted.remove(k)
                world.receivers[k] = Receiver(k, world.shape)
            receiver = world.receivers[k]
            lacks = [b for b in range(world.shape.n_blocks) if not receiver.is_whole(b)]
            world.checked.gone &= ~(1 << k)
            world.checked.call("add", world.now, k, lacks, remembers=not forgets)
    world.checked.check_books()
    assert all(r.is_complete() for r in world.receivers.values())


def test_a_join_that_lacks_nothing_that_went_by_asks_for_no_other_pass():
    world = World(30, 2)
    world.receivers[2] = Receiver(2, world.shape)
    world.checked.call("add", 0, 2, range(world.shape.n_blocks))
    assert len(world.checked.machine.lanes) == 1
    assert world.run(10 * PS_PER_SECOND)
    assert world.receivers[2].is_complete()
    firsts = [e for e in world.effects(SendBlock) if not e.is_repair]
    assert len(firsts) == world.shape.n_blocks


@pytest.mark.parametrize("n_late", [1, 4, 12])
def test_late_joiners_together_cost_what_they_missed_once(n_late):
    """They come one after the other, half-way; the others are not held up by them."""
    alone = World(400, 4, cap_bps=400_000)
    assert alone.run(60 * PS_PER_SECOND)
    world = World(400, 4, cap_bps=400_000)
    world.run(alone.now // 2)
    for k in range(4, 4 + n_late):
        world.receivers[k] = Receiver(k, world.shape)
        world.checked.call("add", world.now, k, range(world.shape.n_blocks))
        went_by = world.checked.machine.lanes[0].cursor
        world.run(world.now + 5 * MS)
    assert world.run(60 * PS_PER_SECOND)
    assert all(r.is_complete() for r in world.receivers.values())
    assert len(world.checked.machine.lanes) == 1
    assert world.checked.n_loss_repairs == 0
    blocks = [e.block for e in world.effects(SendBlock) if not e.is_repair]
    assert len(blocks) <= world.shape.n_blocks + went_by
    on_time = max(world.receivers[k].done_ps for k in range(4))
    assert on_time <= max(r.done_ps for r in alone.receivers.values()) + 50 * MS


def test_what_is_on_its_way_when_somebody_joins_comes_in_the_next_pass():
    world = World(6, 1)
    world.queue(world.checked.call("fill", 0))
    machine = world.checked.machine
    world.receivers[1] = Receiver(1, world.shape)
    world.checked.call("add", 0, 1, range(world.shape.n_blocks))
    assert machine.lanes[0].flights[0].need == 0b01
    assert world.run(10 * PS_PER_SECOND)
    sent = [(e.block, e.bits) for e in world.effects(SendBlock) if not e.is_repair]
    assert sent[0] == (0, (0b01,))
    assert sent[-1] == (0, (0b10,))
    assert [bits for _, bits in sent[1:-1]] == [(0b11,)] * (world.shape.n_blocks - 1)


def test_who_shares_the_last_lane_gets_what_went_by_in_another_pass():
    world = World(40, 2 * MAX_LANES + 2, cap_bps=400_000)
    machine = world.checked.machine
    world.run(20 * MS)
    out = []
    for k in range(MAX_LANES):
        machine.lanes[0].pace.limit.set(world.now, 10**6 << 2 * k)  # none like another
        machine._split(0, 1 << k, "late", out)
        world.run(world.now + 10 * MS)
    assert len(machine.lanes) == MAX_LANES
    assert machine.lanes[-1].members.bit_count() == 2
    assert world.run(60 * PS_PER_SECOND)
    assert all(r.is_complete() for r in world.receivers.values())


def test_those_who_fall_silent_one_after_the_other_share_a_lane():
    """A BFR before them stands still: it costs one more copy at most when it goes on."""
    world = World(2000, 8, cap_bps=400_000)
    for k in range(4):
        world.receivers[k].silent_ps = (100 + 30 * k) * MS
        world.receivers[k].back_ps = 1500 * MS
    assert world.run(60 * PS_PER_SECOND)
    assert all(r.is_complete() for r in world.receivers.values())
    assert {e.bit for e in world.effects(ReceiverSplit)} == {0, 1, 2, 3}
    assert world.effects(ReceiverLost) == []
    assert len(world.checked.machine.lanes) == 2
    firsts = [e for e in world.effects(SendBlock) if not e.is_repair]
    assert len(firsts) <= 2 * world.shape.n_blocks


def test_a_word_that_ends_a_block_in_two_lanes_ends_it_once():
    world = World(2, 2)
    world.queue(world.checked.call("fill", 0))
    world.queue(world.checked.call("fill", 0))  # two blocks are on their way
    machine = world.checked.machine
    machine._split(0, 0b10, "late", [])
    world.queue(world.checked.call("fill", 0))
    assert [0 in lane.flights for lane in machine.lanes] == [True, True]
    both = naive.Word(BIFT_ID, world.shape.psns(1), heard=0b11, done=0, rows={}, behind=0)
    world.checked.call("on_feedback", MS, feedback_of(1, both))
    assert machine.need[0] == 0
    assert not machine.is_done()
    world.checked.check_books()


def test_old_words_of_a_receiver_that_restarted_clear_nothing():
    """It waits until they are gone; one that was only silent does not, and its words hold."""
    for remembers in (False, True):
        world = World(4, 2)
        world.queue(world.checked.call("fill", 0))
        world.queue(world.checked.call("fill", 0))
        machine = world.checked.machine
        world.checked.call("on_timer", 0)
        world.checked.call("remove", 0b10)
        machine.add(MS, 1, range(world.shape.n_blocks), remembers=remembers)
        world.queue(world.checked.call("fill", MS))
        old = naive.Word(BIFT_ID, N_PSN, heard=0b11, done=0b11, rows={}, behind=0)
        world.checked.call("on_feedback", 2 * MS, feedback_of(1, old))
        n = world.shape.n_blocks
        assert machine.n_lacking[1] == (n - 2 if remembers else n)
        assert machine.lanes[0].members == (0b11 if remembers else 0b01)
        world.checked.call("on_timer", 10 * MS + waiting.STALE_PS - 1)
        assert machine.lanes[0].members == (0b11 if remembers else 0b01)
        assert not machine.is_quiet(10 * MS + waiting.STALE_PS - 1)
        world.checked.call("on_timer", 20 * MS + waiting.STALE_PS)
        assert machine.lanes[0].members == 0b11
        world.checked.call("on_feedback", 20 * MS + waiting.STALE_PS, feedback_of(1, old))
        assert machine.n_lacking[1] == (n - 2 if remembers else n - 1)
        world.checked.check_books()


def test_who_joins_twice_lacks_nothing_twice():
    world = World(30, 2)
    for _ in range(2):
        world.checked.call("add", 0, 1, range(10, world.shape.n_blocks))
        world.checked.check_books()
    assert world.checked.machine.n_lacking == {0: world.shape.n_blocks, 1: world.shape.n_blocks}
    assert world.run(10 * PS_PER_SECOND)


def test_a_removed_receiver_is_sent_nothing_more():
    world = World(400, 3, cap_bps=400_000)
    assert not world.run(100 * MS)
    world.checked.call("remove", 0b010)
    world.checked.gone |= 0b010
    first = len(world.checked.effects)
    assert world.run(60 * PS_PER_SECOND)
    jobs = [e for e in world.checked.effects[first:] if isinstance(e, SendBlock)]
    assert jobs
    assert not any(bits & 0b010 for job in jobs for bits in job.bits)
    assert world.receivers[0].is_complete()
    assert world.receivers[2].is_complete()


def test_who_is_split_off_for_its_loss_starts_with_what_gets_through():
    world = World(4000, 4, n_psn=32, cap_bps=10**7)
    world.receivers[2].loss = 0.8
    machine = world.checked.machine
    while not world.effects(ReceiverSplit):
        assert not world.run(world.now + 10 * MS)
    assert [e.bit for e in world.effects(ReceiverSplit)] == [2]
    assert machine.lanes[0].pace.limit.bps == 0
    assert 10**6 <= machine.lanes[1].pace.limit.bps <= 4 * 10**6
