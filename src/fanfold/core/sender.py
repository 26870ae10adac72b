"""The sending end of one fan (a flow of blocks): window, repair, split, give up.

Its own slot for each block is the root of the fold: ``need`` (A-BM without who is done) and
``heard``. Feedback closes it, its deadline asks again, so every wait ends here. Missing =
need: the BitString of a retransmission is exactly those who lack the bytes. BitStrings are
Python integers, bit k = bit index k.
"""

from collections.abc import Callable, Sequence

from fanfold.core.effects import BlockDone, Effect, SendBlock
from fanfold.core.flight import MAIN, Flight, Lane, Shape
from fanfold.core.gap_book import GapBook
from fanfold.core.leaving import TICK_PS
from fanfold.core.losses import MIN_SAMPLE
from fanfold.core.pace import FULL
from fanfold.core.waiting import WAY_PS, Waiting
from fanfold.units import NEVER
from fanfold.wire.feedback import NOT_TOLD, Feedback, FeedbackFlag

GATHER_PS = 20_000_000_000
"""Where much of a block is lost, repairs wait so long for what others lack of it."""
HEAVY_PKTS = 8
"""So many packets of a block are much."""
ASK_PS = 120_000_000_000
MAX_ASK_PS = 600_000_000_000
"""Longest between two questions about one block, half of it before the second."""
STEADY = 4
"""Questions about one block before they get rarer."""
MAX_ASKS = 4
"""Blocks of a lane asked about in one tick, oldest first."""
MAX_ROUND = 255
WAITED = FeedbackFlag.PARTIAL | FeedbackFlag.EARLY
"""A slot waited before it told."""


class FanSender(Waiting):
    """One reliable fan to a changing set of receivers; arguments as Books has them."""

    def __init__(self, flow: int, shape: Shape, need: Sequence[int], cap_bps: int) -> None:
        super().__init__(flow, shape, need, cap_bps)
        self.n_repairs = 0
        self._nudged = 0  # who told a quiet fan that it lacks something
        self._rounds: dict[int, int] = {}  # last one of each block that was sent again
        self._owed: set[tuple[int, int]] = set()  # lane and block of repairs that wait

    # What the driver asks.

    def gap_book(self) -> GapBook:
        """What receivers lacked of first sendings."""
        return self._losses.book

    def deadline_ps(self) -> int:
        """When ``on_timer`` has something to do."""
        return NEVER if self.is_done() else self._tick_ps

    # What happens.

    def fill(
        self,
        now_ps: int,
        out: list[Effect],
        has_room: Callable[[int, int], bool] = lambda flow, lane: True,
    ) -> None:
        """Send at most one new block for each lane whose window, and whose queue, has room.

        has_room: (flow, lane) -> whether the driver takes more of this lane.
        """
        for index, lane in enumerate(self.lanes):
            if not has_room(self.flow, index) or not self._may_send(now_ps, index, lane):
                continue
            block = lane.next_block(self.need)
            if block is None:
                continue
            need = self.need[block] & lane.members
            n_psn = self.shape.psns(block)
            if block in lane.flights:
                self._join_flight(now_ps, index, block, need, out)
                continue
            first_round = min(self._rounds.get(block, -1) + 1, MAX_ROUND)
            wait_ps = self._wait_ps(lane)
            if lane.cursor < lane.end or lane.pace.srtt_ps == 0:  # else a tail loss probe
                wait_ps = max(wait_ps, self.slots_ps)
            lane.flights[block] = Flight(now_ps, need, wait_ps, first_round)
            self._weigh(lane, block)
            out.append(self._send(block, (1 << n_psn) - 1, (need,), lane.flights[block], index))

    def on_sent(self, now_ps: int, job: SendBlock) -> None:
        """The last packet of a job left: waits and round trips count from here."""
        for index, lane in enumerate(self.lanes):
            flight = lane.flights.get(job.block)
            if flight is not None and job.lane in (index, flight.origin):
                n_bytes = job.psns.bit_count() * self.shape.stride
                rate_bps = self.lane_rate_bps(index)
                began_ps, went_bps = lane.went_bps(now_ps, flight.queued_ps, n_bytes, rate_bps)
                is_many = job.psns.bit_count() >= MIN_SAMPLE
                flight.on_left(now_ps, job.round, began_ps, went_bps if is_many else 0)

    def on_feedback(self, now_ps: int, feedback: Feedback, out: list[Effect]) -> None:
        """Join what a branch says of one block; repair at once what it lacks."""
        block = feedback.block
        if block >= self.shape.n_blocks or feedback.n_psn != self.shape.psns(block):
            return
        self._hear(now_ps, feedback.heard)
        heard = feedback.heard & ~self._resting.mask
        if feedback.queue == FULL:
            self._held.full |= heard
        done = feedback.done & heard & self.need[block]
        if done:
            self._signs.gained |= done
            self._clear(block, done)
        if feedback.behind < NOT_TOLD:
            self._clear_before(block - feedback.behind, heard, out)
        for index, lane in enumerate(self.lanes):
            flight = lane.flights.get(block)
            if flight is not None:
                self._join(now_ps, index, block, flight, feedback, out)
        if done and self.need[block] == 0:
            out.append(BlockDone(self.flow, block))

    def on_timer(self, now_ps: int, out: list[Effect]) -> None:
        """Ask again where a wait is over, split off the slow, give up the silent."""
        if now_ps < self._tick_ps:
            return
        passed_ps = min(now_ps - self._tick_ps + TICK_PS, 4 * TICK_PS)
        self._tick_ps = now_ps + TICK_PS
        self._signs.settle(now_ps)
        for bit, first in self._resting.over(now_ps):
            self._enter(now_ps, bit, first)
        self._owed = {at for at in sorted(self._owed) if not self._repay(now_ps, *at, out)}
        nudged, self._nudged = self._nudged, 0
        for index, lane in enumerate(self.lanes):
            self._repeat_last(now_ps, index, nudged, out)
            for block in lane.to_ask(now_ps)[:MAX_ASKS]:
                self._ask_again(now_ps, index, block, out)
        self._probe(now_ps, out)
        self._give_up_silent(now_ps, out)
        if not self._split_silent(now_ps, out):
            self._split_slow(now_ps, passed_ps, out)
            self._split_lossy(now_ps, out)
        for index, lane in enumerate(self.lanes):
            if lane.is_silent and lane.members:
                self._judge_silent(now_ps, index)
        self._rejoin()

    def add(
        self, now_ps: int, bit: int, lacks: Sequence[int], *, remembers: bool = False
    ) -> None:
        """Let a receiver join late, or again; ``lacks`` are the blocks it has not.

        remembers: it was only silent for a while, so that its earlier words still hold.
        """
        mask = 1 << bit
        self.everyone |= mask
        self.n_lacking.setdefault(bit, 0)
        self._leave_lanes(mask)
        for block in lacks:
            if self.need[block] & mask:
                continue
            if self.need[block] == 0:
                self._left += 1
            self.need[block] |= mask
            self.n_lacking[bit] += 1
        first = min(lacks, default=NEVER)
        if remembers or not self._resting.begin(now_ps, bit, first, self.rest_ps):
            self._enter(now_ps, bit, first)

    def _enter(self, now_ps: int, bit: int, first: int) -> None:
        """What the main lane has still to send reaches a late comer there.

        What went by, from block ``first`` on, it and all other late comers get together.
        """
        self._signs.begin(now_ps, bit)
        main = self.lanes[MAIN]
        if self._is_often_split(bit):
            self._to_own_lane(now_ps, 1 << bit)
            return
        main.members |= 1 << bit
        if first < main.cursor:
            main.miss(first)

    # How it is done.

    def _join_flight(
        self, now_ps: int, index: int, block: int, need: int, out: list[Effect]
    ) -> None:
        """A block that others still owe a word on goes to those who came after it was sent."""
        flight = self.lanes[index].flights[block]
        new, flight.need = need & ~flight.need, need
        self._weigh(self.lanes[index], block)
        gaps = dict.fromkeys(range(self.shape.psns(block)), new)
        self._repair(now_ps, index, block, flight, gaps, out)

    def _send(
        self, block: int, psns: int, bits: tuple[int, ...], flight: Flight, lane: int
    ) -> SendBlock:
        is_last = block == self.shape.n_blocks - 1
        flight.n_queued += 1
        flight.n_sent = psns.bit_count()
        if flight.round:
            self._rounds[block] = flight.round
        is_repair = flight.round > flight.first_round
        return SendBlock(self.flow, block, psns, bits, flight.round, is_repair, is_last, lane)

    def _clear_before(self, floor: int, heard: int, out: list[Effect]) -> None:
        """Who was heard has every block below ``floor``: word of them was lost on the way."""
        for lane in self.lanes:
            for block in [b for b, f in lane.flights.items() if b < floor and f.need & heard]:
                flight = lane.flights[block]
                done = heard & self.need[block]
                self._signs.gained |= done
                self._clear(block, done)
                self._reduce(lane, block, flight, heard)
                if done and self.need[block] == 0:
                    out.append(BlockDone(self.flow, block))

    def _join(
        self,
        now_ps: int,
        index: int,
        block: int,
        flight: Flight,
        feedback: Feedback,
        out: list[Effect],
    ) -> None:
        lane = self.lanes[index]
        self._learn(now_ps, index, block, flight, feedback)
        pressure = max(feedback.queue, 255 - feedback.room)
        is_partial = bool(feedback.flags & FeedbackFlag.PARTIAL)  # a slot waited for others
        is_held = bool(feedback.flags & WAITED) or not flight.is_own
        self._time_overtaken(now_ps, lane, flight, is_held=is_held)
        if flight.need == 0:
            self._end_flight(now_ps, lane, block, pressure, is_held=is_held)
            return
        lane.pace.on_pressure(now_ps, pressure)  # what overflowed is lost: it is not done yet
        gaps, on_way = self._fresh_gaps(now_ps, lane, flight, feedback)
        answers = flight.n_queued == 0 and feedback.round == flight.round  # of this sending
        if answers and not on_way:
            self._time(now_ps, lane, flight, is_held=is_held, is_whole=not gaps)
        if gaps:
            if answers and not on_way:
                self._losses.judge_repair(now_ps, lane, flight, gaps, feedback.heard)
            if answers or pressure == FULL:
                self._losses.note(now_ps, lane.pace, flight, gaps, answers, pressure == FULL)
            self._owe(now_ps, index, block, gaps, feedback, out)
        if is_partial and flight.need & ~feedback.heard:
            self._note_mute(lane, flight, flight.need & ~feedback.heard)
            flight.hurry(now_ps, 2 * max(TICK_PS, self._way_ps(lane, lane.pace.known_ps())))

    def _hear(self, now_ps: int, heard: int) -> None:
        self._signs.heard |= heard & self.everyone
        main = self.lanes[MAIN]
        silent_ps = self._outage.hear(now_ps, heard, main, self._long_ps(main))
        if silent_ps:
            main.pace.limit.forget_before(now_ps)
        if silent_ps >= self._mute_ps(main):
            for flight in main.flights.values():
                flight.hurry(now_ps, 0)
        for lane in self.lanes:
            lane.mute &= ~heard

    def _probe(self, now_ps: int, out: list[Effect]) -> None:
        """Most say nothing: send the last packet of the oldest block again; wait as before."""
        lane = self.lanes[MAIN]
        long_ps, every_ps = self._mute_ps(lane), self._wait_ps(lane)
        block = self._outage.probe(now_ps, lane, long_ps, every_ps)
        if block is not None:
            flight = lane.flights[block]
            due_ps = flight.sent_ps + flight.wait_ps
            gaps = {self.shape.psns(block) - 1: flight.need}
            self._repair(now_ps, MAIN, block, flight, gaps, out)
            flight.wait_ps = max(flight.wait_ps, due_ps - now_ps)

    def _note_mute(self, lane: Lane, flight: Flight, missing: int) -> None:
        """A slot waited in vain for a minority of whom nothing came since the block had left.

        What one lost word held back is no silence: others of the same receiver came since.
        """
        mute = lane.mute | self._signs.mute(missing & ~lane.mute, flight.first_ps)
        if mute != lane.mute and mute.bit_count() * 2 <= lane.members.bit_count():
            lane.fall_mute(mute & lane.members, self.shape)

    def _learn(
        self, now_ps: int, index: int, block: int, flight: Flight, feedback: Feedback
    ) -> None:
        """Who has what of a block now, and who lost how much of it."""
        lane = self.lanes[index]
        self._losses.hear(now_ps, flight, feedback)
        flight.need &= self.need[block]
        flight.hear(feedback)
        self._weigh(lane, block)
        if self._losses.judge(now_ps, lane, flight, feedback.n_psn) and flight.is_calm:
            self._calm(now_ps, lane, block, flight)
        if index == MAIN:
            self._losses.count(now_ps, lane, flight, feedback.n_psn)
            self._losses.count_again(now_ps, lane, flight, feedback)

    def _time(
        self, now_ps: int, lane: Lane, flight: Flight, *, is_held: bool, is_whole: bool
    ) -> None:
        """Word of the latest sending of a block: the first one tells a round trip.

        Of a first sending only while no better is known: its last packets may be lost.
        """
        if flight.timed_round >= flight.round:  # RFC 6298 3: a repeated word
            return
        if flight.clean and (lane.pace.srtt_ps or is_whole):
            return
        flight.timed_round = flight.round
        lane.pace.on_rtt(now_ps - flight.sent_ps, is_held=is_held or flight.clean)

    def _time_overtaken(
        self, now_ps: int, lane: Lane, flight: Flight, *, is_held: bool
    ) -> None:
        """Word of a block that was asked about while no round trip was known: it took so long.

        Word of a whole block does not say which sending it answers; of the first one it is at
        most too long, which later words mend. Without it a way longer than the first waits
        would never be known: each block is asked about on it, and none is timed.
        """
        left_ps = flight.left_ps.get(flight.first_round, NEVER)
        is_over = flight.need == 0 and left_ps < now_ps
        if lane.pace.srtt_ps == 0 and flight.tries and is_over and not flight.is_repaired:
            lane.pace.on_rtt(now_ps - left_ps, is_held=is_held)

    def _end_flight(
        self, now_ps: int, lane: Lane, block: int, pressure: int, *, is_held: bool
    ) -> None:
        """All members have a block."""
        flight, n_bytes = lane.land(block), self.shape.bytes(block)
        if flight.clean and flight.n_queued == 0:
            lane.pace.on_rtt(now_ps - flight.sent_ps, is_held=is_held)
        lane.pace.on_done(now_ps, pressure, n_bytes)
        if not flight.is_judged:
            self._calm(now_ps, lane, block, flight)

    def _calm(self, now_ps: int, lane: Lane, block: int, flight: Flight) -> None:
        """A block came through, or most of those it went to lost no more of it than always."""
        n_bytes = self.shape.bytes(block)
        lane.pace.limit.on_done(now_ps, n_bytes, flight.went_bps, flight.start_ps)

    def _owe(
        self,
        now_ps: int,
        index: int,
        block: int,
        gaps: dict[int, int],
        feedback: Feedback,
        out: list[Effect],
    ) -> None:
        """What those who were heard lack goes together with what others lack of the block.

        At once where no job of the block is queued, and little of it is lost.
        """
        flight = self.lanes[index].flights[block]
        is_heavy = len(gaps) >= HEAVY_PKTS
        flight.owe(now_ps, gaps, feedback, is_heavy=is_heavy)
        if not self._repay(now_ps, index, block, out):
            self._owed.add((index, block))

    def _repay(self, now_ps: int, index: int, block: int, out: list[Effect]) -> bool:
        flight = self.lanes[index].flights.get(block)
        if flight is None:
            return True
        is_early = flight.is_heavy and now_ps < flight.owed_ps + GATHER_PS
        waits_for = flight.need & (flight.coming | ~flight.spoke)
        is_early &= bool(flight.is_repaired or waits_for)
        if flight.n_queued or is_early:
            return False
        need = flight.need & ~self._put_off(index)
        gaps = {psn: to for psn, bits in flight.owed.items() if (to := bits & need)}
        flight.owed = {}
        if gaps:
            self._repair(now_ps, index, block, flight, gaps, out)
        return True

    def _put_off(self, index: int) -> int:
        """Who is sent no repairs now: those about to leave the lane, for they lose most."""
        return self._losses.suspects if index == MAIN else 0

    def _fresh_gaps(
        self, now_ps: int, lane: Lane, flight: Flight, feedback: Feedback
    ) -> tuple[dict[int, int], int]:
        usual_ps = lane.pace.usual_ps or WAY_PS
        return flight.fresh_gaps(now_ps, feedback, lane.pace.worst_ps or WAY_PS, usual_ps)

    def _repair(
        self,
        now_ps: int,
        index: int,
        block: int,
        flight: Flight,
        gaps: dict[int, int],
        out: list[Effect],
    ) -> None:
        flight.round = min(flight.round + 1, MAX_ROUND)
        flight.clean, flight.is_repaired = False, True
        flight.queued_ps = flight.sent_ps = now_ps
        flight.wait_ps = self._wait_ps(self.lanes[index])
        psns = 0
        for psn, bits in gaps.items():
            psns |= 1 << psn
            flight.note_repair(psn, bits)
        self.n_repairs += len(gaps)
        out.append(self._send(block, psns, tuple(gaps[p] for p in sorted(gaps)), flight, index))

    def _ask_again(self, now_ps: int, index: int, block: int, out: list[Effect]) -> None:
        """Send packets again to all who still owe a word: each asks for a report."""
        lane = self.lanes[index]
        flight = lane.flights[block]
        flight.tries += 1
        flight.is_nudged = False
        flight.round = min(flight.round + 1, MAX_ROUND)
        flight.clean = False
        flight.sent_ps = now_ps
        is_early = flight.tries == 1 or (self._is_last(lane) and flight.tries <= STEADY)
        way_ps = self._way_ps(lane, lane.pace.srtt_ps)
        ask_ps = min(max(ASK_PS // 2 if is_early else ASK_PS, 3 * way_ps), MAX_ASK_PS)
        flight.wait_ps = ask_ps if flight.tries > STEADY else min(ask_ps, self._wait_ps(lane))
        is_over = now_ps - flight.first_ps >= lane.pace.timeout_ps(*self.waits)
        if is_over and not flight.is_mourned and not flight.told:
            flight.is_mourned = True
            lane.pace.on_silence(now_ps)
        gaps = self._questions(block, flight)
        for psn, bits in gaps.items():
            flight.note_repair(psn, bits)
        self.n_repairs += len(gaps)
        psns = sum(1 << psn for psn in gaps)
        out.append(self._send(block, psns, tuple(gaps[p] for p in sorted(gaps)), flight, index))

    def _questions(self, block: int, flight: Flight) -> dict[int, int]:
        return flight.questions(self.shape.psns(block) - 1)

    def _repeat_last(self, now_ps: int, index: int, nudged: int, out: list[Effect]) -> None:
        """Send the last packet of the oldest blocks to those who said that they lack some."""
        flights = self.lanes[index].flights
        due = [b for b, f in flights.items() if f.need & nudged and not f.is_nudged]
        for block in due[:MAX_ASKS]:
            flight = flights[block]
            flight.is_nudged = True
            last = self.shape.psns(block) - 1
            self._repair(now_ps, index, block, flight, {last: flight.need & nudged}, out)

    def nudge(self, now_ps: int, bit: int) -> None:
        """A receiver, asked by other means, says that it lacks something."""
        if self.is_quiet(now_ps):
            self._nudged |= 1 << bit

    def hear(self, now_ps: int, bit: int) -> None:
        """A receiver gave a sign of life that is not feedback."""
        self._signs.hear(now_ps, bit)
