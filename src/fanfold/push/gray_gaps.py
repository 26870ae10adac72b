"""Gray links from the gaps that a sender heard: the smallest set of links that explains them.

A packet that some receivers lacked was lost on as few links as can be: those whose receivers
all lacked it, nearest the source first. That is the likeliest explanation while losses are
rare. Losses by chance come one by one; those of a full queue or of a node that stood still come
in runs, so that their counts by block vary more than chance allows, and name nobody.
"""

from collections.abc import Collection, Mapping

from fanfold.core.gap_book import GapBook
from fanfold.push.gray import ALPHA, BACKGROUND, GrayLink, by_chance
from fanfold.topo.predict import Direction, Receivers

LEAST_BLOCKS = 8
"""From which the spread of losses over blocks means something."""
MAX_SPREAD = 3.0
"""Variance of losses of a block over their mean; of chance it is 1."""

Groups = Mapping[Receivers, list[Direction]]


def grouped(behind: Mapping[Direction, Receivers]) -> dict[Receivers, list[Direction]]:
    """Directions that lead to the same receivers cannot be told apart, nearest first."""
    groups: dict[Receivers, list[Direction]] = {}
    for way, receivers in behind.items():
        groups.setdefault(receivers, []).append(way)
    return groups


def explain(lacking: Receivers, groups: Groups) -> list[Receivers]:
    """The fewest groups of links whose loss of a packet leaves exactly these without it."""
    inside = [them for them in groups if them <= lacking]
    return [them for them in inside if not any(them < other for other in inside)]


def judge_gaps(
    book: GapBook,
    names: Mapping[int, str],
    behind: Mapping[Direction, Receivers],
    open_: Collection[Direction],
    n_tests: int,
) -> list[GrayLink]:
    """Directions that are gray by what receivers lacked.

    Args:
        names: receivers by bit index. behind: whom each direction of the tree leads to. open_:
            directions of which counters say nothing; others are well, or named by these.
        n_tests: of all that share ALPHA.
    """
    audience = frozenset(name for k, name in names.items() if book.audience >> k & 1)
    if book.n_blocks < LEAST_BLOCKS or not audience:
        return []
    groups = grouped({way: them & audience for way, them in behind.items() if them & audience})
    losses: dict[Receivers, list[int]] = {them: [] for them in groups}
    for block in book.blocks:
        of_block = dict.fromkeys(groups, 0)
        for bits, n in block.items():
            lacking = frozenset(name for k, name in names.items() if bits >> k & 1)
            for them in explain(lacking, groups):
                of_block[them] += n
        for them, n in of_block.items():
            losses[them].append(n)
    found = []
    for them, counts in losses.items():
        ways = [way for way in groups[them] if way in open_]
        hit, n = sum(counts), book.n_packets
        chance = by_chance(hit, n, BACKGROUND, n_tests)
        if ways and chance < ALPHA and spread(counts, book.n_blocks) <= MAX_SPREAD:
            found.append(_gray(ways, hit, n, chance))
    return sorted(found, key=lambda link: -link.rate)


def spread(counts: list[int], n_blocks: int) -> float:
    """Variance over mean of losses by block; blocks not listed lost nothing."""
    mean = sum(counts) / n_blocks
    if not mean:
        return 0.0
    return (sum(n * n for n in counts) / n_blocks - mean * mean) / mean


def _gray(ways: list[Direction], hit: int, n: int, chance: float) -> GrayLink:
    (src, dst), *others = ways
    alike = tuple(f"{a}-{b}" for a, b in others)
    rate, sure = round(hit / n, 6), round(1 - chance, 9)
    return GrayLink(src, dst, "drops", rate, sure, n, hit, "gaps", alike)
