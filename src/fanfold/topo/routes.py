"""Equal-cost next hops of a net, by group: hosts that hang on the same routers are one group.

Letters: H = hosts, R = routers, G = groups, K = ECMP sets. Every link costs one. Computed once
for a net: one breadth-first search for each group, from the routers its hosts hang on.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.topo.net import Net

I64 = NDArray[np.int64]
FAR = 2**14
"""Hops to a group that cannot be reached."""


class Routes(NamedTuple):
    """Where each router sends what is meant for a group.

    group: (H,) group of a host. hops: (R, G) int16 links from a router to the hosts of a group
    (1 where they hang on it), FAR where there is no path. ecmp: (R, G) int32 index of the set
    of links on shortest paths; unused where hops is 1 or FAR. first, link: (K + 1,) and the
    links of set k at first[k]..first[k + 1], rising. n_groups: G.

    A router r is node H + r. Where hops is 1 the link is the one of the router that leads to
    the host itself. A host sends over any of its own links whose router has the fewest hops.
    """

    group: NDArray[np.int32]
    hops: NDArray[np.int16]
    ecmp: NDArray[np.int32]
    first: I64
    link: NDArray[np.int32]

    @property
    def n_groups(self) -> int:
        """Groups of hosts."""
        return int(self.hops.shape[1])


def build_routes(net: Net) -> Routes:
    """Routes of a net."""
    raise NotImplementedError(net.name)
