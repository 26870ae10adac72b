"""Laws of the sending machine, in virtual time against model receivers and a bad network."""

import pickle
from itertools import pairwise

import msgspec
import naive
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sender_world import (
    BIFT_ID,
    FLOW,
    LAW,
    MS,
    N_PSN,
    NETWORKS,
    STRIDE,
    Checked,
    Network,
    World,
    feedback_of,
)

from fanfold.core import held, leaving, waiting
from fanfold.core import sender as s
from fanfold.core.effects import BlockDone, ReceiverLost, ReceiverSplit, SendBlock
from fanfold.core.flight import Shape
from fanfold.kernels.jit import JIT
from fanfold.units import NEVER, PS_PER_SECOND
from fanfold.wire.feedback import NOT_TOLD, FeedbackFlag

pytestmark = pytest.mark.skipif(JIT, reason="no kernel is in it; once is enough")

LOST_BOUND_PS = 6 * PS_PER_SECOND
"""From silence to being given up, at most: asked twice, then LOST_PS."""

HARSH = st.builds(
    Network,
    loss=st.sampled_from([0.5, 0.9]),
    feedback_loss=st.sampled_from([0.5, 0.9]),
    folding=st.sampled_from([0.0, 1.0]),
    heals_ps=st.just(5 * PS_PER_SECOND),
)


@LAW
@given(NETWORKS, st.integers(1, 40), st.integers(1, 6), st.integers(0, 2**32))
def test_everybody_has_everything_once_the_network_heals(network, n_blocks, n, seed):
    world = World(n_blocks, n, seed=seed, network=network)
    assert world.run(network.heals_ps + 30 * PS_PER_SECOND)
    assert all(r.is_complete() for r in world.receivers.values())
    assert world.effects(ReceiverLost) == []
    assert sorted(e.block for e in world.effects(BlockDone)) == [*range(world.shape.n_blocks)]
    assert world.checked.machine.deadline_ps() == NEVER


@LAW
@given(HARSH, st.integers(1, 20), st.integers(1, 6), st.integers(0, 2**32))
def test_each_is_served_or_given_up_by_name_in_the_worst_of_networks(
    network, n_blocks, n, seed
):
    world = World(n_blocks, n, seed=seed, network=network)
    assert world.run(network.heals_ps + 30 * PS_PER_SECOND)
    lost = {e.bit: e for e in world.effects(ReceiverLost)}
    assert all(r.is_complete() or k in lost for k, r in world.receivers.items())
    assert all(e.reason == "silent" and e.silent_ps >= leaving.LOST_PS for e in lost.values())


@LAW
@given(NETWORKS, st.integers(1, 30), st.integers(2, 6), st.integers(0, 2**32), st.data())
def test_the_silent_are_given_up_by_name_and_the_others_finish(
    network, n_blocks, n, seed, data
):
    world = World(n_blocks, n, seed=seed, network=network)
    silent = data.draw(st.sets(st.integers(0, n - 1), min_size=1, max_size=n))
    for k in silent:
        world.receivers[k].silent_ps = data.draw(st.sampled_from([0, 5 * MS, 300 * MS]))
    heals = network.heals_ps
    assert world.run(heals + LOST_BOUND_PS + 30 * PS_PER_SECOND)
    lost = {e.bit: e for e in world.effects(ReceiverLost)}
    assert lost.keys() <= silent
    for k, receiver in world.receivers.items():
        assert receiver.is_complete() or k in lost
    for effect in lost.values():
        assert effect.reason == "silent"
        assert effect.silent_ps >= leaving.LOST_PS


@pytest.mark.parametrize("when_ps", [0, 3 * MS, 700 * MS])
@pytest.mark.parametrize("n", [2, 5])
def test_silence_ends_within_its_bound(n, when_ps):
    world = World(3000, n, cap_bps=400_000)
    world.receivers[1].silent_ps = when_ps
    while not world.effects(ReceiverLost):
        assert not world.run(world.now + 50 * MS) or world.effects(ReceiverLost)
        assert world.now < when_ps + LOST_BOUND_PS
    assert [e.bit for e in world.effects(ReceiverLost)] == [1]
    before = world.receivers[1].n_packets
    assert world.run(60 * PS_PER_SECOND)
    assert world.receivers[1].n_packets == before
    assert all(r.is_complete() for k, r in world.receivers.items() if k != 1)


def test_who_was_not_asked_is_not_silent():
    """A receiver that lacks the first and the last block only, and misses a question or two."""
    n_blocks = 600
    world = World(
        n_blocks, 3, cap_bps=40_000, has=lambda k: range(1, n_blocks - 1) if k == 1 else ()
    )
    far = 2 * leaving.LOST_PS
    assert not world.run(far)
    rx = world.receivers[1]
    assert world.checked.machine.n_lacking[1] == 1
    while world.checked.machine.lanes[0].cursor < n_blocks:
        world.run(world.now + 10 * MS)
    rx.loss = 1.0
    world.run(world.now + leaving.LOST_PS - 300 * MS)
    assert world.effects(ReceiverLost) == []
    rx.loss = 0.0
    assert world.run(world.now + 10 * PS_PER_SECOND)
    assert world.effects(ReceiverLost) == []


def test_another_sign_of_life_counts_as_well():
    world = World(1, 2)
    world.receivers[1].silent_ps = 0
    while world.now < 2 * leaving.LOST_PS:
        world.run(world.now + 100 * MS)
        world.checked.machine.hear(world.now, 1)
    assert world.effects(ReceiverLost) == []
    assert world.run(10 * PS_PER_SECOND)
    assert [e.bit for e in world.effects(ReceiverLost)] == [1]


def test_a_receiver_that_answers_and_finishes_nothing_is_given_up():
    world = World(3, 2)
    stuck = world.receivers[1]
    stuck.latency_ps = 60 * MS
    stuck.is_whole = lambda block: False
    stuck.report = lambda block: naive.Word(
        BIFT_ID,
        world.shape.psns(block),
        heard=2,
        done=0,
        rows={0: 2},
        round=stuck.rounds.get(block, 0),
    )
    assert world.run(2 * leaving.STALL_PS)
    (lost,) = world.effects(ReceiverLost)
    assert (lost.bit, lost.reason) == (1, "stalled")
    assert world.receivers[0].is_complete()
    assert leaving.STALL_PS <= world.now <= leaving.STALL_PS + LOST_BOUND_PS


# Repairs.


def machine_with_block(n=3, n_blocks=1):
    checked = Checked(Shape(n_blocks * STRIDE * N_PSN, STRIDE, N_PSN), [(1 << n) - 1])
    (job,) = checked.call("fill", 0)
    checked.call("on_sent", 0, job)
    return checked


def word(heard, done=0, rows=None, round_=0):
    return feedback_of(0, naive.Word(BIFT_ID, N_PSN, heard, done, rows or {}, round=round_))


def jobs(effects):
    return [(e.psns, e.bits, e.round) for e in effects if isinstance(e, SendBlock)]


def told(checked, now, said):
    """Jobs that a word brings about; they leave at once."""
    out = checked.call("on_feedback", now, said)
    for job in out:
        if isinstance(job, SendBlock):
            checked.call("on_sent", now, job)
    return jobs(out)


def test_a_repair_goes_to_each_packets_own_receivers():
    checked = machine_with_block()
    out = checked.call("on_feedback", MS, word(0b111, 0b100, {0: 0b001, 2: 0b011, 3: 0b010}))
    assert jobs(out) == [(0b1101, (0b001, 0b011, 0b010), 1)]
    out = checked.call("on_feedback", 2 * MS, word(0b011, 0b011, {}, 1))
    assert out == [BlockDone(FLOW, 0)]
    assert checked.machine.is_done()


def test_what_was_sent_again_is_not_sent_for_an_older_report():
    checked = machine_with_block()
    first = word(0b001, 0, {0: 0b001})
    assert told(checked, MS, first) == [(1, (0b001,), 1)]
    assert told(checked, 2 * MS, first) == []  # a duplicate
    other = word(0b010, 0, {0: 0b010})
    assert told(checked, 3 * MS, other) == [(1, (0b010,), 2)]
    both = word(0b011, 0, {0: 0b011})
    assert told(checked, 4 * MS, both) == []  # both are on their way
    heard = word(0b001, 0, {0: 0b001}, 1)  # the repair was lost, and something later came
    assert told(checked, 5 * MS, heard) == [(1, (0b001,), 3)]


def test_rounds_end_at_255_and_repairs_go_on():
    checked = machine_with_block(n=1)
    for r in range(300):
        said = word(1, 0, {0: 1}, min(r, 255))
        assert told(checked, 200 * r * MS, said) == [(1, (1,), min(r + 1, 255))]


def test_what_is_on_its_way_behind_a_packet_that_arrived_is_not_sent_once_more():
    """A slow link lets a round through one by one: each brings a word on what is behind it."""
    checked = machine_with_block(n=1)
    repair = told(checked, 10 * MS, word(1, 0, dict.fromkeys(range(3), 1)))
    assert repair == [(0b111, (1, 1, 1), 1)]
    assert told(checked, 16 * MS, word(1, 0, {1: 1, 2: 1}, 1)) == []
    assert told(checked, 17 * MS, word(1, 0, {1: 1}, 1)) == [
        (0b010, (1,), 2)
    ]  # 2 came before 1
    out = told(checked, 60 * MS, word(1, 0, {1: 1}, 1))  # that one, or word of it, is late
    assert out == [(0b010, (1,), 3)]


def test_who_is_split_off_takes_along_what_is_on_its_way():
    checked = machine_with_block(n=4, n_blocks=3)
    for k in range(1, 120):
        for job in checked.call("on_timer", 10 * k * MS):
            if isinstance(job, SendBlock):
                checked.call("on_sent", 10 * k * MS, job)
        for block in range(3):
            said = naive.Word(BIFT_ID, N_PSN, 0b1110, 0b1110, {}, round=255)
            checked.call("on_feedback", 10 * k * MS, feedback_of(block, said))
        if any(isinstance(e, ReceiverSplit) for e in checked.effects):
            break
    assert [e.bit for e in checked.effects if isinstance(e, ReceiverSplit)] == [0]
    own = checked.machine.lanes[1]
    assert (own.members, list(own.flights)) == (1, [0])
    new = [job for job in checked.call("fill", 1200 * MS) if job.bits == (1,)]
    assert [job.block for job in new if job.lane == 1 and job.block == 0] == []
    assert own.flights[0].round > 0  # rounds go on: no word of before answers a new question


def test_word_of_a_later_block_makes_good_for_what_was_lost_before():
    checked = Checked(Shape(6 * STRIDE * N_PSN, STRIDE, N_PSN), [0b111] * 6)
    while out := checked.call("fill", 0):
        for job in out:
            checked.call("on_sent", 0, job)
        if len(checked.machine.lanes[0].flights) == 6:
            break
        checked.machine.lanes[0].pace.window_bytes += 1000

    def say(block, heard, behind):
        said = naive.Word(BIFT_ID, N_PSN, heard, heard, {}, round=255, behind=behind)
        return checked.call("on_feedback", MS, feedback_of(block, said))

    assert say(4, 0b011, 2) == []  # all before block 2 is there
    assert checked.machine.need == [0b100, 0b100, 0b111, 0b111, 0b100, 0b111]
    assert say(3, 0b011, NOT_TOLD) == []
    assert checked.machine.need == [0b100, 0b100, 0b111, 0b100, 0b100, 0b111]
    assert say(3, 0b100, 3) == [BlockDone(FLOW, 3)]  # nothing of what came before
    assert say(2, 0b100, 0) == [BlockDone(FLOW, 0), BlockDone(FLOW, 1)]
    assert sorted(effect.block for effect in say(5, 0b111, 0)) == [2, 4, 5]
    checked.check_books()
    assert checked.machine.is_done()


def test_feedback_on_what_was_never_sent_changes_nothing():
    checked = machine_with_block(n_blocks=2)
    before = pickle.dumps(checked.machine.need)
    for strange in (
        feedback_of(2, naive.Word(BIFT_ID, N_PSN, 7, 7, {})),
        feedback_of(2**32 - 1, naive.Word(BIFT_ID, N_PSN, 7, 7, {})),
        feedback_of(0, naive.Word(BIFT_ID, N_PSN - 1, 7, 7, {})),
        feedback_of(0, naive.Word(BIFT_ID, N_PSN, 0b1000, 0b1000, {0: 0b1000})),
    ):
        assert checked.call("on_feedback", MS, strange) == []
    assert pickle.dumps(checked.machine.need) == before


def test_a_block_still_queued_is_not_asked_for_again():
    checked = Checked(Shape(2 * STRIDE * N_PSN, STRIDE, N_PSN), [1])
    (job,) = checked.call("fill", 0)
    for t in range(1, 300):
        assert jobs(checked.call("on_timer", t * 10 * MS)) == []
    left = 3 * PS_PER_SECOND
    checked.call("on_sent", left, job)
    assert jobs(checked.call("on_timer", left + waiting.SLOTS_PS - 1)) == []
    ((psns, bits, round_),) = jobs(
        checked.call("on_timer", left + waiting.SLOTS_PS + leaving.TICK_PS)
    )
    assert (psns, bits, round_) == (1 << N_PSN - 1, (1,), 1)


def test_a_silent_receiver_is_asked_again_and_again():
    world = World(1, 1)
    world.receivers[0].silent_ps = 0
    assert world.run(10 * PS_PER_SECOND)
    times = world.checked.times[:-1]  # the last effect gives it up
    first, *waits = [b - a for a, b in pairwise(times)]
    steady, rarer = waits[: s.STEADY], waits[s.STEADY : -1]  # it is the last block of the fan
    assert waiting.SLOTS_PS <= first <= waiting.SLOTS_PS + leaving.TICK_PS
    assert all(s.ASK_PS // 2 <= wait <= s.ASK_PS // 2 + leaving.TICK_PS for wait in steady)
    assert len(rarer) >= 3
    assert all(s.ASK_PS <= wait <= s.ASK_PS + leaving.TICK_PS for wait in rarer)


def test_the_end_of_a_fan_is_asked_about_sooner_than_its_midst():
    """Later words say of earlier blocks too; behind the last one nothing comes."""
    checked = machine_with_block(n=1, n_blocks=8)
    machine, waits = checked.machine, []
    machine.lanes[0].pace.srtt_ps = machine.lanes[0].pace.usual_ps = 40 * MS
    machine.lanes[0].pace.window_bytes = 10**9
    for block in range(8):
        for job in checked.call("fill", MS + block):
            checked.call("on_sent", MS + block, job)
        waits.append(machine.lanes[0].flights[block].wait_ps)
    assert waits[1:] == [waiting.SLOTS_PS] * 6 + [80 * MS]


def test_a_wait_in_a_slot_is_a_round_trip_while_nothing_better_is_known():
    """In a wide network slots always flush first; in a small one such a word says nothing."""
    checked = machine_with_block(n=1, n_blocks=4)
    pace = checked.machine.lanes[0].pace
    said = naive.Word(BIFT_ID, N_PSN, 1, 1, {}, round=255)
    srtts = []
    for block, flags in enumerate((FeedbackFlag.PARTIAL, 0, FeedbackFlag.PARTIAL)):
        heard = msgspec.structs.replace(feedback_of(block, said), flags=flags)
        for job in checked.call("fill", block * MS):
            checked.call("on_sent", block * MS, job)
        flight = checked.machine.lanes[0].flights[block]
        wait_ps = 200 * MS if flags else 3 * MS
        checked.call("on_feedback", flight.sent_ps + wait_ps, heard)
        srtts.append(pace.srtt_ps)
    assert srtts == [200 * MS, 3 * MS, 3 * MS]


@pytest.mark.parametrize("all_has_left", [True, False])
def test_a_nudge_counts_where_all_has_left(all_has_left):
    """Who is nudged for gets the last packet, and nobody else: it asks for a word."""
    checked = machine_with_block()
    now = waiting.QUIET_PS if all_has_left else waiting.QUIET_PS - 1
    assert checked.machine.is_quiet(now) == all_has_left
    checked.call("nudge", now, 1)
    out = jobs(checked.call("on_timer", now + leaving.TICK_PS))
    assert out == ([(1 << N_PSN - 1, (0b010,), 1)] if all_has_left else [])
    assert jobs(checked.call("on_timer", now + 2 * leaving.TICK_PS)) == []


def lost_in(checked):
    return [e.bit for e in checked.effects if isinstance(e, ReceiverLost)]


def test_nudges_do_not_put_off_the_question_to_a_silent_one():
    """Who answers, and never gets a packet, must not keep the others from being given up."""
    checked = machine_with_block(n=2)
    now = 0
    while now < 4 * PS_PER_SECOND and not lost_in(checked):
        now += 10 * MS
        checked.call("hear", now, 1)
        checked.call("nudge", now, 1)
        for effect in checked.call("on_timer", now) + checked.call("fill", now):
            if isinstance(effect, SendBlock):
                checked.call("on_sent", now, effect)
    assert lost_in(checked) == [0]
    assert now <= leaving.LOST_PS + leaving.SILENT_PS + PS_PER_SECOND


def test_a_fan_with_blocks_to_send_is_not_quiet():
    checked = machine_with_block(n_blocks=9)
    assert not checked.machine.is_quiet(PS_PER_SECOND)


# Minorities.


@pytest.mark.parametrize("cap_bps", [160_000, 40_000])
def test_who_loses_packets_at_any_rate_is_repaired_where_all_are(cap_bps):
    """A lane of its own is tried where it looks slow, and given back when that did not help."""
    n_blocks, n_psn = 300, 16
    world = World(n_blocks, 8, n_psn=n_psn, cap_bps=cap_bps)
    lossy = world.receivers[5]
    lossy.loss = 0.4
    assert world.run(200 * PS_PER_SECOND)
    assert {e.bit for e in world.effects(ReceiverSplit)} <= {5}
    assert len(world.effects(ReceiverSplit)) <= 1
    assert all(r.is_complete() for r in world.receivers.values())
    sent = sum(e.psns.bit_count() for e in world.effects(SendBlock))
    assert sent <= (1 + 0.4 / 0.6 + 0.1) * n_blocks * n_psn


def test_repairs_without_end_hold_the_others_back_as_well():
    """Something moves all the time, but for one of them, whose link is slow."""
    checked = machine_with_block(n=3, n_blocks=9)
    (job,) = checked.call("fill", 0)
    checked.call("on_sent", 0, job)
    for block in (0, 1):
        said = naive.Word(BIFT_ID, N_PSN, 0b011, 0b011, {}, round=255)
        checked.call("on_feedback", MS, feedback_of(block, said))
    flight = checked.machine.lanes[0].flights[0]
    splits = []
    now = 0
    while not splits and now < 2 * PS_PER_SECOND:
        now += 10 * MS
        out = checked.call("on_feedback", now, word(0b100, 0, {0: 0b100}, flight.round))
        for job in out:
            checked.call("on_sent", now, job)
        splits = [e for e in checked.call("on_timer", now) if isinstance(e, ReceiverSplit)]
    assert splits == [ReceiverSplit(2, "late")]
    least = held.REPAIRED_PS + held.ALONE_PS
    assert least <= now <= least + 3 * leaving.TICK_PS


def test_a_long_way_is_no_reason_to_be_split_off():
    """All is first sent, and the round trip is known: the window waits for that alone."""
    checked = machine_with_block(n=3, n_blocks=9)
    (job,) = checked.call("fill", 0)
    checked.call("on_sent", 0, job)
    checked.machine.lanes[0].pace.on_rtt(500 * MS)
    for block in (0, 1):
        said = naive.Word(BIFT_ID, N_PSN, 0b011, 0b011, {}, round=255)
        checked.call("on_feedback", MS, feedback_of(block, said))
    out = []
    for now in range(10, 1100, 10):
        checked.call("hear", now * MS, 2)
        out += checked.call("on_timer", now * MS)
    assert not [e for e in out if isinstance(e, ReceiverSplit)]


@pytest.mark.no_cover
def test_the_silent_hold_the_others_back_for_half_a_second_only():
    """They are given up much later; until then they have a lane of their own."""
    calm = World(3000, 8, n_psn=16, cap_bps=1_600_000)
    assert calm.run(100 * PS_PER_SECOND)
    world = World(3000, 8, n_psn=16, cap_bps=1_600_000)
    world.receivers[5].silent_ps = PS_PER_SECOND
    assert world.run(100 * PS_PER_SECOND)
    assert [(e.bit, e.reason) for e in world.effects(ReceiverSplit)] == [(5, "silent")]
    assert [e.bit for e in world.effects(ReceiverLost)] == [5]
    others = [r for r in world.receivers.values() if r.bit != 5]
    slower = max(r.done_ps for r in others) - max(r.done_ps for r in calm.receivers.values())
    assert slower < leaving.SILENT_PS + leaving.LOST_PS // 2 < leaving.LOST_PS


def test_a_majority_is_never_split_off():
    """Half of the receivers late, the others lossy: both at once would leave the lane empty."""
    world = World(200, 4, n_psn=16, cap_bps=160_000)
    for k in (0, 1):
        world.receivers[k].loss = 0.5
    for k in (2, 3):
        world.receivers[k].loss = 0.3
    assert world.run(200 * PS_PER_SECOND)
    assert all(r.is_complete() for r in world.receivers.values())


def test_nobody_is_split_off_without_a_reason():
    world = World(3000, 8, cap_bps=400_000)
    assert world.run(100 * PS_PER_SECOND)
    assert world.effects(ReceiverSplit) == []
    assert world.checked.n_loss_repairs == 0
    n_first = sum(1 for e in world.effects(SendBlock) if not e.is_repair)
    assert n_first == world.shape.n_blocks
    assert len(world.effects(SendBlock)) == n_first


# Same inputs, same effects.


@settings(max_examples=20)
@given(NETWORKS, st.integers(1, 30), st.integers(1, 5), st.integers(0, 2**32))
def test_the_same_inputs_give_the_same_effects(network, n_blocks, n, seed):
    world = World(n_blocks, n, seed=seed, network=network)
    world.run(2 * PS_PER_SECOND)
    again = Checked(world.shape, [(1 << n) - 1])
    for name, args in world.checked.calls:
        again.call(name, *args)
    assert again.effects == world.checked.effects
    assert pickle.dumps(again.machine) == pickle.dumps(world.checked.machine)
