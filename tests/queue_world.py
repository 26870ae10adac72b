"""A sender before queues that drop, in virtual time: paced packets, links, folded words.

Every link takes packets at its rate and drops what finds its queue full; receivers tell of gaps
as the live ones do (kernels/collect.py), and words of all on one block are folded.
"""

import heapq
from collections.abc import Callable, Iterator
from typing import Any

import naive
from sender_world import BIFT_ID, feedback_of

from fanfold.core.effects import Effect, ReceiverLost, ReceiverSplit, SendBlock
from fanfold.core.flight import Shape
from fanfold.core.sender import FanSender
from fanfold.streams import stream
from fanfold.units import NEVER, PS_PER_SECOND
from fanfold.wire.feedback import NOT_TOLD

MS = PS_PER_SECOND // 1000
STRIDE, N_PSN = 8000, 64
HEAD_BYTES = 120
PIECE = 8
"""Packets that leave in one go."""
QUEUE_MS = 20
REORDER_PS, IDLE_PS, AGAIN_PS, FOLD_PS = 2 * MS, 20 * MS, 60 * MS, 60 * MS
CALL_PS = 1000 * MS
"""A receiver that was given up for its silence is asked so often where it stands."""
MAX_QUEUED = 2


class Line:
    """A link of a rate, and a queue before it that drops at its tail."""

    def __init__(self, bps: int, queue_ps: int = 0) -> None:
        self.bps = bps
        least_ps = 128 * 1024 * 8 * PS_PER_SECOND // bps
        self.queue_ps = queue_ps or max(QUEUE_MS * MS, least_ps)
        self.free_ps = 0
        self.n_dropped = self.n_packets = 0

    def leaves_at(self, now: int) -> int:
        """When a packet has left it; NEVER where its queue is full."""
        self.free_ps = max(self.free_ps, now)
        if self.free_ps - now > self.queue_ps:
            self.n_dropped += 1
            return NEVER
        self.n_packets += 1
        self.free_ps += (STRIDE + HEAD_BYTES) * 8 * PS_PER_SECOND // self.bps
        return self.free_ps


class Clock:
    """Events in order of time."""

    def __init__(self) -> None:
        self.now = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._n = 0

    def at(self, when: int, what: Callable[[], None]) -> None:
        self._n += 1
        heapq.heappush(self._events, (max(when, self.now), self._n, what))

    def run(self, until_ps: int, is_over: Callable[[], bool]) -> None:
        while self._events and not is_over() and self._events[0][0] <= until_ps:
            self.now, _, what = heapq.heappop(self._events)
            what()


class Far:
    """One receiver and what it has of each block."""

    def __init__(self, k: int, line: Line, loss: float) -> None:
        self.k, self.line, self.loss = k, line, loss
        self.have: dict[int, int] = {}
        self.rounds: dict[int, int] = {}
        self.polled: set[int] = set()
        self.due: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.front = 0
        self.done_ps = 0
        self.unheard: list[int] = []
        self.mute_ps: tuple[int, int] = (NEVER, NEVER)

    def n_unheard_since(self, when: int) -> int:
        """Packets that came after a time and found nobody."""
        return sum(at >= when for at in self.unheard)

    def is_mute(self, now: int) -> bool:
        return self.mute_ps[0] <= now < self.mute_ps[1]


class Fan:
    """A sender, its outbox and its receivers on a clock that others may share.

    n_blocks: of 64 packets. lines: last links of receivers. shared: links that all cross.
    loss: share of packets, and of words, lost at each receiver. trunk: on the sender's link.
    """

    def __init__(
        self,
        clock: Clock,
        n_blocks: int,
        lines: list[Line],
        shared: list[Line],
        *,
        loss: float = 0.0,
        trunk: float = 0.0,
        seed: int = 1,
        way_ps: int = MS,
        cap_bps: int = 0,
    ) -> None:
        self.clock, self.shared, self.way_ps, self.trunk = clock, shared, way_ps, trunk
        self.shape = Shape(n_blocks * STRIDE * N_PSN, STRIDE, N_PSN)
        self.machine = FanSender(7, self.shape, [(1 << len(lines)) - 1], cap_bps)
        self.far = [Far(k, line, loss) for k, line in enumerate(lines)]
        self.rng = stream(seed, "tests/queue")
        self.jobs: dict[int, list[SendBlock]] = {}
        self.in_hand: dict[int, Iterator[int]] = {}
        self.next_ps: dict[int, int] = {}
        self.n_sent = self.n_words = self.n_in_vain = 0
        self.end_ps = 0
        self.split: dict[int, tuple[int, str]] = {}
        self.lost: dict[int, str] = {}
        self.folds: dict[int, naive.Slot] = {}
        self.asked: dict[int, int] = {}  # who got the latest job of a block
        self.tell: Callable[[str], None] = lambda line: None
        clock.at(0, self.turn)

    @property
    def copies(self) -> float:
        return self.n_sent / (self.shape.n_blocks * N_PSN)

    def is_over(self) -> bool:
        return self.machine.is_done() and not self.lost

    # The source.

    def turn(self) -> None:
        """A turn of the driver: timers, new blocks, pieces whose time has come."""
        if self.machine.is_done():
            self.end_ps = self.clock.now
            return
        now, out = self.clock.now, []
        if self.machine.deadline_ps() <= now:
            self.machine.on_timer(now, out)
        self.fill(out)
        self.clock.at(min(now + 5 * MS, self.flush()), self.turn)

    def fill(self, out: list[Effect]) -> None:
        self.machine.fill(self.clock.now, out, self.has_room)
        for effect in out:
            if isinstance(effect, SendBlock):
                jobs = self.jobs.setdefault(effect.lane, [])
                at = len(jobs)
                while effect.is_repair and at and not jobs[at - 1].is_repair:
                    at -= 1
                jobs.insert(at, effect)
            elif isinstance(effect, ReceiverSplit):
                self.split[effect.bit] = self.clock.now, effect.reason
            elif isinstance(effect, ReceiverLost):
                self.lost[effect.bit] = effect.reason
                self.call(effect.bit)

    def call(self, k: int) -> None:
        """Ask one that was given up where it stands; when it answers it joins again."""
        now, far = self.clock.now, self.far[k]
        if far.is_mute(now):
            self.clock.at(now + CALL_PS, lambda: self.call(k))
        elif not self.machine.is_done() or k in self.lost:
            lacks = [b for b in range(self.shape.n_blocks) if not self.is_whole(far, b)]
            self.machine.add(now, k, lacks, remembers=True)
            del self.lost[k]
            self.clock.at(now, self.turn)

    def is_whole(self, far: Far, block: int) -> bool:
        return far.have.get(block, 0) == (1 << self.shape.psns(block)) - 1

    def has_room(self, flow: int, lane: int) -> bool:
        return len(self.jobs.get(lane, ())) < MAX_QUEUED

    def flush(self) -> int:
        now, nearest = self.clock.now, NEVER
        for lane in self.jobs:
            rate = max(self.machine.lane_rate_bps(lane), 1)
            n = 0
            while n < 4 and self.next_ps.get(lane, 0) <= now and self.has_work(lane):
                if lane not in self.in_hand:
                    self.in_hand[lane] = self.pieces(self.jobs[lane].pop(0), rate)
                size = next(self.in_hand[lane], 0)
                if not size:
                    del self.in_hand[lane]
                    continue
                n += 1
                took = size * 8 * PS_PER_SECOND // rate
                self.next_ps[lane] = max(self.next_ps.get(lane, 0), now - 2 * MS) + took
            if self.has_work(lane):
                nearest = min(nearest, max(self.next_ps[lane], now))
        return nearest

    def has_work(self, lane: int) -> bool:
        return bool(self.jobs.get(lane)) or lane in self.in_hand

    def pieces(self, job: SendBlock, rate: int) -> Iterator[int]:
        psns = sorted(naive.members(job.psns))
        each = job.bits if len(job.bits) > 1 else job.bits * len(psns)
        pairs = list(zip(psns, each, strict=True))
        self.asked[job.block] = naive.bits_of(
            k for bits in job.bits for k in naive.members(bits)
        )
        most = min(max(rate // 8 * 4 * MS // PS_PER_SECOND // STRIDE, 1), PIECE)
        for at in range(0, len(pairs), most):
            part = pairs[at : at + most]
            for psn, bits in part:
                is_asked = job.is_repair or psn == psns[-1]
                self.send(job, psn, bits, is_asked)
            if at + most >= len(pairs):
                self.machine.on_sent(self.clock.now, job)
                self.tell(f"left {job.block} r{job.round} lane {job.lane} n {len(pairs)}")
            yield len(part) * (STRIDE + HEAD_BYTES)

    def send(self, job: SendBlock, psn: int, bits: int, is_asked: bool) -> None:
        self.n_sent += 1
        far = (self.far[k] for k in naive.members(bits))
        self.n_in_vain += all(each.have.get(job.block, 0) >> psn & 1 for each in far)
        if self.trunk and self.rng.random() < self.trunk:
            return
        self.pass_on(list(self.shared), job, psn, bits, is_asked)

    # Down.

    def pass_on(
        self, lines: list[Line], job: SendBlock, psn: int, bits: int, is_asked: bool
    ) -> None:
        now = self.clock.now
        if lines:
            when = lines[0].leaves_at(now)
            if when < NEVER:
                rest = lines[1:]
                self.clock.at(when, lambda: self.pass_on(rest, job, psn, bits, is_asked))
            return
        for k in naive.members(bits):
            far = self.far[k]
            if self.rng.random() < far.loss:
                continue
            when = far.line.leaves_at(now)
            if when < NEVER:
                when += self.way_ps
                self.clock.at(when, lambda f=far: self.take(f, job, psn, is_asked))

    def take(self, far: Far, job: SendBlock, psn: int, is_asked: bool) -> None:
        now, block = self.clock.now, job.block
        if far.is_mute(now):
            far.unheard.append(now)
            return
        whole = (1 << self.shape.psns(block)) - 1
        was = far.have.get(block, 0)
        far.have[block] = was | 1 << psn
        far.rounds[block] = max(far.rounds.get(block, 0), job.round)
        far.last[block] = now
        if not job.is_repair and block > far.front:
            self.pass_by(far, block)
        if far.have[block] == whole:
            if was != whole:
                far.due.pop(block, None)
                far.done_ps = now
            if was != whole or is_asked:
                self.say(far, block)
        elif is_asked:
            far.polled.add(block)
            self.nag_at(far, block, min(far.due.get(block, NEVER), now + REORDER_PS))
        elif block not in far.polled:
            self.nag_at(far, block, now + IDLE_PS)

    def pass_by(self, far: Far, block: int) -> None:
        """Another block begins: what those two before it lack is lost, not late."""
        far.front = block
        for old, have in far.have.items():
            is_whole = have == (1 << self.shape.psns(old)) - 1
            if old <= block - 2 and not is_whole and old not in far.polled | far.due.keys():
                self.nag_at(far, old, self.clock.now + REORDER_PS)

    # Up.

    def nag_at(self, far: Far, block: int, when: int) -> None:
        far.due[block] = when
        self.clock.at(when, lambda: self.nag(far, block, when))

    def nag(self, far: Far, block: int, when: int) -> None:
        if far.due.get(block) != when or far.is_mute(self.clock.now):
            return
        if self.gaps(far, block):
            self.say(far, block)
            self.nag_at(far, block, self.clock.now + AGAIN_PS)
        else:
            self.nag_at(far, block, self.clock.now + IDLE_PS)

    def gaps(self, far: Far, block: int) -> int:
        have = far.have[block]
        n = self.shape.psns(block)
        is_all = block in far.polled or far.front >= block + 2
        return ((1 << (n if is_all else have.bit_length())) - 1) & ~have

    def say(self, far: Far, block: int) -> None:
        mine, gaps = 1 << far.k, self.gaps(far, block)
        n, floor = self.shape.psns(block), 0
        while far.have.get(floor, 0) == (1 << self.shape.psns(floor)) - 1:
            floor += 1
            if floor == self.shape.n_blocks:
                break
        word = naive.Word(
            BIFT_ID,
            n,
            heard=mine,
            done=0 if gaps else mine,
            rows=dict.fromkeys(sorted(naive.members(gaps)), mine),
            round=far.rounds.get(block, 0) if gaps else 255,
            behind=min(max(block - floor, 0), NOT_TOLD),
        )
        if self.rng.random() < far.loss:
            return
        if block not in self.folds:
            self.folds[block] = naive.Slot(BIFT_ID, n)
            slot = self.folds[block]
            self.clock.at(self.clock.now + FOLD_PS, lambda: self.up(block, slot))
        slot = self.folds[block]
        slot.hear(word)
        if not self.asked[block] & ~slot.word().heard:
            self.up(block, slot)

    def up(self, block: int, slot: naive.Slot) -> None:
        if self.folds.get(block) is slot:
            del self.folds[block]
            word = slot.word()
            self.clock.at(self.clock.now + self.way_ps, lambda: self.hear(block, word))

    def hear(self, block: int, word: Any) -> None:
        if self.machine.is_done() or (self.trunk and self.rng.random() < self.trunk):
            return
        self.n_words += 1
        out: list[Effect] = []
        told = feedback_of(block, word)
        self.machine.on_feedback(self.clock.now, told, out)
        pace = self.machine.lanes[0].pace
        self.tell(
            f"word {block} r{word.round} heard {word.heard:x} done {word.done:x} "
            f"rows {len(word.rows)} limit {pace.limit.bps / 1e6:.1f} win {pace.window_bytes}"
        )
        self.fill(out)
        self.clock.at(self.flush(), self.turn)


def run(fans: list[Fan], until_s: float = 120.0) -> None:
    """Run fans of one clock until all have ended."""
    clock = fans[0].clock
    clock.run(int(until_s * PS_PER_SECOND), lambda: all(f.is_over() for f in fans))
    for fan in fans:
        fan.end_ps = fan.end_ps or clock.now
