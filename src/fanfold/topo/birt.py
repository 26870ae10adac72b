"""Bit Index Routing Tables, RFC 8279 section 6.3, from a net and its routes.

Every router is a BFR, so the BFR-NBR is the next hop (6.2).
"""

import numpy as np
from numpy.typing import NDArray

from fanfold.kernels.bift import Birt
from fanfold.topo.net import Net
from fanfold.topo.routes import Routes

I64 = NDArray[np.int64]
NOBODY = np.zeros(0, np.int64)


def build_birt(net: Net, routes: Routes, n_dealt: int, target_of: I64 = NOBODY) -> Birt:
    """BIRTs of all nodes; arrays are those of the net and its routes.

    Args:
        n_dealt: BIFTs of each set identifier. target_of: node of each BFR-id - 1, -1 where
            nobody has it; whole sets; none where no BIFT is to be filled.
    """
    return Birt(
        net.n_hosts,
        n_dealt,
        net.is_flat,
        bool(np.unique(net.plane).size > 1),
        net.first_out,
        net.dst,
        net.reverse,
        net.is_up,
        routes.group,
        routes.ecmp,
        routes.hops,
        routes.first,
        routes.link,
        target_of,
    )
