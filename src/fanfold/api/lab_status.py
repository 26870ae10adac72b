"""What is known of a lab: its nodes, and their counters where they answer."""

from typing import Any

from fanfold.api.failing import words_at
from fanfold.errors import EnvironmentLack
from fanfold.live.control_sockets import Call, ask_all
from fanfold.live.lab import Lab

STATUS_S = 1.0


def describe(lab: Lab) -> dict[str, Any]:
    """A lab's nodes, each with its counters when it answers."""
    nodes = lab.nodes()
    calls = {
        n: Call(lab.control_socket(n), {"do": "status"}) for n, e in nodes.items() if e["alive"]
    }
    for node, answer in ask_all(calls, STATUS_S).items():
        nodes[node]["status"] = answer
    return {
        "lab": lab.name,
        "up": lab.is_up(),
        "leftovers": lab.has_leftovers(),
        "log": str(lab.log),
        "failed": words_at(lab),
        "nodes": nodes,
    }


def no_such_lab(name: str) -> EnvironmentLack:
    """A name that no lab has."""
    return EnvironmentLack(f"lab {name!r}: there is none; `fanfold lab status` lists labs")
