"""A tree cut into pieces that fit into a header each, for encodings that write trees.

A piece takes whole switches with all their receivers, in the order of the tree, as long as it
fits; receivers of one switch are cut apart only where they fill a header by themselves. So it
is near the least number of packets, not always at it.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from fanfold.encodings.encoder import I64, Refusal
from fanfold.encodings.ground import Branches, Ground

Fits = Callable[[int, Branches], bool]
"""Whether a piece fits: its root, a router, and the links that leave each of its nodes."""


class Piece(NamedTuple):
    """One packet: the source's link, and below it the links that leave each router."""

    link: int
    branches: Branches


class _Unit(NamedTuple):
    """Receivers on one router: links from router to router to get there, links to hosts."""

    path: tuple[tuple[int, int], ...]
    router: int
    ports: list[int]


def pack(ground: Ground, source: int, members: I64, fits: Fits, unit: str) -> list[Piece]:
    """Pieces for all members, along the source's shortest paths.

    Args:
        unit: what is too long, for the refusal.

    Raises:
        Refusal: not even one receiver fits.
    """
    tree = ground.tree_of(source)
    branches = ground.branches(tree.into, members.tolist())
    pieces: list[Piece] = []
    for link in branches[source]:
        root = ground.dst[link]
        parts = [
            some
            for part in _units(ground, root, branches)
            for some in _fitting(root, part, fits, unit)
        ]
        at = 0
        while at < len(parts):
            taken = _longest(root, parts[at:], fits)
            pieces.append(Piece(link, _joined(taken)))
            at += len(taken)
    return pieces


def preorder(ground: Ground, root: int, branches: Branches) -> list[int]:
    """Routers of a piece, each before those below it."""
    found, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting += [n for n in map(ground.dst.__getitem__, branches[node]) if n in branches]
    return found


def _units(ground: Ground, root: int, branches: Branches) -> Iterator[_Unit]:
    waiting: list[tuple[int, tuple[tuple[int, int], ...]]] = [(root, ())]
    while waiting:
        node, path = waiting.pop()
        ports = [k for k in branches[node] if ground.dst[k] < ground.net.n_hosts]
        if ports:
            yield _Unit(path, node, ports)
        onward = [k for k in branches[node] if ground.dst[k] >= ground.net.n_hosts]
        waiting += [(ground.dst[k], (*path, (node, k))) for k in reversed(onward)]


def _fitting(root: int, part: _Unit, fits: Fits, unit: str) -> Iterator[_Unit]:
    """The unit, or halves of it, halved until they fit."""
    waiting = [part]
    while waiting:
        some = waiting.pop()
        if fits(root, _joined([some])):
            yield some
        elif len(some.ports) == 1:
            raise Refusal(f"the way to one receiver does not fit into {unit}")
        else:
            half = len(some.ports) // 2
            waiting += [some._replace(ports=p) for p in (some.ports[half:], some.ports[:half])]


def _longest(root: int, parts: list[_Unit], fits: Fits) -> list[_Unit]:
    """As many units as fit together: one does; doubled, then halved."""
    low, high = 1, 2
    while high <= len(parts) and fits(root, _joined(parts[:high])):
        low, high = high, 2 * high
    high = min(high, len(parts) + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if fits(root, _joined(parts[:middle])):
            low = middle
        else:
            high = middle
    return parts[:low]


def _joined(parts: list[_Unit]) -> Branches:
    """All of them; links of a node rising."""
    found: dict[int, set[int]] = {}
    for part in parts:
        for node, link in part.path:
            found.setdefault(node, set()).add(link)
        found.setdefault(part.router, set()).update(part.ports)
    return {node: sorted(links) for node, links in found.items()}
