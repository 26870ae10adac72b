"""Words of failures: what `lab fail` takes, with times, on a net of the simulator."""

import numpy as np
import pytest

from fanfold.errors import ConfigError
from fanfold.scenario.failures import check_failures, net_at_start, read_faults
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
    assert (one.at_ps, one.kind, one.until_ps) == (7, "link", -1)
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
    assert one.until_ps == 7 + 3 * PS_PER_SECOND


def test_a_gray_link_carries_most() -> None:
    (one,) = faults(Failure(7, fail="gray leaf1-spine0 1%"))
    assert (one.loss_ppb, one.cuts) == (10_000_000, False)


def test_a_port_that_damages_loses_in_its_direction_alone() -> None:
    (one,) = faults(Failure(7, fail="port-corrupt leaf1-spine0 1%"))
    assert (one.loss_ppb, one.cuts) == (10_000_000, False)
    assert [(NAMES[NET.src[k]], NAMES[NET.dst[k]]) for k in one.links] == [("spine0", "leaf1")]


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


POD = build_named_net("superpod:gpus=4,planes=3")


def of_pod(words):
    (one,) = read_faults(Settings(failures=(Failure(7, fail=words),)), POD)
    return one, {(POD.node_name(int(POD.src[k])), int(POD.cable[k])) for k in one.links}


def test_a_port_is_all_cables_of_a_host_in_a_plane() -> None:
    one, cut = of_pod("port gpu3-plane1")
    assert (one.kind, one.name, one.cuts) == ("port", "h3-plane1", True)
    assert {name for name, _ in cut} == {"h3", "leaf1"}
    assert len(one.links) == 4
    assert set(POD.plane[list(one.links)].tolist()) == {1}


def test_half_a_cable_is_the_last_of_them() -> None:
    port, _ = of_pod("port h3-plane1")
    half, cut = of_pod("half-cable h3-plane1")
    assert len(half.links) == 2
    assert set(half.links) < set(port.links)
    assert {cable for _, cable in cut} == {max(POD.cable[list(port.links)].tolist())}


def test_the_leaf_of_a_plane_ends_as_a_node_does() -> None:
    one, _ = of_pod("leaf plane2")
    node, _ = of_pod("node leaf2")
    assert one.kind == "node"
    assert set(one.links) == set(node.links)
    assert one.nodes == node.nodes


def test_a_port_is_mended_by_its_name() -> None:
    failures = Failure(7, fail="half-cable h3-plane1"), Failure(9, heal="h3-plane1")
    (one,) = read_faults(Settings(failures=failures), POD)
    assert one.until_ps == 9


def test_only_what_fails_at_zero_is_down_at_the_start() -> None:
    failures = Failure(0, fail="half-cable h3-plane1"), Failure(5, fail="leaf plane2")
    net = net_at_start(POD, Settings(failures=failures))
    half, _ = of_pod("half-cable h3-plane1")
    assert np.flatnonzero(net.is_up == 0).tolist() == sorted(half.links)
    assert net_at_start(POD, Settings(failures=failures[1:])) is POD


@pytest.mark.parametrize(
    ("words", "allowed"),
    [
        ("leaf plane9", "a plane of one"),
        ("leaf h3", "a plane of one"),
        ("port h3-plane9", "a host and a plane of it"),
        ("port leaf1-plane1", "a host and a plane of it"),
        ("half-cable h3", "a host and a plane of it"),
        ("ports h3-plane1", "half-cable h3-plane2"),
    ],
)
def test_what_a_plane_has_not_is_told(words: str, allowed: str) -> None:
    with pytest.raises(ConfigError, match=allowed):
        of_pod(words)
