"""One plane's part of a group over several: an operation there can be left in the middle."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fanfold.group.ask import Ask
from fanfold.group.plane_view import Turn
from fanfold.group.rules import Inside, Rules
from fanfold.group.session import Codes, Session
from fanfold.group.values import MOVED, Form
from fanfold.kernels.state import I64
from fanfold.live import rank_loop as loop
from fanfold.live.clock import now_ps
from fanfold.live.rank import Batch
from fanfold.live.strand_end import StrandEnd

HAS, IS_ODD = 1, 2
"""Bits of ``have``: a result is here; with a value that is not finite."""


class PlaneChangeError(Exception):
    """Ranks go over other planes from now on: what was begun is left as it is."""


class StrandSession(Session):
    """A session that ends with ``PlaneChangeError`` where the turn is not its own any more.

    turn: in which it works. has: of the blocks in hand, which have their result here.
    """

    def __init__(
        self,
        end: StrandEnd,
        rank: int,
        rules: Rules,
        n_spare: int,
        turn_now: Callable[[], Turn],
    ) -> None:
        super().__init__(end, rank, rules, n_spare)
        self.strand_end, self._turn_now = end, turn_now
        self.turn = turn_now()
        self.has = np.zeros(0, np.bool_)
        self._blocks: I64 | None = None

    def do_blocks(
        self,
        ask: Ask,
        blocks: I64,
        src: NDArray[np.uint8],
        dst: NDArray[np.uint8],
        until_ps: int,
        share: float = 1.0,
    ) -> Inside:
        """See ``Session``."""
        self.has, self._blocks = np.zeros(len(blocks), np.bool_), blocks
        inside = super().do_blocks(ask, blocks, src, dst, until_ps, share)
        self.has[:] = True
        return inside

    def move_blocks(
        self,
        name: str,
        blocks: I64,
        arrays: tuple[Codes, Codes],
        until_ps: int,
        how: tuple[int, int] = (MOVED.kind, MOVED.op),
    ) -> None:
        """See ``Session``."""
        self.has, self._blocks = np.zeros(len(blocks), np.bool_), blocks
        super().move_blocks(name, blocks, arrays, until_ps, how)
        self.has[:] = True

    def _run(self, name: str, batch: Batch, until_ps: int, *, may_end: bool = False) -> bool:
        if self._turn_now() != self.turn:
            raise PlaneChangeError
        if super()._run(name, batch, until_ps, may_end=True):
            return True
        self._note(batch.blocks)
        if self._turn_now() == self.turn and now_ps() >= until_ps:
            self.broken = self._failure(name, loop.LATE, until_ps)
            raise self.broken
        raise PlaneChangeError

    def _mend(self, name: str, form: Form, batch: Batch, until_ps: int) -> None:
        self._note(batch.blocks)
        super()._mend(name, form, batch, until_ps)

    def _note(self, blocks: I64) -> None:
        """Note what is here, where these are the blocks in hand."""
        if blocks is self._blocks:
            have = self.end.state.have
            self.has = (have & HAS != 0) & (have & IS_ODD == 0)
