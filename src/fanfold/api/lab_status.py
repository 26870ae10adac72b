"""What is known of a lab: its nodes, and their counters where they answer."""

from typing import Any

import msgspec

from fanfold.api.failing import words_at
from fanfold.errors import EnvironmentLack
from fanfold.live.clock import pause
from fanfold.live.control_sockets import Answer, Call, ask_all
from fanfold.live.lab import Lab
from fanfold.live.plane_sight import look_at_planes
from fanfold.live.status import Statuses, read_all
from fanfold.push.gray import GrayLink
from fanfold.push.gray_counts import standing
from fanfold.units import PS_PER_SECOND

STATUS_S = 1.0
SETTLE_PS = PS_PER_SECOND // 20
"""What is on its way comes by then."""


def describe(lab: Lab) -> dict[str, Any]:
    """A lab's nodes, each with its counters when it answers."""
    nodes = lab.nodes()
    for node, answer in ask_nodes(lab).items():
        nodes[node]["status"] = answer
    gray = gray_links(lab, {n: e["status"] for n, e in nodes.items() if "status" in e})
    return {
        "lab": lab.name,
        "up": lab.is_up(),
        "leftovers": lab.has_leftovers(),
        "log": str(lab.log),
        "failed": words_at(lab),
        "gray": msgspec.to_builtins(gray),
        "nodes": nodes,
    } | ({"planes": planes} if (planes := look_at_planes(lab)) else {})


def ask_nodes(lab: Lab) -> dict[str, Answer]:
    """What the living nodes of a lab answer."""
    alive = [name for name, entry in lab.nodes().items() if entry["alive"]]
    calls = {name: Call(lab.control_socket(name), {"do": "status"}) for name in alive}
    return ask_all(calls, STATUS_S)


def gray_links(lab: Lab, answers: dict[str, Answer]) -> list[GrayLink]:
    """Directions of a lab's links that lost or damaged packets since its nodes began."""
    if not lab.is_up():
        return []
    fabric = lab.fabric()

    def again() -> Statuses:
        pause(SETTLE_PS)
        return read_all(fabric, ask_nodes(lab))

    return standing(fabric, read_all(fabric, answers), again)


def no_such_lab(name: str) -> EnvironmentLack:
    """A name that no lab has."""
    return EnvironmentLack(f"lab {name!r}: there is none; `fanfold lab status` lists labs")
