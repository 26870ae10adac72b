"""What a rank knows of the planes of its group, as all ranks come to know it.

Ranks tell each other words over every plane, joined by maximum, several times a second. Of each
plane the words have a *count*: even, it is used; odd, it is not. Counts only rise, so all ranks
agree whatever order words come in. A plane that says nothing for a second while another one
speaks gets an odd count from whoever sees it, one that speaks again for as long as it must an
even one. A rank whose processor stands still hears nothing over any plane, and blames none.

All counts together are a *turn*. Where a turn changes, ranks leave what they do, and each says
in its *row* where it stands: the row is of that turn, and stays as it is until the next one. So
whoever has the rows of all ranks of one turn decides as all others do (``decide``).
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.units import PS_PER_SECOND

Words = NDArray[np.int32]
Turn = tuple[int, ...]
UNSAID = -(2**31)
"""Word of a rank that has none to say: any other is larger."""
SILENT_PS = PS_PER_SECOND
LEAST_HEARD = 4
"""Of another one, before a plane that is not heard meanwhile is silent."""
MOST_DOUBLED = 6
"""A plane must speak for a second before it is used again, twice as long each time."""
N_FIRST = 3
"""Words of a row before those for each plane."""


class Last(IntEnum):
    """How the operation before went: REDO, it can be done again; KEPT, all ranks have it."""

    REDO = 0
    KEPT = 1


class Row(NamedTuple):
    """Where a rank stands. n_done: operations it has ended. is_begun: it is in the next one.

    blocks: of each plane, a number above that of each block it sent.
    """

    n_done: int
    is_begun: bool
    last: Last
    blocks: Sequence[int]


class Way(IntEnum):
    """How a rank goes on in its operation: ANEW; RESUME, with what it has; OVER, it has all."""

    ANEW = 0
    RESUME = 1
    OVER = 2


class Decision(NamedTuple):
    """is_behind: somebody needs the operation before once more, from all ranks."""

    way: Way
    is_behind: bool


def decide(rows: Sequence[Row], rank: int) -> Decision:
    """How a rank goes on, from the rows of all ranks of one turn.

    Ranks are at most one operation apart: none ends one that another has not begun. Where one
    has not begun it, no rank can have anything of it.
    """
    least, most = min(row.n_done for row in rows), max(row.n_done for row in rows)
    if least == most:
        is_begun = all(row.is_begun for row in rows)
        return Decision(Way.RESUME if is_begun else Way.ANEW, False)
    is_ahead = rows[rank].n_done > least
    last = next(row.last for row in rows if row.n_done == most)
    if is_ahead:
        return Decision(Way.ANEW, last == Last.REDO)
    return Decision(Way.OVER if last == Last.KEPT else Way.ANEW, False)


def next_blocks(rows: Sequence[Row], window: int) -> list[int]:
    """Of each plane the number that all ranks go on with: above all that was sent.

    Numbers go round; those of one group are near each other.
    """
    found = []
    for column in zip(*(row.blocks for row in rows), strict=True):
        first = column[0]
        above = max((n - first + (1 << 31)) % (1 << 32) - (1 << 31) for n in column)
        found.append((first + above + window) % (1 << 32))
    return found


class PlaneView:
    """One rank's view.

    Args:
        n_planes: of the group. n_ranks, rank: as in it.

    Attributes:
        counts: of each plane. rows: the latest of each rank, and of which turn.
    """

    def __init__(self, n_planes: int, n_ranks: int, rank: int) -> None:
        self.n_planes, self.rank = n_planes, rank
        self.counts = [0] * n_planes
        self.turns: list[Turn] = [(0,) * n_planes] * n_ranks
        start = Row(0, False, Last.REDO, (0,) * n_planes)
        self.rows: list[Row] = [start] * n_ranks
        self._first_ps: list[int | None] = [None] * n_planes
        self._n_others = [[0] * n_planes for _ in range(n_planes)]
        self._any_ps = 0
        self._since_ps = [0] * n_planes
        self._n_heard = [0] * n_planes

    @property
    def turn(self) -> Turn:
        """Counts of all planes."""
        return tuple(self.counts)

    def living(self) -> list[int]:
        """Places of planes that are used; all of them where none is."""
        return living_of(self.turn)

    def is_met(self) -> bool:
        """All ranks' rows are of this turn."""
        return all(turn == self.turn for turn in self.turns)

    def say(self, turn: Turn, row: Row) -> None:
        """Say where this rank stands, in a turn."""
        self.turns[self.rank], self.rows[self.rank] = turn, row

    def words(self) -> Words:
        """What this rank tells: counts, and its own row."""
        width = N_FIRST + 2 * self.n_planes
        rows = np.full((len(self.rows), width), UNSAID, np.int32)
        row, turn = self.rows[self.rank], self.turns[self.rank]
        blocks = [n - (1 << 31) for n in row.blocks]
        rows[self.rank] = [row.n_done, row.is_begun, row.last, *turn, *blocks]
        return np.concatenate([np.array(self.counts, np.int32), rows.reshape(-1)])

    def take(self, plane: int, words: Words, now_ps: int) -> bool:
        """Take in what all ranks told over a plane; whether the turn is another one now."""
        before, n = self.turn, self.n_planes
        self.counts = [max(a, b) for a, b in zip(self.counts, words[:n].tolist(), strict=True)]
        table = words[n:].reshape(len(self.rows), -1).tolist()
        for rank, told in enumerate(table):
            n_done, is_begun, last = told[:N_FIRST]
            turn = tuple(told[N_FIRST : N_FIRST + n])
            if sum(turn) > sum(self.turns[rank]):
                blocks = [word + (1 << 31) for word in told[N_FIRST + n :]]
                row = Row(n_done, bool(is_begun), Last(last), blocks)
                self.turns[rank], self.rows[rank] = turn, row
        self._hear(plane, now_ps)
        return self.turn != before

    def _hear(self, plane: int, now_ps: int) -> None:
        if now_ps - self._any_ps > SILENT_PS:  # some rank stood still: nobody knows of planes
            for other in range(self.n_planes):
                self._forgive(other)
        self._any_ps = now_ps
        if self._n_heard[plane] == 0:
            self._since_ps[plane] = now_ps
        self._n_heard[plane] += 1
        self._forgive(plane)
        for other in range(self.n_planes):
            if other != plane:
                self._miss(other, plane, now_ps)
        spoke_ps = now_ps - self._since_ps[plane]
        n_lost = (self.counts[plane] + 1) // 2
        due_ps = SILENT_PS << min(max(n_lost - 1, 0), MOST_DOUBLED)
        is_back = spoke_ps >= due_ps and self._n_heard[plane] > LEAST_HEARD
        if self.counts[plane] % 2 and is_back:
            self.counts[plane] += 1

    def _forgive(self, plane: int) -> None:
        """It is silent from now on, if it is."""
        self._first_ps[plane], self._n_others[plane] = None, [0] * self.n_planes

    def _miss(self, plane: int, heard: int, now_ps: int) -> None:
        """Another plane was heard, and this one was not."""
        first_ps = self._first_ps[plane]
        first_ps = self._first_ps[plane] = now_ps if first_ps is None else first_ps
        self._n_others[plane][heard] += 1
        is_few = self._n_others[plane][heard] < LEAST_HEARD
        if is_few or now_ps - first_ps < SILENT_PS:
            return
        self._n_heard[plane] = 0
        if self.counts[plane] % 2 == 0 and len(self.living()) > 1:
            self.counts[plane] += 1


def living_of(turn: Turn) -> list[int]:
    """Places of planes that are used in a turn; all of them where none is."""
    return [i for i, n in enumerate(turn) if n % 2 == 0] or list(range(len(turn)))
