"""By which of its links each member of a sum takes part, where hosts have several."""

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.schemes.program import Sum
from fanfold.topo.net import Net
from fanfold.topo.routes import FAR, Routes

I64 = NDArray[np.int64]


def sum_links(net: Net, routes: Routes, one: Sum) -> I64:
    """(R,) the first link of each member by which it reaches all others.

    Raises:
        ConfigError: members that no link of a member leads to.
    """
    hosts = np.array(one.hosts, np.int64)
    first, end = net.first_out[hosts], net.first_out[hosts + 1]
    groups = np.unique(routes.group[hosts])
    found = np.full(hosts.size, -1, np.int64)
    for port in range(int((end - first).max())):
        link = np.minimum(first + port, end - 1)
        leads = (routes.hops[net.dst[link] - net.n_hosts][:, groups] < FAR).all(axis=1)
        found = np.where((found < 0) & leads, link, found)
    if (found < 0).any():
        name = net.node_name(int(hosts[np.argmax(found < 0)]))
        got = f"no link of {name} that leads to all {hosts.size} members of a sum"
        raise ConfigError("receiver", got, "hosts that are connected")
    return found
