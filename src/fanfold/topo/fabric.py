"""A fabric: nodes, links and the BIER numbers that all of them share; and its TOML file.

A ``host`` sends and receives and never passes traffic on; a ``bfr`` forwards, and has a BFR-id
only where it is a BFER as well (RFC 8279 section 2). Ports of a node are its neighbours from 1
on, in the order of their names, or with ``ports = "links"`` of the file's links; port 0 is the
node itself. ``version`` numbers the tables that follow from weights and links that are up.

    [fabric]   name, sub_domain, bitstring_bits, mtu, port, n_ecmp, ports, version, cache,
               link_keys
    [[node]]   name, address, role, bfr_id, link_key, link_key_also, labels, label_seal
    [[link]]   between, a pair of node names; rate, delay, weight, plane, up, keys
    [limits]   what each BFR keeps of arrays: array_groups, array_slots, group_slots
    [tenants.NAME]  sub_domain, hosts; slots, array_slots, cache, rate, receivers, only_through
"""

import tomllib
from collections.abc import Iterable, Mapping
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import msgspec
from msgspec.structs import FieldInfo, fields

from fanfold.errors import ConfigError
from fanfold.kernels.layout import TRAILER_BYTES
from fanfold.toml_table import dump_toml, read_values
from fanfold.topo.fabric_rules import check_fabric

Role = Literal["host", "bfr"]
KeyMode = Literal["off", "on", "required"]
LinkMode = Literal["", "off", "on", "required"]


class Node(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One BFR: a name, an IPv4 address (its BFR-prefix) and, for a BFER, a BFR-id.

    link_key: its public key, for links that have keys; link_key_also: another one that counts
    as well, while one takes the other's place. labels: what an operator says of it, pairs,
    sorted, signed by ``label_seal`` (topo/labels.py).
    """

    name: str
    address: str
    role: Role
    bfr_id: int = 0
    link_key: str = ""
    link_key_also: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    label_seal: str = ""


class Link(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One link between two nodes, both ways.

    rate, delay: of the line, text with a unit, empty where nobody said. weight: what a path
    over it costs, of links between BFRs. plane: which one it belongs to. up: paths may use it.
    keys: whether packets on it are authenticated, empty: as ``link_keys`` of the fabric.
    """

    a: str
    b: str
    rate: str = ""
    delay: str = ""
    weight: int = 1
    plane: int = 0
    up: bool = True
    keys: LinkMode = ""


class ArrayLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds of each BFR where arrays are joined (docs/wire/fold.md section 4).

    array_groups: groups that have slots at once. array_slots: slots of all groups, 9 KB each
    once in use. group_slots: slots of one group at most, 0: as many as are left.
    """

    array_groups: int = 1024
    array_slots: int = 16384
    group_slots: int = 0


class Tenant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Hosts that share a fabric's links with others, and nothing else.

    sub_domain: theirs alone (RFC 8279 section 2). What they have of each BFR is theirs too:
    slots of words, a power of two; array_slots, 0: as ``limits``; cache, empty: as the
    fabric's. rate: what may come in of theirs at a BFR, empty: any. receivers: of one push at
    most, 0: any number. only_through: a label, KEY=VALUE, that every node on its ways has.
    """

    name: str
    sub_domain: int
    hosts: tuple[str, ...]
    slots: int = 1024
    array_slots: int = 0
    cache: str = ""
    rate: str = ""
    receivers: int = 0
    only_through: str = ""


class Fabric(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """Nodes and links of one domain, in the order of the file.

    sub_domain: of all BFERs that are no tenant's.

    cache: what each BFR keeps of DATA that passes, to repair from; text with a unit, "0" none.
    link_keys: of links that say nothing themselves: "off" no keys, "on" packets without are
    taken too, "required" they are not.
    """

    name: str
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    sub_domain: int = 0
    bitstring_bits: int = 256
    mtu: int = 9000
    port: int = 8138
    n_ecmp: int = 1
    ports: Literal["names", "links"] = "names"
    version: int = 1
    cache: str = "16MiB"
    link_keys: KeyMode = "off"
    limits: ArrayLimits = ArrayLimits()
    tenants: tuple[Tenant, ...] = ()

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
        """Neighbours by node name: the one at index i is behind port i + 1."""
        found: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        for link in self.links:
            found[link.a].append(link.b)
            found[link.b].append(link.a)
        order = sorted if self.ports == "names" else tuple
        return MappingProxyType({name: tuple(order(them)) for name, them in found.items()})

    @cached_property
    def key_modes(self) -> Mapping[frozenset[str], KeyMode]:
        """Of each link, by its two ends, whether it has keys."""
        found: dict[frozenset[str], KeyMode] = {}
        for link in self.links:
            found[frozenset((link.a, link.b))] = link.keys or self.link_keys
        return MappingProxyType(found)

    @cached_property
    def tenant_of(self) -> Mapping[str, Tenant]:
        """Tenants by host; who is no tenant's is not in it."""
        return MappingProxyType({name: one for one in self.tenants for name in one.hosts})

    def sub_domain_of(self, name: str) -> int:
        """Sub-domain that a BFER is in."""
        one = self.tenant_of.get(name)
        return one.sub_domain if one is not None else self.sub_domain

    def tenant_name(self, name: str) -> str:
        """Tenant of a node, empty where it is none's."""
        one = self.tenant_of.get(name)
        return one.name if one is not None else ""

    def rule_of(self, sub_domain: int) -> str:
        """Label that every node on the ways of a sub-domain has, KEY=VALUE; empty: any."""
        rules = {one.sub_domain: one.only_through for one in self.tenants}
        return rules.get(sub_domain, "")

    def keeps_rule(self, name: str, sub_domain: int) -> bool:
        """Whether packets of a sub-domain may pass a node, by its labels in the file."""
        key, _, value = self.rule_of(sub_domain).partition("=")
        return not key or (key, value) in self.by_name[name].labels

    def peers_of(self, name: str) -> tuple[str, ...]:
        """Hosts that a host may send to: those of its tenant, itself among them."""
        hosts = [node.name for node in self.nodes if node.role == "host"]
        own = self.tenant_name(name)
        return tuple(host for host in hosts if self.tenant_name(host) == own)

    @cached_property
    def sub_domains(self) -> Mapping[int, tuple[int, ...]]:
        """BFR-ids by sub-domain, those of tenants in the order of the file."""
        found: dict[int, list[int]] = {self.sub_domain: []}
        for one in self.tenants:
            found[one.sub_domain] = []
        for bfr_id, node in self.by_bfr_id.items():
            found[self.sub_domain_of(node.name)].append(bfr_id)
        return MappingProxyType({key: tuple(ids) for key, ids in found.items()})

    def has_keys(self, name: str) -> bool:
        """Some link of a node has keys."""
        return any(name in ends and mode != "off" for ends, mode in self.key_modes.items())

    def line_mtu(self) -> int:
        """Bytes of the largest packet of a link, its trailer included."""
        some = any(mode != "off" for mode in self.key_modes.values())
        return self.mtu + (TRAILER_BYTES if some else 0)

    def port_to(self, name: str, neighbour: str) -> int:
        """Port of a node that leads to a neighbour; 0 to itself."""
        return 0 if name == neighbour else self.neighbours[name].index(neighbour) + 1

    def has_other_way(self, a: str, b: str) -> bool:
        """Both ends of a link have another one, to a BFR: hosts pass nothing on."""
        return all(
            any(self.by_name[to].role == "bfr" for to in self.neighbours[end] if to != other)
            for end, other in ((a, b), (b, a))
        )

    def port_nodes(self, name: str) -> tuple[Node, ...]:
        """Nodes by port, the node itself first."""
        return tuple(self.by_name[n] for n in (name, *self.neighbours[name]))


def whose(tenant: str) -> str:
    """A tenant in words."""
    return f"tenant {tenant}" if tenant else "no tenant"


class _Between(msgspec.Struct, frozen=True):
    between: tuple[str, str]
    rate: str = ""
    delay: str = ""
    weight: int = 1
    plane: int = 0
    up: bool = True
    keys: LinkMode = ""


class _Node(msgspec.Struct, frozen=True):
    name: str
    address: str
    role: Role
    bfr_id: int = 0
    link_key: str = ""
    link_key_also: str = ""
    labels: dict[str, str] = {}
    label_seal: str = ""


class _File(msgspec.Struct, frozen=True):
    fabric: dict[str, Any]
    node: list[dict[str, Any]]
    link: list[dict[str, Any]] = []
    limits: dict[str, Any] = {}
    tenants: dict[str, dict[str, Any]] = {}


_LISTS = ("nodes", "links", "limits", "tenants")
_NUMBERS = tuple(f for f in fields(Fabric) if f.name not in _LISTS)
_RARE = ("ports", "version", "cache", "link_keys")
"""Written where they are not as usual."""
_OF_A_LINK = fields(Link)[2:]
_OF_A_TENANT = fields(Tenant)[1:]
_EXPECTED = {
    str: "text in quotes",
    int: "a whole number",
    bool: "true or false",
    Role: "host, bfr",
    Literal["names", "links"]: "names, links",
    KeyMode: "off, on, required",
    LinkMode: "off, on, required",
    tuple[str, str]: "two names",
    dict[str, Any]: "one table, [fabric] or [limits]",
    list[dict[str, Any]]: "tables, each under its [[name]]",
    dict[str, dict[str, Any]]: "tables, each under its [tenants.NAME]",
    tuple[str, ...]: "names of hosts",
    dict[str, str]: 'pairs in braces, such as { region = "eu" }',
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
        one = _values(fields(_Node), row, f"{path}: node[{i}].")
        one["labels"] = tuple(sorted(one.get("labels", {}).items()))
        nodes.append(Node(**one))
    for i, row in enumerate(file.link):
        pair = _Between(**_values(fields(_Between), row, f"{path}: link[{i}]."))
        links.append(Link(*pair.between, *msgspec.structs.astuple(pair)[1:]))
    limits = ArrayLimits(**_values(fields(ArrayLimits), file.limits, f"{path}: limits."))
    tenants = tuple(
        Tenant(name, **_values(_OF_A_TENANT, row, f"{path}: tenants.{name}."))
        for name, row in file.tenants.items()
    )
    fabric = Fabric(
        nodes=tuple(nodes), links=tuple(links), limits=limits, tenants=tenants, **numbers
    )
    check_fabric(fabric, str(path))
    return fabric


def save_fabric(fabric: Fabric, path: Path) -> None:
    """Write the file that ``load_fabric`` reads back as an equal fabric."""
    check_fabric(fabric, str(path))
    path.write_text(dump_toml(_rows_of(fabric)), encoding="utf-8")


def _rows_of(fabric: Fabric) -> dict[str, Any]:
    """What its file says, table by table."""
    usual = {field.name: field.default for field in _NUMBERS if field.name in _RARE}
    mean = {field.name: field.default for field in _OF_A_TENANT}
    bare = {"link_key": "", "link_key_also": "", "labels": (), "label_seal": ""}
    plain = {field.name: field.default for field in _OF_A_LINK}
    nodes = [_values_of(node, fields(Node), bare) for node in fabric.nodes]
    links = [
        {"between": [link.a, link.b]} | _values_of(link, _OF_A_LINK, plain)
        for link in fabric.links
    ]
    tenants = {one.name: _values_of(one, _OF_A_TENANT, mean) for one in fabric.tenants}
    limits = {} if fabric.limits == ArrayLimits() else msgspec.structs.asdict(fabric.limits)
    own = _values_of(fabric, _NUMBERS, usual)
    rows: dict[str, Any] = {"fabric": own, "limits": limits, "tenants": tenants}
    rows |= {"node": nodes, "link": links}
    return {key: table for key, table in rows.items() if table}


def _values_of(
    value: msgspec.Struct, known: Iterable[FieldInfo], usual: Mapping[str, object]
) -> dict[str, Any]:
    """Fields that are not as usual."""
    rows = {field.name: getattr(value, field.name) for field in known}
    return {
        key: dict(got) if key == "labels" else got
        for key, got in rows.items()
        if key not in usual or got != usual[key]
    }
