"""A sender whose receivers speak only of what they lost, and once when all was sent.

Silence is taken for success: a block that nobody spoke of for a whole wait is set aside, and
blocks go out as fast as the link takes them. The last packet of all asks everybody for a word,
which says up to where that receiver has everything. Who does not answer is asked again; when
all have, those who still lack a block are asked about it.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from fanfold.core.effects import BlockDone, Effect, SendBlock
from fanfold.core.flight import MAIN, Flight, Lane, Shape
from fanfold.core.leaving import TICK_PS
from fanfold.core.tree_sender import Repair, TreeSender
from fanfold.units import NEVER
from fanfold.wire.feedback import NOT_TOLD, Feedback

FEW, BY_UNICAST = 8, 4
"""One of so many receivers is few; so many questions in a row go down a tree, less one."""
STREAM_TICKS = 2
"""Words that follow each other so closely are of one stream."""


class NackSender(TreeSender):
    """One reliable fan to receivers that are silent while all is well.

    is_patient: while answers come in nobody is asked again. Where a whole fabric waited for new
    paths answers take long; where backup paths stood, to ask again at once ends sooner.
    """

    is_patient = True

    def __init__(
        self, flow: int, shape: Shape, need: Sequence[int], cap_bps: int, *, repair: Repair
    ) -> None:
        super().__init__(flow, shape, need, cap_bps, repair=repair)
        self._aside: dict[int, Flight] = {}
        self._word_ps = -NEVER  # when a word came last

    def on_sent(self, now_ps: int, job: SendBlock) -> None:
        """What has left makes room for what follows, whatever becomes of it."""
        super().on_sent(now_ps, job)
        if job.block in self.lanes[job.lane].flights:
            self._weigh(self.lanes[job.lane], job.block)

    def on_feedback(self, now_ps: int, feedback: Feedback, out: list[Effect]) -> None:
        """A loss brings its block back; a floor says that all below has come."""
        self._word_ps = now_ps
        heard = feedback.heard & self.everyone
        if feedback.behind < NOT_TOLD:
            floor, need = feedback.block - feedback.behind, self.need
            news = [b for b in self._aside if b < floor and (need[b] & heard or not need[b])]
            for block in news:
                self._settle(block, heard, out)
        if feedback.rows and feedback.block in self._aside:
            self.lanes[MAIN].flights[feedback.block] = self._aside.pop(feedback.block)
        super().on_feedback(now_ps, feedback, out)

    def on_timer(self, now_ps: int, out: list[Effect]) -> None:
        """Set aside what nobody spoke of, until everybody has answered the question."""
        if now_ps < self._tick_ps:
            return
        last = self.shape.n_blocks - 1
        flights = self.lanes[MAIN].flights
        if self.need[last] == 0:
            for block in list(self._aside):
                self._settle(block, 0, out)
            flights.update(self._aside)
            self._aside.clear()
        else:
            for block in [b for b, f in flights.items() if b != last and f.is_due(now_ps)]:
                self._aside[block] = flights.pop(block)
        super().on_timer(now_ps, out)

    def remove(self, mask: int) -> None:
        """Who is given up lacks nothing any more."""
        super().remove(mask)
        for block in list(self._aside):
            self._settle(block, mask, [])

    def _weigh(self, lane: Lane, block: int) -> None:
        flight = lane.flights[block]
        if flight.first_ps < NEVER:
            lane.pace.on_gone(flight.weight)
            flight.weight = 0
        else:
            super()._weigh(lane, block)

    def _ask_again(self, now_ps: int, index: int, block: int, out: list[Effect]) -> None:
        """Not again while answers to what was asked come in: that of many take long.

        Held for as long as the block had been under way then, at most.
        """
        flight = self.lanes[index].flights[block]
        is_coming = flight.tries > 0 and now_ps - self._word_ps <= STREAM_TICKS * TICK_PS
        if (
            self.is_patient
            and is_coming
            and now_ps - flight.sent_ps < flight.sent_ps - flight.first_ps
        ):
            return
        super()._ask_again(now_ps, index, block, out)
        job = out[-1]
        assert isinstance(job, SendBlock)
        out[-1] = replace(job, is_ask=True)

    def _is_for_many(self, flight: Flight) -> bool:
        """Whether many owe a word, of a tree that failed.

        A packet to each of a thousand receivers takes longer than the transfer. Every fourth
        question goes by unicast all the same: the tree may be broken longer than its ways.
        """
        if self._repair_by != "tree" or not self.patient_ps or flight.tries % BY_UNICAST == 0:
            return False
        return flight.need.bit_count() * FEW > self._on_tree.bit_count()

    def _settle(self, block: int, done: int, out: list[Effect]) -> None:
        """A block set aside has reached some; it is done when it has reached all."""
        self._signs.gained |= done & self.need[block]
        self._clear(block, done)
        self._aside[block].need &= self.need[block]
        if self.need[block] == 0:
            del self._aside[block]
            out.append(BlockDone(self.flow, block))
