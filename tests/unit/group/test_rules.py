"""Rules for ranks that are late, and roots at hosts, as a communicator is told them."""

import pytest

from fanfold.errors import ConfigError
from fanfold.group.fabric import FabricCommunicator
from fanfold.group.rules import Inside, Rules, check_rules, said_rules
from fanfold.group.ways import root_without_bfr
from fanfold.topo.fabric import Fabric, Link, Node
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.topo.vat_laid import LaidTree

MS = 10**9
FABRIC = leaf_spine(2, 1, 4)
MEMBERS = ["h1", "h2", "h3"]


@pytest.mark.parametrize("patience_ps", [0, MS - 1, 65_536 * MS, -MS])
def test_a_patience_is_at_least_a_millisecond_and_fits_its_field(patience_ps: int) -> None:
    assert check_rules(Rules("partial", MS)).patience_ms("reduce", is_joined=True) == 1
    assert check_rules(Rules("partial", 65_535 * MS)).patience_ps == 65_535 * MS
    with pytest.raises(ConfigError, match="patience_ps"):
        check_rules(Rules("partial", patience_ps))


def test_only_sums_that_are_joined_are_cut_short() -> None:
    rules = Rules("exclude", 20 * MS)
    assert rules.patience_ms("all_reduce", is_joined=True) == 20
    assert rules.patience_ms("all_reduce", is_joined=False) == 0  # floats that are multiplied
    assert rules.patience_ms("barrier", is_joined=False) == 0
    assert rules.patience_ms("reduce_scatter", is_joined=True) == 0
    assert Rules().patience_ms("all_reduce", is_joined=True) == 0
    assert Rules().number() == 0
    assert said_rules(rules.number()) == "stragglers exclude, patience 20 ms"


def test_ranks_that_add_in_another_way_are_told_apart() -> None:
    plain, late = Rules(numbers="block"), Rules("partial", 20 * MS, "block")
    numbers = [r.number() for r in (plain, late, Rules(), Rules("partial", 20 * MS))]
    assert len(set(numbers)) == 4
    assert max(numbers) < 1 << 31
    assert said_rules(plain.number()) == "an exponent a block"
    assert said_rules(late.number()).endswith("a block, stragglers partial, patience 20 ms")
    with pytest.raises(ConfigError, match="numbers: got 'exact', allowed: value, block"):
        check_rules(Rules(numbers="exact"))


def test_a_number_has_a_bit_for_each_rule_and_all_of_them_in_words() -> None:
    numbers = {
        Rules(numbers="block"): 1 << 20,
        Rules(is_checked=True): 1 << 21,
        Rules(numbers="block", is_checked=True): 3 << 20,
        Rules("exclude", 20 * MS): 2 << 16 | 20,
        Rules("partial", 65_535 * MS, "block"): 1 << 20 | 1 << 16 | 65_535,
    }
    assert [rules.number() for rules in numbers] == list(numbers.values())
    assert said_rules(3 << 20) == "an exponent a block, checked sums"
    assert Inside(3) == Inside(3, (), 0)


def test_an_installed_tree_is_for_its_own_ranks_and_stays_as_it_is() -> None:
    laid = LaidTree("job", tuple(MEMBERS), 16, (), {}, {})
    for rules in (Rules(), Rules("partial")):
        assert check_rules(rules, MEMBERS, laid) is rules
    assert check_rules(Rules("exclude"), MEMBERS).stragglers == "exclude"
    with pytest.raises(
        ConfigError, match="stragglers: got 'exclude', allowed: wait, partial: the"
    ):
        check_rules(Rules("exclude"), MEMBERS, laid)
    with pytest.raises(
        ConfigError, match="members: got 'h1, h2', allowed: h1, h2, h3, as laid"
    ):
        check_rules(Rules(), MEMBERS[:2], laid)


def test_checked_sums_wait_for_everybody() -> None:
    assert check_rules(Rules(is_checked=True)).is_checked
    with pytest.raises(ConfigError, match="stragglers: got 'partial', allowed: wait: sums are"):
        check_rules(Rules("partial", is_checked=True))


def test_no_communicator_with_a_policy_or_root_that_is_none() -> None:
    with pytest.raises(ConfigError, match="stragglers: got 'skip', allowed: wait, partial"):
        FabricCommunicator(FABRIC, MEMBERS, 0, group=1, stragglers="skip")
    for root in ("leaf9", "h9"):
        with pytest.raises(ConfigError, match=f"root: got '{root}', allowed: a host"):
            FabricCommunicator(FABRIC, MEMBERS, 0, group=1, root=root)


def test_a_member_without_a_bfr_makes_rank_0s_host_the_root() -> None:
    assert root_without_bfr(FABRIC, MEMBERS) == ""
    names = ("leaf1", "h1", "h2", "h3")
    nodes = tuple(
        Node(n, f"127.99.0.{i}", "host" if i > 1 else "bfr", i - 1)
        for i, n in enumerate(names, 1)
    )
    links = (Link("h1", "leaf1"), Link("h2", "leaf1"), Link("h1", "h3"))
    mixed = Fabric("mixed", nodes, links)
    assert root_without_bfr(mixed, ["h2", "h1"]) == ""
    with pytest.warns(RuntimeWarning, match="h3 has no BFR: all arrays are summed at host h1"):
        assert root_without_bfr(mixed, ["h1", "h3"]) == "h1"
