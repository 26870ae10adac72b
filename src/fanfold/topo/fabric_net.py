"""The net of a fabric file, ``import:FILE.toml``: a live fabric as the simulator sees it.

Hosts in the order of the file, then BFRs in the order of the file. Links of a node are in the
order of its ports: port p is link ``first_out[n] + p - 1``. A BFR that is a BFER as well only
forwards here.
"""

from pathlib import Path

import numpy as np

from fanfold.errors import ConfigError
from fanfold.topo.fabric import Fabric, load_fabric
from fanfold.topo.net import Cables, Net, Stands, build_net
from fanfold.topo.net_rules import check_net, tiers_of
from fanfold.topo.sketch import LINE, Line


def load_fabric_net(path: Path, line: Line) -> Net:
    """Net of a fabric file; ``line`` for all links.

    Raises:
        ConfigError: as ``load_fabric``, no host, or a link between hosts.
    """
    fabric = load_fabric(path)
    if all(node.role != "host" for node in fabric.nodes):
        raise ConfigError(str(path), "no node of role host", "hosts beside the BFRs")
    net = fabric_net(fabric, line)
    check_net(net, str(path))
    return net


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
