"""Cost and bandwidth between groups of hosts, in the form of ALTO's maps (RFC 7285).

A network map says which addresses a group has, a PID; cost maps say what it costs from one to
another: ``routingcost`` is the cost of the shortest path, a link of a host or between routers 1
where nothing else is said; ``bw-available`` (RFC 9439) is what the paths of one host to another
carry, in bits per second, accumulated as FARE does it: at each node the sum, over neighbours
on shortest paths, of the least of what leads there and of what it carries from there on.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fanfold.errors import ConfigError
from fanfold.topo.net import Net
from fanfold.topo.plane_paths import I64, PlanePaths, accumulated, links_up
from fanfold.topo.routes import FAR, Routes

NETWORK_TYPE = "application/alto-networkmap+json"
COST_TYPE = "application/alto-costmap+json"
COST, BANDWIDTH = "routingcost", "bw-available"
NOMINAL, ESTIMATION = "nominal", "estimation"
"""Sources of a cost (RFC 9439): a topology as it is written, and one that runs."""
MAX_GROUPS = 256
MAX_PID = 64
RESOURCE = "hosts"
_NOT_OF_A_PID = re.compile(r"[^0-9A-Za-z:@_-]+", re.ASCII)
Table = dict[str, dict[str, int]]
"""From a group, to a group; who cannot be reached is not in it."""


class Group(NamedTuple):
    """Hosts that are named as one, by number. name: of the group, before it is a PID."""

    name: str
    hosts: tuple[int, ...]


def groups_of(net: Net, *, by_host: bool = False) -> tuple[Group, ...]:
    """Racks of a net; each host by itself where there is one rack, or that is asked for.

    Raises:
        ConfigError: more than MAX_GROUPS.
    """
    racks = net.rack.tolist()
    if by_host or len(set(racks)) == 1:
        found = [Group(net.node_name(host), (host,)) for host in range(net.n_hosts)]
    else:
        members: dict[int, list[int]] = {}
        for host, rack in enumerate(racks):
            members.setdefault(rack, []).append(host)
        found = [Group(f"rack{rack}", tuple(hosts)) for rack, hosts in members.items()]
    if len(found) > MAX_GROUPS:
        got = f"{len(found)} groups of hosts"
        raise ConfigError("topology", got, f"at most {MAX_GROUPS} with --cost-map")
    return tuple(found)


def tables_of(net: Net, routes: Routes, groups: Sequence[Group]) -> tuple[Table, Table]:
    """Cost and bandwidth from the first host of each group to that of each other.

    Inside a group it is from its first host to its second.
    """
    names = pids_of(groups)
    paths = PlanePaths(net, routes)
    costs: Table = {name: {} for name in names}
    bandwidths: Table = {name: {} for name in names}
    for to, name in zip(groups, names, strict=True):
        for goal in to.hosts[:2]:
            carried = paths.to_host(goal)
            for of, source in zip(groups, names, strict=True):
                is_inside = of is to
                if is_inside != (goal != to.hosts[0]):
                    continue
                cost, bps = _from_host(net, routes, of.hosts[0], goal, carried)
                if bps:
                    costs[source][name], bandwidths[source][name] = cost, bps
    return costs, bandwidths


def tables_between(
    net: Net, routes: Routes, sources: Sequence[int], goals: Sequence[int]
) -> tuple[Table, Table]:
    """Cost and bandwidth from each of some hosts to each of others, by their names."""
    paths = PlanePaths(net, routes)
    costs: Table = {net.node_name(source): {} for source in sources}
    bandwidths: Table = {net.node_name(source): {} for source in sources}
    for goal in goals:
        carried, to = paths.to_host(goal), net.node_name(goal)
        for source in sources:
            cost, bps = _from_host(net, routes, source, goal, carried)
            if bps and source != goal:
                of = net.node_name(source)
                costs[of][to], bandwidths[of][to] = cost, bps
    return costs, bandwidths


def pids_of(groups: Sequence[Group]) -> list[str]:
    """Names of groups as RFC 7285 section 10.1 has them: no dots, 64 characters at most."""
    plain = [_NOT_OF_A_PID.sub("-", group.name)[:MAX_PID] for group in groups]
    numbered = [f"{name[: MAX_PID - 8]}-{n}" for n, name in enumerate(plain)]
    return [
        name if name and plain.count(name) == 1 else number
        for name, number in zip(plain, numbered, strict=True)
    ]


def maps_of(
    addresses: Mapping[str, Sequence[str]], costs: Table, bandwidths: Table, source: str
) -> dict[str, Any]:
    """A network map and both cost maps, by media type.

    Args:
        addresses: IPv4 addresses of each group. source: NOMINAL or ESTIMATION.
    """
    network = {
        name: {"ipv4": [f"{address}/32" for address in them]}
        for name, them in addresses.items()
    }
    whole = json.dumps(network, sort_keys=True).encode()
    tag = {"resource-id": RESOURCE, "tag": hashlib.sha256(whole).hexdigest()}
    return {
        NETWORK_TYPE: {"meta": {"vtag": tag}, "network-map": network},
        COST_TYPE: [
            {
                "meta": {
                    "dependent-vtags": [tag],
                    "cost-type": {
                        "cost-mode": "numerical",
                        "cost-metric": metric,
                        "cost-context": {"cost-source": source},
                    },
                },
                "cost-map": table,
            }
            for metric, table in ((COST, costs), (BANDWIDTH, bandwidths))
        ],
    }


def _from_host(
    net: Net, routes: Routes, source: int, goal: int, carried: I64
) -> tuple[int, int]:
    """Cost of a host's shortest paths to another one, and what they carry; 0: there is none."""
    hops = routes.hops[:, int(routes.group[goal])]
    ways = [x for x in links_up(net, source) if net.dst[x] >= net.n_hosts]
    cost_of = {x: int(hops[net.dst[x] - net.n_hosts]) for x in ways}
    least = min(cost_of.values(), default=FAR)
    if least >= FAR:
        return 0, 0
    links = [x for x in ways if cost_of[x] == least]
    return least + 1, accumulated(net, links, carried)
