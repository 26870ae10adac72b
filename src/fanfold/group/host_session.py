"""The operations of a rank whose group is all at one host (ADR 0070).

What is asked for goes along with each rank's first block, as a number, so an operation has no
round before its own; ranks say what they were asked for only where the numbers differ. There
are no exponents to agree on before: who joins values sees all of them.
"""

import zlib
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fanfold.group.ask import Ask
from fanfold.group.communicator import GroupError
from fanfold.group.gone import GONE_TEXTS
from fanfold.group.layout import Segment, build_blocks
from fanfold.group.rules import Inside, Rules
from fanfold.group.session import STOPPED_PS, Session
from fanfold.kernels.absorb import FLAG_OVERFLOW
from fanfold.live import rank_loop as loop
from fanfold.live.clock import now_ps
from fanfold.live.host_end import ENDED, HostEnd
from fanfold.live.rank import Batch, RankEnd
from fanfold.live.rank_late import OVERTAKEN, UNLIKE

NO_CODES = np.zeros(0, np.int64)
ALONE_BYTES = 16 << 10
"""Of an array that has a block of its own in a row of broadcasts: copies would cost more."""
_FIRST = 1 << 32
"""Above what is asked for by other rounds: these say it in their blocks."""


class HostSession(Session):
    """What the worker's thread does for one communicator."""

    def __init__(self, end: HostEnd, rank: int, rules: Rules, n_spare: int) -> None:
        super().__init__(cast("RankEnd", end), rank, rules, n_spare)  # it has what is used
        self._host, self.alone_bytes = end, ALONE_BYTES

    def do(
        self,
        ask: Ask,
        segments: Sequence[Segment],
        src: NDArray[Any],
        dst: NDArray[Any],
        until_ps: int,
        *,
        share: float = 1.0,
        mixed: bool = False,
    ) -> Inside:
        """See ``Session``."""
        self.begin()
        ask = ask._replace(rules=self.rules.number())
        form = ask.form
        blocks = build_blocks(segments, self.end.block_bytes, mixed=mixed)
        asked = _FIRST + zlib.crc32(np.array(ask.words(), np.int64).tobytes())
        batch = Batch(form.kind, form.op, blocks, src, dst, NO_CODES, share, asked=asked)
        self._run(ask.name, batch, until_ps)
        if self.end.gone() == UNLIKE:
            raise self._disagreement(ask, until_ps)
        self.n_overflows += self.end.flags() & FLAG_OVERFLOW != 0
        return Inside(self.size)

    def agree_to_move(
        self, ask: Ask, told: NDArray[np.uint8], until_ps: int
    ) -> NDArray[np.uint8]:
        """See ``Session``."""
        self.begin()
        ask = ask._replace(rules=self.rules.number())
        return self._agree_asked(ask, told, until_ps)[: len(told)]

    def _grow(self, name: str, n_blocks: int, until_ps: int) -> None:
        """There is no window to be had."""

    def give_up(self) -> None:
        """Let ranks that are late know that this one waits for nobody any more."""
        self._host.give_up()

    def _run(self, name: str, batch: Batch, until_ps: int, *, may_end: bool = False) -> bool:
        code = self.end.run(batch, until_ps, may_end=may_end)
        if may_end and (code == loop.LATE or (code == loop.WOKEN and not self.end.is_stopped)):
            return False
        if code != loop.DONE and self.end.gone() != UNLIKE:
            self.broken = self._failure(name, code, until_ps)
            self._host.give_up()
            raise self.broken
        return True

    def _failure(self, name: str, code: int, until_ps: int) -> GroupError:
        if code == loop.WOKEN:
            return GroupError(f"{name}: the group was closed meanwhile", op=name)
        own = self.called[self.rank]
        if code == loop.GONE and self.end.gone() == OVERTAKEN:
            text = f"{name}: {GONE_TEXTS[OVERTAKEN].format(own)}"
            return GroupError(text, op=name, ranks=[own])
        missing = self.end.missing()
        if code == loop.GONE and self.end.gone() == ENDED:
            ended = self._host.ended() or missing
            text = f"{name}: not heard: rank {self._who(ended)}, which has ended"
            return GroupError(text, op=name, ranks=self._called(ended))
        text = f"{name}: deadline, not heard: rank {self._who(missing)}"
        if not missing or now_ps() > until_ps + STOPPED_PS:
            missing = [self.rank]
            text = f"{name}: rank {self._who(missing)} itself was stopped past the deadline"
        return GroupError(text, op=name, ranks=self._called(missing), is_deadline=True)
