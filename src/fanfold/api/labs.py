"""A lab as programs ask for it; `fanfold lab up` is this with its flags around it."""

import os
from functools import partial
from typing import Any

import msgspec

from fanfold.api.nodes import make_lab_host
from fanfold.errors import ConfigError, EnvironmentLack
from fanfold.live.birth import Say, nobody
from fanfold.live.lab import Lab, claim_range
from fanfold.live.ports import open_socket, require_mtu
from fanfold.live.supervisor import supervise
from fanfold.push.geometry import geometry_of
from fanfold.topo.clos import leaf_spine
from fanfold.topo.fabric import ArrayLimits, Fabric
from fanfold.topo.fabric_rules import MTU_RANGE, check_fabric

PREFIXES = range(250)
MAX_DIGITS = 10


def start_lab(
    lab: Lab, fabric: Fabric, *, has_rings: bool = True, fsync: bool = False, say: Say = nobody
) -> dict[str, Any]:
    """Start every node of a fabric; returns when all answer.

    Returns:
        As ``Lab.up``.

    Raises:
        ConfigError: no packet of this MTU carries anything, or the lab is up already.
        EnvironmentLack: an interface is smaller, or a node could not start.
    """
    geometry_of(fabric.mtu, fabric.bitstring_bits)
    require_mtu(fabric)
    make_host = partial(make_lab_host, has_rings=has_rings, fsync=fsync)
    return lab.up(fabric, partial(supervise, make_host), say)


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
    """A leaf-spine on the first range of loopback addresses that is free, claimed for it.

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
        fabric = leaf_spine(leaves, spines, hosts, name=name, prefix=prefix)
        fabric = msgspec.structs.replace(fabric, mtu=mtu)
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
