"""The net of a fabric file: what a live fabric is, as the simulator sees it.

Hosts in the order of the file, then BFRs in the order of the file. Links of a node are in the
order of its ports: port p is link ``first_out[n] + p - 1``. A BFR that is a BFER as well only
forwards here.
"""

import numpy as np

from fanfold.topo.fabric import Fabric
from fanfold.topo.net import Cables, Net, Stands, build_net
from fanfold.topo.net_rules import tiers_of
from fanfold.topo.sketch import LINE, Line


def fabric_net(fabric: Fabric, line: Line = LINE) -> Net:
    """Net of a fabric; all links alike, as the file says nothing of them."""
    nodes = sorted(fabric.nodes, key=lambda node: node.role != "host")
    names = [node.name for node in nodes]
    n_hosts = sum(node.role == "host" for node in nodes)
    index = {name: i for i, name in enumerate(names)}
    # sorted by the lesser name, then the greater one, the cables of a node rise by neighbour
    pairs = sorted(tuple(sorted((link.a, link.b))) for link in fabric.links)
    a, b = np.array([[index[end] for end in pair] for pair in pairs], np.int64).reshape(-1, 2).T
    bps, prop_ps = (np.full(a.size, value, np.int64) for value in line)
    tier, rack = tiers_of(n_hosts, len(names), a, b)
    cables = Cables(a, b, bps, prop_ps, np.zeros(a.size, np.int64))
    stands = Stands(tier, rack, np.zeros(n_hosts, np.int64))
    return build_net(fabric.name, n_hosts, cables, stands, names.__getitem__)
