"""Shares of paths and weights of a kernel, by cases worked out by hand."""

from fractions import Fraction

import msgspec
import pytest

from fanfold.topo.fabric import Fabric, Link, Node
from fanfold.topo.path_weights import (
    Missing,
    accumulate,
    aggregate,
    over_links,
    plane_weights,
    shares,
    to_integers,
)

F = Fraction
TBIT, GBIT = F(10**12), F(10**9)


def test_a_path_carries_the_least_of_links_and_of_what_was_said() -> None:
    assert accumulate([F(400), F(400)], F(800)) == 800
    assert accumulate([F(400)], F(800)) == 400  # half a cable here
    assert accumulate([F(400), F(400)], F(400)) == 400  # half a cable there
    assert accumulate([F(400), None], F(100)) == 100
    assert accumulate([F(400)], None) is None
    assert accumulate([], F(800)) == 0
    assert aggregate([F(400), None]) is None


@pytest.mark.parametrize(
    ("paths", "missing", "want"),
    [
        ((800, 800, 800, 400), "ecmp", (F(2, 7), F(2, 7), F(2, 7), F(1, 7))),
        ((800, None, 400), "ecmp", (F(1, 3), F(1, 3), F(1, 3))),
        ((800, None, 400), "skip", (F(2, 3), 0, F(1, 3))),
        ((800, None, 400), "default", (F(4, 7), F(1, 7), F(2, 7))),
        ((None, None), "skip", (F(1, 2), F(1, 2))),
        ((0, 800, 800), "ecmp", (0, F(1, 2), F(1, 2))),  # in maintenance
        ((0, None, 800), "ecmp", (0, F(1, 2), F(1, 2))),
        ((0, None), "skip", (0, 1)),
        ((0, 0), "ecmp", (F(1, 2), F(1, 2))),
        ((), "ecmp", ()),
    ],
)
def test_shares_follow_the_policy(paths, missing, want) -> None:
    given = [None if path is None else F(path) for path in paths]
    assert shares(given, Missing(missing), F(200)) == want


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ((1, 1, 1, 1), (1, 1, 1, 1)),
        ((800, 800, 800, 400), (2, 2, 2, 1)),
        ((0, 1, 1, 1), (0, 1, 1, 1)),
        ((F(32, 10) * TBIT, 25 * GBIT), (128, 1)),
        ((256, 1), (256, 1)),
        ((10**6, 1), (255, 1)),  # never without anything
        ((1000, 999), (256, 255)),
        ((0, 0), (0, 0)),
    ],
)
def test_weights_of_a_kernel(given, want) -> None:
    assert to_integers([F(n) for n in given]) == want


def test_a_plane_has_its_share_however_many_links_it_is_of() -> None:
    by_plane = {0: F(2, 3), 2: F(1, 3)}
    want = {5: F(1, 3), 6: F(1, 3), 9: F(1, 3)}
    assert over_links(by_plane, {0: [5, 6], 2: [9]}) == want


def fabric_of(*links: Link) -> Fabric:
    names = dict.fromkeys(end for link in links for end in (link.a, link.b))
    nodes = [Node(name, f"127.81.0.{n + 1}", "bfr") for n, name in enumerate(names)]
    return Fabric("planes", tuple(nodes), links)


def test_planes_of_a_host_weigh_what_its_links_carry() -> None:
    whole = Link("h0", "leaf0", rate="800Gbps", plane=0)
    half = Link("leaf1", "h0", rate="400Gbps", plane=1)
    down = Link("h0", "leaf2", rate="800Gbps", plane=2, up=False)
    other = Link("h1", "leaf0", rate="100Gbps", plane=0)
    fabric = fabric_of(whole, half, down, other)
    assert plane_weights(fabric, "h0") == {0: F(2, 3), 1: F(1, 3)}
    assert plane_weights(fabric, "h2") == {}
    plain = fabric_of(msgspec.structs.replace(whole, rate=""), half)
    assert plane_weights(plain, "h0") == {0: F(1, 2), 1: F(1, 2)}
