"""Broadcasts that wait go as one, as many as all ranks have; nothing goes before its turn."""

from collections import deque
from collections.abc import Callable

import numpy as np
import pytest

from fanfold.group import casts
from fanfold.group.ask import Ask
from fanfold.group.casts import MOST_BYTES, Casts, span_of
from fanfold.group.communicator import GroupError
from fanfold.group.layout import Segment
from fanfold.group.values import MOVED

N = 2
ALONE = 1000


class Ranks:
    """Sessions of two ranks in one thread: what both said is joined when both have said it."""

    def __init__(self, n_spare: int = 1024) -> None:
        self.tasks: list[deque[Callable[[], None]]] = [deque() for _ in range(N)]
        self.sessions = [Session(self, rank, n_spare) for rank in range(N)]
        self.casts = [
            Casts(session, [1, 2], tasks.append)  # type: ignore[arg-type]  # what it uses of it
            for session, tasks in zip(self.sessions, self.tasks, strict=True)
        ]
        self.moved: list[int] = []
        self.segments: list[int] = []
        self.error: GroupError | None = None

    def add(self, rank: int, value: int, n: int = 4, *, root: int = 0) -> np.ndarray:
        raw = np.full(n, value, np.uint8)
        ask = Ask("broadcast", MOVED, root, raw.size)
        self.futures = [self.casts[rank].add(raw, ask, 0)]
        return raw


class Session:
    """What ``Casts`` uses; the other rank's words are worked out from what waits there."""

    def __init__(self, ranks: Ranks, rank: int, n_spare: int) -> None:
        self.ranks, self.rank, self.n_spare = ranks, rank, n_spare
        self.n_operations, self.alone_bytes = 0, ALONE
        self.said: list[np.ndarray] = []

    def agree_to_move(self, ask: Ask, words: np.ndarray, until_ps: int) -> np.ndarray:
        self.n_operations += 1
        if self.ranks.error is not None:
            raise self.ranks.error
        other = self.ranks.sessions[1 - self.rank]
        if self.said or not other.said:
            self.said.append(words.copy())
            raise Pause
        theirs = other.said[0]
        return np.maximum(words, theirs)

    def move(self, name: str, segments: list[Segment], raw: np.ndarray, until_ps: int) -> None:
        self.ranks.moved.append(sum(segment.n_bytes for segment in segments))
        self.ranks.segments.append(len(segments))
        for segment in segments:
            if segment.src == -1:
                raw[segment.dst : segment.dst + segment.n_bytes] = 9


class Pause(Exception):  # noqa: N818 - no error
    """The other rank has not said its words."""


def words_of(n: int, sizes: list[int], n_spare: int = 1024) -> np.ndarray:
    """What a rank with n broadcasts waiting says."""
    ranks = Ranks(n_spare)
    for size in sizes[:n]:
        ranks.add(0, 1, size)
    ranks.casts[0]._begin()
    return ranks.sessions[0].said[0]


def moved_with(mine: list[int], theirs: np.ndarray) -> list[int]:
    """Bytes of each move of rank 1, which has to do all of its broadcasts."""
    ranks = Ranks()
    ranks.sessions[0].said = [theirs]
    raws = [ranks.add(1, 0, size) for size in mine]
    ranks.casts[1]._begin()
    done = sum((raw == 9).all() for raw in raws)
    assert sum(raw.size for raw in raws[:done]) == ranks.moved[0]
    return ranks.moved


def test_as_many_go_as_all_ranks_have_a_power_of_two() -> None:
    assert moved_with([4] * 9, words_of(9, [4] * 9)) == [32]
    assert moved_with([4] * 9, words_of(3, [4] * 9)) == [8]
    assert moved_with([4] * 3, words_of(9, [4] * 9)) == [8]
    assert moved_with([4] * 9, words_of(1, [4])) == [4]


def test_those_that_differ_go_alone_and_are_refused_in_their_turn() -> None:
    assert moved_with([4, 4, 4, 5], words_of(4, [4, 4, 4, 4])) == [8]
    assert moved_with([4, 5], words_of(2, [4, 4])) == [4]


def test_another_operation_or_root_ends_a_row() -> None:
    ranks = Ranks()
    ranks.sessions[0].said = [words_of(4, [4] * 4)]
    ranks.add(1, 0)
    ranks.add(1, 0)
    ranks.casts[1].end_row()
    ranks.add(1, 0)
    ranks.add(1, 0, root=1)
    assert [len(ranks.casts[1]._first_row())] == [2]
    for _ in range(2):
        ranks.casts[1]._waiting.popleft()
    assert [len(ranks.casts[1]._first_row())] == [1]


def test_a_row_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = Ranks()
    for _ in range(3):
        ranks.add(0, 1, ALONE - 1)
    monkeypatch.setattr(casts, "MOST_BYTES", 2 * ALONE)
    assert len(ranks.casts[0]._first_row()) == 2
    assert casts.MOST_BYTES < MOST_BYTES


def test_a_row_is_of_large_ones_or_of_small_ones() -> None:
    ranks = Ranks()
    for size in (ALONE, ALONE + 5, ALONE - 1, ALONE):
        ranks.add(0, 1, size)
    assert len(ranks.casts[0]._first_row()) == 2


def test_large_ones_are_moved_where_they_stand_and_in_order_where_they_overlap() -> None:
    sizes = [ALONE, ALONE + 7, ALONE, ALONE]
    for is_twice in (False, True):
        ranks = Ranks()
        ranks.sessions[0].said = [words_of(4, sizes)]
        raws = [ranks.add(1, 0, size) for size in sizes]
        if is_twice:
            cast = ranks.casts[1]._waiting[3]
            ranks.casts[1]._waiting[3] = cast._replace(raw=raws[0])
        ranks.casts[1]._begin()
        assert (ranks.moved, ranks.segments) == ([sum(sizes)], [4])
        assert all((raw == 9).all() for raw in raws[:3])
        assert (raws[3] == (0 if is_twice else 9)).all()
        assert (ranks.casts[1]._room.size > 0) == is_twice


def test_nothing_beside_arrays_is_in_the_way_of_their_span() -> None:
    room = np.arange(100, dtype=np.uint8)
    span, places = span_of([room[70:80], room[10:20]])
    assert (places, span.size) == ([60, 0], 70)
    assert (span == room[10:80]).all()
    assert span_of([room[10:20], room[19:30]])[1] == []


def test_an_error_ends_the_first_alone_when_nothing_was_agreed() -> None:
    ranks = Ranks()
    ranks.error = GroupError("broadcast: no", op="broadcast")
    ranks.add(0, 1)
    first = ranks.futures[0]
    ranks.add(0, 1)
    ranks.casts[0]._begin()
    with pytest.raises(GroupError, match="no"):
        first.wait()
    assert not ranks.futures[0].is_done()


def test_a_small_window_has_room_for_few_digests() -> None:
    assert len(words_of(9, [4] * 9, n_spare=16)) == 9
    assert len(words_of(9, [4] * 9)) == 99


def test_a_row_is_begun_once_and_done_to_its_end() -> None:
    ranks = Ranks()
    ranks.error = GroupError("broadcast: no", op="broadcast")
    works = []
    for _ in range(3):
        ranks.add(0, 1)
        works += ranks.futures
    ranks.casts[0].end_row()
    ranks.add(0, 1)
    assert len(ranks.tasks[0]) == 2  # one task a row, in the place of its first
    ranks.tasks[0][0]()
    assert [work.is_done() for work in works] == [True] * 3
    assert not ranks.futures[0].is_done()
    ranks.tasks[0][1]()
    ranks.add(0, 1)
    assert len(ranks.tasks[0]) == 3
