"""Words of failures: what `lab fail` takes, with times, on a net of the simulator."""

import pytest

from fanfold.errors import ConfigError
from fanfold.scenario.failures import check_failures, read_faults
from fanfold.scenario.settings import Failure, Settings
from fanfold.topo.nets import build_named_net
from fanfold.units import PS_PER_SECOND

NET = build_named_net("leaf-spine:leaves=2,spines=2,hosts=4")
NAMES = [NET.node_name(n) for n in range(NET.n_nodes)]


def faults(*failures: Failure):
    return read_faults(Settings(failures=failures), NET)


def ends(links):
    return {(NAMES[NET.src[k]], NAMES[NET.dst[k]]) for k in links}


def test_a_link_is_cut_both_ways() -> None:
    (one,) = faults(Failure(7, fail="link leaf1-spine0"))
    assert (one.at_ps, one.kind, one.is_for_good) == (7, "link", True)
    assert ends(one.links) == {("leaf1", "spine0"), ("spine0", "leaf1")}
    assert [NAMES[n] for n in one.nodes] == ["leaf1", "spine0"]


def test_the_first_link_of_all_is_found() -> None:
    (one,) = faults(Failure(0, fail="link h0-leaf0"))
    assert 0 in one.links


def test_a_node_takes_all_its_links_with_it() -> None:
    (one,) = faults(Failure(7, fail="node spine1"))
    assert ends(one.links) == {
        *(("spine1", leaf) for leaf in ("leaf0", "leaf1")),
        *((leaf, "spine1") for leaf in ("leaf0", "leaf1")),
    }
    assert [NAMES[n] for n in one.nodes] == ["spine1"]


def test_a_pause_ends_by_itself() -> None:
    (one,) = faults(Failure(7, fail="pause h3 3s"))
    assert (one.until_ps, one.is_for_good) == (7 + 3 * PS_PER_SECOND, False)


def test_a_gray_link_carries_most() -> None:
    (one,) = faults(Failure(7, fail="gray leaf1-spine0 1%"))
    assert (one.loss_ppb, one.cuts) == (10_000_000, False)


def test_what_is_mended_ends_then_and_can_fail_again() -> None:
    first, second = faults(
        Failure(30, fail="link leaf1-spine0"),
        Failure(10, fail="link leaf1-spine0"),
        Failure(20, heal="spine0-leaf1"),
    )
    assert (first.at_ps, first.until_ps) == (10, 20)
    assert (second.at_ps, second.until_ps) == (30, -1)


def test_cables_without_words_are_no_faults() -> None:
    assert faults(Failure(5, "leaf1", "spine0")) == []


@pytest.mark.parametrize(
    ("words", "got"),
    [
        ("cable leaf1-spine0", "cable leaf1-spine0"),
        ("link", "link"),
        ("link leaf1-spine0 1%", "link leaf1-spine0 1%"),
        ("link leaf0-leaf1", "leaf0-leaf1"),
        ("node spine7", "spine7"),
        ("pause h3", "pause h3"),
        ("pause h3 soon", "soon"),
        ("gray leaf1-spine0 100%", "100%"),
    ],
)
def test_what_says_nothing_is_refused_by_its_field(words: str, got: str) -> None:
    with pytest.raises(ConfigError) as caught:
        faults(Failure(0, fail=words))
    assert caught.value.got == got
    assert caught.value.field in ("settings.failures[0].fail",)


def test_what_has_not_failed_cannot_be_mended() -> None:
    with pytest.raises(ConfigError, match="what has failed by then"):
        faults(Failure(5, heal="spine0"), Failure(6, fail="node spine0"))


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (Failure(1), "failures[0]: got 'nothing'"),
        (Failure(1, "a", "b", fail="node a"), "failures[0]: got 'several of them'"),
        (Failure(1, fail="node a", heal="a"), "failures[0]: got 'several of them'"),
        (Failure(1, b="b"), "failures[0].a: got 'nothing'"),
    ],
)
def test_a_failure_has_one_form(failure: Failure, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_failures(Settings(failures=(failure,)), "settings.")
    assert said in str(caught.value)
