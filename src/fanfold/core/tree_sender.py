"""The sending end of a fan along a tree: nobody can be left out of what goes down it.

What is sent again goes to everybody on the tree, wanted or not, or by unicast to those who lack
it; who owes a word is asked by unicast. Nobody gets a lane of his own: all go at the pace of
the slowest.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from fanfold.core.effects import Effect, SendBlock
from fanfold.core.flight import MAIN, Flight, Lane, Shape
from fanfold.core.sender import FanSender
from fanfold.units import NEVER
from fanfold.wire.feedback import Feedback

Repair = Literal["tree", "unicast", "branch"]
"""To everybody on the tree, to each who lacks it by itself, or, by BIER, to their branches."""


PAUSE_SHARE = 16
"""What a block lacks goes again to everybody after this part of the time since it was sent, at
the earliest: while a tree is broken, less and less often. A repair that goes to some holds back
nobody else's."""


MOST_DOUBLINGS = 4
"""Of the wait between two questions, one for every second one without an answer."""


class TreeSender(FanSender):
    """One reliable fan to receivers that stay together.

    patient_ps: nobody is given up before; while a tree is mended, silence means nothing.
    """

    patient_ps = 0

    def __init__(
        self, flow: int, shape: Shape, need: Sequence[int], cap_bps: int, *, repair: Repair
    ) -> None:
        super().__init__(flow, shape, need, cap_bps)
        self._repair_by = repair
        self.quick = self.waits
        self._on_tree = self.everyone

    def on_feedback(self, now_ps: int, feedback: Feedback, out: list[Effect]) -> None:
        """While a tree is mended nothing is learned of its rate."""
        pace = self.lanes[MAIN].pace
        pace.is_blind = now_ps < self.patient_ps
        pace.limit.forget_before(self.patient_ps)
        super().on_feedback(now_ps, feedback, out)

    def _long_ps(self, lane: Lane) -> int:
        """Receivers that speak of losses only are silent as a rule."""
        del lane
        return NEVER

    def _may_send(self, now_ps: int, index: int, lane: Lane) -> bool:
        return lane.may_send()

    def _put_off(self, index: int) -> int:
        del index
        return 0

    def _fresh_gaps(
        self, now_ps: int, lane: Lane, flight: Flight, feedback: Feedback
    ) -> tuple[dict[int, int], int]:
        pause_ps = (now_ps - flight.first_ps) // PAUSE_SHARE
        is_paused = flight.n_queued == 0 and now_ps - flight.queued_ps < pause_ps
        if is_paused and self._repair_by == "tree":  # asking is no repair; others wait for none
            return {}, 0
        return super()._fresh_gaps(now_ps, lane, flight, feedback)

    def _repair(
        self,
        now_ps: int,
        index: int,
        block: int,
        flight: Flight,
        gaps: dict[int, int],
        out: list[Effect],
    ) -> None:
        if self._repair_by == "tree":
            gaps = dict.fromkeys(gaps, self._on_tree)
        super()._repair(now_ps, index, block, flight, gaps, out)
        self._back_off(now_ps, flight)
        if self._repair_by == "unicast":
            _go_by_unicast(out)

    def _ask_again(self, now_ps: int, index: int, block: int, out: list[Effect]) -> None:
        super()._ask_again(now_ps, index, block, out)
        flight = self.lanes[index].flights[block]
        self._back_off(now_ps, flight)
        if self._is_for_many(flight):
            job = out[-1]
            assert isinstance(job, SendBlock)
            out[-1] = replace(job, bits=(self._on_tree,))
        elif self._repair_by != "branch":
            _go_by_unicast(out)

    def _is_for_many(self, flight: Flight) -> bool:
        """Whether a question goes down the tree, where whoever has all answers it too."""
        del flight
        return False

    def _questions(self, block: int, flight: Flight) -> dict[int, int]:
        return {self.shape.psns(block) - 1: flight.need}

    def _back_off(self, now_ps: int, flight: Flight) -> None:
        if now_ps < self.patient_ps:
            flight.wait_ps <<= min(flight.tries // 2, MOST_DOUBLINGS)

    def _give_up_silent(self, now_ps: int, out: list[Effect]) -> None:
        if now_ps >= self.patient_ps:
            super()._give_up_silent(now_ps, out)

    def _split_silent(self, now_ps: int, out: list[Effect]) -> bool:
        del now_ps, out
        return False

    def _split_slow(self, now_ps: int, passed_ps: int, out: list[Effect]) -> None:
        del now_ps, passed_ps, out

    def _split_lossy(self, now_ps: int, out: list[Effect]) -> None:
        del now_ps, out


def _go_by_unicast(out: list[Effect]) -> None:
    """What was asked for last goes to each receiver by itself."""
    job = out[-1]
    assert isinstance(job, SendBlock)
    out[-1] = replace(job, by_unicast=True)
