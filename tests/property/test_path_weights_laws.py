"""Laws of shares and of kernel weights, for any bandwidths."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from fanfold.topo.path_weights import MAX_WEIGHT, Missing, over_links, shares, to_integers

NUMBERS = st.one_of(
    st.just(Fraction(0)),
    st.integers(1, 10**13).map(Fraction),
    st.fractions(min_value=0, max_value=10**6, max_denominator=10**6),
)
NEAR = st.integers(1, MAX_WEIGHT * 1000).map(lambda n: Fraction(max(n, 1000)))
"""The least is no smaller than 1 / 256 of the largest."""


@given(
    paths=st.lists(st.one_of(st.none(), NUMBERS), max_size=16),
    missing=st.sampled_from(Missing),
    default=NUMBERS,
)
def test_shares_are_a_whole_and_in_the_order_of_bandwidths(paths, missing, default) -> None:
    found = shares(paths, missing, default)
    assert sum(found) == bool(paths)
    assert all(share >= 0 for share in found)
    known = [
        (path, share) for path, share in zip(paths, found, strict=True) if path is not None
    ]
    for path, share in known:
        for other, more in known:
            assert path > other or share <= more


@given(paths=st.lists(NUMBERS, min_size=1, max_size=16), factor=st.integers(1, 10**6))
def test_units_make_no_difference(paths, factor) -> None:
    assert shares(paths) == shares([path * factor for path in paths])


@given(parts=st.lists(NUMBERS, max_size=64))
def test_weights_are_1_to_256_where_something_flows_and_0_elsewhere(parts) -> None:
    weights = to_integers(parts)
    assert len(weights) == len(parts)
    for part, weight in zip(parts, weights, strict=True):
        assert 1 <= weight <= MAX_WEIGHT if part else weight == 0


@given(parts=st.lists(NEAR, min_size=1, max_size=64))
def test_weights_are_within_a_percent_of_shares(parts) -> None:
    weights, total = to_integers(parts), sum(parts)
    for part, weight in zip(parts, weights, strict=True):
        assert abs(Fraction(weight, sum(weights)) - part / total) <= Fraction(1, 100)


@given(weights=st.lists(st.integers(1, MAX_WEIGHT), min_size=1, max_size=32))
def test_what_small_integers_say_exactly_they_say_exactly(weights) -> None:
    found = to_integers([Fraction(weight, 7) for weight in weights])
    assert [Fraction(n, sum(found)) for n in found] == [
        Fraction(n, sum(weights)) for n in weights
    ]


@given(
    by_plane=st.dictionaries(st.integers(0, 15), NUMBERS, max_size=8),
    n_links=st.lists(st.integers(1, 8), min_size=8, max_size=8),
)
def test_links_of_a_plane_have_its_share_together(by_plane, n_links) -> None:
    links = {p: [100 * p + n for n in range(n_links[i])] for i, p in enumerate(by_plane)}
    found = over_links(by_plane, links)
    for plane, share in by_plane.items():
        assert sum(found[link] for link in links[plane]) == share
        assert len({found[link] for link in links[plane]}) == 1
