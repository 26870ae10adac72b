"""Counters of nodes become words that say what to mend."""

import msgspec
import pytest

from fanfold.live.status import ALIKE, NeighbourStatus, NodeStatus
from fanfold.push.notes import lost_links, notes_of, words_of
from fanfold.topo.lab_fabric import leaf_spine

FABRIC = leaf_spine(1, 0, 2, name="x", prefix=0)


def status(**own: int) -> NodeStatus:
    alike = {k: getattr(FABRIC, k) for k in ALIKE}
    return NodeStatus({}, {}, [], alike | own)


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("too_large", ("MTU", "fabric.mtu", "ip link")),
        ("send_failed", ("refused by the kernel", "ip route")),
        ("unknown_bift", ("sub_domain", "bitstring_bits")),
        ("bsl_mismatch", ("BitString", "another length")),
    ],
)
def test_a_drop_that_a_user_can_mend_is_told_in_words(
    reason: str, words: tuple[str, ...]
) -> None:
    (line,) = words_of("leaf1", {}, {reason: 3, "duplicate": 9})
    assert line.startswith("leaf1: packets ")
    assert line.endswith("(3 of them)")
    assert all(word in line for word in words)
    assert words_of("leaf1", {}, {"duplicate": 9, reason: 0}) == []


def test_the_link_that_is_too_small_is_named() -> None:
    lost = {"h1": {"too_large": 2}, "h2": {"port_full": 2}}
    (line,) = words_of("leaf1", lost, {"too_large": 1})
    assert line.startswith("leaf1: packets to h1 were larger")


@pytest.mark.parametrize(
    ("key", "value"), [("sub_domain", 1), ("bitstring_bits", 64), ("mtu", 1500)]
)
def test_a_fabric_file_that_differs_is_named_with_both_values(key: str, value: int) -> None:
    statuses = {"leaf1": status(**{key: value}), "h1": status()}
    drops = {"leaf1": {"unknown_bift": 35}}
    (line,) = notes_of(FABRIC, {}, statuses, drops)
    assert line.startswith(f"leaf1: {key} is {value} there and {getattr(FABRIC, key)} here")
    same = msgspec.structs.replace(FABRIC, **{key: value})
    (line,) = notes_of(same, {}, {"leaf1": status(**{key: value})}, drops)
    assert "35 of them" in line


def test_who_has_nothing_to_mend_has_no_word() -> None:
    assert (
        notes_of(
            FABRIC,
            {},
            {"leaf1": status(), "h1": NodeStatus({}, {}, [])},
            {"leaf1": {"impaired": 5}},
        )
        == []
    )


def beside(**falls: int) -> NodeStatus:
    """A node whose neighbours fell so often; those that did are down."""
    rows = {to: NeighbourStatus("down" if n else "up", n) for to, n in falls.items()}
    return NodeStatus({}, {}, [], neighbours=rows)


def test_links_that_were_lost_are_told_by_whether_that_was_during_the_push() -> None:
    fabric = leaf_spine(2, 2, 4, name="x", prefix=0)
    said = "and routed around where possible"
    now = {"leaf1": beside(spine1=1, spine2=0, h1=2), "spine1": beside(leaf1=1, leaf2=3)}
    before = {"leaf1": beside(spine1=0, spine2=0, h1=0), "spine1": beside(leaf1=0, leaf2=3)}
    assert lost_links(fabric, before, before | {"spine1": beside(leaf1=0)}) == []
    assert lost_links(fabric, before, now) == [
        f"lost during the push, {said}: leaf1-spine1",
        f"down before the push, {said}: leaf2-spine1",
    ]
    many = leaf_spine(9, 2, 1, name="x", prefix=0)
    gone = {"spine1": beside(**{f"leaf{i}": 1 for i in range(1, 10)})}
    (line,) = lost_links(many, {}, gone)
    assert line.endswith("leaf8-spine1 and 1 more")
