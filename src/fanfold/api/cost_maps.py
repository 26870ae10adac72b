"""Cost maps of a topology by name, and of a lab that runs, from the weights of its BGP."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import msgspec

from fanfold.api.failing import failures_of, name_of
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
    tables_between,
    tables_of,
)
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_net import fabric_net
from fanfold.topo.fan_weights import Paths
from fanfold.topo.lab_addresses import address_of
from fanfold.topo.lab_fabric import MAX_LAB_NODES
from fanfold.topo.net import Net
from fanfold.topo.plane_plan import PlanePlan
from fanfold.topo.routes import build_routes
from fanfold.units import parse_rate

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
    """Maps of a lab that is up: by BGP's paths just now, or else by its fabric and failures.

    Raises:
        EnvironmentLack: it is not up, or nobody tells what BGP has.
    """
    fabric, plan = lab.fabric(), plan_of(lab)
    if plan is not None:
        return _map_of_plan(lab, plan)
    net = fabric_net(standing(lab, fabric))
    groups = groups_of(net)
    costs, bandwidths = tables_of(net, build_routes(net), groups)
    hosts = [node.address for node in fabric.nodes if node.role == "host"]
    addresses = {
        name: [hosts[host] for host in group.hosts]
        for name, group in zip(pids_of(groups), groups, strict=True)
    }
    return maps_of(addresses, costs, bandwidths, NOMINAL)


def host_tables(
    lab: Lab, fabric: Fabric, sources: Sequence[str], goals: Sequence[str]
) -> tuple[Table, Table]:
    """Cost and bandwidth from hosts of a lab to others just now, by name, as ``map_of_lab``.

    Raises:
        EnvironmentLack: nobody tells what BGP has.
    """
    plan = plan_of(lab)
    if plan is not None:
        return _tables_of_plan(lab, plan, sources)
    net = fabric_net(standing(lab, fabric))
    number = {net.node_name(host): host for host in range(net.n_hosts)}
    ends = [number[name] for name in sources], [number[name] for name in goals]
    return tables_between(net, build_routes(net), *ends)


def standing(lab: Lab, fabric: Fabric) -> Fabric:
    """A lab's fabric as it stands: no cut links and dead nodes, slow links at their rate."""
    known, links = failures_of(lab), []
    dead = {name for name, entry in lab.nodes().items() if not entry["alive"]}
    for link in fabric.links:
        is_up = link.up and name_of(link) not in known.links and not dead & {link.a, link.b}
        rate, most = link.rate, known.slow.get(name_of(link), 0)
        if most and (not rate or parse_rate(rate, "rate") > most):
            rate = f"{most}bps"
        links.append(msgspec.structs.replace(link, up=is_up, rate=rate))
    return msgspec.structs.replace(fabric, links=tuple(links))


def _tables_of_plan(lab: Lab, plan: PlanePlan, names: Sequence[str]) -> tuple[Table, Table]:
    costs: Table = {}
    bandwidths: Table = {}
    for host in names:
        told = ask_paths(lab, host)
        if told is None:
            raise EnvironmentLack(f"lab {lab.name!r}: nobody tells its paths; see {lab.log}")
        carried = {name: carried_bps(paths, plan.scale) for name, paths in told.items()}
        bandwidths[host] = {name: bps for name, bps in sorted(carried.items()) if bps}
        costs[host] = dict.fromkeys(bandwidths[host], LINKS)
    return costs, bandwidths


def _map_of_plan(lab: Lab, plan: PlanePlan) -> dict[str, Any]:
    costs, bandwidths = _tables_of_plan(lab, plan, [host.name for host in plan.hosts])
    addresses = {host.name: [host.address] for host in plan.hosts}
    return maps_of(addresses, costs, bandwidths, ESTIMATION)


def carried_bps(paths: Paths, scale: int) -> int:
    """Bits per second of all planes together; those of which nobody said anything count 0.

    Args:
        scale: of a bandwidth, to what its community carries.
    """
    known = [bandwidth for bandwidth in paths.values() if bandwidth is not None]
    return int(sum(known, Fraction(0)) * BITS * scale)
