"""Fans of a push: one over all its planes, dealt by weight, or a plain one."""

from collections.abc import Sequence
from typing import NamedTuple

from fanfold.core.flight import Shape
from fanfold.core.sender import FanSender
from fanfold.core.striped import StripedSender

Fan = FanSender | StripedSender


class Planes(NamedTuple):
    """Weights of the planes that a push goes over, and those of them that are dead.

    learns: what lines carry counts where it is not what weights say.
    """

    weights: Sequence[int] = (1,)
    down: frozenset[int] = frozenset()
    learns: bool = True


ONE_PLANE = Planes()


def build_fan(
    planes: Planes, flow: int, shape: Shape, need: Sequence[int], cap_bps: int
) -> Fan:
    """A fan over planes; need, cap_bps: as FanSender."""
    weights, down, learns = planes
    if len(weights) < 2:
        return FanSender(flow, shape, need, cap_bps)
    return StripedSender(flow, shape, need, cap_bps, weights, down, learns=learns)
