"""A lab as programs ask for it; `fanfold lab up` is this with its flags around it."""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from fanfold.api.keys import make_lab_keys, make_lab_links
from fanfold.api.nodes import make_lab_host
from fanfold.core.session import Pace
from fanfold.errors import ConfigError, EnvironmentLack
from fanfold.live.birth import Say, nobody
from fanfold.live.host import USUAL
from fanfold.live.lab import Lab, claim_range
from fanfold.live.machine import require_room
from fanfold.live.plane_lab import up as up_with_planes
from fanfold.live.ports import open_socket, require_mtu
from fanfold.live.space_build import build_spaces, off_loopback, require_lines, require_root
from fanfold.live.supervisor import supervise
from fanfold.push.geometry import geometry_of
from fanfold.topo.fabric import ArrayLimits, Fabric
from fanfold.topo.fabric_rules import MTU_RANGE, check_fabric
from fanfold.topo.lab_fabric import LabFabric, lab_fabric, leaf_spine
from fanfold.topo.nets import build_named_net
from fanfold.topo.openness import Part, is_far, may_be_open
from fanfold.topo.plane_plan import PlanePlan
from fanfold.units import PS_PER_MS, format_duration, parse_duration

PREFIXES = range(250)
LEAST_PS = PS_PER_MS
MAX_DIGITS = 10


def start_lab(
    lab: Lab,
    fabric: Fabric,
    *,
    has_rings: bool = True,
    fsync: bool = False,
    has_spaces: bool = False,
    has_keys: bool = False,
    has_link_keys: bool = False,
    pace: Pace = USUAL,
    metrics_port: int = 0,
    plan: PlanePlan | None = None,
    say: Say = nobody,
) -> dict[str, Any]:
    """Start every node of a fabric; returns when all answer.

    Args:
        has_spaces: each node in a network namespace of its own; loopback addresses become 10.x.
        has_keys: each host has keys of its own, and takes what the others signed only.
        has_link_keys: so has each node for its links, and no packet passes without.
        pace: of HELLOs between neighbours. plan: BGP routes between its namespaces; returns
            when all have them.
        metrics_port: at each node's address, 0: nowhere.

    Returns:
        As ``Lab.up``.

    Raises:
        ConfigError: no packet of this MTU carries anything, it is up already, or no room.
        EnvironmentLack: an interface is smaller, not root and so no namespaces, or a node could
            not start.
    """
    geometry_of(fabric.mtu, fabric.bitstring_bits)
    require_mtu(fabric)
    require_room(len(fabric.nodes))
    fabric = _closed_where_far(fabric, is_apart=plan is not None or has_spaces)
    has_keys |= _is_closed(fabric, "ends")
    has_link_keys |= _is_closed(fabric, "links")
    make_host = partial(
        make_lab_host,
        has_rings=has_rings,
        fsync=fsync,
        has_keys=has_keys,
        pace=pace,
        metrics_port=metrics_port,
    )
    if plan is not None or has_spaces:
        require_root()
        fabric = off_loopback(fabric)  # before anything is signed: an address is part of it
    if has_keys:
        fabric = make_lab_keys(lab, fabric)
    fabric = make_lab_links(lab, fabric, is_required=has_link_keys)
    if plan is None and not has_spaces:
        return lab.up(fabric, partial(supervise, make_host), say)
    require_lines(fabric)
    if plan is not None:
        plan = msgspec.structs.replace(plan, mtu=fabric.line_mtu())
        return up_with_planes(lab, fabric, plan, partial(supervise, make_host), say)
    prepare = partial(build_spaces, lab.name, fabric)
    return lab.up(fabric, partial(supervise, make_host), say, prepare)


def _closed_where_far(fabric: Fabric, *, is_apart: bool) -> Fabric:
    """A lab that other machines reach has keys, and pushes to it are signed."""
    if fabric.open or is_apart or not is_far(fabric):
        return fabric
    return msgspec.structs.replace(fabric, open="none")


def _is_closed(fabric: Fabric, part: Part) -> bool:
    """The file has a word that leaves a part of it closed."""
    return bool(fabric.open) and not may_be_open(fabric, part)


def parse_pace(text: str) -> Pace:
    """How often busy neighbours speak, ``50ms``."""
    fast_ps = parse_duration(text, "--hello")
    if not LEAST_PS <= fast_ps <= USUAL.slow_ps:
        least, most = format_duration(LEAST_PS), format_duration(USUAL.slow_ps)
        raise ConfigError("--hello", text, f"{least} to {most}")
    return USUAL._replace(fast_ps=fast_ps)


def parse_limits(text: str, given: ArrayLimits) -> ArrayLimits:
    """``array_groups=128,group_slots=64``; what is not named stays as it is."""
    values = msgspec.structs.asdict(given)
    for part in text.split(","):
        key, _, value = part.partition("=")
        is_number = value.isascii() and value.isdecimal() and len(value) < MAX_DIGITS
        if key not in values or not is_number:
            raise ConfigError("--limits", part, f"KEY=NUMBER with {', '.join(values)}")
        values[key] = int(value)
    return ArrayLimits(**values)


def pick_fabric(name: str, leaves: int, spines: int, hosts: int, mtu: int) -> Fabric:
    """A leaf-spine on the first range of loopback addresses that is free, claimed for it."""
    return pick_range(
        name, lambda k: leaf_spine(leaves, spines, hosts, name=name, prefix=k), mtu
    )


def pick_net(name: str, topology: str, mtu: int) -> LabFabric:
    """Any topology by name on such a range, and what is to be told of it."""
    net = build_named_net(topology)
    require_room(net.n_nodes)
    made = lab_fabric(net)
    fabric = pick_range(name, lambda k: lab_fabric(net, name=name, prefix=k).fabric, mtu)
    return made._replace(fabric=fabric)


def pick_range(name: str, make: Callable[[int], Fabric], mtu: int) -> Fabric:
    """A fabric on the first range of loopback addresses that is free, claimed for it.

    Args:
        make: gives the fabric on a range.

    Raises:
        ConfigError: no such fabric. EnvironmentLack: every range is another lab's, or has an
            address whose port is in use.
    """
    least, most = MTU_RANGE
    if not least <= mtu <= most:
        raise ConfigError("--mtu", mtu, f"{least}..{most}")
    n_claimed = 0
    for prefix in PREFIXES:
        claim = claim_range(prefix)
        if claim is None:
            n_claimed += 1
            continue
        fabric = msgspec.structs.replace(make(prefix), mtu=mtu)
        check_fabric(fabric, "lab")
        try:
            for node in fabric.nodes:
                open_socket(node.address, fabric.port, node.name).close()
        except EnvironmentLack:
            os.close(claim)
            continue
        return fabric
    raise EnvironmentLack(
        f"lab {name!r}: no range of loopback addresses is free: of {len(PREFIXES)}, "
        f"{n_claimed} are other labs', the rest has UDP port 8138 in use; "
        "end a lab (`fanfold lab down`) or see `ss -ulpn`"
    )
