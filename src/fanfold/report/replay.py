"""One packet on a drawing of the net, step by step: its copies down, the folded words up."""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec

from fanfold.report.layout import Layout
from fanfold.run import Story
from fanfold.sim.timeline import Step
from fanfold.topo.net import Net
from fanfold.units import format_duration

DOWN = ("data", "fan data")
UP = ("ack", "nack", "feedback", "pull")
MOST_FRAMES = 90
MOST_NAMES = 4


class Move(msgspec.Struct, frozen=True, array_like=True):
    """Packets that crossed from one spot to another in one frame."""

    src: int
    dst: int
    n_pkts: int


class Frame(msgspec.Struct, frozen=True):
    """What arrived at one instant. way: down or up. reached: spots whose hosts have it now."""

    at: str
    way: str
    text: str
    tally: str
    moves: tuple[Move, ...]
    reached: tuple[int, ...]


class Replay(NamedTuple):
    """layout: of the net. used: lines of it that a packet crossed; frames in order of time."""

    layout: Layout
    title: str
    caption: str
    used: tuple[tuple[int, int], ...]
    frames: tuple[Frame, ...]


class _Tally:
    """Counts over the frames so far."""

    def __init__(self, net: Net, source: int) -> None:
        self.net, self.source = net, source
        self.have: set[int] = set()
        self.copies = self.words = self.at_source = self.feedback = 0

    def take(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if step.what in DOWN:
                self.copies += 1
                if step.node < self.net.n_hosts and step.node != self.source:
                    self.have.add(step.node)
            else:
                self.feedback += 1
                self.words += step.src < self.net.n_hosts
                self.at_source += step.node == self.source

    def text(self) -> str:
        have = f"{len(self.have):,} hosts have it, {self.copies:,} copies on links"
        if not self.feedback:
            return have
        return (
            f"{have}; {self.words:,} receivers spoke, {self.feedback:,} packets of feedback on "
            f"links, {self.at_source:,} at the source"
        )


def replay_of(net: Net, layout: Layout, story: Story, caption: str) -> Replay:
    """Frames of a story; of more than MOST_FRAMES, neighbours of one way are joined."""
    steps = [s for s in story.steps if s.what in DOWN + UP]
    source = steps[0].src
    groups = [list(g) for _, g in groupby(steps, key=lambda s: (s.at_ps, _way(s)))]
    groups = _joined(groups)
    tally = _Tally(net, source)
    frames = []
    for group in groups:
        tally.take(group)
        frames.append(_frame(net, layout, group, tally))
    pairs = {_pair(layout, step) for step in steps}
    used = tuple(sorted(pair for pair in pairs if pair[0] != pair[1]))
    return Replay(layout, f"{story.scheme}: {story.what}", caption, used, tuple(frames))


def _joined(groups: list[list[Step]]) -> list[list[Step]]:
    every = -(-len(groups) // MOST_FRAMES)
    if every == 1:
        return groups
    joined: list[list[Step]] = []
    since = 0
    for group in groups:
        if joined and since < every and _way(joined[-1][0]) == _way(group[0]):
            joined[-1] += group
            since += 1
        else:
            joined.append(list(group))
            since = 1
    return joined


def _frame(net: Net, layout: Layout, steps: Sequence[Step], tally: _Tally) -> Frame:
    counts: dict[tuple[int, int], int] = {}
    for step in steps:
        ends = int(layout.spot_of[step.src]), int(layout.spot_of[step.node])
        counts[ends] = counts.get(ends, 0) + 1
    way = _way(steps[0])
    reached = sorted(
        {
            int(layout.spot_of[s.node])
            for s in steps
            if way == "down" and s.node < net.n_hosts and s.node != tally.source
        }
    )
    return Frame(
        at=format_duration(steps[-1].at_ps),
        way=way,
        text=_text(net, steps),
        tally=tally.text(),
        moves=tuple(Move(a, b, n) for (a, b), n in sorted(counts.items())),
        reached=tuple(reached),
    )


def _text(net: Net, steps: Sequence[Step]) -> str:
    links = [f"{net.node_name(s.src)} > {net.node_name(s.node)}" for s in steps]
    named = ", ".join(links[:MOST_NAMES])
    if len(links) > MOST_NAMES:
        named += f" and {len(links) - MOST_NAMES:,} more links"
    kinds = "/".join(dict.fromkeys(s.what for s in steps))
    return f"{kinds}, {steps[0].n_bytes:,} bytes: {named}"


def _way(step: Step) -> str:
    return "down" if step.what in DOWN else "up"


def _pair(layout: Layout, step: Step) -> tuple[int, int]:
    a, b = sorted((int(layout.spot_of[step.src]), int(layout.spot_of[step.node])))
    return a, b
