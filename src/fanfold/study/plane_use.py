"""Which planes and ports queue pairs use, and which they leave idle because hashes meet."""

import numpy as np
from numpy.typing import NDArray

from fanfold.kernels.bift import HERE
from fanfold.sim.loop import rows as r
from fanfold.topo.net import Net
from fanfold.topo.routes import Routes

I64 = NDArray[np.int64]


def idle_ports(net: Net, ways: Routes, streams: NDArray[np.void]) -> int:
    """Ports left idle though there are queue pairs for them: of hosts, and of routers."""
    first = net.dst[streams["nic"]] - net.n_hosts
    is_short = ways.ecmp[first, streams["dst_group"]] == HERE
    return shared_ports(net, streams[is_short]) + idle_links(net, ways, streams[~is_short])


def idle_links(net: Net, ways: Routes, streams: NDArray[np.void]) -> int:
    """Links of routers' sets that no queue pair takes, as far as there are some for all.

    A queue pair that keeps one path picks a link of each set on its way by its number; what
    takes paths in turn leaves none idle.
    """
    fixed = streams[streams["path_step"] == 0]
    at, path = net.dst[fixed["nic"]] - net.n_hosts, fixed["path"].copy()
    group, found = fixed["dst_group"], []
    sizes = np.diff(ways.first)
    while at.size:
        sets = ways.ecmp[at, group]
        goes = sets >= 0
        sets, path, group = sets[goes], path[goes], group[goes]
        n = np.maximum(sizes[sets], 1)
        links = ways.link[ways.first[sets] + path % n]
        found.append(sets.astype(np.int64) * net.n_links + links)
        path, at = path // n, net.dst[links] - net.n_hosts
    met = np.concatenate([*found, np.zeros(0, np.int64)])
    taken = np.unique(met)
    sets, n_met = np.unique(met // net.n_links, return_counts=True)
    _, n_used = np.unique(taken // net.n_links, return_counts=True)
    could = [np.unique(ways.link[ways.first[k] : ways.first[k + 1]]).size for k in sets]
    wanted = np.minimum(np.array(could, np.int64), n_met)
    return int(np.maximum(wanted - n_used, 0).sum())


def planes_of_pairs(net: Net, streams: NDArray[np.void]) -> I64:
    """Planes that each pair of hosts uses, how many."""
    used = np.stack([streams["src"], streams["dst"], net.plane[streams["nic"]]])
    pairs = np.unique(used, axis=1)[:2]
    return np.asarray(np.unique(pairs, axis=1, return_counts=True)[1], np.int64)


def shared_ports(net: Net, streams: NDArray[np.void]) -> int:
    """Sub-ports left idle though there are queue pairs for them, over pairs, planes, both ends.

    Counted where the first router is the last one too; what takes paths in turn leaves none.
    """
    found = 0
    fixed = streams[streams["path_step"] == 0]
    plane = net.plane[fixed["nic"]]
    key = (fixed["src"] * net.n_hosts + fixed["dst"]) * (int(net.plane.max()) + 1) + plane
    order = np.argsort(key, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(key[order])) + 1):
        if not rows.size:
            continue
        mine = fixed[rows]
        router = int(net.dst[mine["nic"][0]])
        downs = _links(net, router, int(mine["dst"][0]))
        ups = _links(net, router, int(mine["src"][0]))
        chosen = np.where(
            mine["dst_link"] != r.NONE, mine["dst_link"], mine["path"] % max(len(downs), 1)
        )
        for n_ports, used in ((len(ups), mine["nic"]), (len(downs), chosen)):
            n_pairs = np.unique(mine["conn"]).size
            found += max(min(n_ports, n_pairs) - np.unique(used).size, 0)
    return found


def _links(net: Net, router: int, host: int) -> list[int]:
    """Links of a router to a host that are up."""
    first, end = int(net.first_out[router]), int(net.first_out[router + 1])
    return [at for at in range(first, end) if net.dst[at] == host and net.is_up[at]]
