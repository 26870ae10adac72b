"""Leaf-spine fabrics: every leaf linked to every spine, hosts below the leaves.

The lab: source h0 on leaf1, receivers h1..hN in order over the leaves, BFR-ids h1..hN = 1..N
and h0 = N + 1, transit BFRs without one. Loopback addresses are 127.81.K.1 to .250 for lab K,
receivers first, then 127.82.K.1 and so on, so that labs of different K never share one.
"""

from fanfold.errors import ConfigError
from fanfold.topo.fabric import Fabric, Link, Node
from fanfold.topo.fabric_rules import MAX_ECMP, check_fabric

NODES_PER_BLOCK = 250
FIRST_BLOCK = 81
MAX_LAB_NODES = NODES_PER_BLOCK * (256 - FIRST_BLOCK)


def leaf_spine(
    leaves: int, spines: int, hosts: int, *, name: str = "lab", prefix: int = 0
) -> Fabric:
    """Two-tier fabric with one source and ``hosts`` receivers, one BIFT for each spine.

    Args:
        leaves: at least 1.
        spines: at least 1, or 0 below a single leaf.
        hosts: receivers, at least 1; the source comes on top.
        name: of the fabric.
        prefix: lab index, 0..255, the third octet of every address.
    """
    _check(leaves, spines, hosts, prefix)
    leaf_names = [f"leaf{i}" for i in range(1, leaves + 1)]
    spine_names = [f"spine{i}" for i in range(1, spines + 1)]
    host_names = [*(f"h{i}" for i in range(1, hosts + 1)), "h0"]
    homes = [leaf_names[i * leaves // hosts] for i in range(hosts)] + leaf_names[:1]
    names = [*host_names, *leaf_names, *spine_names]
    nodes = tuple(
        Node(n, _address(i, prefix), "host", i + 1)
        if i < len(host_names)
        else Node(n, _address(i, prefix), "bfr")
        for i, n in enumerate(names)
    )
    links = [Link(h, leaf) for h, leaf in zip(host_names, homes, strict=True)]
    links += [Link(leaf, spine) for leaf in leaf_names for spine in spine_names]
    fabric = Fabric(name, nodes, tuple(links), n_ecmp=min(max(spines, 1), MAX_ECMP))
    check_fabric(fabric, name)
    return fabric


def _check(leaves: int, spines: int, hosts: int, prefix: int) -> None:
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


def _address(index: int, prefix: int) -> str:
    block, last = divmod(index, NODES_PER_BLOCK)
    return f"127.{FIRST_BLOCK + block}.{prefix}.{last + 1}"
