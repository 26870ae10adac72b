"""Parts of a net that number their own hosts: pods, or racks where all is one pod."""

import numpy as np
from numpy.typing import NDArray

from fanfold.topo.net import Net

I64 = NDArray[np.int64]


def places_of(net: Net) -> I64:
    """(H,) pod of each host, numbered in the order in which they first appear."""
    label = net.pod if np.unique(net.pod).size > 1 else net.rack
    _, at, inverse = np.unique(label, return_index=True, return_inverse=True)
    number = np.empty(at.size, np.int64)
    number[np.argsort(at)] = np.arange(at.size)
    found: I64 = number[inverse.reshape(-1)]
    return found
