"""Weights of planes for a fan: the least of what paths to its receivers carry."""

from fractions import Fraction

import pytest

from fanfold.topo.fan_weights import fan_weights

F = Fraction
PLANES = (0, 1, 2, 3)
EVEN = {0: F(8), 1: F(8), 2: F(8), 3: F(8)}


def of(*bandwidths):
    """Paths over planes 0, 1, ...; a dash: none, a question mark: nobody said."""
    return {
        n: None if each == "?" else F(each) for n, each in enumerate(bandwidths) if each != "-"
    }


def weights(*receivers):
    found = fan_weights(receivers, PLANES)
    return found and tuple(found[plane] for plane in PLANES)


@pytest.mark.parametrize(
    ("receivers", "wanted"),
    [
        ([EVEN], (1, 1, 1, 1)),
        ([EVEN, of(8, 4, 4, 4)], (2, 1, 1, 1)),
        ([of(8, 4, 8, 8), of(8, 8, 4, 8)], (2, 1, 1, 2)),
        ([EVEN, of("-", 8, 8, 8)], (0, 1, 1, 1)),
        ([of(0, 8, 8, 8), EVEN], (0, 1, 1, 1)),
        # whoever takes half over all planes bounds all, one whose shares are uneven no more
        ([of(4, 4, 4, 4), of(8, 8, 8, 4)], (1, 1, 1, 1)),
        # maintenance on all planes: it is reached, and bounds none
        ([of(0, 0, 0, 0), of(8, 4, 4, 4)], (2, 1, 1, 1)),
        # RFC 10005 section 4: where one path says nothing, all that carry something are alike
        ([of("?", 1, 1, 1), of(8, 4, 4, 4)], (2, 1, 1, 1)),
        ([of("?", 0, "?", "?")], (1, 0, 1, 1)),
        ([of("?", "?", "-", "?"), EVEN], (1, 1, 0, 1)),
        # one without any path is silent, whatever the planes
        ([{}, of(8, 4, 8, 8)], (2, 1, 2, 2)),
        # 3.2 Tbit/s beside 25 Gbit/s
        ([of(3200, 25, 0, 0)], (128, 1, 0, 0)),
    ],
)
def test_a_plane_brings_what_the_slowest_receiver_takes_by_it(receivers, wanted):
    assert weights(*receivers) == wanted
    assert weights(*reversed(receivers)) == wanted


@pytest.mark.parametrize(
    "receivers",
    [[], [{}], [of(8, "-", "-", "-"), of("-", 8, 8, 8)], [of(0, 8, 8, 8), of(8, 0, 0, 0)]],
)
def test_without_a_plane_to_all_nothing_is_known(receivers):
    assert weights(*receivers) is None


def test_planes_that_may_not_be_used_have_no_weight():
    assert fan_weights([EVEN, of(8, 4, 8, 8)], (1, 3)) == {1: 1, 3: 2}
    assert fan_weights([of(8, "-", 8, 8)], (1,)) is None
