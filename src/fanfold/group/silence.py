"""Why an operation did not end in time, in words: what a rank saw, and what explains it.

Only what was seen is told. A BFR that answered, or that others were heard through, is never
among the suspects; what cannot be told apart stands together.
"""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from fanfold.group.ways import Tree, behind, elements_of, link_of, tree_of
from fanfold.live.rank_sight import Sight
from fanfold.topo.fabric import Fabric


class Setting(NamedTuple):
    """A group as its tree depends on it; rank: who looks. ranks: those of the group still.

    root_level, root: as this rank's ARM has them, or would. most_level: rank 0 goes no further.
    who: ranks with their hosts, in words.
    """

    fabric: Fabric
    members: Sequence[str]
    group: int
    rank: int
    ranks: Sequence[int]
    root_level: int
    root: str
    most_level: int
    who: Callable[[Collection[int]], str]


class Verdict(NamedTuple):
    """``text`` without the operation; ``suspects``: nodes and links, likeliest first."""

    text: str
    ranks: Sequence[int] = ()
    suspects: Sequence[str] = ()
    branch: str = ""


def judge(setting: Setting, seen: Sight, missing: Sequence[int]) -> Verdict:
    """What to say when the deadline is over.

    Args:
        missing: whom the root has not heard, as it said lately; empty where it said nothing.
    """
    if seen.is_moving:
        text = f"deadline, results still came: {seen.n_done} of {seen.n_blocks} blocks are here"
        return Verdict(text, (), (), seen.uplink)
    if missing == [setting.rank]:
        text = f"what rank {setting.who(missing)} sends does not reach {seen.uplink}"
        return Verdict(text, missing, (), seen.uplink)
    if missing:
        return _not_heard(setting, seen, missing)
    return _silent(setting, seen) if seen.is_armed else _unarmed(setting, seen)


def _not_heard(setting: Setting, seen: Sight, missing: Sequence[int]) -> Verdict:
    """The root answers and lacks some: what they alone are behind."""
    text = f"deadline, not heard: rank {setting.who(missing)}"
    tree = tree_seen(setting, seen)
    if tree is None:
        return Verdict(text, missing, (), seen.uplink)
    chains = behind(tree, setting.ranks, missing)
    suspects = [element for chain in chains for element in chain]
    is_bfr = {node.name for node in setting.fabric.nodes if node.role == "bfr"}
    told = [chain for chain in chains if is_bfr.intersection(chain)]
    if told and len(chains) == 1:
        text += f"; all of them are behind {_joined(told[0], 'and')}"
    for chain in told if len(chains) > 1 else ():
        theirs = [r for r in missing if chain[-1] in elements_of(tree.down[r])]
        text += f"; rank {setting.who(theirs)} behind {_joined(chain, 'and')}"
    bfrs = [element for chain in told for element in chain if element in is_bfr]
    return Verdict(text, missing, suspects, bfrs[0] if len(bfrs) == 1 else seen.uplink)


def _unarmed(setting: Setting, seen: Sight) -> Verdict:
    """ARM never came: rank 0 is silent, or something between it and this rank."""
    own = _own_part(setting, seen)
    if seen.n_probes and not seen.is_passing:
        return _uplink_silent(seen, own)
    said = f"; {seen.uplink} answers" if seen.is_passing else ""
    tree = None if seen.is_full else tree_seen(setting, seen)
    between: list[str] = []
    if tree is not None:
        way = dict.fromkeys((*elements_of(tree.up), *elements_of(tree.down[setting.rank])))
        known = own if seen.is_passing else ()
        others = {name for name in setting.members if name != tree.up[-1]}
        between = [e for e in way if e not in known and e not in others]
    first = setting.ranks[0]
    if setting.rank == first:
        beyond = f": {_any_of(between)}" if between else ""
        text = f"deadline, the root of the group does not answer{beyond}{said}"
        return Verdict(text, (), between, seen.uplink)
    ways = _any_of(between) if between else "something between"
    text = (
        f"deadline, no word of the group: rank {setting.who([first])} is silent, or {ways} is"
    )
    return Verdict(text + said, (first,), between, seen.uplink)


def _silent(setting: Setting, seen: Sight) -> Verdict:
    """The tree was armed, and nothing comes any more."""
    if not seen.n_probes:
        text = f"deadline, before {seen.uplink} was asked why nothing comes"
        return Verdict(text, (), (), seen.uplink)
    if seen.answers < 0 and not seen.is_passing:
        return _uplink_silent(seen, _own_part(setting, seen))
    tree = tree_seen(setting, seen)
    way = tuple(reversed(_bfrs_of(tree, setting.rank))) if tree else (seen.uplink,)
    if seen.answers >= max(seen.root_hops, 0):
        last = way[-1] if len(way) > seen.root_hops else "the root"
        text = f"deadline, {last} answers, and no result comes"
        return Verdict(text, (), (), seen.uplink)
    if seen.answers < 0:
        rest = elements_of(way)
        beyond = f", nor do {_any_of(rest)}" if rest else ""
        text = f"deadline, {seen.uplink} passes packets on, but does not answer for this group"
        return Verdict(text + beyond, (), rest, seen.uplink)
    return _beyond(seen, way)


def _beyond(seen: Sight, way: Sequence[str]) -> Verdict:
    """BFRs up to some distance answer, further ones do not."""
    rest = elements_of(way[seen.answers :])
    if not rest:
        text = f"deadline, {seen.answers + 1} BFRs on the way answer, the root does not answer"
        return Verdict(text, (), (), seen.uplink)
    if seen.has_known_next:  # it has slots for this group: it would answer
        rest = rest[:2]
    text = f"deadline, {way[seen.answers]} answers, but {rest[1]} behind it does not answer"
    return Verdict(f"{text}: {_any_of(rest)}", (), rest, rest[1])


def _uplink_silent(seen: Sight, own: Sequence[str]) -> Verdict:
    text = f"deadline, {seen.uplink} does not answer"
    return Verdict(f"{text}: {_any_of(own)}" if own else text, (), own, seen.uplink)


def tree_seen(setting: Setting, seen: Sight) -> Tree | None:
    """The tree that agrees with what this rank saw; None where none does, or several."""
    trees: list[Tree] = []
    for root_level, root in _roots(setting, seen):
        tree = tree_of(setting.fabric, setting.members, setting.group, root_level, root)
        if tree is None or tree in trees or not _agrees(setting, seen, tree):
            continue
        trees.append(tree)
    return trees[0] if len(trees) == 1 else None


def _roots(setting: Setting, seen: Sight) -> list[tuple[int, str]]:
    """Root level and host of each root there may be: rank 0 moves it where there is no room."""
    if setting.root or setting.rank == setting.ranks[0] or not seen.is_full:
        return [(setting.root_level, setting.root)]
    root_levels = range(setting.root_level, setting.most_level + 1)
    return [
        *((root_level, "") for root_level in root_levels),
        (setting.root_level, setting.members[0]),
    ]


def _agrees(setting: Setting, seen: Sight, tree: Tree) -> bool:
    way = _bfrs_of(tree, setting.rank)
    return not seen.is_armed or (way[-1] == seen.uplink and len(way) - 1 == seen.root_hops)


def _own_part(setting: Setting, seen: Sight) -> tuple[str, ...]:
    me = setting.members[setting.rank]
    return (seen.uplink, link_of(me, seen.uplink)) if seen.uplink != me else (me,)


def _bfrs_of(tree: Tree, rank: int) -> Sequence[str]:
    """From the root to the node that the rank sends to, which may be its own host's."""
    return tree.down[rank][:-1] or tree.down[rank]


def _any_of(elements: Sequence[str]) -> str:
    return _joined(elements, "or")


def _joined(elements: Sequence[str], word: str) -> str:
    *most, last = elements
    return f"{', '.join(most)} {word} {last}" if most else last
