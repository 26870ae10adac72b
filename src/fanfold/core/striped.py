"""One fan over several planes: each block goes over one of them, dealt by weight.

A plane has a window, a rate and lanes of its own (``PlaneSender``); this machine deals blocks
(core/deal.py) and hears for all planes. Blocks are dealt in order, so planes that have come to
the same block have carried what their weights say: none goes further ahead of another than
LEAD_BLOCKS each. Where one whose queues are full makes others wait much of the time, weights
are not what lines carry, and blocks are dealt by that. A plane that is dead for somebody who
lives gets no more, and what was on it goes by the others.

Outside this is a ``FanSender``; a lane's number has its plane in it: plane * MAX_LANES + lane.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from fanfold.core.books import MAX_LANES
from fanfold.core.deal import Dealer, deal, reduced
from fanfold.core.effects import BlockDone, Effect, ReceiverLost, SendBlock
from fanfold.core.flight import MAIN, Shape, members_of, owing
from fanfold.core.gap_book import GapBook
from fanfold.core.leaving import STALL_PS, TICK_PS
from fanfold.core.plane_sender import FIRST_AGAIN_PS, Plane, PlaneSender
from fanfold.core.waiting import WAY_PS
from fanfold.units import NEVER
from fanfold.wire.feedback import Feedback

DEAD_PS, DEAD_ROUNDS = 250_000_000_000, 4
"""Silence over a plane, in spite of being asked, of one that is heard over others; so many
usual round trips where that is more."""
SLICE = 1024
"""Blocks that are dealt anew in one tick."""
LEAD_BLOCKS = 4
"""Blocks that a plane may be ahead of another one, beyond its share."""
QUIET_PS, QUIET_BLOCKS = 50_000_000_000, 4
"""After so long without a word, or the time in which so many of its blocks should have come
through, the others no longer wait for a plane."""
LOOK_PS, LOOK_BLOCKS = 300_000_000_000, 4
"""So long, and so many blocks of each, planes carry before that is judged; four times as long
at most."""
HELD_SHARE = 8
"""A plane that is held for one part in so many of that time, at least, could carry more."""
MOST_HELD = 8
"""A plane is taken for so many times as fast as it was let be, at most."""
LATE_PS = 250_000_000_000
"""A plane that has no more blocks takes some of one that needs so much longer."""
LATE_BLOCKS = 2
"""At least so many of its blocks are still to be sent."""
TRY_BLOCKS = 16
"""A dead plane is not tried when fewer blocks are left."""


class Lacking:
    """Blocks that each receiver lacks, over all planes; as a mapping has it."""

    def __init__(self, parts: Sequence[Mapping[int, int]]) -> None:
        self._parts = parts

    def get(self, bit: int, default: int = 0) -> int:
        """Blocks that a receiver lacks; the default where it is none of the fan's."""
        found = [part[bit] for part in self._parts if bit in part]
        return sum(found) if found else default


class StripedSender:
    """One reliable fan over planes.

    Args:
        flow, shape, need, cap_bps: as FanSender. weights: share of each plane, whole numbers;
            0: it gets no block; all 0: all alike. down: planes that are known to be dead.
            learns: what lines carry counts where it is not what weights say; without, at the
                end only.
    """

    def __init__(
        self,
        flow: int,
        shape: Shape,
        need: Sequence[int],
        cap_bps: int,
        weights: Sequence[int],
        down: frozenset[int] = frozenset(),
        *,
        learns: bool = True,
    ) -> None:
        self.flow, self.shape, self.cap_bps, self._learns = flow, shape, cap_bps, learns
        self.weights = tuple(weights) if any(weights) else (1,) * len(weights)
        self.planes = [
            Plane(PlaneSender(flow, shape, cap_bps), is_up=weight > 0 and index not in down)
            for index, weight in enumerate(self.weights)
        ]
        if not learns:  # who told a weight knows of a path: such a plane is tried at once
            for plane in self.planes:
                plane.again_ps = 1
        self._heard_ps: dict[int, int] = {}
        self._tick_ps = 0
        self._dealer = Dealer(self._live())
        self._since_ps: int = NEVER  # what planes do is counted from here on
        self._dealt_ps = 0
        self._turn_ps = 0  # from one block that came through to the next, lately
        self._n_ticks = 0  # since then
        self._at = shape.n_blocks  # from here on blocks are still to be dealt anew
        self._share_cap(self._live())
        self.owner = deal(shape.n_blocks, self._live())
        self.plan = bytes(self.owner)
        """Plane of each block as it was dealt before anything was sent."""
        for block in range(shape.n_blocks):
            bits = need[block if len(need) > 1 else 0]
            self._sender_of(block).take(0, block, bits)

    # What FanSender answers.

    def gap_book(self) -> GapBook:
        """Empty: gaps on several planes have no tree in common that would explain them."""
        return GapBook()

    @property
    def n_lacking(self) -> Lacking:
        """Blocks each receiver still lacks, by bit."""
        return Lacking([plane.sender.n_lacking for plane in self.planes])

    @property
    def slots_ps(self) -> int:
        """How long words of a block may wait in slots."""
        return self.planes[0].sender.slots_ps

    @slots_ps.setter
    def slots_ps(self, slots_ps: int) -> None:
        for plane in self.planes:
            plane.sender.slots_ps = slots_ps

    def is_done(self) -> bool:
        """Nobody lacks anything."""
        return all(plane.sender.is_done() for plane in self.planes)

    def lacking(self) -> int:
        """Everyone who still lacks a block."""
        found = 0
        for plane in self.planes:
            found |= plane.sender.lacking()
        return found

    def is_quiet(self, now_ps: int) -> bool:
        """All of it left long ago, and somebody lacks some."""
        busy = [plane.sender for plane in self.planes if not plane.sender.is_done()]
        return bool(busy) and all(sender.is_quiet(now_ps) for sender in busy)

    def lane_rate_bps(self, lane: int) -> int:
        """Pacing rate of a lane of a plane."""
        index, own = divmod(lane, MAX_LANES)
        return self.planes[index].sender.lane_rate_bps(own)

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
        """Send at most one new block for each lane of each plane."""
        self._hold(now_ps)
        for index, plane in enumerate(self.planes):
            effects: list[Effect] = []
            if plane.is_up or plane.again_ps == NEVER:
                ask = partial(_has_room, has_room, index, plane.is_held)
                plane.sender.fill(now_ps, effects, ask)
            self._pass_on(index, effects, out)

    def on_sent(self, now_ps: int, job: SendBlock) -> None:
        """The last packet of a job left."""
        index, lane = divmod(job.lane, MAX_LANES)
        self.planes[index].sender.on_sent(now_ps, msgspec.structs.replace(job, lane=lane))

    def on_feedback(self, now_ps: int, feedback: Feedback, out: list[Effect]) -> None:
        """A branch reported on a block: for the plane that has it, and as a sign of life."""
        if feedback.block >= self.shape.n_blocks:
            return
        index = self.owner[feedback.block]
        for k in members_of(feedback.heard):
            self.planes[index].heard_ps[k] = self._heard_ps[k] = now_ps
        self.planes[index].word_ps = now_ps
        for other, plane in enumerate(self.planes):
            effects: list[Effect] = []
            if other == index:
                plane.sender.on_feedback(now_ps, feedback, effects)
            else:
                plane.sender.overhear(now_ps, feedback, effects)
            plane.n_done += sum(isinstance(effect, BlockDone) for effect in effects)
            self._pass_on(other, effects, out)
        plane = self.planes[index]
        if not plane.is_up and plane.n_done and plane.sender.is_done():
            plane.is_up = True  # it brought what it was tried with, to all
            self._deal(now_ps, self._live())

    def on_timer(self, now_ps: int, out: list[Effect]) -> None:
        """Timers of all planes; who is dead, and what is to be dealt anew."""
        if now_ps < self._tick_ps:
            return
        self._tick_ps = now_ps + TICK_PS
        lost = 0
        for index, plane in enumerate(self.planes):
            effects: list[Effect] = []
            plane.sender.on_timer(now_ps, effects)
            for effect in list(effects):
                if isinstance(effect, ReceiverLost):  # of all planes, and told once
                    if lost >> effect.bit & 1:
                        effects.remove(effect)
                    lost |= 1 << effect.bit
            self._pass_on(index, effects, out)
        if lost:
            self.remove(lost)
        for index in range(len(self.planes)):
            self._judge(now_ps, index)
        self._try_dead(now_ps)
        self._even_out(now_ps)
        self._deal_some(now_ps)

    def set_weights(self, now_ps: int, weights: Sequence[int]) -> None:
        """Other shares from now on, of all blocks that are not sent.

        A plane of weight 0 is left, and what is on its way over it goes by the others. One that
        has a weight again is tried with a block at once, and carries its share when all have
        that. All 0 changes nothing: somebody has to bring the blocks.
        """
        old = self.weights
        if tuple(weights) == old or not any(weights):
            return
        self.weights = tuple(weights)
        left = []
        for plane, was, weight in zip(self.planes, old, weights, strict=True):
            if bool(was) != bool(weight):
                plane.gap_ps, plane.again_ps = FIRST_AGAIN_PS, max(now_ps, 1)
            if was and not weight:
                plane.is_up = False
                left.append(plane)
        if not any(plane.is_up for plane in self.planes):
            for plane, weight in zip(self.planes, weights, strict=True):
                plane.is_up = weight > 0
        self._deal(now_ps, self._live())
        for plane in left:
            self._move_stuck(now_ps, plane)

    def add(
        self, now_ps: int, bit: int, lacks: Sequence[int], *, remembers: bool = False
    ) -> None:
        """Let a receiver join late, or again, as FanSender does; by the planes that live."""
        parts: list[list[int]] = [[] for _ in self.planes]
        for block in lacks:
            if not self.planes[self.owner[block]].is_up:
                self._move(now_ps, block, self._dealer.turn())
            parts[self.owner[block]].append(block)
        for plane, part in zip(self.planes, parts, strict=True):
            plane.sender.add(now_ps, bit, part, remembers=remembers)

    def remove(self, mask: int) -> None:
        """Forget receivers."""
        for plane in self.planes:
            plane.sender.remove(mask)

    def nudge(self, now_ps: int, bit: int) -> None:
        """A receiver, asked by other means, says that it lacks something."""
        for plane in self.planes:
            plane.sender.nudge(now_ps, bit)

    def hear(self, now_ps: int, bit: int) -> None:
        """A receiver gave a sign of life that is not feedback."""
        self._heard_ps[bit] = now_ps
        for plane in self.planes:
            plane.sender.hear(now_ps, bit)

    # How it is done.

    def _pass_on(self, index: int, effects: list[Effect], out: list[Effect]) -> None:
        """Effects of a plane, as one fan has them."""
        for effect in effects:
            if isinstance(effect, SendBlock):
                lane = index * MAX_LANES + effect.lane
                out.append(msgspec.structs.replace(effect, lane=lane))
            else:
                out.append(effect)

    def _sender_of(self, block: int) -> PlaneSender:
        return self.planes[self.owner[block]].sender

    def _live(self) -> list[int]:
        """Weights of planes that live; where none is left all are tried alike."""
        live = [
            weight if plane.is_up else 0
            for plane, weight in zip(self.planes, self.weights, strict=True)
        ]
        return live if any(live) else [1] * len(live)

    def _deal(self, now_ps: int, weights: Sequence[int]) -> None:
        """Deal blocks that are not sent anew, the next ones now, others with the next ticks."""
        self._dealer, self._dealt_ps = Dealer(weights), now_ps
        self._look_anew(now_ps)
        for plane in self.planes:
            plane.furthest = 0
        self._share_cap(weights)
        self._at = min(plane.sender.front() for plane in self.planes)
        self._deal_some(now_ps)

    def _look_anew(self, now_ps: int) -> None:
        if done := sum(plane.n_done for plane in self.planes):
            self._turn_ps = (now_ps - self._since_ps) // done
        self._since_ps, self._n_ticks = now_ps, 0
        for plane in self.planes:
            plane.look_anew()

    def _share_cap(self, weights: Sequence[int]) -> None:
        """Of a rate asked for by hand each plane has its share; one without, for its trial."""
        if self.cap_bps:
            alike = self.cap_bps // len(self.planes)
            for plane, weight in zip(self.planes, weights, strict=True):
                share = self.cap_bps * weight // sum(weights) if weight else alike
                plane.sender.limit(max(share, 1))

    def _deal_some(self, now_ps: int) -> None:
        end = min(self._at + SLICE, self.shape.n_blocks)
        for block in range(self._at, end):
            sender = self._sender_of(block)
            if sender.need[block] and not sender.is_begun(block):
                self._move(now_ps, block, self._dealer.turn())
        self._at = max(end, self._at)
        for plane in self.planes:
            plane.sender.lanes[MAIN].end = self._at  # what is not dealt yet is nobody's

    def _move(self, now_ps: int, block: int, to: int) -> None:
        if to == self.owner[block]:
            return
        bits, last_round = self._sender_of(block).let_go(block)
        self.owner[block] = to
        self.planes[to].sender.take(now_ps, block, bits, last_round)

    def _judge(self, now_ps: int, index: int) -> None:
        """A plane is dead where somebody who is heard over another one says nothing over it."""
        plane = self.planes[index]
        if not any(other.is_up for other in self.planes if other is not plane):
            return
        usual_ps = plane.sender.lanes[MAIN].pace.usual_ps or WAY_PS // 2
        dead_ps = max(DEAD_PS, DEAD_ROUNDS * usual_ps)
        for k, since_ps in owing(now_ps, plane.sender.lanes, 2, STALL_PS).items():
            silent_ps = now_ps - max(plane.heard_ps.get(k, 0), since_ps)
            if silent_ps >= dead_ps and now_ps - self._heard_ps.get(k, 0) < dead_ps // 2:
                self._shut(now_ps, plane)
                return

    def _shut(self, now_ps: int, plane: Plane) -> None:
        """What was on a dead plane, and what was still to go by it, goes by the others."""
        plane.is_up = False
        plane.put_off(now_ps)
        self._deal(now_ps, self._live())
        self._move_stuck(now_ps, plane)

    def _move_stuck(self, now_ps: int, plane: Plane) -> None:
        for block in plane.sender.stuck():
            self._move(now_ps, block, self._dealer.turn())

    def _try_dead(self, now_ps: int) -> None:
        """Give a dead plane one block, when its time has come and many are left."""
        for index, plane in enumerate(self.planes):
            if plane.is_up or now_ps < plane.again_ps or not self.weights[index]:
                continue
            if plane.again_ps == 0:  # it was dead before the start
                plane.put_off(now_ps)
                continue
            most = max(self.planes, key=lambda each: each.sender.n_unsent())
            if most.sender.n_unsent() < TRY_BLOCKS:
                continue
            block = most.sender.next_unsent()
            if block is not None:
                plane.again_ps, plane.n_done = NEVER, 0
                self._move(now_ps, block, index)

    def _hold(self, now_ps: int) -> None:
        """Who is ahead of a plane that is at work waits; in a pass of its own nobody does."""
        self._since_ps = min(self._since_ps, now_ps)
        places = [plane.sender.next_place() for plane in self.planes]
        n_up = sum(plane.is_up for plane in self.planes)
        first: int = NEVER
        for plane, place in zip(self.planes, places, strict=True):
            plane.furthest = max(plane.furthest, place)
            if place == plane.furthest and self._is_at_work(now_ps, plane):
                first = min(first, place)
        for plane, place in zip(self.planes, places, strict=True):
            is_ahead = place == plane.furthest and place >= first + LEAD_BLOCKS * n_up
            plane.is_held = is_ahead and plane.is_up and plane.sender.could_send()

    def _is_at_work(self, now_ps: int, plane: Plane) -> bool:
        """It lives, has blocks left, and words of them come about as often as they should."""
        if not plane.is_up or plane.sender.n_unsent() == 0:
            return False
        if not plane.sender.has_flights():
            return True
        weights = self._dealer.weights
        weight = weights[self.planes.index(plane)]
        block_ps = self._turn_ps * sum(weights) // max(weight, 1)
        usual_ps = plane.sender.lanes[MAIN].pace.usual_ps
        quiet_ps = max(QUIET_PS, 2 * usual_ps, QUIET_BLOCKS * block_ps)
        return now_ps - max(plane.word_ps, self._dealt_ps) < quiet_ps

    def _even_out(self, now_ps: int) -> None:
        """Lines do not carry what weights say: deal by what each could have carried of late."""
        self._n_ticks += 1
        for plane in self.planes:
            plane.tick()
        passed_ps = now_ps - self._since_ps
        if self._at < self.shape.n_blocks or passed_ps < LATE_PS:
            return
        least = min((plane.n_done for plane in self.planes if plane.is_up), default=0)
        is_time = passed_ps >= (LOOK_PS if least >= LOOK_BLOCKS else 4 * LOOK_PS)
        if self._is_late(passed_ps) or (is_time and self._is_misjudged()):
            could, live = self._could_all(), self._live()
            self._deal(now_ps, could if _is_short(could, live) else live)
        elif is_time:
            self._look_anew(now_ps)

    def _held(self) -> list[Plane]:
        """Planes that waited for others for much of the time."""
        return [p for p in self.planes if p.is_up and HELD_SHARE * p.n_held >= self._n_ticks]

    def _is_misjudged(self) -> bool:
        """Planes wait that could carry more, for one that is full and a fifth short."""
        held, weights = self._held() if self._learns else [], self._dealer.weights
        is_full = any(p.n_cuts or p.was_cut for p in self.planes if p.is_up and p not in held)
        is_full = is_full and not any(plane.n_cuts for plane in held)
        is_learnt = weights != reduced(self._live())  # no more is needed to learn anew
        return bool(held) and (is_full or is_learnt) and _is_short(self._could_all(), weights)

    def _is_late(self, passed_ps: int) -> bool:
        """A plane has nothing left to send, and another one for long."""
        live = [plane for plane in self.planes if plane.is_up]
        left = [plane.sender.n_unsent() for plane in live]
        if min(left, default=1) or max(left) < LATE_BLOCKS:
            return False
        return any(
            n * passed_ps >= LATE_PS * max(plane.n_done, 1)
            for n, plane in zip(left, live, strict=True)
        )

    def _could_all(self) -> list[int]:
        """What each plane could have carried; of one that is to carry nothing, nothing."""
        live = self._live()
        could = [self._could(plane) for plane in self.planes]
        return [n if w else 0 for n, w in zip(could, live, strict=True)]

    def _could(self, plane: Plane) -> int:
        """Blocks that a plane would have carried since the last deal, had it not been held."""
        n_busy = max(self._n_ticks - plane.n_held, self._n_ticks // MOST_HELD, 1)
        return max(plane.n_done * self._n_ticks // n_busy, 1)


def _is_short(could: Sequence[int], weights: Sequence[int]) -> bool:
    """A plane is a fifth, or more, short of what its weight says."""
    whole, of = sum(could), sum(weights)
    return any(5 * n * of < 4 * w * whole for n, w in zip(could, weights, strict=True))


def _has_room(
    of_driver: Callable[[int, int], bool], index: int, is_held: bool, flow: int, lane: int
) -> bool:
    """Whether the driver takes more of a lane of a plane, and the plane is to send more."""
    if is_held and lane == MAIN:
        return False
    return of_driver(flow, index * MAX_LANES + lane)
