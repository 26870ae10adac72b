"""What an error says of a silent tree: all that explains it, and nothing that was heard.

Net: leaf1 with h1 to h4, leaf2 with h5 to h8, spine1 and spine2 above; BFR-ids are the hosts'
numbers plus one. Of this fabric's two tables an even group takes the way over one spine, an odd
one that over the other; its root is leaf1, rank 0's, or where root_level says.
"""

from collections.abc import Collection

import pytest

from fanfold.group.silence import Setting, Verdict, judge
from fanfold.group.ways import Tree, tree_of
from fanfold.live.rank_sight import Sight
from fanfold.topo.fabric import Fabric, Link, Node
from fanfold.topo.lab_fabric import leaf_spine

FABRIC = leaf_spine(2, 2, 8, name="silence", prefix=0)
HOSTS = ("h1", "h2", "h5", "h6")
GROUP = 7
SPINE = "spine1"
"""Of group 7: three hops from leaf1, so table 1, rotated by nine, the hosts before it."""


def who(ranks: Collection[int]) -> str:
    return ", ".join(f"{r} ({HOSTS[r]})" for r in ranks)


def verdict(
    rank: int,
    missing: Collection[int] = (),
    root_level: int = 0,
    root: str = "",
    **seen: object,
) -> Verdict:
    setting = Setting(FABRIC, HOSTS, GROUP, rank, range(4), root_level, root, 3, who)
    usual = Sight(
        uplink="leaf1" if rank < 2 else "leaf2",
        is_armed=True,
        root_hops=0 if rank < 2 else 2,
        is_full=False,
        is_moving=False,
        n_done=0,
        n_blocks=9,
        n_probes=4,
        is_passing=True,
        answers=-1,
        has_known_next=False,
    )
    return judge(setting, usual._replace(**seen), list(missing))


def test_the_ways_of_a_group_are_those_that_its_packets_walk() -> None:
    leaf1 = ("leaf1", "h1"), ("leaf1", "h2")
    leaf2 = [("leaf1", SPINE, "leaf2", h) for h in ("h5", "h6")]
    assert tree_of(FABRIC, HOSTS, GROUP) == Tree(("h1", "leaf1"), (*leaf1, *leaf2))
    above = tree_of(FABRIC, HOSTS, GROUP, root_level=1)
    assert above is not None
    assert above.up == ("h1", "leaf1", SPINE)
    assert above.down[2] == (SPINE, "leaf2", "h5")
    host = tree_of(FABRIC, HOSTS, GROUP, root="h5")
    assert host is not None
    assert host.down[2:] == (("h5",), ("h5", "leaf2", "h6"))
    other = tree_of(FABRIC, HOSTS, GROUP - 1)
    assert other is not None
    assert SPINE not in other.down[2]


def test_a_climb_ends_at_the_last_bfr_before_a_rank() -> None:
    tree = tree_of(FABRIC, HOSTS, GROUP, root_level=3)
    assert tree is not None
    assert tree.up[:4] == ("h1", "leaf1", SPINE, "leaf2")
    alone = tree_of(FABRIC, HOSTS[:2], GROUP, root_level=3)  # nobody is behind another BFR
    assert alone is not None
    assert alone.up == ("h1", "leaf1")


def test_ranks_behind_one_leaf_are_silent_by_the_leaf_or_what_leads_there() -> None:
    found = verdict(0, [2, 3], answers=0)
    chain = (f"leaf1-{SPINE}", SPINE, f"leaf2-{SPINE}", "leaf2")
    assert tuple(found.suspects) == chain
    assert found.ranks == [2, 3]
    assert found.text == (
        "deadline, not heard: rank 2 (h5), 3 (h6); all of them are behind "
        f"leaf1-{SPINE}, {SPINE}, leaf2-{SPINE} and leaf2"
    )


def test_a_bfr_that_others_were_heard_through_is_no_suspect() -> None:
    found = verdict(0, [3], answers=0)
    assert tuple(found.suspects) == ("h6-leaf2", "h6")
    assert found.text == "deadline, not heard: rank 3 (h6)"
    two = verdict(3, [1, 2], answers=2)
    assert set(two.suspects) == {"h2-leaf1", "h2", "h5-leaf2", "h5"}
    assert "leaf" not in two.text


def test_the_first_bfr_that_does_not_answer_is_named_and_what_is_beyond() -> None:
    found = verdict(2, answers=0)
    beyond = (f"leaf2-{SPINE}", SPINE, f"leaf1-{SPINE}", "leaf1")
    assert (tuple(found.suspects), found.branch) == (beyond, SPINE)
    assert f"leaf2 answers, but {SPINE} behind it does not answer" in found.text
    known = verdict(2, answers=0, has_known_next=True)
    assert tuple(known.suspects) == beyond[:2]
    last = verdict(2, answers=1)
    assert tuple(last.suspects) == beyond[2:]


@pytest.mark.parametrize("is_armed", [True, False])
def test_who_hears_nothing_names_its_own_bfr_and_link_only(is_armed: bool) -> None:
    for rank, leaf in ((1, "leaf1"), (2, "leaf2")):
        found = verdict(rank, is_armed=is_armed, is_passing=False)
        assert tuple(found.suspects) == (leaf, f"{HOSTS[rank]}-{leaf}")
        assert (found.ranks, found.branch) == ((), leaf)


def test_without_arm_all_between_rank_0_and_this_one_is_suspect_but_what_answers() -> None:
    found = verdict(2, is_armed=False)
    assert found.ranks == (0,)
    assert tuple(found.suspects) == (
        *("h1-leaf1", "leaf1", f"leaf1-{SPINE}", SPINE, f"leaf2-{SPINE}"),
    )
    assert found.text.endswith(" is; leaf2 answers")
    unasked = verdict(2, is_armed=False, n_probes=0, is_passing=False)
    assert {"leaf2", "h5-leaf2"} <= set(unasked.suspects)
    elsewhere = verdict(2, is_armed=False, is_full=True)  # rank 0 may have climbed
    assert elsewhere.suspects == []
    above = verdict(0, is_armed=False, root_level=1)
    assert tuple(above.suspects) == (f"leaf1-{SPINE}", SPINE)


def test_the_node_of_a_host_that_is_the_root_is_a_suspect_as_any_other() -> None:
    for rank in range(4):
        found = verdict(rank, root="h5", is_armed=False)
        assert "h5" in found.suspects
        assert not {"h1", "h2", "h6"}.intersection(found.suspects)


def test_a_slow_sum_accuses_nobody() -> None:
    for missing in ([], [2]):
        found = verdict(0, missing, is_moving=True, n_done=4, answers=0)
        assert (tuple(found.ranks), tuple(found.suspects)) == ((), ())
        assert "4 of 9 blocks" in found.text
    assert verdict(0, n_probes=0, is_passing=False).suspects == ()
    assert verdict(0, answers=0).suspects == ()


def test_a_root_that_rank_0_moved_is_told_by_its_distance_or_not_at_all() -> None:
    found = verdict(2, [0, 1], root_level=1, root_hops=1, answers=1)  # behind it: leaf1
    assert tuple(found.suspects) == (f"leaf1-{SPINE}", "leaf1")
    assert verdict(2, [0, 1], root_hops=1, answers=1).suspects == ()  # not where it should be
    moved = verdict(2, [1], is_full=True, root_hops=3, answers=3)  # to rank 0's host
    assert tuple(moved.suspects) == ("h2-leaf1", "h2")
    twice = verdict(1, [2, 3], is_full=True, root_hops=1, answers=1)  # a spine, or that host
    assert twice.suspects == ()
    assert "not heard: rank 2 (h5), 3 (h6)" in twice.text


def test_a_bfr_that_forgot_the_group_is_not_called_dead() -> None:
    found = verdict(1)
    assert found.suspects == []
    assert "leaf1 passes packets on, but does not answer for this group" in found.text


def test_a_host_that_nobody_reaches_has_no_tree() -> None:
    nodes = (
        Node("h1", "10.0.0.1", "host", 1),
        Node("h2", "10.0.0.2", "host", 2),
        Node("b", "10.0.0.3", "bfr"),
    )
    lonely = Fabric("lonely", nodes, (Link("h1", "b"),))
    assert tree_of(lonely, ("h1", "h2"), 1) is None
