"""Ranks come to know the same of their planes, whatever order words come in."""

from collections.abc import Sequence

import numpy as np
import pytest

from fanfold.group.plane_view import (
    Decision,
    Last,
    PlaneView,
    Row,
    Turn,
    Way,
    Words,
    decide,
    living_of,
    next_blocks,
)
from fanfold.units import PS_PER_SECOND

TICK_PS = PS_PER_SECOND // 5
N = 3


class World:
    """Views of all ranks, which hear each other over planes that are well, a beat a tick."""

    def __init__(self, n_planes: int = 3) -> None:
        self.views = [PlaneView(n_planes, N, rank) for rank in range(N)]
        self.now_ps = 0

    def beat(self, planes: Sequence[int], n: int = 1) -> None:
        for _ in range(n):
            self.now_ps += TICK_PS
            for plane in planes:
                words = most_of([view.words() for view in self.views])
                for view in self.views:
                    view.take(plane, words, self.now_ps)

    def turn(self) -> Turn:
        (turn,) = {view.turn for view in self.views}
        return turn


def most_of(told: Sequence[Words]) -> Words:
    most: Words = np.max(np.stack(told), axis=0)
    return most


def test_a_plane_that_is_silent_for_a_second_is_given_up_by_all() -> None:
    world = World()
    world.beat([0, 1, 2], 3)
    world.beat([0, 2], 4)
    assert world.turn() == (0, 0, 0)
    world.beat([0, 2], 2)
    assert world.turn() == (0, 1, 0)
    assert living_of(world.turn()) == [0, 2]


def test_ranks_that_hear_nothing_blame_no_plane() -> None:
    world = World()
    world.beat([0, 1, 2], 3)
    world.now_ps += 60 * PS_PER_SECOND
    world.beat([0, 1, 2], 3)
    world.now_ps += 60 * PS_PER_SECOND
    world.beat([1, 2], 3)  # the other one a moment later
    world.beat([0, 1, 2])
    assert world.turn() == (0, 0, 0)


def test_the_last_plane_is_never_given_up() -> None:
    world = World(2)
    world.beat([0], 7)
    world.beat([0, 1], 7)
    world.beat([0], 7)
    assert world.turn() == (0, 3)
    world.beat([1], 8)  # it has to speak for two seconds now, and the other one is gone
    assert world.turn() == (0, 3)
    world.beat([1], 20)
    assert living_of(world.turn()) == [1]
    assert living_of((1, 3)) == [0, 1]


def test_a_plane_that_speaks_for_a_second_is_used_again_then_for_two() -> None:
    world = World()
    world.beat([0, 2], 8)
    world.beat([0, 1, 2], 5)
    assert world.turn() == (0, 1, 0)
    world.beat([0, 1, 2], 2)
    assert world.turn() == (0, 2, 0)
    world.beat([0, 2], 8)
    assert world.turn() == (0, 3, 0)
    world.beat([0, 1, 2], 9)
    assert world.turn() == (0, 3, 0)
    world.beat([0, 1, 2], 3)
    assert world.turn() == (0, 4, 0)


def test_all_come_to_the_turn_that_one_of_them_has_seen() -> None:
    world = World()
    world.views[2].counts = [0, 0, 1]
    assert world.views[0].take(0, most_of([v.words() for v in world.views]), TICK_PS)
    assert world.views[0].turn == (0, 0, 1)
    assert world.views[1].turn == (0, 0, 0)
    world.beat([1])
    assert world.turn() == (0, 0, 1)


def test_ranks_that_each_gave_up_another_plane_have_not_met() -> None:
    views = [PlaneView(3, 2, rank) for rank in range(2)]
    for rank, turn in enumerate([(1, 0, 0), (0, 1, 0)]):
        views[rank].counts = list(turn)
        views[rank].say(turn, Row(0, True, Last.REDO, (0, 0, 0)))
    words = most_of([view.words() for view in views])
    for view in views:
        view.take(2, words, TICK_PS)
        assert (view.turn, view.is_met()) == ((1, 1, 0), False)
    views[0].counts = [1, 0, 0]
    assert not views[0].is_met()


def test_rows_of_a_turn_are_met_once_all_have_said_theirs() -> None:
    world, turn = World(), (0, 1, 0)
    rows = [Row(7 + r, r == 1, Last.KEPT, (5 + r, (1 << 32) - 1, r)) for r in range(N)]
    for view in world.views:
        view.counts = list(turn)
    for rank in (0, 1):
        world.views[rank].say(turn, rows[rank])
    world.beat([0, 2])
    assert not any(view.is_met() for view in world.views)
    world.views[2].say(turn, rows[2])
    world.beat([2])
    for view in world.views:
        assert view.is_met()
        assert [Row(*row[:3], tuple(row.blocks)) for row in view.rows] == rows


def test_words_that_were_late_on_another_plane_change_no_row() -> None:
    world, view = World(), PlaneView(3, N, 1)
    old = most_of([each.words() for each in world.views])
    world.views[0].counts = [1, 0, 0]
    world.views[0].say((1, 0, 0), Row(4, True, Last.REDO, (9, 9, 9)))
    view.take(1, most_of([each.words() for each in world.views]), TICK_PS)
    view.take(2, old, 2 * TICK_PS)
    assert (view.turn, view.turns[0], view.rows[0].n_done) == ((1, 0, 0), (1, 0, 0), 4)


def row(n_done: int, is_begun: bool, last: Last = Last.REDO) -> Row:
    return Row(n_done, is_begun, last, (0,))


@pytest.mark.parametrize(
    ("rows", "ways"),
    [
        ([row(4, True), row(4, True)], [Decision(Way.RESUME, False)] * 2),
        ([row(4, True), row(4, False)], [Decision(Way.ANEW, False)] * 2),
        ([row(4, False), row(4, False)], [Decision(Way.ANEW, False)] * 2),
        (
            [row(5, False, Last.REDO), row(4, True)],
            [Decision(Way.ANEW, True), Decision(Way.ANEW, False)],
        ),
        (
            [row(5, True, Last.KEPT), row(4, True, Last.REDO)],
            [Decision(Way.ANEW, False), Decision(Way.OVER, False)],
        ),
    ],
)
def test_how_ranks_go_on_from_where_they_stand(rows: list[Row], ways: list[Decision]) -> None:
    assert [decide(rows, rank) for rank in range(2)] == ways


def test_all_go_on_above_every_block_that_was_sent() -> None:
    top = (1 << 32) - 10
    rows = [Row(0, True, Last.REDO, (5, top)), Row(0, True, Last.REDO, (900, 7))]
    assert next_blocks(rows, 256) == next_blocks(rows[::-1], 256) == [1156, 263]


@pytest.mark.parametrize("seed", range(6))
def test_whoever_has_met_has_the_rows_that_all_others_met_with(seed: int) -> None:
    """Planes fail at random, words come to each rank at a time of its own or never."""
    rng, n_planes = np.random.default_rng(seed), 3
    views = [PlaneView(n_planes, N, rank) for rank in range(N)]
    under_way: dict[int, Words] = {}
    owed: dict[int, set[int]] = {plane: set() for plane in range(n_planes)}
    met: dict[Turn, set[tuple[int, ...]]] = {}
    for step in range(1500):
        plane = int(rng.integers(n_planes))
        if not owed[plane]:
            under_way[plane] = most_of([view.words() for view in views])
            owed[plane] = set(range(N))
        rank = int(rng.choice(sorted(owed[plane])))
        owed[plane].discard(rank)
        if rng.random() < 0.8:
            views[rank].take(plane, under_way[plane], step * TICK_PS // 20)
        if rng.random() < 0.01:
            views[rank].counts[plane] += 1
        for view in views:
            if view.turns[view.rank] != view.turn and rng.random() < 0.3:
                view.say(view.turn, Row(int(rng.integers(9)), True, Last.REDO, (step,) * 3))
            if view.is_met():
                met.setdefault(view.turn, set()).add(tuple(r.n_done for r in view.rows))
    assert len(met) > 3
    assert all(len(rows) == 1 for rows in met.values())
