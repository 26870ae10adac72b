"""The net of a fabric file, ``import:FILE.toml``: a live fabric as the simulator sees it.

Hosts in the order of the file, then BFRs in the order of the file. Links of a node are in the
order of its ports: port p is link ``first_out[n] + p - 1``. In the simulator a BFR that is a
BFER as well only forwards.
"""

from pathlib import Path

import numpy as np

from fanfold.errors import ConfigError
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_file import load_fabric
from fanfold.topo.net import Cables, Net, Stands, build_net
from fanfold.topo.net_rules import check_net, tiers_of
from fanfold.topo.sketch import LINE, Line
from fanfold.units import parse_duration, parse_rate


def load_fabric_net(path: Path, line: Line) -> Net:
    """Net of a fabric file; ``line`` for links of which it does not say.

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
    """Net of a fabric; ``line`` for links of which nothing is said."""
    nodes = sorted(fabric.nodes, key=lambda node: node.role != "host")
    names = [node.name for node in nodes]
    n_hosts = sum(node.role == "host" for node in nodes)
    index = {name: i for i, name in enumerate(names)}
    links = list(fabric.links)
    if fabric.ports == "names":
        # by the lesser name, then the greater one, the cables of a node rise by neighbour
        links.sort(key=lambda link: sorted((link.a, link.b)))
    rows = [
        (
            *(index[end] for end in (link.a, link.b)),
            int(parse_rate(link.rate, "rate")) if link.rate else line.bps,
            int(parse_duration(link.delay, "delay")) if link.delay else line.prop_ps,
            *(link.plane, link.weight, link.up),
        )
        for link in links
    ]
    a, b, bps, prop_ps, plane, weight, is_up = np.array(rows, np.int64).reshape(-1, 7).T
    tier, rack = tiers_of(n_hosts, len(names), a, b)
    cables = Cables(a, b, bps, prop_ps, plane, weight, is_up.astype(np.uint8))
    stands = Stands(tier, rack, np.zeros(n_hosts, np.int64))
    return build_net(fabric.name, n_hosts, cables, stands, names.__getitem__)
