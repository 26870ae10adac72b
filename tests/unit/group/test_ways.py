"""A switch that was named becomes a group's root: by ARM's level, and by the group's number."""

from itertools import count

import pytest

from fanfold.errors import ConfigError
from fanfold.group.ways import MAX_ROOT_LEVEL, draw_group, root_level_to, tree_of
from fanfold.topo.lab_fabric import leaf_spine

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
