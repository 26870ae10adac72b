"""Equal-cost sets of routers by weight: a link stands in its set as often as its path carries.

Inside a plane a switch deals to its next hops as a host deals to planes: by what the path over
each carries to the routers beside the goal, the least along the way, summed over all ways
(draft-xu-idr-fare). What the goal's own ports carry is the same over all of them.
"""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fanfold.core.deal import deal
from fanfold.topo.net import Net
from fanfold.topo.path_weights import shares, to_integers
from fanfold.topo.plane_paths import I64, SetLegs, carried_to, in_rows, set_legs
from fanfold.topo.routes import FAR, Routes

I32 = NDArray[np.int32]
PLENTY = 2**60


def weighted_sets(net: Net, routes: Routes) -> Routes:
    """Routes whose sets have links by weight, those of equal weights as they were."""
    inside = (net.src >= net.n_hosts) & (net.dst >= net.n_hosts)
    if net.is_up[inside].all() and np.unique(net.bps[inside]).size < 2:
        return routes
    ecmp = routes.ecmp.copy()
    first, link = routes.first.tolist(), [routes.link]
    known: dict[tuple[int, ...], int] = {}
    legs = set_legs(net, routes)
    for group in range(routes.n_groups):
        hops = routes.hops[:, group]
        last = np.where(np.pad(hops, (net.n_hosts, 0)) == 1, PLENTY, 0).astype(np.int64)
        carried = carried_to(legs, net, routes, group, last)
        for router in _uneven((net, routes, legs), group, carried).tolist():
            k = int(routes.ecmp[router, group])
            row = _dealt(net, routes.link[routes.first[k] : routes.first[k + 1]], carried)
            if row not in known:
                known[row] = len(first) - 1
                first.append(first[-1] + len(row))
                link.append(np.array(row, np.int32))
            ecmp[router, group] = known[row]
    whole = np.concatenate(link)
    return routes._replace(ecmp=ecmp, first=np.array(first, np.int64), link=whole)


def _uneven(of: tuple[Net, Routes, SetLegs], group: int, carried: I64) -> I64:
    """Routers whose links toward a group have unlike weights, or several to one neighbour."""
    net, routes, legs = of
    (routers,) = np.nonzero((routes.hops[:, group] > 1) & (routes.hops[:, group] < FAR))
    sets = routes.ecmp[routers, group]
    at, starts = in_rows(routes.first, sets)
    links = routes.link[at]
    weight = np.minimum(net.bps[links], carried[net.dst[links]])
    n_links, n_to = (first[sets + 1] - first[sets] for first in (routes.first, legs.first))
    spread = np.maximum.reduceat(weight, starts) - np.minimum.reduceat(weight, starts)
    return np.asarray(routers[(spread > 0) | (n_links > n_to)], np.int64)


def _dealt(net: Net, links: I32, carried: I64) -> tuple[int, ...]:
    """Links of a set in turn, by weight, each once where all are alike."""
    to = net.dst[links]
    together = np.bincount(to, net.bps[links], net.n_nodes)[to].astype(np.int64)
    parts = [
        Fraction(int(bps) * min(int(all_to), int(most)), int(all_to))
        for bps, all_to, most in zip(net.bps[links], together, carried[to], strict=True)
    ]
    weights = to_integers(shares(parts))
    return tuple(int(links[at]) for at in deal(sum(weights), weights))
