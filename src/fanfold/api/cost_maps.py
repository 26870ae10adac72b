"""Cost maps of a topology by name, and of a lab that runs, from the weights of its BGP."""

from fractions import Fraction
from typing import Any

from fanfold.errors import ConfigError, EnvironmentLack
from fanfold.live.lab import Lab
from fanfold.live.plane_sight import plan_of
from fanfold.live.plane_watch import ask_paths
from fanfold.topo.cost_map import (
    ESTIMATION,
    NOMINAL,
    Table,
    groups_of,
    maps_of,
    pids_of,
    tables_of,
)
from fanfold.topo.fabric_net import fabric_net
from fanfold.topo.fan_weights import Paths
from fanfold.topo.lab_addresses import address_of
from fanfold.topo.lab_fabric import MAX_LAB_NODES
from fanfold.topo.net import Net
from fanfold.topo.plane_plan import PlanePlan
from fanfold.topo.routes import build_routes

BITS = 8
LINKS = 2
"""From host to host of a lab with planes: up to a leaf, and down."""


def map_of_net(net: Net) -> dict[str, Any]:
    """Maps of a topology; addresses are those of the first lab of it on a machine.

    Raises:
        ConfigError: more groups than a map has, or more hosts than addresses.
    """
    if net.n_hosts > MAX_LAB_NODES:
        raise ConfigError("topology", f"{net.n_hosts} hosts", f"at most {MAX_LAB_NODES}")
    groups = groups_of(net)
    costs, bandwidths = tables_of(net, build_routes(net), groups)
    addresses = {
        name: [address_of(host, 0) for host in group.hosts]
        for name, group in zip(pids_of(groups), groups, strict=True)
    }
    return maps_of(addresses, costs, bandwidths, NOMINAL)


def map_of_lab(lab: Lab) -> dict[str, Any]:
    """Maps of a lab that is up: by BGP's paths just now, or else as its fabric has them.

    Raises:
        EnvironmentLack: it is not up, or nobody tells what BGP has.
    """
    fabric, plan = lab.fabric(), plan_of(lab)
    if plan is not None:
        return _map_of_plan(lab, plan)
    net = fabric_net(fabric)
    groups = groups_of(net)
    costs, bandwidths = tables_of(net, build_routes(net), groups)
    hosts = [node.address for node in fabric.nodes if node.role == "host"]
    addresses = {
        name: [hosts[host] for host in group.hosts]
        for name, group in zip(pids_of(groups), groups, strict=True)
    }
    return maps_of(addresses, costs, bandwidths, NOMINAL)


def _map_of_plan(lab: Lab, plan: PlanePlan) -> dict[str, Any]:
    costs: Table = {}
    bandwidths: Table = {}
    for host in plan.hosts:
        told = ask_paths(lab, host.name)
        if told is None:
            raise EnvironmentLack(f"lab {lab.name!r}: nobody tells its paths; see {lab.log}")
        carried = {name: carried_bps(paths, plan.scale) for name, paths in told.items()}
        bandwidths[host.name] = {name: bps for name, bps in sorted(carried.items()) if bps}
        costs[host.name] = dict.fromkeys(bandwidths[host.name], LINKS)
    addresses = {host.name: [host.address] for host in plan.hosts}
    return maps_of(addresses, costs, bandwidths, ESTIMATION)


def carried_bps(paths: Paths, scale: int) -> int:
    """Bits per second of all planes together; those of which nobody said anything count 0.

    Args:
        scale: of a bandwidth, to what its community carries.
    """
    known = [bandwidth for bandwidth in paths.values() if bandwidth is not None]
    return int(sum(known, Fraction(0)) * BITS * scale)
