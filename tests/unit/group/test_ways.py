"""A switch that was named becomes a group's root: by ARM's level, and by the group's number."""

from itertools import count

import pytest

from fanfold.errors import ConfigError
from fanfold.group.ways import (
    MAX_ROOT_LEVEL,
    draw_group,
    draw_group_around,
    plane_of_group,
    root_level_to,
    tree_of,
)
from fanfold.topo.lab_fabric import lab_fabric, leaf_spine
from fanfold.topo.nets import build_named_net

FABRIC = leaf_spine(2, 2, 8, name="ways", prefix=0)
HOSTS = ("h1", "h2", "h5", "h6")


def root_of(group: int, root_level: int) -> str:
    tree = tree_of(FABRIC, HOSTS, group, root_level)
    assert tree is not None
    return tree.up[-1]


def test_a_named_switch_is_reached_by_the_climb() -> None:
    for group in (6, 7):
        for root_level in (0, 1):
            name = root_of(group, root_level)
            assert root_level_to(FABRIC, HOSTS, group, name, MAX_ROOT_LEVEL) == root_level


def test_a_switch_that_a_number_leads_past_is_refused_with_those_on_its_way() -> None:
    with pytest.raises(ConfigError, match=r"root: got 'leaf2'.*way of group 7: leaf1, spine"):
        root_level_to(FABRIC, HOSTS, 7, "leaf2", 1)


@pytest.mark.parametrize("name", ["leaf1", "spine1", "spine2"])
def test_a_number_is_drawn_that_leads_to_the_switch(name: str) -> None:
    numbers = count(7)
    found = draw_group(FABRIC, HOSTS, name, lambda: next(numbers), MAX_ROOT_LEVEL)
    assert root_of(found, root_level_to(FABRIC, HOSTS, found, name, MAX_ROOT_LEVEL)) == name


def test_any_number_will_do_for_a_host_or_none() -> None:
    for name in ("", "h3"):
        assert draw_group(FABRIC, HOSTS, name, lambda: 5, MAX_ROOT_LEVEL) == 5


def test_what_cannot_be_a_root_is_refused() -> None:
    with pytest.raises(ConfigError, match="root: got 's6', allowed: a host or a switch"):
        draw_group(FABRIC, HOSTS, "s6", lambda: 5, MAX_ROOT_LEVEL)
    with pytest.raises(ConfigError, match="root: got 'leaf2', allowed: a switch within 2 hops"):
        draw_group(FABRIC, HOSTS, "leaf2", lambda: 7, 1)


POD = lab_fabric(build_named_net("superpod:gpus=8,planes=4")).fabric
CUT = frozenset({frozenset(("h2", "leaf1")), frozenset(("h5", "leaf2"))})


def test_a_group_goes_over_the_plane_that_its_number_says() -> None:
    for group in range(8):
        plane, n_planes = plane_of_group(POD, HOSTS, group)
        tree = tree_of(POD, HOSTS, group)
        assert tree is not None
        assert (f"leaf{plane}", n_planes) == (tree.up[-1], 4)
    assert plane_of_group(FABRIC, HOSTS, 3) == (0, 1)


def test_a_number_is_drawn_whose_plane_no_member_has_lost() -> None:
    numbers = count(5)
    found = draw_group_around(POD, HOSTS, CUT, lambda: next(numbers))
    assert found == 7  # 5 leads over plane 1, which h2 has lost, 6 over plane 2
    assert draw_group_around(POD, ("h1", "h6"), CUT, lambda: 6) == 6


def test_where_each_plane_is_lost_to_a_member_any_number_is_taken() -> None:
    cut = frozenset(frozenset(("h1", f"leaf{n}")) for n in range(4))
    assert draw_group_around(POD, HOSTS, cut, lambda: 9) == 9
