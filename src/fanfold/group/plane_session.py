"""Operations of a group over several planes (ADR 0081).

Each plane has a session of its own, a *strand*; all work on the same arrays. What is small goes
over the first plane that is used, the *lead*. What is large is agreed on there, with weights
that rank 0 tells; then each strand carries a run of its blocks, and over the lead all ranks say
that they have theirs. Where a plane is given up or taken back, ranks leave what they do, meet
in the new turn (plane_view.py), and go on: of a large operation with the blocks that some rank
lacks, of a small one from what each rank keeps of it until its next operation is over.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from fanfold.group.ask import Ask
from fanfold.group.communicator import GroupError
from fanfold.group.plane_end import PlaneEnd
from fanfold.group.plane_split import packed, pieces, span, split
from fanfold.group.plane_view import Last, Row, Turn, Way, decide, living_of, next_blocks
from fanfold.group.plane_watchers import Watchers
from fanfold.group.rules import Inside, Rules
from fanfold.group.session import Session
from fanfold.group.strand_session import PlaneChangeError, StrandSession
from fanfold.group.strands import Strand
from fanfold.group.values import MOVED
from fanfold.group.wants import Teller
from fanfold.kernels.reduce import KIND_BYTES
from fanfold.kernels.state import I64
from fanfold.live.clock import now_ps
from fanfold.live.rank import WINDOW, RankEnd
from fanfold.live.rank_state import B_BYTES, B_DST, B_SRC, NOTHING
from fanfold.live.room import Room
from fanfold.units import PS_PER_SECOND

Raw = NDArray[np.uint8]
T = TypeVar("T")
LARGE_BYTES = 256 << 10
"""Of an operation that goes over all planes."""
MOST_BYTES = 64 << 20
"""Of arrays that are joined at once: their results wait beside the array."""
MOST_WEIGHT = 255
TEND_PS = 60 * PS_PER_SECOND
ONE_BYTE = np.zeros(1, np.uint8)
Carry = Callable[[StrandSession, I64, Raw, Raw], object]
"""Carries blocks from an array into another one, over one plane."""


class Job(NamedTuple):
    """A large operation. agree: over the lead, on weights. carry: a run of blocks."""

    name: str
    agree: Callable[[StrandSession], Raw]
    carry: Carry


class Part:
    """What of it is carried at once. has: blocks whose results are here. error: of a strand."""

    def __init__(self, blocks: I64, src: Raw, dst: Raw) -> None:
        self.blocks, self.src, self.dst = blocks, src, dst
        self.has = np.zeros(len(blocks), np.bool_)
        self.error: GroupError | None = None

    def lacks(self) -> Raw:
        """Blocks that this rank is to have and has not, a byte each."""
        lacks: Raw = (~self.has & (self.blocks[:, B_DST] != NOTHING)).astype(np.uint8)
        return lacks


class PlaneSession(Session):
    """What the worker's thread does for one communicator.

    Args:
        strands, sessions: of each plane. teller: of weights, on rank 0.

    Attributes:
        submit: gives the worker's thread a task.
    """

    def __init__(
        self,
        members: Sequence[str],
        rank: int,
        rules: Rules,
        strands: Sequence[Strand],
        sessions: Sequence[StrandSession],
        watch: Watchers,
        teller: Teller,
    ) -> None:
        self._planes = PlaneEnd(members, strands, sessions, watch, teller)
        super().__init__(cast("RankEnd", self._planes), rank, rules, sessions[0].n_spare)
        self._strands, self._sessions = strands, sessions
        self._watch, self._teller = watch, teller
        self._weights = {strand.plane: strand.weight for strand in strands}
        self._turn: Turn = (0,) * len(strands)
        self._n_done, self._is_begun, self._way = 0, False, Way.ANEW
        self._last: Last = Last.KEPT
        self._redo: Callable[[StrandSession], object] = _nothing
        self._until_ps = 0
        self._room = Room()
        self.submit: Callable[[Callable[[], None]], object] = _nothing_is_done
        watch.on_turn = self._on_turn

    # What a communicator calls.

    def do_blocks(
        self,
        ask: Ask,
        blocks: I64,
        src: NDArray[Any],
        dst: NDArray[Any],
        until_ps: int,
        share: float = 1.0,
    ) -> Inside:
        """See ``Session``."""
        self.begin()
        self._planes.kept = blocks, dst

        def carry(strand: StrandSession, rows: I64, src: Raw, dst: Raw) -> Inside:
            return strand.do_blocks(ask, rows, src, dst, self._until_ps, share)

        def agree(strand: StrandSession) -> Raw:
            return strand.agree_to_move(ask, self._say_weights(), self._until_ps)

        n_bytes = int(blocks[:, B_BYTES].sum())
        if n_bytes < LARGE_BYTES:
            self._do_small(ask.name, blocks, (src, dst), until_ps, carry)
        else:
            most = n_bytes if ask.form == MOVED else MOST_BYTES
            self._do_large(Job(ask.name, agree, carry), blocks, (src, dst), until_ps, most)
        return Inside(self.size)

    def agree_to_move(self, ask: Ask, told: Raw, until_ps: int) -> Raw:
        """See ``Session``."""
        self.begin()
        own = told.copy()

        def act(strand: StrandSession) -> Raw:
            return strand.agree_to_move(ask, own, self._until_ps)

        found = self._once(ask.name, until_ps, act, act)
        assert found is not None  # its last is REDO: it is never over elsewhere alone
        return found

    def move_blocks(
        self,
        name: str,
        blocks: I64,
        arrays: tuple[Raw, Raw],
        until_ps: int,
        how: tuple[int, int] = (MOVED.kind, MOVED.op),
    ) -> None:
        """See ``Session``."""

        def carry(strand: StrandSession, rows: I64, src: Raw, dst: Raw) -> None:
            strand.move_blocks(name, rows, (src, dst), self._until_ps, how)

        def agree(strand: StrandSession) -> Raw:
            return self._most_of(strand, name, self._say_weights())

        n_bytes = int(blocks[:, B_BYTES].sum())
        if n_bytes < LARGE_BYTES:
            self._do_small(name, blocks, arrays, until_ps, carry)
        else:
            self._do_large(Job(name, agree, carry), blocks, arrays, until_ps, n_bytes)

    def tend(self) -> None:
        """Meet the others in a new turn, and help them, where no operation is under way."""
        with suppress(GroupError):
            while self._turn != self._watch.turn() and self.broken is None:
                self._until_ps = now_ps() + TEND_PS
                with suppress(PlaneChangeError):
                    self._settle("planes")

    # One operation.

    def _do_small(
        self, name: str, blocks: I64, arrays: tuple[Raw, Raw], until_ps: int, carry: Carry
    ) -> None:
        """Over the lead, from a copy of what this rank sends."""
        rows, own, n_kept = packed(blocks, arrays[0])
        mine = rows.copy()
        mine[:, B_DST] = blocks[:, B_DST]

        def act(strand: StrandSession) -> None:
            carry(strand, mine, own, arrays[1])

        def redo(strand: StrandSession) -> None:
            carry(strand, rows, own, np.zeros(n_kept, np.uint8))

        self._once(name, until_ps, act, redo)

    def _do_large(
        self, job: Job, blocks: I64, arrays: tuple[Raw, Raw], until_ps: int, most: int
    ) -> None:
        """Over all planes, ``most`` bytes at a time."""
        for first, last in pieces(blocks[:, B_BYTES], most):
            with self._beside(blocks[first:last], arrays) as part:

                def act(lead: StrandSession, part: Part = part) -> None:
                    self._carry_all(job, lead, part)

                self._once(job.name, until_ps, act, job.agree, Last.KEPT)
            if part.error is not None:
                raise part.error

    @contextmanager
    def _beside(self, rows: I64, arrays: tuple[Raw, Raw]) -> Iterator[Part]:
        """Blocks whose results wait beside the array where they would take the place of values.

        These are sent again where a plane fails. In the end results go where they belong.
        """
        src, dst = arrays
        keeps = rows[:, B_DST] != NOTHING
        is_joined = bool((keeps & (rows[:, B_SRC] != NOTHING)).any())
        if not is_joined or not np.may_share_memory(src, dst):
            yield Part(rows, src, dst)
            return
        first, last = span(rows, B_DST)
        room, mine = self._room.of(last - first), rows.copy()
        mine[keeps, B_DST] -= first
        if int(rows[keeps, B_BYTES].sum()) != last - first:
            room[:] = dst[first:last]
        yield Part(mine, src, room)
        dst[first:last] = room

    def _carry_all(self, job: Job, lead: StrandSession, part: Part) -> None:
        """What some rank lacks, over all planes, until all have said that they have theirs."""
        part.error = None
        weights = self._weights_of(job.agree(lead))
        left = np.arange(len(part.blocks))
        if self._way == Way.RESUME:
            left = np.flatnonzero(self._most_of(lead, job.name, part.lacks()))
        else:
            part.has[:] = False
        runs = split(part.blocks[left, B_BYTES], weights)
        used = [i for i, (first, last) in enumerate(runs) if first < last]
        mine = [left[slice(*runs[i])] for i in used]
        workers = [self._planes.workers[i - 1] for i in used[1:]]
        tasks = [
            (lambda i=i, some=some: self._carry(job, self._sessions[i], part, some))
            for i, some in zip(used, mine, strict=True)
        ]
        pairs = zip(workers, tasks[1:], strict=True)
        others: list[Future[None]] = [worker.submit(task) for worker, task in pairs]
        errors = [_error_of(tasks[0])] if tasks else []
        errors += [other.exception() for other in others]
        for i, some in zip(used, mine, strict=True):
            part.has[some] |= self._sessions[i].has
        self._judge(part, [error for error in errors if error is not None])
        self._most_of(lead, job.name, ONE_BYTE)

    def _carry(self, job: Job, strand: StrandSession, part: Part, some: I64) -> None:
        job.carry(strand, part.blocks[some], part.src, part.dst)

    def _judge(self, part: Part, errors: Sequence[BaseException]) -> None:
        """Raise what ends the operation here; what all ranks see alike waits for its end."""
        for error in sorted(errors, key=lambda e: not isinstance(e, GroupError)):
            is_refusal = isinstance(error, GroupError) and not any(
                session.broken is error for session in self._sessions
            )
            if not is_refusal:
                raise error
            part.error = cast("GroupError", error)

    def _once(
        self,
        name: str,
        until_ps: int,
        act: Callable[[StrandSession], T],
        redo: Callable[[StrandSession], object],
        last: Last = Last.REDO,
    ) -> T | None:
        """Do it over the planes there are, and over those that are left.

        Args:
            redo: what ranks that lack it get it by, while its last is REDO.

        Returns:
            None also where all ranks had it, but this one was not told so.
        """
        self._watch.start()
        self._until_ps, self._is_begun, self._way = until_ps, True, Way.ANEW
        found = None
        try:
            while True:
                with suppress(PlaneChangeError):
                    self._settle(name)
                    if self._way != Way.OVER:
                        found = act(self._lead())
                    break
        except GroupError:
            broken = [session.broken for session in self._sessions]
            self.broken = next((error for error in broken if error is not None), self.broken)
            last = Last.REDO  # refused, by all ranks alike
            raise
        finally:
            self._n_done, self._is_begun = self._n_done + 1, False
            self._last, self._redo = last, redo
            for count in ("n_overflows", "n_not_finite", "n_shrunk", "n_flushed"):
                setattr(self, count, sum(getattr(each, count) for each in self._sessions))
        return found

    # Planes that come and go.

    def _on_turn(self) -> None:
        """Whatever the worker does, it is to look up."""
        self._planes.recall()
        self.submit(self.tend)

    def _settle(self, name: str) -> None:
        """Be in the turn that planes are in just now, with all ranks.

        Raises:
            PlaneChangeError: it is another one already. GroupError: some rank does not come.
        """
        if self._turn == self._watch.turn():
            return
        with self._watch.gate:
            turn = self._watch.turn()
            for session in self._sessions:
                session.turn, session.end.is_recalled = turn, False
        blocks = [session.strand_end.sent_up_to() for session in self._sessions]
        row = Row(self._n_done, self._is_begun, self._last, blocks)
        try:
            rows = self._watch.meet(turn, row, self._until_ps)
        except TimeoutError:
            self.broken = self._not_met(name)
            raise self.broken from None
        if rows is None:
            raise PlaneChangeError
        for session, block in zip(self._sessions, next_blocks(rows, WINDOW), strict=True):
            session.strand_end.go_on_at(block)
        way, is_behind = decide(rows, self.rank)
        if is_behind:
            with suppress(GroupError):
                self._redo(self._sessions[living_of(turn)[0]])
        before, self._turn, self._way = self._turn, turn, way
        self._say_change(before)

    def _not_met(self, name: str) -> GroupError:
        if self._planes.is_stopped:
            return GroupError(f"{name}: the group was closed meanwhile", op=name)
        ranks = self._watch.unmet()
        text = f"{name}: deadline, not heard over any plane: rank {self._who(ranks)}"
        return GroupError(text, op=name, ranks=ranks, is_deadline=True)

    def _say_change(self, turn: Turn) -> None:
        """Planes of another turn than before."""
        before, after = set(living_of(turn)), set(living_of(self._turn))
        self._planes.n_changes += 1
        rest = self._named(after)
        if lost := self._named(before - after):
            text = f"plane {lost} is silent and given up; plane {rest} carries on"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        if back := self._named(after - before):
            text = f"plane {back} answers again; used are {rest}"
            warnings.warn(text, RuntimeWarning, stacklevel=2)

    def _named(self, places: set[int]) -> str:
        return ", ".join(str(self._strands[i].plane) for i in sorted(places))

    def _lead(self) -> StrandSession:
        return self._sessions[living_of(self._turn)[0]]

    def _most_of(self, strand: StrandSession, name: str, own: Raw) -> Raw:
        return strand._largest(name, own, KIND_BYTES, self._until_ps)

    # Weights.

    def _say_weights(self) -> Raw:
        """A byte for each strand, from rank 0."""
        said = np.zeros(len(self._strands), np.uint8)
        if self.rank:
            return said
        self._weights |= self._teller.latest or {}
        weights = [self._weights[strand.plane] for strand in self._strands]
        most = max(weights) or 1
        said[:] = [-(-MOST_WEIGHT * weight // most) for weight in weights]
        return said

    def _weights_of(self, said: Raw) -> list[int]:
        """Weights of strands in this turn, from what rank 0 said."""
        used = living_of(self._turn)
        weights = [int(said[i]) if i in used else 0 for i in range(len(self._strands))]
        return weights if any(weights) else [int(i in used) for i in range(len(self._strands))]


def _nothing(strand: StrandSession) -> None:
    """Before the first operation nobody is behind."""


def _nothing_is_done(task: Callable[[], None]) -> None:
    """There is no worker yet."""


def _error_of(task: Callable[[], None]) -> BaseException | None:
    """What it raises: others work on the same arrays still."""
    try:
        task()
    except Exception as error:
        return error
    return None
