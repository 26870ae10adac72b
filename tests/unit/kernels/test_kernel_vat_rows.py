"""Slots of a BFR: given as asked for, grown with what is in them, taken from the idle."""

import numpy as np
from vat_nodes import BIFT_ID, BSL, VatNode, figure_one, message, said

from fanfold.kernels import vat as v
from fanfold.kernels.vat_rows import IDLE_PS, close_group, open_vat
from fanfold.wire import bitstring as bs
from fanfold.wire.fold import FoldWhat

W1, W2 = 1, 2
S1 = W1 | W2


def ask(
    vats: v.Vats, group: int, n_slots: int, n_least: int = 0, *, now: int = 0, port: int = 0
) -> int:
    """Slots that a group has after it asked."""
    bits = np.array(bs.to_words(W1, BSL), np.uint64)
    is_root = int(port == 0)
    at = open_vat(vats, group, port, is_root, bits, 1, BIFT_ID, n_slots, n_least, now)
    return int(vats.rows[at]["n_slots"])


def table(n_slots: int, **limits: int) -> v.Vats:
    return v.build_vats(64, n_slots, 1, 200, **limits)


def test_a_group_gets_what_it_asks_for_while_a_quarter_is_left() -> None:
    vats = table(64)
    assert ask(vats, 1, 48, 4) == 48
    assert ask(vats, 2, 32, 4) == 4  # the last quarter is for groups that ask for few
    assert [ask(vats, group, 4, 4) for group in (3, 4, 5)] == [4, 4, 4]
    assert ask(vats, 6, 4, 4) == 0
    assert ask(table(64), 1, 49, 4) == 24


def test_a_group_that_names_no_least_gets_all_or_nothing() -> None:
    vats = table(64)
    assert ask(vats, 1, 60) == 60
    assert ask(vats, 2, 5) == 0
    assert ask(vats, 3, 4) == 4


def test_asking_again_changes_nothing_while_others_wait() -> None:
    """Not even when there is room by now: ranks that heard the first answer go by it."""
    vats = table(64)
    assert ask(vats, 1, 48, 4) == 48
    assert ask(vats, 2, 16, 4) == 4
    v.close_vat(vats, 0)
    assert ask(vats, 2, 16, 4) == 4
    assert ask(vats, 2, 4) == 4
    assert ask(vats, 2, 32, 4) == 32  # what was not asked before


def test_a_quota_bounds_what_is_given() -> None:
    vats = table(64, most_of_group=12)
    assert ask(vats, 1, 32, 4) == 8
    assert ask(vats, 2, 32, 16) == 0
    assert vats.events[v.VAT_QUOTA] == 1


def test_a_root_that_grows_still_has_its_results() -> None:
    s1 = VatNode(figure_one(), "s1")
    first = message(S1, what=FoldWhat.ARM, n_slots=4, block=4)
    s1.take(first, 1)
    for block in range(4):
        s1.take(message(W1, [block], block=block), 2)
    for block in range(3):
        s1.take(message(W2, [10], block=block), 3)
    assert s1.said_by()["complete"] == 3
    (armed, *_) = s1.take(message(S1, what=FoldWhat.ARM, n_slots=16, n_least=4, block=16), 1)
    fold = said(armed[1])
    assert fold.what == FoldWhat.ARM
    assert s1.vats.rows["n_slots"][0] == 16
    asked = s1.take(message(W1, what=FoldWhat.REQUEST, block=2), 2)
    assert {said(p).words for _, p in asked} == {(12,)}  # kept
    ended = s1.take(message(W2, [10], block=3), 3)
    assert {said(p).words for _, p in ended} == {(13,)}  # begun before, ended after
    assert (s1.vats.owner != 0).sum() == 16
    assert s1.said_by()["armed"] == 1


def test_without_room_to_grow_a_root_keeps_what_it_has() -> None:
    vats = table(64)
    assert ask(vats, 1, 4, 4) == 4
    assert ask(vats, 2, 60) == 60
    assert ask(vats, 1, 16, 4) == 4
    assert (vats.owner == 1).sum() == 4


def test_without_room_to_grow_a_bfr_below_the_root_passes_on() -> None:
    """It needs as many as the root, or blocks would meet in one slot."""
    vats = table(64)
    assert ask(vats, 1, 4, port=1) == 4
    assert ask(vats, 2, 60) == 60
    assert ask(vats, 1, 16, port=1) == 0
    assert (vats.owner == 1).sum() == 0


def test_who_was_idle_longest_gives_its_slots() -> None:
    vats = table(64)
    for group in (1, 2, 3, 4):
        assert ask(vats, group, 16, now=group) == 16
    ask(vats, 1, 16, now=10)
    assert ask(vats, 5, 16, now=IDLE_PS + 1) == 0
    assert vats.events[v.VAT_FULL] == 1
    assert ask(vats, 5, 16, now=IDLE_PS + 2) == 16
    kept = sorted(int(row["group"]) for row in vats.rows if row["used"])
    assert kept == [1, 3, 4, 5]


def test_what_was_configured_keeps_its_slots_until_it_is_undone() -> None:
    vats = table(64)
    for group in (1, 2, 3, 4):
        assert ask(vats, group, 16, now=group) == 16
    vats.rows[0]["is_laid"] = 1
    assert ask(vats, 5, 16, now=9 * IDLE_PS) == 16
    assert sorted(int(row["group"]) for row in vats.rows if row["used"]) == [1, 3, 4, 5]
    vats.rows["is_laid"] = 1
    assert ask(vats, 6, 16, now=99 * IDLE_PS) == 0
    assert close_group(vats, 1) == 1
    assert close_group(vats, 1) == 0
    assert ask(vats, 7, 16, now=99 * IDLE_PS) == 16


def test_no_row_is_taken_from_what_was_configured() -> None:
    vats = v.build_vats(2, 64, 1, 200)
    assert [ask(vats, group, 8, now=group) for group in (1, 2)] == [8, 8]
    vats.rows["is_laid"] = 1
    bits = np.array(bs.to_words(W2, BSL), np.uint64)
    assert open_vat(vats, 3, 0, 1, bits, 1, BIFT_ID, 8, 0, 9 * IDLE_PS) == v.NO_ROW
    vats.rows[1]["is_laid"] = 0
    assert open_vat(vats, 3, 0, 1, bits, 1, BIFT_ID, 8, 0, 9 * IDLE_PS) == 1
