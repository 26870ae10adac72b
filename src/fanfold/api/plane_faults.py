"""Ports, half cables and leaves of a lab with planes that fail by hand: devices that are down.

The leaf's end goes down: the host's loses its carrier, as with a cable that is pulled.
"""

from collections.abc import Sequence

from fanfold.errors import ConfigError
from fanfold.live.lab import Lab
from fanfold.live.plane_sight import plan_of
from fanfold.live.spaces import run_ip, space_of
from fanfold.topo.plane_plan import Leg, PlanePlan

PLANE_KINDS = ("port", "half-cable", "leaf")


def usual_name(lab: Lab, kind: str, name: str) -> str:
    """The name by which a thing of this kind is kept; ``gpu3`` is host ``h3``.

    Raises:
        ConfigError: the lab has no planes, or no such thing.
    """
    plan = _require(lab, kind)
    host, dash, plane = name.rpartition("-")
    known = f"h{host.removeprefix('gpu')}-{plane}" if host.startswith("gpu") and dash else name
    if known in {leaf.name for leaf in plan.leaves}:
        known = next(f"plane{leg.plane}" for leg in plan.legs if leg.leaf == known)
    if not _legs(plan, kind, known):
        raise ConfigError(kind, name, ", ".join(_names(plan, kind)))
    return known


def set_down(lab: Lab, things: Sequence[tuple[str, str]]) -> None:
    """Take the legs of these down, and all others up.

    Args:
        things: kinds and usual names.

    Raises:
        EnvironmentLack: the kernel refuses.
    """
    plan = _require(lab, "heal")
    down = {leg for kind, name in things for leg in _legs(plan, kind, name)}
    for leaf in plan.leaves:
        lines = [
            f"link set {leg.leaf_device} {'down' if leg in down else 'up'}"
            for leg in plan.at_leaf(leaf.name)
        ]
        run_ip(space_of(lab.name, leaf.name), lines)


def _require(lab: Lab, kind: str) -> PlanePlan:
    plan = plan_of(lab)
    if plan is None:
        raise ConfigError(kind, lab.name, "a lab with planes, of `lab up --bgp`")
    return plan


def _legs(plan: PlanePlan, kind: str, name: str) -> list[Leg]:
    if kind == "leaf":
        return [leg for leg in plan.legs if f"plane{leg.plane}" == name]
    legs = [leg for leg in plan.legs if leg.port == name]
    if kind == "half-cable":
        return legs[-1:] if len(legs) > 1 else []
    return legs


def _names(plan: PlanePlan, kind: str) -> list[str]:
    """What may fail of a kind, in order."""
    if kind == "leaf":
        return list(dict.fromkeys(f"plane{leg.plane}" for leg in plan.legs))
    names = list(dict.fromkeys(leg.port for leg in plan.legs))
    return [name for name in names if _legs(plan, kind, name)] or ["none: ports have one leg"]
