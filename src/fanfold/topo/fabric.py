"""A fabric: nodes, links and the BIER numbers that all of them share; and its TOML file.

A ``host`` sends and receives and never passes traffic on; a ``bfr`` forwards, and has a BFR-id
only where it is a BFER as well (RFC 8279 section 2). Ports of a node are its neighbours in the
order of their names, from 1; port 0 is the node itself.

    [fabric]   name, sub_domain, bitstring_bits, mtu, port, n_ecmp
    [[node]]   name, address, role, bfr_id
    [[link]]   between, a pair of node names
    [limits]   what each BFR keeps of arrays: array_groups, array_slots, group_slots
"""

import tomllib
from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import msgspec
from msgspec.structs import fields

from fanfold.errors import ConfigError
from fanfold.toml_table import read_values
from fanfold.topo.fabric_rules import check_fabric

Role = Literal["host", "bfr"]


class Node(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One BFR: a name, an IPv4 address (its BFR-prefix) and, for a BFER, a BFR-id."""

    name: str
    address: str
    role: Role
    bfr_id: int = 0


class Link(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One link between two nodes, both ways."""

    a: str
    b: str


class ArrayLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds of each BFR where arrays are joined (docs/wire/fold.md section 4).

    array_groups: groups that have slots at once. array_slots: slots of all groups, 9 KB each
    once in use. group_slots: slots of one group at most, 0: as many as are left.
    """

    array_groups: int = 1024
    array_slots: int = 16384
    group_slots: int = 0


class Fabric(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """Nodes and links of one sub-domain, in the order of the file."""

    name: str
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    sub_domain: int = 0
    bitstring_bits: int = 256
    mtu: int = 9000
    port: int = 8138
    n_ecmp: int = 1
    limits: ArrayLimits = ArrayLimits()

    @cached_property
    def by_name(self) -> Mapping[str, Node]:
        """Nodes by name."""
        return MappingProxyType({node.name: node for node in self.nodes})

    @cached_property
    def by_address(self) -> Mapping[str, Node]:
        """Nodes by IPv4 address."""
        return MappingProxyType({node.address: node for node in self.nodes})

    @cached_property
    def by_bfr_id(self) -> Mapping[int, Node]:
        """BFERs by BFR-id, in rising order."""
        bfers = sorted((n for n in self.nodes if n.bfr_id), key=lambda n: n.bfr_id)
        return MappingProxyType({node.bfr_id: node for node in bfers})

    @cached_property
    def neighbours(self) -> Mapping[str, tuple[str, ...]]:
        """Neighbours by node name, sorted by name: the one at index i is behind port i + 1."""
        found: dict[str, set[str]] = {node.name: set() for node in self.nodes}
        for link in self.links:
            found[link.a].add(link.b)
            found[link.b].add(link.a)
        return MappingProxyType({name: tuple(sorted(them)) for name, them in found.items()})

    def port_to(self, name: str, neighbour: str) -> int:
        """Port of a node that leads to a neighbour; 0 to itself."""
        return 0 if name == neighbour else self.neighbours[name].index(neighbour) + 1

    def port_nodes(self, name: str) -> tuple[Node, ...]:
        """Nodes by port, the node itself first."""
        return tuple(self.by_name[n] for n in (name, *self.neighbours[name]))


class _Between(msgspec.Struct, frozen=True):
    between: tuple[str, str]


class _File(msgspec.Struct, frozen=True):
    fabric: dict[str, Any]
    node: list[dict[str, Any]]
    link: list[dict[str, Any]] = []
    limits: dict[str, Any] = {}


_NUMBERS = tuple(f for f in fields(Fabric) if f.name not in ("nodes", "links", "limits"))
_EXPECTED = {
    str: "text in quotes",
    int: "a whole number",
    Role: "host, bfr",
    tuple[str, str]: "two names",
    dict[str, Any]: "one table, [fabric] or [limits]",
    list[dict[str, Any]]: "tables, each under its [[name]]",
}

_values = partial(read_values, words=_EXPECTED.__getitem__)


def load_fabric(path: Path) -> Fabric:
    """Fabric of a TOML file, checked.

    Raises:
        ConfigError: no such file, no TOML, or the first fault, as "FILE: node[3].bfr_id".
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as err:
        raise ConfigError(str(path), err.strerror, "a fabric file that can be read") from err
    except ValueError as err:  # not TOML, with its line; or not UTF-8
        raise ConfigError(str(path), str(err), "TOML") from err
    file = _File(**_values(fields(_File), table, f"{path}: "))
    numbers = _values(_NUMBERS, file.fabric, f"{path}: fabric.")
    nodes, links = [], []
    for i, row in enumerate(file.node):
        nodes.append(Node(**_values(fields(Node), row, f"{path}: node[{i}].")))
    for i, row in enumerate(file.link):
        pair = _Between(**_values(fields(_Between), row, f"{path}: link[{i}]."))
        links.append(Link(*pair.between))
    limits = ArrayLimits(**_values(fields(ArrayLimits), file.limits, f"{path}: limits."))
    fabric = Fabric(nodes=tuple(nodes), links=tuple(links), limits=limits, **numbers)
    check_fabric(fabric, str(path))
    return fabric


def save_fabric(fabric: Fabric, path: Path) -> None:
    """Write the file that ``load_fabric`` reads back as an equal fabric."""
    check_fabric(fabric, str(path))  # names need no escapes afterwards
    numbers = [f"{f.name} = {_toml(getattr(fabric, f.name))}" for f in _NUMBERS]
    blocks = ["\n".join(["[fabric]", *numbers])]
    if fabric.limits != ArrayLimits():
        rows = msgspec.structs.asdict(fabric.limits).items()
        blocks.append("\n".join(["[limits]", *(f"{k} = {v}" for k, v in rows)]))
    for node in fabric.nodes:
        rows = msgspec.structs.asdict(node).items()
        blocks.append("\n".join(["[[node]]", *(f"{k} = {_toml(v)}" for k, v in rows)]))
    for link in fabric.links:
        blocks.append(f"[[link]]\nbetween = [{_toml(link.a)}, {_toml(link.b)}]")
    path.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")


def _toml(value: str | int) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)
