"""Who lacked what names the link, where counters of its ends are not known."""

from collections.abc import Callable

import numpy as np
import pytest

from fanfold.core.gap_book import MAX_SETS, GapBook
from fanfold.push.gray_gaps import LEAST_BLOCKS, explain, grouped, judge_gaps, spread
from fanfold.streams import stream
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.topo.predict import Direction, receivers_behind

FABRIC = leaf_spine(2, 1, 8, name="x", prefix=0)
HOSTS = tuple(f"h{i}" for i in range(1, 9))
BEHIND = receivers_behind(FABRIC, "h0", 0, set(HOSTS))
NAMES = {FABRIC.by_name[name].bfr_id - 1: name for name in HOSTS}
ALL = sum(1 << k for k in NAMES)
N_PSN = 64
N_TESTS = 4 * len(FABRIC.links)
Rng = np.random.Generator


def bits_of(names: frozenset[str]) -> int:
    return sum(1 << k for k, name in NAMES.items() if name in names)


def filled(n_blocks: int, lacks: Callable[[int], dict[int, int]]) -> GapBook:
    book = GapBook()
    for block in range(n_blocks):
        book.add(ALL, ALL, N_PSN, lacks(block))
    return book


def by_chance_on(rates: dict[Direction, float], draw: Rng) -> Callable[[int], dict[int, int]]:
    """Each packet is lost on each of these directions by chance."""

    def lacks(block: int) -> dict[int, int]:
        del block
        gaps: dict[int, int] = {}
        for way, rate in rates.items():
            for psn in np.flatnonzero(draw.random(N_PSN) < rate).tolist():
                gaps[psn] = gaps.get(psn, 0) | bits_of(BEHIND[way])
        return gaps

    return lacks


def named(book: GapBook) -> list[tuple[str, str]]:
    return [(g.src, g.dst) for g in judge_gaps(book, NAMES, BEHIND, set(BEHIND), N_TESTS)]


def test_the_fewest_links_explain_who_lacked_a_packet() -> None:
    groups = grouped(BEHIND)
    behind_leaf2 = BEHIND["spine1", "leaf2"]
    assert explain(behind_leaf2, groups) == [behind_leaf2]
    one = frozenset({"h1"})
    assert set(explain(behind_leaf2 | one, groups)) == {behind_leaf2, one}
    assert explain(frozenset(HOSTS), groups) == [frozenset(HOSTS)]
    assert explain(frozenset({"h5", "h6"}), groups) == [frozenset({"h5"}), frozenset({"h6"})]


@pytest.mark.parametrize(("rate", "n_blocks"), [(0.1, 8), (0.01, 16), (0.001, 160)])
def test_one_gray_link_is_named_with_those_in_a_row_with_it(rate: float, n_blocks: int) -> None:
    draw = stream(3, f"test/gaps/{rate}")
    book = filled(n_blocks, by_chance_on({("spine1", "leaf2"): rate}, draw))
    (gray,) = judge_gaps(book, NAMES, BEHIND, set(BEHIND), N_TESTS)
    assert (gray.src, gray.dst, gray.alike) == ("leaf1", "spine1", ("spine1-leaf2",))
    assert (gray.source, gray.kind) == ("gaps", "drops")
    assert gray.packets == n_blocks * N_PSN
    known = judge_gaps(book, NAMES, BEHIND, {("spine1", "leaf2")}, N_TESTS)
    assert [(g.src, g.dst, g.alike) for g in known] == [("spine1", "leaf2", ())]
    assert judge_gaps(book, NAMES, BEHIND, {("leaf2", "h5")}, N_TESTS) == []


def test_two_gray_links_are_both_named_and_no_third() -> None:
    rates = {("leaf1", "h1"): 0.02, ("leaf2", "h7"): 0.05}
    book = filled(60, by_chance_on(rates, stream(4, "test/gaps/two")))
    assert set(named(book)) == rates.keys()


def test_losses_in_runs_name_nobody_as_those_of_a_full_queue() -> None:
    run = {psn: bits_of(frozenset({"h3"})) for psn in range(20, 27)}
    book = filled(400, lambda block: run if block % 10 == 0 else {})
    assert named(book) == []
    slow = {psn: bits_of(frozenset({"h3"})) for psn in range(N_PSN)}
    assert named(filled(400, lambda block: slow if block > 200 else {})) == []
    single = {20: bits_of(frozenset({"h3"}))}
    assert named(filled(400, lambda block: single if block % 2 == 0 else {})) != []


def test_the_spread_of_chance_is_one_and_of_runs_their_length() -> None:
    draw = stream(5, "test/gaps/spread")
    assert 0.8 < spread(draw.binomial(64, 0.05, 2000).tolist(), 2000) < 1.2
    assert spread([7] * 10, 1000) == pytest.approx(6.93)
    assert spread([], 10) == 0.0


def test_too_few_blocks_other_audiences_and_half_told_ones_count_not() -> None:
    lacks = by_chance_on({("leaf1", "h1"): 0.5}, stream(6, "test/gaps/few"))
    assert named(filled(LEAST_BLOCKS - 1, lacks)) == []
    assert named(filled(LEAST_BLOCKS, lacks)) == [("leaf1", "h1")]
    book = filled(1, lacks)
    for _ in range(30):
        book.add(ALL & ~1, ALL & ~1, N_PSN, lacks(0))
        book.add(ALL, ALL >> 3, N_PSN, lacks(0))
    assert book.n_blocks == 1


def test_a_book_is_bounded() -> None:
    book = GapBook()
    book.add(ALL, ALL, N_PSN, {psn: psn + 1 for psn in range(2 * MAX_SETS)})
    assert len(book.blocks[0]) == MAX_SETS


def test_ten_thousand_pushes_with_a_slow_receiver_name_nobody() -> None:
    """A receiver drops runs of 7 packets at a rate of its own, other links lose one in 10^5."""
    draw = stream(8, "test/gaps/slow")
    n_blocks, mask = 24, bits_of(frozenset({"h3"}))
    n_named = 0
    for _ in range(10_000):
        starts = draw.random(n_blocks) < draw.uniform(0.05, 0.9)
        blocks = [{mask: 7 * (1 + int(draw.integers(8)))} for hit in starts if hit]
        book = GapBook()
        book.audience, book.n_blocks, book.blocks = ALL, n_blocks, blocks
        book.n_packets = n_blocks * N_PSN
        n_named += bool(
            judge_gaps(
                book, NAMES, {("leaf1", "h3"): frozenset({"h3"})}, {("leaf1", "h3")}, N_TESTS
            )
        )
    assert n_named <= 1
