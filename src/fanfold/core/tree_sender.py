"""The sending end of a fan along a tree: nobody can be left out of what goes down it.

What is sent again goes to everybody on the tree, wanted or not, or by unicast to those who lack
it; who owes a word is asked by unicast. Nobody gets a lane of his own: all go at the pace of
the slowest.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from fanfold.core.effects import Effect, SendBlock
from fanfold.core.flight import Flight, Shape
from fanfold.core.sender import FanSender


class TreeSender(FanSender):
    """One reliable fan along a tree.

    Args:
        by_unicast: send again to each receiver by itself.
    """

    def __init__(
        self, flow: int, shape: Shape, need: Sequence[int], cap_bps: int, *, by_unicast: bool
    ) -> None:
        super().__init__(flow, shape, need, cap_bps)
        self._by_unicast = by_unicast
        self._on_tree = self.everyone

    def _repair(
        self,
        now_ps: int,
        index: int,
        block: int,
        flight: Flight,
        gaps: dict[int, int],
        out: list[Effect],
    ) -> None:
        if self._by_unicast:
            super()._repair(now_ps, index, block, flight, gaps, out)
            _go_by_unicast(out)
        else:
            all_of_them = dict.fromkeys(gaps, self._on_tree)
            super()._repair(now_ps, index, block, flight, all_of_them, out)

    def _ask_again(self, now_ps: int, index: int, block: int, out: list[Effect]) -> None:
        super()._ask_again(now_ps, index, block, out)
        _go_by_unicast(out)

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
