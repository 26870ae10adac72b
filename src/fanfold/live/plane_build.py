"""Namespaces of a lab whose routes are BGP's: loopbacks, a veth pair a leg, no route yet."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from fanfold.errors import EnvironmentLack
from fanfold.live.spaces import enter_space, remove_spaces, run_ip, space_of
from fanfold.topo.plane_plan import PlanePlan, Speaker

T = TypeVar("T")
SYSCTLS = {"ip_forward": "1", "fib_multipath_hash_policy": "1", "conf/all/rp_filter": "0"}
"""Flows are told apart by ports (1: layer 4); ways there and back may differ."""


def build_planes(lab: str, plan: PlanePlan) -> None:
    """Namespaces of all speakers, their legs and addresses.

    Raises:
        EnvironmentLack: the kernel or ``ip`` refuses; nothing is left.
    """
    everyone = (*plan.hosts, *plan.leaves)
    try:
        run_ip("", [f"netns add {space_of(lab, each.name)}" for each in everyone])
        run_ip("", [_veth(lab, plan, n) for n in range(len(plan.legs))])
        for each in everyone:
            run_ip(space_of(lab, each.name), _lines(plan, each))
            in_space(lab, each.name, _set_sysctls)
    except EnvironmentLack:
        remove_spaces(lab)
        raise


def in_space(lab: str, node: str, do: Callable[[], T]) -> T:
    """What a function returns that is run in a node's namespace, in a thread of its own.

    Raises:
        EnvironmentLack: there is no such namespace, or the kernel lets nobody in.
    """

    def run() -> T:
        if not enter_space(lab, node):
            raise EnvironmentLack(f"{node}: no network namespace; see `ip netns`")
        return do()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()


def _set_sysctls() -> None:
    for name, value in SYSCTLS.items():
        Path(f"/proc/sys/net/ipv4/{name}").write_text(value, encoding="ascii")


def _veth(lab: str, plan: PlanePlan, n: int) -> str:
    leg = plan.legs[n]
    host = f"{leg.host_device} mtu {plan.mtu} netns {space_of(lab, leg.host)}"
    leaf = f"{leg.leaf_device} mtu {plan.mtu} netns {space_of(lab, leg.leaf)}"
    return f"link add {host} type veth peer name {leaf}"


def _lines(plan: PlanePlan, speaker: Speaker) -> list[str]:
    """Commands for ``ip`` inside one namespace."""
    lines = ["link set lo up", f"addr add {speaker.address}/32 dev lo"]
    for leg in plan.legs:
        if speaker.name == leg.host:
            lines.append(f"addr add {leg.host_address}/31 dev {leg.host_device}")
            lines.append(f"link set {leg.host_device} up")
        elif speaker.name == leg.leaf:
            lines.append(f"addr add {leg.leaf_address}/31 dev {leg.leaf_device}")
            lines.append(f"link set {leg.leaf_device} up")
    return lines
