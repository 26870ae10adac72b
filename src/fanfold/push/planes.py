"""Planes of one push: entropy and weight of each, and what each carried."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from fanfold.live.status import NodeStatus
from fanfold.push.plane_fans import ONE_PLANE, Planes
from fanfold.topo.fabric import Fabric
from fanfold.topo.planes import AUTO, Ends, PlaneWay, chosen_planes, plane_ways, planes_of

ENTROPY_MASK = 0xFFFFF


class PlaneResult(msgspec.Struct, frozen=True):
    """What left the source over one plane of those that the push could use.

    weight: its share at the start, 0 while it is down or some receiver has no link in it.
    """

    plane: int
    weight: int
    predicted_bytes: int
    bytes: int
    repair_bytes: int


class PlaneWeights(msgspec.Struct, frozen=True):
    """Weights of planes from a moment on. seconds: since the push began. source: who told."""

    seconds: float
    weights: dict[int, int]
    source: str


BY_RATES, BY_BGP = "rates", "bgp"


class PushPlanes:
    """Which planes a push goes over; a source with one has one entropy, the push's own.

    Args:
        base: entropy of the push. text: of ``--planes``.
    """

    def __init__(
        self, fabric: Fabric, source: str, targets: Sequence[str], base: int, text: str = AUTO
    ) -> None:
        self._fabric, self._source, self._targets = fabric, source, targets
        self._base = base
        self._chosen = chosen_planes(fabric, source, text)
        self.ways: list[PlaneWay] = []
        self.weights: list[PlaneWeights] = []
        """Those that it began with, and each change."""
        if len(planes_of(fabric, source)) > 1:
            self.ways = plane_ways(fabric, source, targets, self._chosen)

    @property
    def entropies(self) -> tuple[int, ...]:
        """Of packets of each plane, in the order of the machine's."""
        return tuple(self._entropy(way) for way in self.ways) or (self._base,)

    def begin(
        self,
        statuses: Iterable[tuple[str, NodeStatus]],
        told: Mapping[int, int] | None = None,
    ) -> Planes:
        """Planes for the machine, by what nodes say of their neighbours just now.

        Args:
            told: weights of BGP; these count, not rates, and nothing is learnt beside them.
        """
        if not self.ways:
            return ONE_PLANE
        failed = frozenset(
            frozenset((name, to))
            for name, status in statuses
            for to, row in status.neighbours.items()
            if row.state == "down"
        )
        self.ways = self._looked_at(failed)
        if told is not None:
            ways = [way._replace(weight=told.get(way.plane, 0)) for way in self.ways]
            self.ways = sorted(ways, key=lambda way: (way.is_down, -way.weight, way.plane))
        weights = tuple(way.weight for way in self.ways)
        self._note(0.0, weights, BY_RATES if told is None else BY_BGP)
        down = frozenset(i for i, way in enumerate(self.ways) if way.is_down)
        return Planes(weights, down, learns=told is None)

    def follow(self, seconds: float, told: Mapping[int, int]) -> tuple[int, ...]:
        """Weights for the machine when BGP has others, ``seconds`` after the beginning."""
        weights = tuple(told.get(way.plane, 0) for way in self.ways)
        self._note(seconds, weights, BY_BGP)
        return weights

    def _note(self, seconds: float, weights: Sequence[int], source: str) -> None:
        by_plane = {way.plane: w for way, w in zip(self.ways, weights, strict=True)}
        ordered = dict(sorted(by_plane.items()))
        self.weights.append(PlaneWeights(seconds, ordered, source))

    def _looked_at(self, failed: frozenset[Ends]) -> list[PlaneWay]:
        fabric, source = self._fabric, self._source
        return plane_ways(fabric, source, self._targets, self._chosen, failed)

    def results(self, bytes_to: Iterable[tuple[str, int, int, int]]) -> list[PlaneResult]:
        """What each plane carried.

        Args:
            bytes_to: neighbour of the source, bytes predicted, sent, and sent again, each.
        """
        if not self.ways:
            return []
        plane_of = {
            end: link.plane
            for link in self._fabric.links
            if self._source in (link.a, link.b)
            for end in {link.a, link.b} - {self._source}
        }
        sums = {way.plane: [0, 0, 0] for way in self.ways}
        for to, *counts in bytes_to:
            row = sums.setdefault(plane_of[to], [0, 0, 0])
            sums[plane_of[to]] = [a + b for a, b in zip(row, counts, strict=True)]
        weight = {way.plane: 0 if way.is_down else way.weight for way in self.ways}
        return [
            PlaneResult(plane, weight.get(plane, 0), *sums[plane]) for plane in sorted(sums)
        ]

    def _entropy(self, way: PlaneWay) -> int:
        """The push's own but for the part that picks the BIFT (``topo.bift.table_of``)."""
        n = self._fabric.n_ecmp
        found = self._base - self._base % n + way.tables[self._base % len(way.tables)]
        return found if found <= ENTROPY_MASK else found - n
