"""The tree that ARM makes of a group, worked out from the fabric, and who sits behind what.

Arrays go up the ways that results come down (docs/wire/fold.md section 3), and those are the
BIFTs' for the entropy of the group. Elements of a way are nodes and links, a link by both its
names in their order: ``leaf1-spine2``.
"""

import warnings
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

from fanfold.errors import ConfigError
from fanfold.kernels.tables import NULL_NBR
from fanfold.topo.bift import build_bifts, table_of
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_routes import FabricRoutes
from fanfold.wire.bitstring import bift_id, bsl_of_bits, place

ENTROPY_BITS = 20
MAX_ROOT_LEVEL = 3
"""BFRs above rank 0's own that a root may be at."""
MOST_DRAWN = 256


class Tree(NamedTuple):
    """Ways of a group: ``up`` from rank 0's host to the root, ``down[r]`` from it to rank r."""

    up: tuple[str, ...]
    down: tuple[tuple[str, ...], ...]


def tree_of(
    fabric: Fabric, members: Sequence[str], group: int, root_level: int = 0, root: str = ""
) -> Tree | None:
    """Tree of a group whose ARM was sent with ``root_level``, or with ``root``, a host.

    Returns:
        None where a member cannot be reached.
    """
    return _Walk(fabric, group).tree(members, root_level, root)


def root_level_to(
    fabric: Fabric, members: Sequence[str], group: int, root: str, most: int
) -> int:
    """ARM's ``root_level`` by which a named switch is the root of a group.

    Raises:
        ConfigError: none up to ``most``: its number leads the group's packets elsewhere.
    """
    walk = _Walk(fabric, group)
    trees = [walk.tree(members, root_level, "") for root_level in range(most + 1)]
    reached = [tree.up[-1] for tree in trees if tree is not None]
    if root not in reached:
        allowed = f"a host, or a switch on the way of group {group}: {', '.join(reached)}"
        raise ConfigError("root", root, allowed)
    return reached.index(root)


def root_level_of(
    fabric: Fabric, members: Sequence[str], group: int, root: str, root_level: int
) -> tuple[int, str]:
    """ARM's ``root_level`` and host of a root that may be a switch: then its level."""
    node = fabric.by_name.get(root)
    if node is None or node.role != "bfr":
        return root_level, root
    return root_level_to(fabric, members, group, root, MAX_ROOT_LEVEL), ""


def draw_group(
    fabric: Fabric, members: Sequence[str], root: str, draw: Callable[[], int], most: int
) -> int:
    """A number for a group, such that a switch that was named can be its root.

    Args:
        root: empty or a host: any number will do. draw: gives one.

    Raises:
        ConfigError: no node of this name, or no number led there.
    """
    if root and root not in fabric.by_name:
        raise ConfigError("root", root, "a host or a switch of the fabric")
    number = draw()
    if not root or fabric.by_name[root].role != "bfr":
        return number
    for _ in range(MOST_DRAWN):
        with suppress(ConfigError):
            root_level_to(fabric, members, number, root, most)
            return number
        number = draw()
    raise ConfigError("root", root, f"a switch within {most + 1} hops of host {members[0]}")


def first_hop(fabric: Fabric, host: str, group: int) -> str:
    """BFR that a rank's arrays go to: its plane follows from the group's number.

    Returns:
        The host itself where it has no BFR.
    """
    ups = [node.name for node in fabric.port_nodes(host)[1:] if node.role == "bfr"] or [host]
    return ups[group % len(ups)]


def draw_group_around(
    fabric: Fabric,
    members: Sequence[str],
    failed: Collection[frozenset[str]],
    draw: Callable[[], int],
) -> int:
    """A number for a group whose plane no member has lost, where there is one.

    Args:
        failed: links that are down, both ends of each. draw: gives a number.
    """
    number = draw()
    for _ in range(MOST_DRAWN):
        if not any(frozenset((m, first_hop(fabric, m, number))) in failed for m in members):
            break
        number = draw()
    return number


def plane_of_group(fabric: Fabric, members: Sequence[str], group: int) -> tuple[int, int]:
    """Plane by which rank 0's arrays leave its host, and how many planes that has."""
    first, hop = members[0], first_hop(fabric, members[0], group)
    planes = {frozenset((x.a, x.b)): x.plane for x in fabric.links if first in (x.a, x.b)}
    return planes.get(frozenset((first, hop)), 0), len(set(planes.values()))


def root_without_bfr(fabric: Fabric, members: Sequence[str]) -> str:
    """Rank 0's host where a member has no BFR to send to: said once; else nothing."""
    for name in members:
        near = fabric.neighbours.get(name, ())
        if near and not any(fabric.by_name[other].role == "bfr" for other in near):
            text = f"{name} has no BFR: all arrays are summed at host {members[0]}"
            warnings.warn(text, RuntimeWarning, stacklevel=3)
            return members[0]
    return ""


def elements_of(way: Sequence[str]) -> list[str]:
    """Nodes and links of a way without its first node."""
    return [e for a, b in pairwise(way) for e in (link_of(a, b), b)]


def link_of(a: str, b: str) -> str:
    """Name of a link, the same both ways."""
    return "-".join(sorted((a, b)))


def behind(tree: Tree, ranks: Collection[int], missing: Collection[int]) -> list[list[str]]:
    """Elements that explain why ``missing`` of ``ranks`` are not heard, while all others are.

    Each list is of elements that the same ranks are behind, nearest the root first; only the
    lists that explain most. The root is none of them: it told.
    """
    under: dict[str, set[int]] = {}
    for r in sorted(ranks):
        for element in elements_of(tree.down[r]):
            under.setdefault(element, set()).add(r)
    guilty = {e: them for e, them in under.items() if them <= set(missing)}
    found: dict[frozenset[int], list[str]] = {}
    for element, them in guilty.items():
        if not any(them < other for other in guilty.values()):
            found.setdefault(frozenset(them), []).append(element)
    return list(found.values())


class _Walk:
    """Next hops of one entropy, node by node."""

    def __init__(self, fabric: Fabric, group: int) -> None:
        self._fabric, self._group = fabric, group
        self._routes, self._bsl = FabricRoutes(fabric), bsl_of_bits(fabric.bitstring_bits)
        self._entropy = group & ((1 << ENTROPY_BITS) - 1)
        self._ports: dict[str, dict[int, int]] = {}

    def tree(self, members: Sequence[str], root_level: int, root: str) -> Tree | None:
        first = members[0]
        up = [first, first_hop(self._fabric, first, self._group)]
        if root:
            up[1:] = self._way(up[1], root) or ()
        else:
            self._root_level(up, members, root_level)
        down = [self._way(up[-1], name) for name in members]
        if not up[1:] or not all(down):
            return None
        return Tree(tuple(up), tuple(map(tuple, down)))

    def _root_level(self, up: list[str], members: Sequence[str], root_level: int) -> None:
        """As kernels/vat_packet.py does: toward the last rank behind another BFR."""
        by_bit = sorted(members, key=lambda name: -self._fabric.by_name[name].bfr_id)
        for _ in range(root_level):
            nexts = (self._next(up[-1], name) for name in by_bit)
            on = [
                n for n, name in zip(nexts, by_bit, strict=True) if n not in ("", up[-2], name)
            ]
            if not on:
                return
            up.append(on[0])

    def _way(self, source: str, target: str) -> list[str]:
        """Names from one node to a host, empty where there is no way."""
        way = [source]
        while way[-1] != target:
            after = self._next(way[-1], target)
            if not after or after in way:
                return []
            way.append(after)
        return way

    def _next(self, node: str, target: str) -> str:
        """Next node toward a host; empty where there is none, or at the host itself."""
        si, position = place(self._fabric.by_name[target].bfr_id, self._bsl)
        if node not in self._ports:
            self._ports[node] = self._read(node, target, si)
        port = self._ports[node].get(position, NULL_NBR)
        return self._fabric.port_nodes(node)[port].name if port > 0 else ""

    def _read(self, node: str, target: str, si: int) -> dict[int, int]:
        """Port of each bit position; all members are of one SI and one tenant."""
        bifts = build_bifts(self._routes, node)
        wanted = bift_id(self._bsl, self._fabric.sub_domain_of(target), si)
        row = list(map(int, bifts.ids)).index(wanted)
        index = int(bifts.first[row]) + table_of(self._entropy, self._fabric.n_ecmp)
        return {i + 1: int(port) for i, port in enumerate(bifts.nbr_of[index])}
