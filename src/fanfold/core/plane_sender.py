"""The part of a fan that goes over one plane: a sender whose blocks may leave it for others."""

from fanfold.core.effects import Effect
from fanfold.core.flight import MAIN, Flight, Lane, Shape, members_of
from fanfold.core.sender import FanSender
from fanfold.wire.feedback import NOT_TOLD, Feedback

UNSENT = -1
"""Round of a block that was not sent."""
FIRST_AGAIN_PS, LAST_AGAIN_PS = 1_000_000_000_000, 16_000_000_000_000
"""After so long a dead plane is tried with one block; twice as long each time, up to this."""


class PlaneSender(FanSender):
    """A fan that has no block until it takes some; windows and lanes are its plane's own."""

    def __init__(self, flow: int, shape: Shape, cap_bps: int) -> None:
        super().__init__(flow, shape, [0], cap_bps)

    def _may_send(self, now_ps: int, index: int, lane: Lane) -> bool:
        """Silence may be of this plane alone: new blocks go by others."""
        return lane.may_send()

    def is_begun(self, block: int) -> bool:
        """Whether its pass has come by a block, or it is on its way to somebody."""
        if block < self.front():
            return True
        return any(block in lane.flights for lane in self.lanes)

    def front(self) -> int:
        """Blocks from here on may still be to be sent."""
        main = self.lanes[MAIN]
        return min(main.cursor, main.missed)

    def next_place(self) -> int:
        """Where its pass over the blocks goes on."""
        main = self.lanes[MAIN]
        return main.missed if main.cursor >= main.end > main.missed else main.cursor

    def has_flights(self) -> bool:
        """Whether a word is owed on any block."""
        return any(lane.flights for lane in self.lanes)

    def is_idle(self) -> bool:
        """Whether all that was given to the driver has left."""
        return not any(f.n_queued for lane in self.lanes for f in lane.flights.values())

    def could_send(self) -> bool:
        """Whether its window has room for one more block, and there is one."""
        return self.lanes[MAIN].may_send() and self.n_unsent() > 0

    def n_unsent(self) -> int:
        """Blocks that somebody needs and that are not on their way."""
        return self._left - len({block for lane in self.lanes for block in lane.flights})

    def next_unsent(self) -> int | None:
        """The first block still to be sent."""
        for block in range(self.front(), self.shape.n_blocks):
            if self.need[block] and not self.is_begun(block):
                return block
        return None

    def stuck(self) -> list[int]:
        """Blocks that were sent, or passed by, and that somebody still needs."""
        on_way = {block for lane in self.lanes for block in lane.flights}
        passed = {b for b in range(self.lanes[MAIN].cursor) if self.need[b]}
        return sorted(on_way | passed)

    def limit(self, cap_bps: int) -> None:
        """Its part of a rate asked for by hand, 0 = none."""
        self.cap_bps = cap_bps
        for lane in self.lanes:
            lane.pace.cap_bps = cap_bps

    def let_go(self, block: int) -> tuple[int, int]:
        """Another plane is to bring a block: who needs it, and its latest round or UNSENT."""
        bits, last = self.need[block], self._rounds.get(block, UNSENT)
        for lane in self.lanes:
            if block in lane.flights:
                last = max(last, lane.land(block).round)
        self._clear(block, bits)
        return bits, last

    def take(self, now_ps: int, block: int, bits: int, last_round: int = UNSENT) -> None:
        """Bring a block to these; what another plane sent of it counts when they say so.

        Who owes a word on it is asked at the next tick, and repaired like all others.
        """
        if not bits:
            return
        self._note_need(block, bits)
        for lane in self.lanes:
            mine = bits & lane.members
            if mine and last_round != UNSENT:
                self._rounds[block] = last_round
                lane.flights[block] = self._moved(now_ps, mine, last_round)
                self._weigh(lane, block)
            elif mine and block < lane.cursor:
                lane.miss(block)

    def _note_need(self, block: int, bits: int) -> None:
        """They lack it; who is in no lane yet goes with all."""
        if self.need[block] == 0:
            self._left += 1
        for k in members_of(bits & ~self.need[block]):
            self.n_lacking[k] = self.n_lacking.get(k, 0) + 1
        self.need[block] |= bits
        self.everyone |= bits
        others = 0
        for lane in self.lanes[1:]:
            others |= lane.members
        self.lanes[MAIN].members |= bits & ~others

    def _moved(self, now_ps: int, need: int, last_round: int) -> Flight:
        """A block under way, of which this plane sent nothing yet: it is due for a question."""
        flight = Flight(now_ps, need, 0, last_round)
        flight.clean, flight.is_own, flight.is_repaired = False, False, True
        flight.first_ps = now_ps
        return flight

    def overhear(self, now_ps: int, feedback: Feedback, out: list[Effect]) -> None:
        """A word on a block of another plane: who said it lives, and has what it says."""
        heard = feedback.heard & self.everyone & ~self._resting.mask
        self._signs.heard |= heard
        self._signs.gained |= feedback.done & heard
        if feedback.behind < NOT_TOLD:
            self._clear_before(feedback.block - feedback.behind, heard, out)


class Plane:
    """One plane, and what is known of its life."""

    def __init__(self, sender: PlaneSender, *, is_up: bool) -> None:
        self.sender = sender
        self.is_up = is_up
        self.heard_ps: dict[int, int] = {}
        self.word_ps = 0  # when anybody was heard
        self.n_done = 0  # blocks that came through since the last deal
        self.n_held = 0  # ticks since then at which it waited for others
        self.n_cuts = 0  # times since then that a full queue made it slower
        self.was_cut = False  # before that
        self._speed = 0, 0  # windows cut, limit
        self.is_held = False
        self.furthest = 0  # block that its pass has come to
        self.gap_ps = FIRST_AGAIN_PS
        self.again_ps: int = 0  # of a dead one: when it is tried

    def tick(self) -> None:
        """Count what the time since the last tick was like."""
        self.n_held += self.is_held and self.sender.is_idle()
        pace = self.sender.lanes[MAIN].pace
        before, self._speed = self._speed, (pace.n_cuts, pace.limit.bps)
        self.n_cuts += self._speed[0] > before[0] or 0 < self._speed[1] < before[1]

    def look_anew(self) -> None:
        """Count from now on."""
        self.was_cut = self.n_cuts > 0
        self.n_done = self.n_held = self.n_cuts = 0

    def put_off(self, now_ps: int) -> None:
        """It is dead: when it is tried, and after twice as long the next time."""
        self.again_ps = now_ps + self.gap_ps
        self.gap_ps = min(2 * self.gap_ps, LAST_AGAIN_PS)
