"""A FanSender in virtual time: paced lanes, a bad network and model receivers.

Every call and effect of the machine is written down and judged (``Checked``).
"""

import heapq
import pickle
from collections import deque
from collections.abc import Callable, Iterable

import msgspec
import naive
from hypothesis import Phase, settings
from hypothesis import strategies as st

from fanfold.core.books import MAX_LANES
from fanfold.core.effects import Effect, ReceiverLost, ReceiverSplit, SendBlock
from fanfold.core.flight import MAIN, Shape
from fanfold.core.pace import MAX_BLOCKS
from fanfold.core.sender import FanSender
from fanfold.streams import stream
from fanfold.units import NEVER, PS_PER_SECOND
from fanfold.wire.feedback import NOT_TOLD, Feedback, FeedbackRow

MS = PS_PER_SECOND // 1000
FLOW = 7
BIFT_ID = 0x10000
STRIDE, N_PSN = 10, 4
REORDER_PS, AGAIN_PS, FOLD_PS = 2 * MS, 60 * MS, 60 * MS


class Network(msgspec.Struct, frozen=True):
    """What goes wrong, as shares of one, until ``heals_ps``."""

    loss: float = 0.0
    feedback_loss: float = 0.0
    duplicates: float = 0.0
    folding: float = 0.0
    jitter_ms: int = 0
    heals_ps: int = 0


NETWORKS = st.builds(
    Network,
    loss=st.sampled_from([0.0, 0.05, 0.3, 0.9]),
    feedback_loss=st.sampled_from([0.0, 0.1, 0.5]),
    duplicates=st.sampled_from([0.0, 0.5]),
    folding=st.sampled_from([0.0, 0.5, 1.0]),
    jitter_ms=st.sampled_from([0, 1, 30, 400]),
    heals_ps=st.sampled_from([0, PS_PER_SECOND // 2]),
)
"""Bad for so short a time that nobody is given up."""
LAW = settings(max_examples=60, phases=(Phase.explicit, Phase.generate))
"""Not shrunk: a run of a world is long, and its seed says it all."""


class Receiver:
    """What one BFER does with packets; ``loss`` is on top of the network's and never heals."""

    def __init__(self, bit: int, shape: Shape, has: Iterable[int] = ()) -> None:
        self.bit, self.shape = bit, shape
        self.have = {b: set(range(shape.psns(b))) for b in has}
        self.rounds: dict[int, int] = {}
        self.loss = 0.0
        self.latency_ps = MS
        self.silent_ps: int = NEVER
        self.back_ps: int = NEVER
        self.n_packets = 0
        self.floor = 0
        self.done_ps = 0

    def is_mute(self, now: int) -> bool:
        return self.silent_ps <= now < self.back_ps

    def is_whole(self, block: int) -> bool:
        n_psn = self.shape.psns(block) if block < self.shape.n_blocks else NEVER
        return len(self.have.get(block, ())) == n_psn

    def is_complete(self) -> bool:
        return all(self.is_whole(b) for b in range(self.shape.n_blocks))

    def report(self, block: int) -> naive.Word:
        mine, n_psn = 1 << self.bit, self.shape.psns(block)
        gaps = set(range(n_psn)) - self.have.get(block, set())
        return naive.Word(
            BIFT_ID,
            n_psn,
            heard=mine,
            done=0 if gaps else mine,
            rows=dict.fromkeys(sorted(gaps), mine),
            round=self.rounds.get(block, 0) if gaps else 255,
            behind=self.behind(block),
        )

    def behind(self, block: int) -> int:
        """Blocks back to the oldest one lacking."""
        while self.is_whole(self.floor):
            self.floor += 1
        return min(max(block - self.floor, 0), NOT_TOLD)


def feedback_of(block: int, word: naive.Word) -> Feedback:
    rows = tuple(FeedbackRow(psn, bits) for psn, bits in word.rows.items())
    return Feedback(
        BIFT_ID,
        FLOW,
        block,
        word.n_psn,
        word.heard,
        word.done,
        rows,
        round=word.round,
        n_merged=word.n_merged,
        behind=word.behind,
    )


class Checked:
    """A FanSender whose every call is written down and whose every effect is judged."""

    def __init__(self, shape: Shape, need: list[int], cap_bps: int = 0) -> None:
        self.machine = FanSender(FLOW, shape, need, cap_bps)
        self.shape = shape
        self.calls: list[tuple[str, tuple[object, ...]]] = []
        self.effects: list[Effect] = []
        self.times: list[object] = []  # of the effects
        self.gone = 0  # given up or removed
        self.n_loss_repairs = 0
        self.lacking: dict[tuple[int, int], int] = {}  # block and packet: who said it lacks it
        self.rounds: dict[int, int] = {}  # last one of each block that was sent again

    def call(self, name: str, *args: object, **more: object) -> list[Effect]:
        self.calls.append((name, args))
        out: list[Effect] = []
        method = getattr(self.machine, name)
        n_members = self.machine.lanes[MAIN].members.bit_count()
        if name == "on_feedback":
            assert isinstance(args[1], Feedback)
            self.note(args[1])
        if name in ("fill", "on_feedback", "on_timer"):
            method(*args, out)
        else:
            method(*args, **more)
        self.gone |= naive.bits_of(e.bit for e in out if isinstance(e, ReceiverLost))
        for effect in out:
            if isinstance(effect, SendBlock):
                self.judge(name, effect, args)
                if effect.round:
                    self.rounds[effect.block] = effect.round
        n_split = sum(isinstance(effect, ReceiverSplit) for effect in out)
        assert n_split * 2 <= n_members, "a majority held itself back"
        self.effects += out
        self.times += [args[0]] * len(out)
        self.check_bounds()
        return out

    def judge(self, name: str, job: SendBlock, args: tuple[object, ...]) -> None:
        n_psn = self.shape.psns(job.block)
        psns = sorted(naive.members(job.psns))
        need = self.machine.need[job.block]
        assert psns
        assert psns[-1] < n_psn
        assert job.is_last == (job.block == self.shape.n_blocks - 1)
        assert 0 <= job.round <= 255
        assert len(job.bits) in (1, len(psns))
        assert all(bits and not bits & ~need & ~self.gone for bits in job.bits)
        if name == "fill" and job.is_repair:  # late comers join a block that is in flight
            assert len(psns) == n_psn
            assert len(set(job.bits)) == 1
            return
        if name == "fill":
            assert (len(psns), job.is_repair) == (n_psn, False)
            assert job.round == min(self.rounds.get(job.block, -1) + 1, 255), "a round twice"
            return
        assert job.is_repair
        is_question = name == "on_timer" and psns[-1] == n_psn - 1
        if is_question and len(psns) == 1:  # to all who owe a word
            return
        self.n_loss_repairs += 1
        for psn, bits in zip(psns[: -1 if is_question else None], job.bits, strict=False):
            lacking = self.lacking.get((job.block, psn), 0)
            assert not bits & ~lacking, "a repair to somebody who has it"

    def note(self, feedback: Feedback) -> None:
        """What words say of who lacks which packet, the latest of each receiver."""
        lacking = {row.psn: row.lacking & ~feedback.done for row in feedback.rows}
        for psn in range(feedback.n_psn):
            kept = self.lacking.get((feedback.block, psn), 0) & ~feedback.heard
            self.lacking[feedback.block, psn] = kept | lacking.get(psn, 0)

    def check_bounds(self) -> None:
        machine = self.machine
        assert 1 <= len(machine.lanes) <= MAX_LANES
        for lane in machine.lanes:
            assert len(lane.flights) <= MAX_BLOCKS + 1
            for block, flight in lane.flights.items():
                assert 0 <= flight.weight <= self.shape.bytes(block)
                assert (
                    flight.weight == self.shape.bytes(block) or not flight.need & ~flight.told
                )
            flying = sum(flight.weight for flight in lane.flights.values())
            assert flying == lane.pace.flying_bytes
            assert lane.pace.block_bytes <= lane.pace.window_bytes
            assert all(flight.need for flight in lane.flights.values())

    def check_books(self) -> None:
        machine = self.machine
        left = sum(1 for need in machine.need if need)
        assert machine.is_done() == (left == 0)
        for k, n in machine.n_lacking.items():
            assert n == sum(need >> k & 1 for need in machine.need)
        assert machine.lacking() == naive.bits_of(k for k, n in machine.n_lacking.items() if n)


class World:
    """One sender, its paced lanes, the network and the receivers, on one clock."""

    def __init__(
        self,
        n_blocks: int,
        receivers: int,
        *,
        n_psn: int = N_PSN,
        seed: int = 0,
        network: Network | None = None,
        cap_bps: int = 0,
        has: Callable[[int], Iterable[int]] = lambda bit: (),
    ) -> None:
        self.shape = Shape(n_blocks * STRIDE * n_psn - 13, STRIDE, n_psn)
        self.rng = stream(seed, "tests/sender")
        self.network = network or Network()
        self.receivers = {k: Receiver(k, self.shape, has(k)) for k in range(receivers)}
        need = [
            naive.bits_of(k for k, r in self.receivers.items() if not r.is_whole(b))
            for b in range(self.shape.n_blocks)
        ]
        self.checked = Checked(self.shape, need, cap_bps)
        self.now = 0
        self.events: list[tuple[int, int, Callable[[], None]]] = []
        self.n_events = 0
        self.lanes: dict[int, tuple[deque[SendBlock], deque[SendBlock]]] = {}
        self.free_ps: dict[int, int] = {}
        self.folds: dict[int, naive.Slot] = {}
        self.early_checks = 0

    # The clock.

    def at(self, when: int, what: Callable[[], None]) -> None:
        self.n_events += 1
        heapq.heappush(self.events, (when, self.n_events, what))

    def run(self, until_ps: int, *, to_the_end: bool = False, max_steps: int = 60_000) -> bool:
        """True when everybody wanted has everything; then it ends, or else at ``until_ps``."""
        machine = self.checked.machine
        for _ in range(max_steps):
            if (machine.is_done() and not to_the_end) or self.now >= until_ps:
                break
            self.send()
            times = [
                until_ps,
                machine.deadline_ps(),
                *(self.free_ps[i] for i in self.lanes if any(self.lanes[i])),
            ]
            if self.events:
                times.append(self.events[0][0])
            self.now = max(self.now, min(times))
            while self.events and self.events[0][0] <= self.now:
                heapq.heappop(self.events)[2]()
            if machine.deadline_ps() <= self.now:
                self.tick()
        else:
            raise AssertionError("no progress")
        self.checked.check_books()
        return machine.is_done()

    def tick(self) -> None:
        machine = self.checked.machine
        if self.early_checks < 20:
            self.early_checks += 1
            before = pickle.dumps(machine)
            out: list[Effect] = []
            machine.on_timer(machine.deadline_ps() - 1, out)
            assert (out, pickle.dumps(machine)) == ([], before)
        deadline = machine.deadline_ps()
        out = self.checked.call("on_timer", self.now)
        assert out or machine.deadline_ps() > deadline
        self.queue(out)

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def is_bad(self) -> bool:
        return self.now < self.network.heals_ps

    # Down.

    def queue(self, effects: list[Effect]) -> None:
        for job in effects:
            if isinstance(job, SendBlock):
                repairs, fresh = self.lanes.setdefault(job.lane, (deque(), deque()))
                (repairs if job.is_repair else fresh).append(job)
                self.free_ps.setdefault(job.lane, 0)

    def send(self) -> None:
        """As an outbox does: repairs first, one job when the lane is free again."""
        if sum(len(q) for lane in self.lanes.values() for q in lane) < 4:
            self.queue(self.checked.call("fill", self.now))
        for index, (repairs, fresh) in self.lanes.items():
            if self.free_ps[index] > self.now or not (repairs or fresh):
                continue
            job = (repairs or fresh).popleft()
            n_bytes = sum(
                min(STRIDE, self.shape.bytes(job.block)) for _ in naive.members(job.psns)
            )
            rate = max(self.checked.machine.lane_rate_bps(index), 1)
            self.free_ps[index] = self.now + n_bytes * 8 * PS_PER_SECOND // rate
            self.deliver(job)
            self.checked.call("on_sent", self.now, job)

    def deliver(self, job: SendBlock) -> None:
        psns = sorted(naive.members(job.psns))
        each = job.bits if len(job.bits) > 1 else job.bits * len(psns)
        for k, receiver in self.receivers.items():
            mine = [p for p, bits in zip(psns, each, strict=True) if bits >> k & 1]
            loss = receiver.loss + (self.network.loss if self.is_bad() else 0)
            mine = [p for p in mine if not self.chance(loss)]
            if mine:
                is_asked = job.is_repair or mine[-1] == psns[-1]
                self.at(
                    self.now + receiver.latency_ps + self.jitter(),
                    lambda r=receiver, p=mine, a=is_asked: self.take(r, job, p, a),
                )

    def jitter(self) -> int:
        most = self.network.jitter_ms if self.is_bad() else 0
        return int(self.rng.integers(0, most * MS + 1))

    def take(self, receiver: Receiver, job: SendBlock, psns: list[int], is_asked: bool) -> None:
        if receiver.is_mute(self.now):
            return
        receiver.n_packets += len(psns)
        is_new = job.block not in receiver.have
        was_whole = receiver.is_whole(job.block)
        receiver.have.setdefault(job.block, set()).update(psns)
        receiver.rounds[job.block] = max(receiver.rounds.get(job.block, 0), job.round)
        if receiver.is_whole(job.block):
            receiver.done_ps = self.now
            if is_asked or not was_whole:
                self.say(receiver, job.block)
        elif is_asked:
            self.at(self.now + REORDER_PS, lambda: self.nag(receiver, job.block, repeat=False))
        if is_new:
            self.at(
                self.now + AGAIN_PS // 3, lambda: self.nag(receiver, job.block, repeat=True)
            )

    # Up.

    def nag(self, receiver: Receiver, block: int, *, repeat: bool) -> None:
        if receiver.is_whole(block):
            return
        self.say(receiver, block)
        if repeat:
            self.at(self.now + AGAIN_PS, lambda: self.nag(receiver, block, repeat=True))

    def say(self, receiver: Receiver, block: int) -> None:
        if receiver.is_mute(self.now) or (
            self.is_bad() and self.chance(self.network.feedback_loss)
        ):
            return
        word = receiver.report(block)
        if not self.chance(self.network.folding):
            self.up(block, word, receiver.latency_ps)
            return
        if block not in self.folds:
            self.folds[block] = naive.Slot(BIFT_ID, word.n_psn)
            hold = int(self.rng.integers(0, FOLD_PS))
            self.at(self.now + hold, lambda: self.up(block, self.folds.pop(block).word(), MS))
        self.folds[block].hear(word)

    def up(self, block: int, word: naive.Word, latency_ps: int) -> None:
        n = 1 + (self.is_bad() and self.chance(self.network.duplicates))
        for _ in range(n):
            self.at(
                self.now + latency_ps + self.jitter(),
                lambda: self.queue(
                    self.checked.call("on_feedback", self.now, feedback_of(block, word))
                ),
            )

    def effects(self, kind: type) -> list[Effect]:
        return [e for e in self.checked.effects if isinstance(e, kind)]
