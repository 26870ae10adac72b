"""Whether routes lead from every host to every other one."""

import numpy as np

from fanfold.topo.routes import FAR


def no_path(net, routes):
    """Names of two hosts without a path, or None."""
    hangs = routes.hops == 1
    for g in range(routes.n_groups):
        best = routes.hops[hangs[:, g]].min(axis=0)
        if (best >= FAR).any():
            far = int(np.argmax(best >= FAR))
            return tuple(net.node_name(int(np.argmax(routes.group == i))) for i in (g, far))
    return None
