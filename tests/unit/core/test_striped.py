"""Planes of one fan in virtual time: shares, other weights, planes that are slow or dead."""

import heapq

import pytest

from fanfold.core.books import MAX_LANES
from fanfold.core.deal import Dealer, deal
from fanfold.core.effects import ReceiverLost, SendBlock
from fanfold.core.flight import Shape, members_of
from fanfold.core.sender import FanSender
from fanfold.core.striped import StripedSender
from fanfold.units import NEVER, PS_PER_SECOND
from fanfold.wire.feedback import NOT_TOLD, Feedback, FeedbackRow

MS = PS_PER_SECOND // 1000
FLOW, BIFT_ID = 7, 0x10000
STRIDE, N_PSN = 1000, 16
BLOCK_BITS = 8 * STRIDE * N_PSN
MBPS = 10**6
ROOM = 2
"""Jobs that wait at a port before the driver takes no more."""


@pytest.mark.parametrize(
    "weights", [(1, 1, 1, 1), (2, 1, 1, 1), (0, 1, 1, 1), (400, 800, 25), (3_200_000, 25_000)]
)
def test_after_any_number_of_turns_each_plane_has_its_share_to_less_than_a_block(weights):
    dealer, n_of = Dealer(weights), [0] * len(weights)
    for n in range(1, 1000):
        n_of[dealer.turn()] += 1
        for got, weight in zip(n_of, weights, strict=True):
            assert abs(got * sum(weights) - n * weight) < sum(weights)
    assert [w == 0 for w in weights] == [n == 0 for n in n_of] or min(weights) * 999 < sum(
        weights
    )


def test_a_deal_is_the_turns_and_a_plane_without_weight_has_none():
    dealer = Dealer((4, 2, 0, 2))
    assert list(deal(11, (4, 2, 0, 2))) == [dealer.turn() for _ in range(11)]
    assert list(deal(4, (2, 1, 0, 1))) == [0, 1, 3, 0]
    assert list(deal(0, (1, 1))) == []


class World:
    """Receivers behind planes: a line of its own for each, and ``rtt`` until a word is back.

    full: planes whose queues tell that they are full. cut: (plane, bit) -> when what goes over
    that plane to that receiver is lost, until when.
    """

    def __init__(self, n_blocks, rates, *, weights=None, n_receivers=2, rtt=2 * MS, **more):
        self.shape = Shape(n_blocks * STRIDE * N_PSN, STRIDE, N_PSN)
        self.rates, self.rtt = list(rates), rtt
        everyone = (1 << n_receivers) - 1
        weights = weights or [1] * len(rates)
        self.fan = StripedSender(FLOW, self.shape, [everyone], 0, weights, **more)
        self.have = [[set() for _ in range(n_blocks)] for _ in range(n_receivers)]
        self.cut, self.full = {}, set()
        self.now, self.free = 0, [0] * len(rates)
        self.waiting = [0] * len(rates)
        self.sent = [0] * len(rates)  # packets by plane
        self.lost, self.events, self.n = [], [], 0

    def at(self, when, what):
        self.n += 1
        heapq.heappush(self.events, (when, self.n, what))

    def has_room(self, flow, lane):
        assert flow == FLOW
        return self.waiting[lane // MAX_LANES] < ROOM

    def perform(self, out):
        for effect in out:
            if isinstance(effect, ReceiverLost):
                self.lost.append(effect.bit)
            if isinstance(effect, SendBlock):
                plane = effect.lane // MAX_LANES
                n = effect.psns.bit_count()
                took = 8 * STRIDE * n * PS_PER_SECOND // self.rates[plane]
                self.free[plane] = max(self.free[plane], self.now) + took
                self.waiting[plane] += 1
                self.sent[plane] += n
                self.at(self.free[plane], lambda job=effect: self.leave(job))

    def leave(self, job):
        plane = job.lane // MAX_LANES
        self.waiting[plane] -= 1
        self.fan.on_sent(self.now, job)
        psns = [p for p in range(N_PSN) if job.psns >> p & 1]
        bits = job.bits if len(job.bits) > 1 else job.bits * len(psns)
        to = 0
        for psn, each in zip(psns, bits, strict=True):
            for k in members_of(each):
                if self.is_open(plane, k):
                    self.have[k][job.block].add(psn)
                    to |= 1 << k
        if to:
            self.at(self.now + self.rtt, lambda: self.answer(plane, job, to))

    def is_open(self, plane, bit):
        since, until = self.cut.get((plane, bit), (NEVER, 0))
        return not since <= self.now < until

    def answer(self, plane, job, to):
        """All who got some of it, in one word, as a BFR folds it."""
        heard = sum(1 << k for k in members_of(to) if self.is_open(plane, k))
        if not heard:
            return
        lacking = {
            psn: sum(1 << k for k in members_of(heard) if psn not in self.have[k][job.block])
            for psn in range(N_PSN)
        }
        rows = tuple(FeedbackRow(psn, bits) for psn, bits in lacking.items() if bits)
        done = heard & ~sum({bit for row in rows for bit in [row.lacking]} or {0})
        for row in rows:
            done &= ~row.lacking
        queue = 200 * (plane in self.full and self.waiting[plane] == ROOM)
        word = Feedback(
            BIFT_ID, FLOW, job.block, N_PSN, heard, done, rows, round=job.round,
            n_merged=heard.bit_count(), room=255, queue=queue, behind=NOT_TOLD,
        )  # fmt: skip
        out = []
        self.fan.on_feedback(self.now, word, out)
        self.perform(out)

    def run(self, until=NEVER):
        """Until all is done; seconds that it took."""
        while not self.fan.is_done() and self.now < until:
            tick = max(self.fan.deadline_ps(), self.now)
            if self.events and self.events[0][0] <= tick:
                self.now, _, what = heapq.heappop(self.events)
                what()
            else:
                self.now = tick
                out = []
                self.fan.on_timer(self.now, out)
                self.perform(out)
            before = -1
            while before != self.n:
                before, out = self.n, []
                self.fan.fill(self.now, out, self.has_room)
                self.perform(out)
            assert self.now < 100 * PS_PER_SECOND
        return self.now / PS_PER_SECOND

    def run_for(self, ps):
        """So long; ``shares`` are then those of this time."""
        self.before = list(self.sent)
        self.run(self.now + ps)

    def shares(self):
        """What part of all packets went by each plane."""
        sent = [now - was for now, was in zip(self.sent, self.before, strict=True)]
        return [n / sum(sent) for n in sent]

    def ideal_s(self, rate_bps):
        """Seconds that a rate needs for all blocks."""
        return self.shape.n_blocks * BLOCK_BITS / rate_bps


def test_four_planes_carry_alike_and_four_times_as_much_as_one():
    one, four = World(2000, [100 * MBPS]), World(2000, [100 * MBPS] * 4)
    slow_s, quick_s = one.run(), four.run()
    assert slow_s > 3.8 * quick_s
    assert four.sent == [500 * N_PSN] * 4
    assert list(four.fan.plan) == [0, 1, 2, 3] * 500


def test_blocks_and_time_follow_the_weights():
    world = World(2000, [200 * MBPS, 100 * MBPS, 100 * MBPS], weights=(2, 1, 1))
    assert world.run() < 1.05 * world.ideal_s(400 * MBPS)
    assert world.sent == [1000 * N_PSN, 500 * N_PSN, 500 * N_PSN]


def test_a_plane_that_is_half_as_fast_as_its_weight_says_costs_its_half():
    world = World(4000, [50 * MBPS, 100 * MBPS, 100 * MBPS, 100 * MBPS])
    world.full = {0}
    assert world.run() < 1.1 * world.ideal_s(350 * MBPS)


@pytest.mark.parametrize("bits", [(0, 1), (1,)], ids=["to all", "to one of them"])
def test_what_was_on_a_plane_that_dies_goes_by_the_others(bits):
    world = World(2000, [100 * MBPS] * 4)
    die_ps = 300 * MS
    world.cut = {(2, k): (die_ps, NEVER) for k in bits}
    took_s = world.run()
    done = die_ps / PS_PER_SECOND * 400 * MBPS
    left_s = (2000 * BLOCK_BITS - done) / (300 * MBPS)
    assert took_s < 1.1 * (die_ps / PS_PER_SECOND + left_s)
    assert world.lost == []
    n_twice = sum(world.sent) - 2000 * N_PSN
    assert n_twice < 64 * N_PSN  # what was on its way, and questions
    assert not world.fan.planes[2].is_up


def test_a_plane_that_comes_back_carries_its_share_again():
    world = World(6000, [100 * MBPS] * 2)
    world.cut = {(1, k): (200 * MS, 900 * MS) for k in (0, 1)}
    world.run(3 * PS_PER_SECOND)
    assert world.fan.planes[1].is_up
    world.run_for(PS_PER_SECOND)
    assert world.shares() == pytest.approx([0.5, 0.5], abs=0.01)
    world.run()
    assert world.lost == []


def test_a_plane_that_is_down_before_the_start_gets_no_block_but_a_trial():
    world = World(2000, [100 * MBPS] * 4, down=frozenset({0}))
    world.cut = {(0, k): (0, NEVER) for k in (0, 1)}
    assert world.run() < 1.1 * world.ideal_s(300 * MBPS)
    assert world.sent[0] <= 3 * N_PSN
    assert 0 not in world.fan.plan


def test_a_plane_that_is_down_and_was_told_a_weight_is_tried_at_once():
    found = []
    for learns in (True, False):
        world = World(2000, [100 * MBPS] * 2, down=frozenset({0}), learns=learns)
        world.run(50 * MS)
        found.append(world.fan.planes[0].is_up)
    assert found == [False, True]


def test_other_weights_count_from_the_next_block_on():
    world = World(3000, [100 * MBPS] * 2)
    world.run(400 * MS)
    world.run_for(200 * MS)
    assert world.shares() == pytest.approx([0.5, 0.5], abs=0.02)
    world.fan.set_weights(world.now, (3, 1))
    world.run_for(20 * MS)  # what was ahead
    world.run_for(200 * MS)
    assert world.shares() == pytest.approx([0.75, 0.25], abs=0.03)
    world.fan.set_weights(world.now, (1, 0))
    world.run_for(40 * MS)
    world.run_for(200 * MS)
    assert world.shares() == [1, 0]


def test_a_plane_without_weight_is_left_at_once_and_returns_when_it_has_one_again():
    world = World(6000, [100 * MBPS] * 2, weights=(1, 1))
    world.run(400 * MS)
    world.cut = {(1, k): (400 * MS, 900 * MS) for k in (0, 1)}
    world.run(410 * MS)
    world.fan.set_weights(world.now, (1, 0))
    # what was on its way is the other one's, before any silence is judged
    assert not world.fan.planes[1].sender.has_flights()
    before = world.sent[1]
    world.run(1000 * MS)
    assert world.sent[1] - before <= ROOM * N_PSN
    world.fan.set_weights(world.now, (1, 1))
    world.run(world.now + 20 * MS)
    assert world.fan.planes[1].is_up  # one round trip for its trial
    world.run_for(PS_PER_SECOND)
    assert world.shares() == pytest.approx([0.5, 0.5], abs=0.01)
    world.run()
    assert world.lost == []


def test_a_plane_that_has_a_weight_and_brings_nothing_is_tried_and_no_more():
    world = World(2000, [100 * MBPS] * 2, weights=(1, 0))
    world.cut = {(1, k): (0, NEVER) for k in (0, 1)}
    world.run(100 * MS)
    world.fan.set_weights(world.now, (1, 1))
    assert world.run() < 1.1 * world.ideal_s(100 * MBPS)
    assert world.sent[1] <= 4 * N_PSN
    assert not world.fan.planes[1].is_up


def test_a_trial_whose_plane_loses_its_weight_again_goes_by_the_others():
    world = World(2000, [100 * MBPS] * 2, weights=(1, 0))
    world.cut = {(1, k): (0, NEVER) for k in (0, 1)}
    world.run(100 * MS)
    world.fan.set_weights(world.now, (1, 1))
    world.run(world.now + 20 * MS)
    assert world.fan.planes[1].again_ps == NEVER  # under way
    world.fan.set_weights(world.now, (1, 0))
    assert world.fan.planes[1].sender.is_done()
    assert world.run() < 1.1 * world.ideal_s(100 * MBPS)


def test_weights_that_leave_no_plane_change_nothing_or_bring_one_back():
    world = World(400, [100 * MBPS] * 2, weights=(0, 0))
    world.fan.set_weights(0, (0, 0))
    assert world.fan.weights == (1, 1)
    world.fan.planes[0].is_up = False  # dead by its silence
    world.fan.set_weights(1, (1, 0))
    assert [plane.is_up for plane in world.fan.planes] == [True, False]
    world.run()


def test_told_weights_hold_where_lines_carry_something_else():
    world = World(4000, [50 * MBPS, 100 * MBPS, 100 * MBPS, 100 * MBPS], learns=False)
    world.full = {0}
    world.run(2 * PS_PER_SECOND)
    total = sum(world.sent)
    assert [n / total for n in world.sent] == pytest.approx([0.25] * 4, abs=0.02)


def test_planes_that_are_all_quick_keep_to_their_weights():
    world = World(4000, [1000 * MBPS] * 3, weights=(2, 1, 1))
    world.run()
    assert world.sent == [2000 * N_PSN, 1000 * N_PSN, 1000 * N_PSN]
    assert world.fan.owner == world.fan.plan


def test_late_comers_and_those_who_leave_are_known_to_all_planes():
    world = World(40, [100 * MBPS] * 4)
    fan = world.fan
    assert fan.n_lacking.get(0, 0) == 40
    assert fan.n_lacking.get(5, 9) == 9
    fan.remove(0b10)
    assert fan.lacking() == 0b01
    fan.add(0, 1, [0, 1, 2, 7])
    assert fan.n_lacking.get(1) == 4
    assert [p.sender.n_lacking.get(1, 0) for p in fan.planes] == [1, 1, 1, 1]
    world.run()
    assert all(len(got) == N_PSN for k in (0,) for got in world.have[k])
    assert all(len(world.have[1][b]) == N_PSN for b in (0, 1, 2, 7))


def test_a_rate_asked_for_is_shared_by_weight():
    fan = StripedSender(FLOW, Shape(10**6, STRIDE, N_PSN), [1], 400, (2, 1, 1))
    assert [p.sender.cap_bps for p in fan.planes] == [200, 100, 100]
    assert [p.sender.lanes[0].pace.cap_bps for p in fan.planes] == [200, 100, 100]
    fan.set_weights(1, (1, 0, 1))  # at 1 bit/s its trial would never leave
    assert [p.sender.cap_bps for p in fan.planes] == [200, 133, 200]


def test_one_plane_sends_what_a_fan_sends():
    shape = Shape(5 * STRIDE * N_PSN, STRIDE, N_PSN)
    striped, plain = StripedSender(FLOW, shape, [3], 0, (1,)), FanSender(FLOW, shape, [3], 0)
    for fan in (striped, plain):
        fan.jobs = []
        for now in range(0, 3 * PS_PER_SECOND, 10 * MS):
            out = []
            fan.on_timer(now, out)
            fan.fill(now, out)
            for job in out:
                fan.jobs.append(job)
                if isinstance(job, SendBlock):
                    fan.on_sent(now, job)
    assert striped.jobs == plain.jobs
    assert len(plain.jobs) > 5


def test_a_word_over_one_plane_tells_what_came_over_another():
    """Its floor, whose own words may be lost, and that who said it lives."""
    shape = Shape(6 * STRIDE * N_PSN, STRIDE, N_PSN)
    fan, out = StripedSender(FLOW, shape, [0b11], 0, (1, 1)), []
    fan.fill(0, out)
    fan.fill(0, out)
    assert sorted(job.block for job in out) == [0, 1, 2, 3]
    assert {job.block: job.lane // MAX_LANES for job in out} == {0: 0, 1: 1, 2: 0, 3: 1}
    for job in out:
        fan.on_sent(0, job)
    word = Feedback(BIFT_ID, FLOW, 3, N_PSN, 0b01, 0b01, (), behind=0, n_merged=1, room=255)
    fan.on_feedback(5 * MS, word, out)
    assert [fan.n_lacking.get(k) for k in (0, 1)] == [2, 6]
    assert fan.lacking() == 0b11
