"""Trees of least cost for few workers, by dynamic programming over sets of workers.

Dreyfus and Wagner 1971 for Steiner trees, with two changes: packets merge at switches with
slots only, and each switch where they do costs its slot. Letters: S = sets of workers, P =
switches with slots, and the root where it is a server.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fanfold.topo.vat_shape import LINK, Shape, VatNet, node_cost

I64 = NDArray[np.int64]
MAX_EXACT_WORKERS = 10
MAX_EXACT_ROUTERS = 160
_NEVER = 2**60
"""More than any cost; the sum of four fits 64 bits."""
_MOST_LINKS = 2**20


def least_tree(ground: VatNet, roots: Sequence[int]) -> Shape:
    """A tree of least cost at the best of some roots, the first of equals."""
    points = sorted({*ground.allowed, *roots})
    table = _Table(ground, points)
    index = {at: i for i, at in enumerate(points)}
    root = min(roots, key=lambda at: table.total(index[at]))
    shape = Shape(root, {}, {})
    table.collect(table.n_sets - 1, index[root], shape)
    return shape


class _Table:
    """(S, P) least cost of a set at a point. merged: waiting to be summed. come: as one."""

    def __init__(self, ground: VatNet, points: list[int]) -> None:
        self.points, self.workers = points, ground.workers
        self.n_sets = 1 << len(self.workers)
        hops = np.array([[ground.ways.hops(a, b) for b in points] for a in points])
        self.links: I64 = np.minimum(hops, _MOST_LINKS).astype(np.int64) * LINK
        np.fill_diagonal(self.links, _NEVER)
        self.slots = np.array([node_cost(ground, at) for at in points], np.int64)
        # a server sums for itself and passes nothing on, so no tree goes through one
        self.links[[at < ground.ways.n_hosts for at in points], :] = _NEVER
        self.merged = np.full((self.n_sets, len(points)), _NEVER, np.int64)
        self.come = np.full_like(self.merged, _NEVER)
        for i, worker in enumerate(self.workers):
            near = np.array([ground.ways.hops(worker, at) for at in points])
            self.come[1 << i] = np.minimum(near, _MOST_LINKS) * LINK
        for members in range(1, self.n_sets):
            if members & (members - 1):
                self._fill(members)

    def total(self, at: int) -> int:
        """Cost of the best tree with its root at a point."""
        everybody = self.n_sets - 1
        return int(self._here(everybody)[at] + self.slots[at])

    def collect(self, members: int, at: int, shape: Shape) -> None:
        """Add to the shape how a set best waits at a point."""
        goal = self._here(members)[at]
        if self.come[members, at] == goal:
            self._follow(members, at, shape)
        else:
            self._gather(members, at, shape)

    def _fill(self, members: int) -> None:
        best = self.merged[members]
        for one, other in _splits(members):
            np.minimum(best, self._here(one) + self._here(other), out=best)
        np.minimum(best, _NEVER, out=best)
        leaving = best + self.slots
        self.come[members] = np.minimum((leaving[:, None] + self.links).min(axis=0), _NEVER)

    def _here(self, members: int) -> I64:
        here: I64 = np.minimum(self.merged[members], self.come[members])
        return here

    def _follow(self, members: int, at: int, shape: Shape) -> None:
        """Add the sender whose packet for a set comes to a point."""
        target = self.points[at]
        if not members & (members - 1):
            shape.worker_parent[self.workers[members.bit_length() - 1]] = target
            return
        via = int(np.argmin(self.merged[members] + self.slots + self.links[:, at]))
        shape.parent[self.points[via]] = target
        self._gather(members, via, shape)

    def _gather(self, members: int, at: int, shape: Shape) -> None:
        """Add how a set is best gathered at a point that sums it."""
        goal = self.merged[members, at]
        for one, other in _splits(members):
            if self._here(one)[at] + self._here(other)[at] == goal:
                self.collect(one, at, shape)
                self.collect(other, at, shape)
                return


def _splits(members: int) -> Iterator[tuple[int, int]]:
    """Two parts of a set, each pair once: the first holds its lowest member."""
    low = members & -members
    rest = members ^ low
    part = rest
    while part:
        part = (part - 1) & rest
        yield part | low, rest ^ part
