"""What becomes of links that pushes name gray: left out, tried after a while, well again."""

import msgspec
import pytest

from fanfold.push.avoided import FIRST_S, MOST_S, AvoidedLink, due, judge
from fanfold.push.gray import GrayLink
from fanfold.topo.lab_fabric import leaf_spine

FABRIC = leaf_spine(2, 2, 4, name="x", prefix=0)
LINK = "leaf1-spine1"
NAMES = [f"{link.a}-{link.b}" for link in FABRIC.links]


def gray(src="leaf1", dst="spine1", rate=0.01, alike=()):
    return GrayLink(src, dst, "drops", rate, 0.9999, 2000, 20, alike=alike)


def cut(*names):
    links = [
        msgspec.structs.replace(link, up=f"{link.a}-{link.b}" not in names)
        for link in FABRIC.links
    ]
    return msgspec.structs.replace(FABRIC, links=tuple(links))


def fates(book, rows=(), carried=None, now=0, may_cut=lambda name: True):
    return judge(book, FABRIC, rows, carried or {}, now, may_cut)


@pytest.fixture
def book():
    return {}


def test_a_link_is_left_out_tried_after_a_while_and_well_again(book):
    assert LINK in NAMES
    (first,) = fates(book, [gray()])
    assert first == AvoidedLink(LINK, "avoided", 0.01, FIRST_S)
    assert due(book, cut(LINK), FIRST_S - 1) == []
    assert due(book, cut(LINK), FIRST_S) == [LINK]
    some = {("leaf1", "spine1"): 600, ("spine1", "leaf1"): 9000}
    (trial,) = fates(book, carried=some)
    assert (trial.fate, trial.carried, trial.enough) == ("trial", 600, 920)
    (well,) = fates(book, carried=some)  # both directions count, of this one both pushes
    assert (well.fate, well.carried) == ("well", 1200)
    assert book == {}
    assert fates(book, carried=some) == []


def test_what_is_named_once_more_is_left_out_for_twice_as_long(book):
    now, pauses = 0, []
    for _ in range(9):
        (row,) = fates(book, [gray()], now=now)
        pauses.append(row.again_s)
        now += row.again_s
        assert due(book, cut(LINK), now) == [LINK]
    assert pauses == [min(FIRST_S * 2**n, MOST_S) for n in range(9)]


def test_a_direction_is_well_by_what_it_carried_itself(book):
    fates(book, [gray(), gray("spine1", "leaf1", 0.1)])
    assert sorted(book[LINK].ways) == ["leaf1>spine1"]  # one is enough to leave it out
    book[LINK].ways["spine1>leaf1"] = 0.1
    due(book, cut(LINK), FIRST_S)
    (row,) = fates(book, carried={("leaf1", "spine1"): 5000})
    assert (row.fate, row.carried, row.enough) == ("trial", 0, 92)


@pytest.mark.parametrize(
    ("row", "may", "fate"),
    [
        (gray(alike=("leaf2-spine1",)), True, "several fit"),
        (gray("leaf1", "h1"), False, "no other way"),
    ],
)
def test_a_link_stays_where_nothing_is_sure_or_no_other_way_is_left(book, row, may, fate):
    (found,) = fates(book, [row], may_cut=lambda name: may)
    assert (found.fate, book) == (fate, {})


def test_a_link_that_somebody_joined_by_hand_is_on_trial(book):
    fates(book, [gray()])
    assert due(book, FABRIC, 0) == []
    (row,) = fates(book, carried={("leaf1", "spine1"): 1})
    assert row.fate == "trial"


def test_each_fate_is_a_line_for_people():
    lines = [
        AvoidedLink(LINK, fate, 0.01, 60, 3, 921).words()
        for fate in ("avoided", "trial", "well", "no other way", "several fit")
    ]
    assert all(LINK in line for line in lines)
    assert "tried again after 60 s" in lines[0]
    assert "carried 3 of 921 packets" in lines[1]
