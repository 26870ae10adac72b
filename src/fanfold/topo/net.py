"""A fabric as arrays, for the simulator: hosts, routers and directed links at any scale.

Letters: H = hosts, N = nodes, L = directed links. Nodes 0..H-1 are hosts, the rest forward.
Links are sorted by the node they leave, so those of node n are ``first_out[n]`` to
``first_out[n + 1]``, and the link at index i of them is behind port i + 1. A host never passes
traffic on; in a direct network (torus, hypercube) each host hangs on a router of its own.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
U8 = NDArray[np.uint8]


class Net(NamedTuple):
    """One fabric.

    name: as asked for. n_hosts: H. src, dst: (L,) nodes. bps: (L,) bits per second. prop_ps:
    (L,) propagation. reverse: (L,) the same link the other way. first_out: (N + 1,).
    tier: (N,) 0 for hosts, rising with distance from them. rack, pod: (H,) where a host stands,
    numbered from 0. plane: (L,) which plane a link belongs to, 0 where there is one.
    weight: (L,) cost of a link between routers. is_up: (L,) 0 where no path may use a link.
    cable: (L,) number of its cable, as drawn.
    node_name: index -> name for people. notes: what a file left open or had that is not used.
    """

    name: str
    n_hosts: int
    src: I64
    dst: I64
    bps: I64
    prop_ps: I64
    reverse: I64
    first_out: I64
    tier: I64
    rack: I64
    pod: I64
    plane: I64
    weight: I64
    is_up: U8
    cable: I64
    node_name: Callable[[int], str]
    notes: tuple[str, ...] = ()

    @property
    def n_nodes(self) -> int:
        """Hosts and routers."""
        return self.first_out.size - 1

    @property
    def n_links(self) -> int:
        """Directed links: two for each cable."""
        return self.src.size

    @property
    def is_flat(self) -> bool:
        """Every router has hosts: a ring, a torus, a single leaf."""
        return bool((self.tier[self.n_hosts :] == 1).all())


class Cables(NamedTuple):
    """Cables before they are sorted into a Net: (E,) each, both ends, rate, delay, plane.

    weight, is_up: as in Net; None: one for all.
    """

    a: I64
    b: I64
    bps: I64
    prop_ps: I64
    plane: I64
    weight: I64 | None = None
    is_up: U8 | None = None


class Stands(NamedTuple):
    """Where nodes stand: tier (N,), rack (H,), pod (H,)."""

    tier: I64
    rack: I64
    pod: I64


def build_net(
    name: str, n_hosts: int, cables: Cables, stands: Stands, node_name: Callable[[int], str]
) -> Net:
    """Both directions of every cable, sorted by the node they leave, then by cable index.

    Parallel cables between two nodes are separate links.
    """
    n_cables = cables.a.size
    src = np.concatenate([cables.a, cables.b])
    dst = np.concatenate([cables.b, cables.a])
    order = np.lexsort((np.arange(2 * n_cables) % max(n_cables, 1), src))
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    other = np.concatenate([np.arange(n_cables) + n_cables, np.arange(n_cables)])
    ones = np.ones(n_cables, np.int64)
    columns = [ones if c is None else c for c in cables[2:]]
    bps, prop_ps, plane, weight, is_up = (
        np.concatenate([c, c])[order].astype(np.int64) for c in columns
    )
    n_nodes = stands.tier.size
    first_out = np.searchsorted(src[order], np.arange(n_nodes + 1)).astype(np.int64)
    return Net(
        name,
        n_hosts,
        src[order].astype(np.int64),
        dst[order].astype(np.int64),
        bps,
        prop_ps,
        rank[other[order]].astype(np.int64),
        first_out,
        stands.tier.astype(np.int64),
        stands.rack.astype(np.int64),
        stands.pod.astype(np.int64),
        plane,
        weight,
        is_up.astype(np.uint8),
        order % max(n_cables, 1),
        node_name,
    )
