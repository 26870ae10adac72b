"""Operations of a group of several hosts with several ranks at some of them (ADR 0074).

Ranks at one host meet in its memory (host_session.py); the first of them, the leader, speaks
for them in the network (session.py), where BFRs join what leaders send; what comes back goes
through the memory again. *Up* is to the leader, *across* between leaders, *down* from it. Sums
of floats are words all the way: exponents are agreed on by all ranks first, so that a sum has
the same bits as if each rank had a host of its own.

Whoever is silent at a host is seen there; its leader tells the others instead of joining in.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from fanfold.group.ask import Ask
from fanfold.group.communicator import GroupError
from fanfold.group.host_session import HostSession
from fanfold.group.layout import EVERYBODY, Segment
from fanfold.group.rules import Inside, Rules
from fanfold.group.session import Session
from fanfold.group.tier_end import Places, TierEnd
from fanfold.group.values import MOVED, Form
from fanfold.kernels.reduce import (
    KIND_BYTES,
    KIND_F16,
    KIND_F64,
    KIND_I32,
    KIND_I64,
    OP_MAX,
    OP_SUM,
)
from fanfold.kernels.runs import PART_VALUES, RUN_SCRATCH, code_run, pack_run, unpack_run
from fanfold.kernels.words import mark_block, unmark_block
from fanfold.live.rank import RankEnd
from fanfold.live.rank_state import NOTHING
from fanfold.live.room import Room
from fanfold.units import PS_PER_SECOND
from fanfold.wire.fold import FoldScope

Raw = NDArray[np.uint8]
STAGE_PS = PS_PER_SECOND
"""Leaders wait so much longer than ranks of a host for each other, and these then for them."""
SPARE_BYTES = 1024
"""Of an agreement, beside what is asked: exponents of few values, or broadcasts in a row."""
PIECE_BYTES = 4 << 20
"""Joined at a time: a host's memory and the network then work on what is in a cache."""
TOLD_BYTES = 16 << 10
"""So much goes down together with how it went."""
HEAD_BYTES = 512
"""Of how it went: a state, and words."""
LINE = 64
ENDED, BY_DEADLINE = 1, 2
ENDED_TEXT = ", which has ended"
WIDTHS = {KIND_BYTES: 1, KIND_F16: 2, KIND_I32: 4}
NO_BYTES = np.zeros(0, np.uint8)


class Piece(NamedTuple):
    """Part of a segment. at: of this rank's scratch. n: bytes."""

    segment: Segment
    offset: int
    n: int
    at: int


class TierSession(Session):
    """What the worker's thread does for one communicator.

    Args:
        near: with the ranks of this host, None where it is alone there. far: of a leader.
        far_ids: BFR-ids of the hosts.
    """

    def __init__(
        self,
        places: Places,
        members: Sequence[str],
        rank: int,
        rules: Rules,
        near: HostSession | None,
        far: Session | None,
        far_ids: Sequence[int],
    ) -> None:
        self._far_ids = far_ids
        self._tiers = TierEnd(members, near, far)
        super().__init__(cast("RankEnd", self._tiers), rank, rules, SPARE_BYTES)
        self._places, self._near, self._far = places, near, far
        self._host = places.host_of[rank]
        self._local = places.at[self._host]
        self._is_leader = far is not None
        if near is not None:
            near.called = self._local
        if far is not None:
            far.called = places.leaders
        self._rooms = Room(), Room(), Room()
        self._wide = np.zeros(RUN_SCRATCH, np.uint8)

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
        ask, form = ask._replace(rules=self.rules.number()), ask.form
        self._agree_asked(ask, NO_BYTES, until_ps)
        with self._breaking():
            if form.is_fixed:
                self._add(ask.name, form, segments, (src, dst), until_ps, share)
            else:
                self._pass(ask.name, (form.kind, form.op), segments, (src, dst), until_ps)
        self._tiers.kept = [
            dst[s.dst : s.dst + s.n_bytes] for s in segments if s.dst != NOTHING
        ]
        return Inside(self.size)

    def agree_to_move(self, ask: Ask, told: Raw, until_ps: int) -> Raw:
        """See ``Session``."""
        self.begin()
        ask = ask._replace(rules=self.rules.number())
        return self._agree_asked(ask, told, until_ps)[: len(told)]

    def move(
        self,
        name: str,
        segments: Sequence[Segment],
        raw: Raw,
        until_ps: int,
        *,
        out: Raw | None = None,
        how: tuple[int, int] = (MOVED.kind, MOVED.op),
    ) -> None:
        """See ``Session``."""
        with self._breaking():
            self._pass(name, how, segments, (raw, raw if out is None else out), until_ps)

    # What all ranks know at its end.

    def _largest(
        self,
        name: str,
        src: Raw,
        kind: int,
        until_ps: int,
        out: Raw | None = None,
        asked: int = 0,
    ) -> Raw:
        """See ``Session``; where somebody was silent all ranks are told who."""
        out = np.zeros_like(src) if out is None else out
        with self._breaking():
            self._fold_largest(name, src, kind, until_ps, out)
        return out

    def _fold_largest(self, name: str, src: Raw, kind: int, until_ps: int, out: Raw) -> None:
        width, n = WIDTHS[kind], len(src)
        head = -(-self.size * width // LINE) * LINE
        room = self._rooms[0].of(head + n)
        room[:head] = 0
        silent = room[:head].view(f"u{width}")[: self.size]
        whole = [Segment(0, 0, n) if self._is_leader else Segment(0, NOTHING, n)]
        why = None
        if self._near is None:
            room[head:] = src
        else:
            try:
                how = kind, OP_MAX
                self._near.move(name, whole, src, until_ps, out=room[head:], how=how)
            except GroupError as error:
                why = error
                silent[list(error.ranks) or [self.rank]] = (
                    BY_DEADLINE if error.is_deadline else ENDED
                )
        if self._far is not None:
            why = self._ask_across(name, room, kind, until_ps, why) or why
            why = why or self._said_silent(name, silent)
        self._tell(name, why, room[head:], out, until_ps)

    def _ask_across(
        self, name: str, room: Raw, kind: int, until_ps: int, why: GroupError | None
    ) -> GroupError | None:
        """Largest of all leaders' in ``room``; why there is none."""
        far = self._far
        assert far is not None
        until_ps += STAGE_PS
        try:
            if len(room) <= far.end.block_bytes:  # before it nobody knows what slots there are
                far._largest(name, room, kind, until_ps, room)
            else:
                far.move(name, [Segment(0, 0, len(room))], room, until_ps, how=(kind, OP_MAX))
        except GroupError as error:
            return why or error
        return why

    def _said_silent(self, name: str, silent: NDArray[Any]) -> GroupError | None:
        """An error about those whom another host's ranks did not hear."""
        ranks = np.flatnonzero(silent).tolist()
        if not ranks:
            return None
        is_deadline = bool((silent == BY_DEADLINE).any())
        how = "deadline, not heard" if is_deadline else "not heard"
        text = f"{name}: {how}: rank {self._who(ranks)}" + ("" if is_deadline else ENDED_TEXT)
        return GroupError(text, op=name, ranks=ranks, is_deadline=is_deadline)

    def _tell(
        self, name: str, why: GroupError | None, found: Raw, out: Raw, until_ps: int
    ) -> None:
        """The leader gives what was found to its host's ranks, or why nothing was."""
        near = self._near
        if near is None or near.broken is not None:
            if why is not None:
                raise why
            out[:] = found
            return
        n = len(found) if len(found) <= TOLD_BYTES else 0
        told = self._tell_words(near, name, why, found[:n], until_ps + 2 * STAGE_PS)
        if why is None and told[0]:
            why = _error_of(name, told[: len(told) - n])
        if why is not None:
            raise why
        if n:
            out[:] = told[len(told) - n :]
        elif len(found):
            src, dst = (0, NOTHING) if self._is_leader else (NOTHING, 0)
            segments = [Segment(src, dst, len(found))]
            near.move(name, segments, found, until_ps + 2 * STAGE_PS, out=out)
            if self._is_leader:
                out[:] = found

    def _tell_words(
        self, near: HostSession, name: str, why: GroupError | None, found: Raw, until_ps: int
    ) -> Raw:
        """What the leader says: how it went, then what was found."""
        head = HEAD_BYTES + self.size
        words = np.zeros(head + len(found), np.uint8)
        if self._is_leader:
            words[:head] = _words_of(why, self.size)
            words[head:] = found
        told, whole = np.zeros_like(words), [Segment(0, 0, len(words))]
        near.move(name, whole, words, until_ps, out=told, how=(KIND_BYTES, OP_MAX))
        return told

    # What is moved, and what is joined as it stands.

    def _pass(
        self,
        name: str,
        how: tuple[int, int],
        segments: Sequence[Segment],
        arrays: tuple[Raw, Raw],
        until_ps: int,
    ) -> None:
        for pieces in _runs(segments):
            room = self._room_of(pieces, arrays)
            self._up(name, how, pieces, arrays[0], room, until_ps)
            why = self._across(name, how, pieces, room, until_ps)
            self._down(name, why, pieces, room, arrays[1], until_ps)

    def _room_of(self, pieces: Sequence[Piece], arrays: tuple[Raw, Raw]) -> Raw:
        """Where a leader has what goes across: in its own arrays, where that is one piece."""
        if not self._is_leader:
            return NO_BYTES
        piece, *more = pieces
        segment, n = piece.segment, piece.n
        if not more and segment.dst != NOTHING:
            return arrays[1][segment.dst + piece.offset :][:n]
        if not more and segment.sender == self.rank:
            return arrays[0][segment.src + piece.offset :][:n]
        last = pieces[-1]
        return self._rooms[1].of(last.at + last.n)

    def _up(
        self,
        name: str,
        how: tuple[int, int],
        pieces: Sequence[Piece],
        src: Raw,
        room: Raw,
        until_ps: int,
    ) -> None:
        """The leader has what its host's ranks send."""
        segments = []
        for piece in pieces:
            segment, n = piece.segment, piece.n
            senders = [r for r in self._local if segment.sender in (EVERYBODY, r)]
            at = segment.src + piece.offset if self.rank in senders else NOTHING
            if senders == [self._local[0]]:
                if self._is_leader:
                    room[piece.at : piece.at + n] = src[at : at + n]
            elif senders:
                segments.append(Segment(at, piece.at if self._is_leader else NOTHING, n))
        if segments:
            assert self._near is not None  # else its only rank is the leader
            self._near.move(name, segments, src, until_ps, out=room, how=how)

    def _across(
        self,
        name: str,
        how: tuple[int, int],
        pieces: Sequence[Piece],
        room: Raw,
        until_ps: int,
    ) -> GroupError | None:
        """Leaders of hosts that are to have it have it; why not."""
        if self._far is None:
            return None
        segments = [found for piece in pieces if (found := self._between(piece)) is not None]
        if not segments:
            return None
        try:
            self._far.move(name, segments, room, until_ps + STAGE_PS, how=how)
        except GroupError as error:
            return error
        return None

    def _between(self, piece: Piece) -> Segment | None:
        """A piece as leaders see it; None where it stays at one host."""
        segment, host_of = piece.segment, self._places.host_of
        sender, keeper = segment.sender, segment.only - 1
        is_only = segment.scope == FoldScope.ONLY
        is_mine = sender == EVERYBODY or host_of[sender] == self._host
        src = piece.at if is_mine else NOTHING
        scope, host = FoldScope.ALL, 0
        if is_only:
            scope, host = FoldScope.ONLY, host_of[keeper]
        elif sender != EVERYBODY:
            scope, host = FoldScope.BUT, host_of[sender]
        if is_only and sender != EVERYBODY and host_of[sender] == host:
            return None
        has_it = {FoldScope.ALL: True, FoldScope.ONLY: host == self._host}
        keeps = has_it.get(scope, host != self._host)
        only = self._far_ids[host] if scope != FoldScope.ALL else 0
        return Segment(src, piece.at if keeps else NOTHING, piece.n, scope, only)

    def _down(
        self,
        name: str,
        why: GroupError | None,
        pieces: Sequence[Piece],
        room: Raw,
        dst: Raw,
        until_ps: int,
    ) -> None:
        """Ranks that keep a piece have it from their leader."""
        segments, n_bytes = [], 0
        for piece in pieces:
            segment, n = piece.segment, piece.n
            at = segment.dst + piece.offset if segment.dst != NOTHING else NOTHING
            if any(_keeps(segment, r) for r in self._local[1:]):
                src, to = (piece.at, NOTHING) if self._is_leader else (NOTHING, at)
                segments.append(Segment(src, to, n))
                n_bytes += n
            if self._is_leader and at != NOTHING and why is None:
                _copy(dst[at : at + n], room[piece.at : piece.at + n])
        if not segments:
            if why is not None:
                raise why
            return
        near = self._near
        assert near is not None
        self._tell(name, why, NO_BYTES, NO_BYTES, until_ps)
        near.move(name, segments, room, until_ps + 2 * STAGE_PS, out=dst)

    # Sums of floats.

    def _add(
        self,
        name: str,
        form: Form,
        segments: Sequence[Segment],
        arrays: tuple[Raw, Raw],
        until_ps: int,
        share: float,
    ) -> None:
        for pieces in _runs(segments):
            for piece in pieces:
                self._add_piece(name, form, piece._replace(at=0), arrays, until_ps, share)

    def _add_piece(
        self,
        name: str,
        form: Form,
        piece: Piece,
        arrays: tuple[Raw, Raw],
        until_ps: int,
        share: float,
    ) -> None:
        kind, n = form.kind, piece.n // form.value_bytes
        at = piece.segment.src + piece.offset
        own, width = arrays[0][at : at + piece.n], form.code_bytes
        codes = np.zeros((n + 1) * width, np.uint8)
        is_bad = code_run(kind, own, codes[:-width], self._wide) != 0
        codes[-width] = is_bad
        self._largest(name, codes, KIND_F16 if width == 2 else KIND_BYTES, until_ps, codes)
        marks = self._marks(name, kind, own, n, until_ps) if codes[-width] else None
        words = self._rooms[2].of(n * form.word_bytes)
        pack_run(kind, self.size, codes[:-width], own, words, self._wide)
        how = KIND_I64 if kind == KIND_F64 else KIND_I32, OP_SUM
        sent = piece._replace(segment=piece.segment._replace(src=0), offset=0, n=len(words))
        if self._near is not None:
            up = [Segment(0, 0 if self._is_leader else NOTHING, len(words))]
            self._near.move(name, up, words, until_ps, how=how)
        why = self._across(name, how, [sent], words, until_ps)
        room = self._room_of([piece], arrays)
        if self._is_leader and any(_keeps(piece.segment, r) for r in self._local):
            one = np.float64(share)
            unpack_run(kind, self.size, codes[:-width], words, room, self._wide, one)
        self._down(name, why, [piece], room, arrays[1], until_ps)
        to = piece.segment.dst + piece.offset
        if marks is not None and piece.segment.dst != NOTHING:
            unmark_block(kind, marks, arrays[1][to : to + piece.n])

    def _marks(self, name: str, kind: int, own: Raw, n: int, until_ps: int) -> Raw:
        """Marks of values that are not finite on any rank, joined by OR."""
        marks, step = np.zeros(n, np.uint8), PART_VALUES
        width = len(own) // n
        for i in range(0, n, step):
            part = own[i * width : (i + step) * width]
            mark_block(kind, part, marks[i : i + step], self._wide)
        planes = np.stack([marks & (1 << k) for k in range(3)]).reshape(-1)
        most = self._largest(name, planes, KIND_BYTES, until_ps).reshape(3, n)
        self.n_not_finite += 1
        joined: Raw = most[0] | most[1] | most[2]
        return joined

    @contextmanager
    def _breaking(self) -> Iterator[None]:
        """What fails here ends the group: nobody at this host waits for this rank any more."""
        try:
            yield
        except GroupError as error:
            self.broken = self.broken or error
            if self._near is not None:
                self._near.give_up()
            raise

    def _grow(self, name: str, n_blocks: int, until_ps: int) -> None:
        """Leaders do so for themselves."""


def _keeps(segment: Segment, rank: int) -> bool:
    """A rank is to have a segment."""
    if segment.scope == FoldScope.ALL:
        return True
    return (segment.scope == FoldScope.ONLY) == (segment.only - 1 == rank)


def _runs(segments: Sequence[Segment]) -> Iterator[list[Piece]]:
    """Pieces in their order, as many together as are joined at a time."""
    run: list[Piece] = []
    at = 0
    for segment in segments:
        for offset in range(0, segment.n_bytes, PIECE_BYTES):
            n = min(segment.n_bytes - offset, PIECE_BYTES)
            if run and at + n > PIECE_BYTES:
                yield run
                run, at = [], 0
            run.append(Piece(segment, offset, n, at))
            at += -(-n // LINE) * LINE
    if run:
        yield run


def _copy(to: Raw, src: Raw) -> None:
    """Copy, unless it is there."""
    if to.__array_interface__["data"][0] != src.__array_interface__["data"][0]:
        to[:] = src


def _words_of(why: GroupError | None, n_ranks: int) -> Raw:
    """How it went, for a host's ranks: 0 well, else by deadline or not; whom; in words."""
    words = np.zeros(HEAD_BYTES + n_ranks, np.uint8)
    if why is not None:
        words[0] = BY_DEADLINE if why.is_deadline else ENDED
        words[1 + np.array(why.ranks, np.int64)] = 1
        text = np.frombuffer(str(why).encode()[: HEAD_BYTES - 1], np.uint8)
        words[1 + n_ranks : 1 + n_ranks + len(text)] = text
    return words


def _error_of(name: str, words: Raw) -> GroupError:
    """The error that ``_words_of`` was made of."""
    n_ranks = len(words) - HEAD_BYTES
    ranks = np.flatnonzero(words[1 : 1 + n_ranks]).tolist()
    text = words[1 + n_ranks :].tobytes().rstrip(b"\0").decode(errors="replace")
    return GroupError(text, op=name, ranks=ranks, is_deadline=words[0] == BY_DEADLINE)
