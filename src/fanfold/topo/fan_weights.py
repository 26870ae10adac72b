"""Weights of planes for a fan, from what paths to each of its receivers carry (ADR 0056).

A block goes to all receivers, so a plane brings no more of them than the slowest receiver takes
by it: the weight of a plane is the least bandwidth of its paths to all of them, and the sum of
weights is what the fan can carry. Bandwidths have any unit, one for all; None: nobody said.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from fanfold.topo.path_weights import to_integers

Paths = Mapping[int, Fraction | None]
"""Bandwidth of the path over each plane that has one."""


def fan_weights(receivers: Iterable[Paths], planes: Sequence[int]) -> dict[int, int] | None:
    """Weight of each plane, whole numbers.

    A receiver without any path bounds nothing: it is silent, whatever the planes. One of which
    a path has no bandwidth, or all have none, is reached alike over those that carry something
    (RFC 10005 section 4); so it bounds none of these.

    Args:
        receivers: paths of each. planes: those that may be used.

    Returns:
        None where nobody has a path, or no plane leads to all who have one.
    """
    known = [paths for paths in receivers if paths]
    bounds = [_bounds(paths, planes) for paths in known]
    least = {plane: _least(row[plane] for row in bounds) for plane in planes}
    told = [bandwidth for bandwidth in least.values() if bandwidth]
    usual = max(told, default=Fraction(1))
    whole = [usual if least[plane] is None else least[plane] or Fraction(0) for plane in planes]
    if not known or not any(whole):
        return None
    parts = [bandwidth / sum(whole) for bandwidth in whole]
    return dict(zip(planes, to_integers(parts), strict=True))


def _bounds(paths: Paths, planes: Sequence[int]) -> dict[int, Fraction | None]:
    """The most that each plane brings to one receiver; None: unknown, 0: nothing."""
    if any(paths.values()) and None not in paths.values():
        return {plane: paths.get(plane, Fraction(0)) for plane in planes}
    spares = any(bandwidth is None or bandwidth for bandwidth in paths.values())
    live = {plane for plane, bandwidth in paths.items() if bandwidth != 0 or not spares}
    return {plane: None if plane in live else Fraction(0) for plane in planes}


def _least(bounds: Iterable[Fraction | None]) -> Fraction | None:
    return min((bound for bound in bounds if bound is not None), default=None)
