"""Where users, stores of their contexts and instances of a service are in a net, by site.

A site is a pod of the topology, or a rack where there is one pod. Its first host stands for its
users and is the store of their contexts, its last hosts run instances. What lies between is
what a router of a cost map sees: costs and bandwidths of RFC 7285 and 9439, and delays.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.topo.cost_map import Table, tables_between
from fanfold.topo.net import Net
from fanfold.topo.routes import Routes

I64 = NDArray[np.int64]
NOWHERE = -1


class ServiceSites(NamedTuple):
    """Hosts by number. users: of each site, also its store. instances: of all sites.

    costs, bandwidths: ``tables_between`` these, by name. is_between: (L,) links from site to
    site.
    """

    net: Net
    users: tuple[int, ...]
    instances: tuple[int, ...]
    costs: Table
    bandwidths: Table
    is_between: NDArray[np.bool_]

    def name(self, host: int) -> str:
        """Of a host, for people."""
        return self.net.node_name(host)

    def cost(self, source: int, goal: int) -> int:
        """``routingcost`` from one host to another."""
        return self.costs[self.name(source)][self.name(goal)]

    def bps(self, source: int, goal: int) -> int:
        """``bw-available`` from one host to another."""
        return self.bandwidths[self.name(source)][self.name(goal)]


def place_service(net: Net, routes: Routes, n_each: int) -> ServiceSites:
    """Sites with so many instances each.

    Raises:
        ConfigError: a site has too few hosts, or one host cannot reach another.
    """
    sites = net.pod if np.unique(net.pod).size > 1 else net.rack
    hosts = [np.flatnonzero(sites == site).tolist() for site in np.unique(sites)]
    least = min(map(len, hosts))
    if not 1 <= n_each < least:
        allowed = f"1 to {least - 1}: a site has {least} hosts, and users are at one of them"
        raise ConfigError("instances", n_each, allowed if least > 1 else "hosts beside users'")
    users = [them[0] for them in hosts]
    instances = [host for them in hosts for host in them[-n_each:]]
    everybody = [*users, *instances]
    costs, bandwidths = tables_between(net, routes, everybody, instances)
    found = ServiceSites(
        net, tuple(users), tuple(instances), costs, bandwidths, _between(net, sites)
    )
    for source in everybody:
        for goal in instances:
            if source != goal and net.node_name(goal) not in costs[net.node_name(source)]:
                ends = f"no path from {net.node_name(source)} to {net.node_name(goal)}"
                raise ConfigError("topology", ends, "sites that are connected")
    return found


def _between(net: Net, sites: I64) -> NDArray[np.bool_]:
    """(L,) links whose ends are not of one site: routers are of the site of all below them."""
    home = np.full(net.n_nodes, NOWHERE, np.int64)
    home[: net.n_hosts] = sites
    for tier in range(1, int(net.tier.max()) + 1):
        rising = (net.tier[net.dst] == tier) & (net.tier[net.src] < tier)
        for node in np.unique(net.dst[rising]).tolist():
            below = np.unique(home[net.src[rising & (net.dst == node)]])
            home[node] = below[0] if below.size == 1 else NOWHERE
    ends = home[net.src], home[net.dst]
    return np.asarray((ends[0] != ends[1]) | (ends[0] == NOWHERE))
