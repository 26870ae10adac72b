"""What a running lab's planes are like: weights as the kernels have them, sessions as told.

Light: looks by ``ip`` and asks the agent, loads no library.
"""

from typing import Any

import msgspec

from fanfold.live.control_sockets import Call, ask_all
from fanfold.live.lab import PLANES, Lab
from fanfold.live.plane_numbers import CONTROL, TABLE
from fanfold.live.plane_routes import rows_of_ip
from fanfold.live.spaces import space_of
from fanfold.topo.plane_plan import PlanePlan

ANSWER_S = 5.0


def plan_of(lab: Lab) -> PlanePlan | None:
    """Plan of a lab with planes; None where it has none."""
    try:
        return msgspec.json.decode((lab.folder / PLANES).read_bytes(), type=PlanePlan)
    except (OSError, msgspec.DecodeError):
        return None


def agent_status(lab: Lab) -> dict[str, Any]:
    """What the agent answers of each host; nothing where it does not."""
    call = Call(lab.control_socket(CONTROL), {"do": "status"})
    found: dict[str, Any] = ask_all({"": call}, ANSWER_S)[""].get("hosts", {})
    return found


def look_at_planes(lab: Lab) -> dict[str, Any]:
    """Sessions and weights of a lab with planes; nothing where it has none.

    Returns:
        ``sessions`` with ``up`` and ``of``, at hosts; ``refused``, messages by reason;
        ``hosts``: for each host and destination the weight of each plane in the kernel.
    """
    plan = plan_of(lab)
    if plan is None or not lab.is_up():
        return {}
    told = agent_status(lab)
    refused: dict[str, int] = {}
    for host in told.values():
        for reason, n in host["refused"].items():
            refused[reason] = refused.get(reason, 0) + n
    return {
        "sessions": {"up": sum(h["sessions"] for h in told.values()), "of": len(plan.legs)},
        "scale": plan.scale,
        "refused": refused,
        "resilient": bool(told) and all(h["is_resilient"] for h in told.values()),
        "hosts": {host.name: kernel_weights(lab, plan, host.name) for host in plan.hosts},
    }


def kernel_weights(lab: Lab, plan: PlanePlan, host: str) -> dict[str, dict[str, int]]:
    """Weights in a host's kernel: destination, plane, sum over its legs that are not down."""
    names = {each.address: each.name for each in plan.hosts}
    plane_of = {leg.host_device: str(leg.plane) for leg in plan.at_host(host)}
    found: dict[str, dict[str, int]] = {}
    for route in _routes(space_of(lab.name, host)):
        name = names.get(route.get("dst", "").removesuffix("/32"), "")
        by_plane = dict.fromkeys(sorted(set(plane_of.values()), key=int), 0)
        for hop in route.get("nexthops", [route]):
            plane = plane_of.get(hop.get("dev", ""))
            if plane is not None and not {"dead", "linkdown"} & set(hop.get("flags", ())):
                by_plane[plane] += hop.get("weight", 1)
        if name:
            found[name] = by_plane
    return found


def _routes(space: str) -> list[dict[str, Any]]:
    return rows_of_ip(space, ["route", "show", "table", str(TABLE)], ANSWER_S)
