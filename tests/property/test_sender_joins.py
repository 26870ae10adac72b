"""Laws of the sending machine when receivers join late, leave, or restart and join again."""

import naive
from hypothesis import given
from hypothesis import strategies as st
from sender_world import BIFT_ID, LAW, MS, N_PSN, NETWORKS, Receiver, World, feedback_of

from fanfold.core import sender as s
from fanfold.core.effects import ReceiverLost, ReceiverSplit, SendBlock
from fanfold.units import PS_PER_SECOND


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


def test_a_join_that_lacks_nothing_that_went_by_takes_no_lane():
    world = World(30, 2)
    world.receivers[2] = Receiver(2, world.shape)
    world.checked.call("add", 0, 2, range(world.shape.n_blocks))
    assert len(world.checked.machine.lanes) == 1
    assert world.run(10 * PS_PER_SECOND)
    assert world.receivers[2].is_complete()


def test_who_shares_the_last_lane_joins_what_is_on_its_way_in_it():
    world = World(6, 1)
    world.queue(world.checked.call("fill", 0))
    for k in range(1, s.MAX_LANES + 1):
        world.checked.call("add", 0, k, range(world.shape.n_blocks))
        world.queue(world.checked.call("fill", 0))
    lanes = world.checked.machine.lanes
    assert len(lanes) == s.MAX_LANES
    assert lanes[-1].flights[0].need == 0b11 << (s.MAX_LANES - 1)


def test_a_word_that_ends_a_block_in_two_lanes_ends_it_once():
    world = World(2, 1)
    world.queue(world.checked.call("fill", 0))
    world.queue(world.checked.call("fill", 0))  # two blocks are on their way
    world.checked.call("add", 0, 1, range(world.shape.n_blocks))
    world.queue(world.checked.call("fill", 0))
    machine = world.checked.machine
    assert [0 in lane.flights for lane in machine.lanes] == [True, True]
    both = naive.Word(BIFT_ID, world.shape.psns(1), heard=0b11, done=0, rows={}, behind=0)
    world.checked.call("on_feedback", MS, feedback_of(1, both))
    assert machine.need[0] == 0
    assert not machine.is_done()
    world.checked.check_books()


def test_old_words_of_a_receiver_that_restarted_clear_nothing():
    world = World(4, 2)
    world.queue(world.checked.call("fill", 0))
    world.queue(world.checked.call("fill", 0))
    machine = world.checked.machine
    world.checked.call("remove", 0b10)
    world.checked.call("add", MS, 1, range(world.shape.n_blocks))
    world.queue(world.checked.call("fill", MS))
    old = naive.Word(BIFT_ID, N_PSN, heard=0b11, done=0b11, rows={}, behind=0)
    world.checked.call("on_feedback", 2 * MS, feedback_of(1, old))
    assert [need >> 1 & 1 for need in machine.need] == [1] * world.shape.n_blocks
    world.checked.call("on_feedback", 3 * MS, feedback_of(2, old))  # never sent to it before
    assert [need >> 1 & 1 for need in machine.need][2] == 0
    late = MS + s.STALE_PS
    world.checked.call("on_feedback", late, feedback_of(1, old))
    assert [need >> 1 & 1 for need in machine.need][1] == 0
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
    assert machine.lanes[0].pace.limit_bps == 0
    assert 10**6 <= machine.lanes[1].pace.limit_bps <= 4 * 10**6
