"""A net on one machine: addresses and BFR-ids, so that its nodes can run.

Hosts have BFR-ids from 1 in the order of the net, BFRs none. Loopback addresses are 127.81.K.1
to .250 for lab K, hosts first, then 127.82.K.1 and so on, so that labs of different K never
share one. A node has one address, and one link to a neighbour: of parallel cables one is used,
and told. Hosts have a link in each plane, and each plane has as many BIFTs as a net of one.
"""

import re
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fanfold.errors import ConfigError
from fanfold.topo.fabric import Fabric, Link, Node
from fanfold.topo.fabric_rules import MAX_ECMP, check_fabric
from fanfold.topo.lab_addresses import FIRST_BLOCK, NODES_PER_BLOCK, address_of
from fanfold.topo.leaf_spine import lab_net
from fanfold.topo.net import Net
from fanfold.units import format_duration, format_rate, parse_duration, parse_rate

MAX_LAB_NODES = NODES_PER_BLOCK * (256 - FIRST_BLOCK)
N_ECMP = 4
"""Tables of a set identifier, as a simulated run has them; so many for each plane."""
MAX_NAME = 40
_NOT_OF_A_NAME = re.compile(r"[^A-Za-z0-9._-]+", re.ASCII)


class LabFabric(NamedTuple):
    """A fabric, and what of the net it is not."""

    fabric: Fabric
    notes: tuple[str, ...]


def leaf_spine(
    leaves: int, spines: int, hosts: int, *, name: str = "lab", prefix: int = 0
) -> Fabric:
    """Two tiers with one source, h0, and ``hosts`` receivers, one BIFT for each spine.

    Args:
        leaves: at least 1.
        spines: at least 1, or 0 below a single leaf.
        hosts: receivers, at least 1; the source comes on top.
        name: of the fabric.
        prefix: lab index, 0..255, the third octet of every address.
    """
    least_spines = 0 if leaves == 1 else 1
    for field, value, low, high in (
        ("leaves", leaves, 1, MAX_LAB_NODES),
        ("spines", spines, least_spines, MAX_LAB_NODES),
        ("hosts", hosts, 1, MAX_LAB_NODES),
        ("prefix", prefix, 0, 255),
    ):
        if not low <= value <= high:
            raise ConfigError(field, value, f"{low}..{high}")
    n_nodes = leaves + spines + hosts + 1
    if n_nodes > MAX_LAB_NODES:
        raise ConfigError("leaves, spines, hosts", n_nodes, f"at most {MAX_LAB_NODES} nodes")
    net = lab_net(leaves, spines, hosts)
    fabric = Fabric(
        name,
        _nodes(net, [net.node_name(n) for n in range(net.n_nodes)], prefix),
        tuple(Link(net.node_name(a), net.node_name(b)) for a, b in _cables(net)),
        n_ecmp=min(max(spines, 1), MAX_ECMP),
    )
    check_fabric(fabric, name)
    return fabric


def lab_fabric(net: Net, *, name: str = "lab", prefix: int = 0) -> LabFabric:
    """Any net as a lab; ports are numbered as the net's.

    Raises:
        ConfigError: more nodes than loopback addresses.
    """
    if net.n_nodes > MAX_LAB_NODES:
        raise ConfigError("topology", f"{net.n_nodes} nodes", f"at most {MAX_LAB_NODES}")
    names, notes = _names(net)
    rows = _cables(net)
    n_parallel = int(np.unique(net.cable).size) - len(rows)
    more = [f"{n_parallel} cables beside one between the same nodes are left out"]
    links = tuple(
        Link(
            names[ends[0]],
            names[ends[1]],
            rate=_exact(int(net.bps[link]), format_rate, parse_rate, "bps"),
            delay=_exact(int(net.prop_ps[link]), format_duration, parse_duration, "ps"),
            weight=int(net.weight[link]),
            plane=int(net.plane[link]),
            up=bool(net.is_up[link]),
        )
        for ends, link in rows.items()
    )
    n_ecmp = min(N_ECMP * max(np.unique(net.plane).size, 1), MAX_ECMP)
    nodes = _nodes(net, names, prefix)
    fabric = Fabric(name, nodes, links, n_ecmp=n_ecmp, ports="links")
    check_fabric(fabric, name)
    return LabFabric(fabric, (*net.notes, *notes, *(more if n_parallel else ())))


def _nodes(net: Net, names: list[str], prefix: int) -> tuple[Node, ...]:
    return tuple(
        Node(name, address_of(n, prefix), "host", n + 1)
        if n < net.n_hosts
        else Node(name, address_of(n, prefix), "bfr")
        for n, name in enumerate(names)
    )


def _cables(net: Net) -> dict[tuple[int, int], int]:
    """One link for each two joined nodes, from the lower one, in the order they were drawn."""
    found: dict[tuple[int, int], int] = {}
    for link in np.argsort(net.cable, kind="stable").tolist():
        ends = int(net.src[link]), int(net.dst[link])
        if ends[0] < ends[1]:
            found.setdefault(ends, link)
    return found


def _names(net: Net) -> tuple[list[str], list[str]]:
    """Names of nodes that a fabric file can hold: letters, digits, dots and dashes."""
    given = [net.node_name(n) for n in range(net.n_nodes)]
    plain = [_NOT_OF_A_NAME.sub("-", name).strip(".-_")[:MAX_NAME] for name in given]
    n_of = Counter(plain)
    names = [
        name if name and n_of[name] == 1 else f"{name or 'n'}-{n}"
        for n, name in enumerate(plain)
    ]
    changed = [(a, b) for a, b in zip(given, names, strict=True) if a != b]
    if not changed:
        return names, []
    a, b = changed[0]
    return names, [f"{len(changed)} nodes have other names here, {b} is {a!r}"]


def _exact(
    value: int, form: Callable[[int], str], parse: Callable[[str, str], int], unit: str
) -> str:
    """Text for people where it says the whole truth, else all digits."""
    text = form(value).replace(" ", "")
    return text if parse(text, "link") == value else f"{value}{unit}"
