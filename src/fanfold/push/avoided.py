"""Links that were named gray, and what becomes of each: left out, tried again, well again.

A link is left out of tables where there is another way. After a while it is tried: tables have
it again, and it is well once it carried so much, in each direction that was named, that a loss
of the old rate would have been seen with 95 % chance (ADR 0049, ADR 0061). What is named once
more is left out for twice as long. No clock and no socket: api/avoiding.py has them.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import msgspec

from fanfold.push.gray import GrayLink, Way
from fanfold.topo.fabric import Fabric, Link

FIRST_S, MOST_S = 60, 3600
"""A link is left out for so long, then for twice as long each time, at most an hour."""
ENOUGH_HITS = 9.2
"""Packets that are lost on average where a link is named in 95 of 100 pushes: 9,200 at 0.1 %,
915 at 1 %, 89 at 10 % (docs/failures.md)."""

Fate = Literal["avoided", "trial", "well", "no other way", "several fit"]


class AvoidedLink(msgspec.Struct, frozen=True):
    """A link that was named gray, at the end of a push.

    rate: the worst that it showed. again_s: seconds until it is tried. carried, enough: packets
    on trial in the direction that lacks most of them, and those that would show it.
    """

    link: str
    fate: Fate
    rate: float = 0.0
    again_s: int = 0
    carried: int = 0
    enough: int = 0

    def words(self) -> str:
        """One line for people."""
        match self.fate:
            case "avoided":
                return f"avoided from now on: {self.link}, tried again after {self.again_s} s"
            case "trial":
                return (
                    f"on trial: {self.link} carried {self.carried:,} of {self.enough:,} packets"
                    " that would show its loss"
                )
            case "well":
                return f"well again: {self.link} carried {self.carried:,} packets on trial"
            case "no other way":
                return f"not avoided: {self.link}, there is no other way"
            case _:
                return f"not avoided: {self.link}, for other links fit what was lost as well"


class Kept(msgspec.Struct):
    """What is known of one link. ways: worst rate of each direction, as "leaf1>spine1".

    carried: packets of each since it is on trial. until_s: wall clock, seconds. is_out: tables
    do without it.
    """

    ways: dict[str, float]
    until_s: int
    pause_s: int = FIRST_S
    is_out: bool = True
    carried: dict[str, int] = {}


Book = dict[str, Kept]
"""By name of a link, as the fabric file has it."""


def due(book: Book, fabric: Fabric, now_s: int) -> list[str]:
    """Links that are to be tried; what somebody joined by hand is on trial already."""
    up = {f"{link.a}-{link.b}" for link in fabric.links if link.up}
    for name, kept in book.items():
        kept.is_out = kept.is_out and name not in up
    found = [name for name, kept in book.items() if kept.is_out and kept.until_s <= now_s]
    for name in found:
        book[name].is_out, book[name].carried = False, {}
    return found


def judge(
    book: Book,
    fabric: Fabric,
    gray: Iterable[GrayLink],
    carried: Mapping[Way, int],
    now_s: int,
    may_cut: Callable[[str], bool],
) -> list[AvoidedLink]:
    """What a push showed of the links that it went over.

    carried: packets of each direction. may_cut: whether all are reached without a link too; the
    links for which it said so are left out together.
    """
    fates: dict[str, AvoidedLink] = {}
    named = set()
    for row in gray:
        name = _link_of(fabric, row)
        if name is None or fates.get(name, _NONE).fate == "avoided":
            continue
        named.add(name)
        if row.alike:
            fates[name] = AvoidedLink(name, "several fit", row.rate)
        elif not may_cut(name):
            fates[name] = AvoidedLink(name, "no other way", row.rate)
        else:
            fates[name] = _leave_out(book, name, row, now_s)
    for name in [n for n, kept in book.items() if not kept.is_out and n not in named]:
        fates[name] = _try(book, name, carried)
    return list(fates.values())


_NONE = AvoidedLink("", "several fit")


def _leave_out(book: Book, name: str, row: GrayLink, now_s: int) -> AvoidedLink:
    known = book.get(name)
    pause_s = FIRST_S if known is None else min(2 * known.pause_s, MOST_S)
    ways = dict(known.ways) if known is not None else {}
    way = f"{row.src}>{row.dst}"
    ways[way] = max(row.rate, ways.get(way, 0.0))
    book[name] = Kept(ways, now_s + pause_s, pause_s)
    return AvoidedLink(name, "avoided", row.rate, pause_s)


def _try(book: Book, name: str, carried: Mapping[Way, int]) -> AvoidedLink:
    kept = book[name]
    lacks = []
    for way, rate in kept.ways.items():
        src, _, dst = way.partition(">")
        kept.carried[way] = kept.carried.get(way, 0) + carried.get((src, dst), 0)
        enough = int(ENOUGH_HITS / rate) + 1
        lacks.append((enough - kept.carried[way], kept.carried[way], enough))
    lacking, n, enough = max(lacks)
    fate: Fate = "trial" if lacking > 0 else "well"
    if fate == "well":
        del book[name]
    return AvoidedLink(name, fate, max(kept.ways.values()), 0, n, enough)


def _link_of(fabric: Fabric, row: GrayLink) -> str | None:
    ends = {row.src, row.dst}
    found: list[Link] = [link for link in fabric.links if {link.a, link.b} == ends]
    return f"{found[0].a}-{found[0].b}" if found else None
