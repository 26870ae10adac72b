"""Small tables of failures, without compiled loops: two spines, three receivers."""

import pytest

from fanfold.scenario.settings import Settings
from fanfold.study.failure_table import NOBODY, Asked, build_failure_table
from fanfold.units import PS_PER_MS, PS_PER_US

QUICK = Settings(hello_ps=20 * PS_PER_US, reroute_ps=2 * PS_PER_MS, tree_start="standing")


@pytest.mark.parametrize("scheme", ["fanfold", "mofrr", "mldp", "bier-frr"])
def test_of_two_spines_one_is_enough_and_of_a_leaf_nobody_is_left(scheme):
    """64 KiB to three: in mid-transfer a link to a leaf is cut, or the leaf ends."""
    small = Asked("leaf-spine:leaves=2,spines=2,hosts=4", 1 << 16, scheme, ("link", "leaf"))
    link, leaf = build_failure_table(small._replace(settings=QUICK)).rows
    assert (link.failure, leaf.failure) == ("link", "leaf")
    assert link.words.startswith("link spine")
    assert link.words.endswith("-leaf1")
    assert leaf.words == "node leaf1"
    assert (link.gap_receivers, link.behind, link.cut_off) == (2, 2, 0)
    assert (leaf.gap_receivers, leaf.behind, leaf.cut_off) == (2, 2, 2)
    assert link.at_ps < link.detect_ps < link.gap_ps <= link.last_gap_ps < link.whole_ps
    assert leaf.gap_ps == NOBODY
    assert 0 < leaf.whole_ps < link.whole_ps  # those who are left wait for nobody
    assert bool(link.by_definition) is (scheme == "bier-frr")
