"""Broadcasts that wait in a row go as one: many small tensors cost no round trip each.

A rank cannot know how many broadcasts the others have been asked for by now. So the words by
which ranks agree on one say also how many wait behind it here, and a digest of the first two,
four, eight and so on. All ranks see the least number and whether the digests are equal, and
move as many at once as all of them have: small ones byte behind byte, large ones in blocks of
their own, from memory to memory without a copy (``alone_bytes``). What was asked for in between
ends a row: the order of operations stays.
"""

import zlib
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.group import layout
from fanfold.group.ask import Ask
from fanfold.group.pending import Pending, end_all
from fanfold.group.session import Session
from fanfold.group.work import FabricWork
from fanfold.live.worker import Gate

MOST_STEPS = 11
"""Up to 1024 broadcasts at once; fewer where an agreement has no room for so many digests."""
STEP_BYTES = 9
NO_ROW = -1
MOST_BYTES = 1 << 23
"""Copied together at most; a row that has more goes in parts."""
MOST_ALONE = 1 << 26
"""Of those in blocks of their own."""

Raw = NDArray[np.uint8]
NO_BYTES = np.zeros(0, np.uint8)


class Cast(NamedTuple):
    """A broadcast that waits. row: which row it is of."""

    raw: Raw
    ask: Ask
    until_ps: int
    row: int
    end: Pending


class Casts:
    """Broadcasts of one communicator that have not begun yet."""

    def __init__(
        self, session: Session, ids: Sequence[int], submit: Callable[[Callable[[], None]], Any]
    ) -> None:
        self._session, self._ids, self._submit = session, ids, submit
        self._steps = min(MOST_STEPS, session.n_spare // STEP_BYTES)
        self._waiting: deque[Cast] = deque()
        self._gate = Gate()
        self._room = np.zeros(0, np.uint8)
        self._row = 0
        self._begun = NO_ROW

    def end_row(self) -> None:
        """Another operation is asked for: what comes behind it does not go before it."""
        self._row += 1

    def add(self, raw: Raw, ask: Ask, until_ps: int) -> FabricWork:
        """Begin a broadcast after all that was asked for before."""
        end = Pending(self._gate)
        with self._gate:
            self._waiting.append(Cast(raw, ask, until_ps, self._row, end))
            is_begun, self._begun = self._begun == self._row, self._row
        if not is_begun:
            self._submit(partial(self._do_row, self._row))
        return FabricWork("broadcast", end)

    def _do_row(self, row: int) -> None:
        while self._has(row):
            self._begin()

    def _has(self, row: int) -> bool:
        """Some of a row wait; when none does, the next one begins it anew."""
        with self._gate:
            if self._waiting and self._waiting[0].row == row:
                return True
            if self._begun == row:
                self._begun = NO_ROW
            return False

    def _begin(self) -> None:
        """Do the first of those that wait, with those that may go along."""
        casts = self._first_row()
        n, why = 1, None
        try:
            n = self._agree(casts)
            self._move(casts[:n])
        except BaseException as error:
            why = error
        for _ in range(n):
            self._waiting.popleft()
        end_all(self._gate, [cast.end for cast in casts[:n]], why)

    def _first_row(self) -> list[Cast]:
        first = self._waiting[0]
        found, n_bytes = [first], first.raw.size
        most = MOST_ALONE if self._is_large(first) else MOST_BYTES
        for i in range(1, min(len(self._waiting), 1 << self._steps - 1)):
            cast = self._waiting[i]
            n_bytes += cast.raw.size
            if cast.row != first.row or cast.ask.root != first.ask.root or n_bytes > most:
                break
            if most == MOST_ALONE and not self._is_large(cast):
                break
            found.append(cast)
        return found

    def _is_large(self, cast: Cast) -> bool:
        return cast.raw.size >= self._session.alone_bytes

    def _agree(self, casts: list[Cast]) -> int:
        """How many of them all ranks have.

        Told of each step: a digest of so many broadcasts, and once more inverted, and whether
        there are fewer. All ranks see the largest of each byte.
        """
        told = np.zeros((self._steps, STEP_BYTES), np.uint8)
        told[:, -1], digest = 1, 0
        for i, cast in enumerate(casts, start=1):
            digest = zlib.crc32(b"%d %d" % (cast.ask.n_bytes, cast.ask.moved_kind), digest)
            if i & (i - 1) == 0:
                pair = np.array([digest, ~digest & 0xFFFFFFFF], np.uint32)
                told[i.bit_length() - 1] = [*pair.view(np.uint8), 0]
        session, first = self._session, casts[0]
        most = session.agree_to_move(first.ask, told.reshape(-1), first.until_ps)
        steps = most.reshape(told.shape)
        equal = [bool((step[:4] == ~step[4:8]).all() and not step[8]) for step in steps]
        return max((1 << i for i in range(1, len(equal)) if equal[i]), default=1)

    def _move(self, casts: list[Cast]) -> None:
        """Move the bytes of all.

        Sizes say how, and these are the same on all ranks; where the bytes stand is not: where
        arrays of a rank overlap, they come into a copy, and from there in their order.
        """
        session, first = self._session, casts[0]
        raws = [cast.raw for cast in casts]
        sizes = [raw.size for raw in raws]
        is_alone = min(sizes) >= session.alone_bytes
        raw, places = span_of(raws) if is_alone or len(raws) == 1 else (NO_BYTES, [])
        is_copied = not len(places)
        if is_copied:
            raw = self._copied(raws, is_root=session.rank == first.ask.root)
            sizes = sizes if is_alone else [raw.size]
            places = [0, *np.cumsum(sizes[:-1]).tolist()]
        segments = [
            segment
            for n, at in zip(sizes, places, strict=True)
            for segment in layout.broadcast(n, first.ask.root, session.rank, self._ids, at)
        ]
        session.n_operations += len(casts) - 1
        session.move("broadcast", segments, raw, first.until_ps)
        if session.rank == first.ask.root or not is_copied:
            return
        at = 0
        for own in raws:
            own[:] = raw[at : at + own.size]
            at += own.size

    def _copied(self, raws: Sequence[Raw], *, is_root: bool) -> Raw:
        """Room for all of them, with their bytes at the root."""
        n_bytes = sum(raw.size for raw in raws)
        if self._room.size < n_bytes:  # kept: fresh memory costs more than the copies
            self._room = np.zeros(n_bytes, np.uint8)
        room = self._room[:n_bytes]
        if is_root:
            np.concatenate(raws, out=room)
        return room


class _Span:
    """A range of addresses, as numpy takes it."""

    def __init__(self, first: int, n_bytes: int) -> None:
        shape, data = (n_bytes,), (first, False)
        self.__array_interface__ = {
            "shape": shape,
            "typestr": "|u1",
            "data": data,
            "version": 3,
        }


def span_of(raws: Sequence[Raw]) -> tuple[Raw, list[int]]:
    """All memory from the first to the last of some arrays, and where in it each begins.

    What lies between them is nobody's business, and may not even be there: it is not touched.
    Nowhere where some overlap.
    """
    if len(raws) == 1:
        return raws[0], [0]
    places = np.array([raw.__array_interface__["data"][0] for raw in raws], np.int64)
    ends = places + np.array([raw.size for raw in raws], np.int64)
    order = np.argsort(places)
    if (places[order][1:] < ends[order][:-1]).any():
        return NO_BYTES, []
    first = int(places.min())
    span = np.asarray(_Span(first, int(ends.max()) - first))
    return span, (places - first).tolist()
