"""The decision on gray links, on numbers alone: tails, false names, how soon one is named."""

from math import comb

import numpy as np
import pytest

from fanfold.push.gray import (
    ALPHA,
    BACKGROUND,
    LEAST,
    Sample,
    by_chance,
    judge,
    least_hits,
    packets_needed,
    upper_tail,
)
from fanfold.streams import stream

N_LINKS = 26
"""Directions of a leaf-spine of two and two with nine hosts."""
DRAWS = 10_000


def sample(sent: int, lost: int = 0, damaged: int = 0, above: int = 0) -> Sample:
    return Sample("a", "b", sent, lost, sent, damaged, above)


def exact(k: int, n: int, p: float) -> float:
    return sum(comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))


@pytest.mark.parametrize(
    ("k", "n", "p"), [(1, 10, 0.01), (3, 40, 0.02), (5, 200, 0.001), (3, 40, 0.5)]
)
def test_the_tail_is_that_of_the_binomial_distribution(k: int, n: int, p: float) -> None:
    assert upper_tail(k, n, p) == pytest.approx(exact(k, n, p), rel=1e-9)


def test_the_tail_at_its_ends() -> None:
    assert upper_tail(0, 10, 0.5) == 1.0
    assert upper_tail(11, 10, 0.5) == 0.0
    assert upper_tail(3, 10, 0.0) == 0.0
    assert upper_tail(10, 10, 0.1) == pytest.approx(1e-10)


def test_fewer_than_the_least_name_nothing_however_rare() -> None:
    assert judge([sample(20, LEAST - 1)]) == []
    (link,) = judge([sample(20, LEAST)])
    assert (link.src, link.dst, link.kind, link.hit, link.packets) == ("a", "b", "drops", 5, 20)
    assert link.rate == 0.25
    assert 1 - ALPHA < link.confidence <= 1


def test_a_link_is_named_from_the_hits_that_its_packets_ask_for_on() -> None:
    for n in (1_000, 100_000, 10_000_000):
        least = least_hits(n, 2)
        assert judge([sample(n, least - 1)]) == []
        assert len(judge([sample(n, least)])) == 1
        assert by_chance(least, n, BACKGROUND, 2) < ALPHA


def test_damage_is_told_from_drops_and_measured_against_that_above() -> None:
    (link,) = judge([sample(10_000, 0, 30)])
    assert (link.kind, link.rate) == ("damage", 0.003)
    assert judge([sample(10_000, 0, 8, above=1_000)]) == []  # repairs of what was damaged above
    assert {link.kind for link in judge([sample(1_000, 50, 40)])} == {"drops", "damage"}


def test_links_that_are_well_are_not_named_in_ten_thousand_pushes() -> None:
    """Each link loses, and damages, at the background rate; a push has a million packets."""
    draw = stream(7, "test/gray")
    n = 1_000_000
    lost = draw.binomial(n, BACKGROUND, (DRAWS, N_LINKS, 2))
    least = least_hits(n, 2 * N_LINKS)
    n_named = int((lost.max(axis=(1, 2)) >= least).sum())
    assert n_named <= 5  # ALPHA of 10,000 is one
    worst = int(lost.max())
    named = judge([sample(n, worst), *[sample(n)] * (N_LINKS - 1)])
    assert bool(named) == (worst >= least)  # the shortcut above is the judge's own rule


@pytest.mark.parametrize("rate", [0.1, 0.01, 0.001])
def test_one_gray_link_is_named_after_so_many_packets_and_no_other(rate: float) -> None:
    n = packets_needed(rate, 2 * N_LINKS)
    draw = stream(11, f"test/gray/{rate}")
    lost = draw.binomial(n, rate, DRAWS)
    well = draw.binomial(n, BACKGROUND, (DRAWS, N_LINKS - 1))
    least = least_hits(n, 2 * N_LINKS)
    assert np.mean(lost >= least) >= 0.94
    assert not (well >= least).any()
    rows = [sample(n, int(lost[0])), *(sample(n, int(x)) for x in well[0])]
    assert len(judge(rows)) == int(lost[0] >= least)
    assert 5 / rate < n < 12 / rate


def test_the_figures_of_the_page_on_failures() -> None:
    needed = {rate: packets_needed(rate, 2 * N_LINKS) for rate in (0.1, 0.01, 0.001)}
    assert needed == {0.1: 89, 0.01: 915, 0.001: 9200}
    assert [least_hits(n, 2 * N_LINKS) for n in (10_000, 100_000, 1_000_000)] == [5, 9, 29]


def test_the_worst_stands_first_and_reads_as_a_sentence() -> None:
    rows = [Sample("x", "y", 5_000, 50), Sample("u", "v", 5_000, 500)]
    first, second = judge(rows)
    assert (first.src, second.src) == ("u", "x")
    assert second.words() == (
        "gray link: x > y loses 1 % of packets (50 of 5,000, 99.99 % sure)"
    )
    (damage,) = judge([Sample("x", "y", 900, 0, 900, 9, alike=(("y", "z"),))])
    assert damage.words().startswith("gray link: x > y or y-z damages 1 % of packets")
    assert damage.alike == ("y-z",)
