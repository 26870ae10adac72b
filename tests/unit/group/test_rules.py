"""Rules for ranks that are late, and roots at hosts, as a communicator is told them."""

import pytest

from fanfold.errors import ConfigError
from fanfold.group.fabric import FabricCommunicator
from fanfold.group.rules import Rules, check_rules, said_rules
from fanfold.group.ways import root_without_bfr
from fanfold.topo.fabric import Fabric, Link, Node
from fanfold.topo.lab_fabric import leaf_spine

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
