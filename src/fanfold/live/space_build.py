"""Makes the network namespaces of a lab (``live/spaces.py``)."""

import os
from ipaddress import IPv4Address

import msgspec

from fanfold.errors import ConfigError, EnvironmentLack
from fanfold.live.spaces import remove_spaces, run_ip, space_of
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_routes import FabricRoutes
from fanfold.topo.fabric_rules import MTU_RANGE


def off_loopback(fabric: Fabric) -> Fabric:
    """The same fabric with 10.x addresses where it has loopback ones, which cross no link."""
    nodes = tuple(
        msgspec.structs.replace(node, address=f"10.{node.address.partition('.')[2]}")
        if IPv4Address(node.address).is_loopback
        else node
        for node in fabric.nodes
    )
    return msgspec.structs.replace(fabric, nodes=nodes)


def require_root() -> None:
    """Refuse who may not make namespaces.

    Raises:
        EnvironmentLack: not root.
    """
    if os.geteuid() != 0:
        raise EnvironmentLack("--namespaces: needs root, who may make them; see `id`")


def require_lines(fabric: Fabric) -> None:
    """Refuse packets that no device of a namespace carries with their trailers.

    Raises:
        ConfigError: the MTU is too large.
    """
    most = MTU_RANGE[1]
    if fabric.line_mtu() > most:
        trailer = fabric.line_mtu() - fabric.mtu
        allowed = f"at most {most - trailer}: links of namespaces carry {most}, less {trailer}"
        raise ConfigError("fabric.mtu", fabric.mtu, f"{allowed} of trailers")


def build_spaces(lab: str, fabric: Fabric) -> None:
    """Namespaces, links, addresses and routes of all nodes.

    Raises:
        EnvironmentLack: the kernel or ``ip`` refuses; nothing is left.
    """
    try:
        run_ip("", [f"netns add {space_of(lab, node.name)}" for node in fabric.nodes])
        run_ip("", [_veth(lab, fabric, link.a, link.b) for link in fabric.links])
        routes = FabricRoutes(fabric)
        for node in fabric.nodes:
            run_ip(space_of(lab, node.name), _lines(fabric, routes, node.name))
    except EnvironmentLack:
        remove_spaces(lab)
        raise


def _veth(lab: str, fabric: Fabric, a: str, b: str) -> str:
    ends = [
        f"p{fabric.port_to(x, y)} mtu {fabric.line_mtu()} netns {space_of(lab, x)}"
        for x, y in ((a, b), (b, a))
    ]
    return f"link add {ends[0]} type veth peer name {ends[1]}"


def _lines(fabric: Fabric, routes: FabricRoutes, name: str) -> list[str]:
    """Commands for ``ip`` inside one namespace."""
    own = fabric.by_name[name].address
    lines = ["link set lo up", f"addr add {own}/32 dev lo"]
    near = fabric.neighbours[name]
    lines += [f"link set p{port} up" for port in range(1, len(near) + 1)]
    for other in fabric.nodes:
        first = other.name if other.name in near else routes.next_hop(name, other.name, 0)
        if other.name != name and first:
            to = f"via {fabric.by_name[first].address} dev p{fabric.port_to(name, first)}"
            if first == other.name:
                to = f"dev p{fabric.port_to(name, first)}"
            lines.append(f"route add {other.address}/32 {to} src {own}")
    # a gateway is reached by its own route, which stands first
    return sorted(lines, key=lambda line: " via " in line)
