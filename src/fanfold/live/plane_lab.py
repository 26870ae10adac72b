"""A lab whose hosts reach each other over planes, by weights of BGP: up, and ready."""

import os
import subprocess
import sys
import time
from functools import partial
from typing import Any

import msgspec

from fanfold.errors import ConfigError, EnvironmentLack
from fanfold.live.birth import Say
from fanfold.live.frr import require_frr, start_speakers
from fanfold.live.lab import PLANES, Lab, Supervise
from fanfold.live.plane_build import build_planes
from fanfold.live.plane_sight import agent_status
from fanfold.topo.fabric import Fabric
from fanfold.topo.nets import build_named_net
from fanfold.topo.plane_plan import PlanePlan, plan_planes

READY_S = 30.0
LOOK_S = 0.05
EXAMPLE = "--topology superpod:gpus=8,planes=4 --namespaces"


def plan_for(topology: str | None, fabric: Fabric, *, has_spaces: bool) -> PlanePlan:
    """Plan of a topology, on the range of addresses that the lab's fabric has.

    Raises:
        ConfigError: another kind of topology or none, or no namespaces. EnvironmentLack: not
            root, or no FRR.
    """
    if topology is None or not has_spaces:
        raise ConfigError("--bgp", "alone", f"--bgp beside {EXAMPLE}")
    prefix = int(fabric.nodes[0].address.split(".")[2])
    plan = plan_planes(build_named_net(topology), prefix, fabric.mtu)
    if os.geteuid() != 0:
        raise EnvironmentLack("--bgp: needs root, who may make network namespaces; see `id`")
    require_frr()
    return plan


def up(
    lab: Lab, fabric: Fabric, plan: PlanePlan, supervise: Supervise, say: Say
) -> dict[str, Any]:
    """Start a lab's speakers and nodes; returns when every host has routes to all others.

    Returns:
        As ``Lab.up``, with ``sessions`` of BGP.

    Raises:
        ConfigError: the lab is up already. EnvironmentLack: a part did not start; nothing is
            left.
    """
    began = time.monotonic()
    told = lab.up(fabric, supervise, say, partial(_prepare, lab, plan))
    try:
        n = _wait(lab, plan, say)
    except BaseException:
        lab.down()
        raise
    return told | {"seconds": round(time.monotonic() - began, 3), "sessions": n}


def _prepare(lab: Lab, plan: PlanePlan) -> None:
    (lab.folder / PLANES).write_bytes(msgspec.json.encode(plan))
    try:
        build_planes(lab.name, plan)
        _start_agent(lab)
        start_speakers(lab.name, plan)
    except BaseException:
        lab.down()
        raise


def _start_agent(lab: Lab) -> None:
    with lab.log.open("ab") as log:
        subprocess.Popen(  # noqa: S603 - no shell
            [sys.executable, "-m", "fanfold.live.plane_agent", lab.name],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _wait(lab: Lab, plan: PlanePlan, say: Say) -> int:
    """Wait for all sessions, and weights of all legs in all kernels; how many sessions."""
    n_legs, n_hosts = len(plan.legs), len(plan.hosts)
    until, seen = time.monotonic() + READY_S, (-1, -1)
    while time.monotonic() < until:
        told = agent_status(lab).values()
        n = sum(int(host["sessions"]) for host in told)
        n_whole = sum(bool(host["is_whole"]) for host in told)
        if n_whole == n_hosts:
            return n
        if (n, n_whole) != seen:
            say(
                f"{n} of {n_legs} BGP sessions are up, {n_whole} of {n_hosts} hosts have routes"
            )
            seen, until = (n, n_whole), time.monotonic() + READY_S
        time.sleep(LOOK_S)
    n, n_whole = max(seen, (0, 0))
    found = f"{n} of {n_legs} sessions and routes of {n_whole} of {n_hosts} hosts"
    raise EnvironmentLack(f"--bgp: only {found} came up; see {lab.log}")
