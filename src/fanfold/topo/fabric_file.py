"""The TOML file of a fabric, and its rules.

[fabric]   name, sub_domain, bitstring_bits, mtu, port, n_ecmp, ports, version, cache,
link_keys, open
[[node]]   name, address, role, bfr_id, link_key, link_key_also, labels, label_seal,
site
[[link]]   between, a pair of node names; rate, delay, weight, plane, up, keys
[limits]   what each BFR keeps of arrays: array_groups, array_slots, group_slots
[tenants.NAME]  sub_domain, hosts; slots, array_slots, cache, rate, receivers, only_through
"""

import tomllib
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import FieldInfo, fields

from fanfold.errors import ConfigError
from fanfold.toml_table import dump_toml, read_values
from fanfold.topo.fabric import (
    ArrayLimits,
    Fabric,
    KeyMode,
    Link,
    LinkMode,
    Node,
    Openness,
    Role,
    Tenant,
)
from fanfold.topo.fabric_rules import check_fabric


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
    site: str = ""


class _File(msgspec.Struct, frozen=True):
    fabric: dict[str, Any]
    node: list[dict[str, Any]]
    link: list[dict[str, Any]] = []
    limits: dict[str, Any] = {}
    tenants: dict[str, dict[str, Any]] = {}


_LISTS = ("nodes", "links", "limits", "tenants")
_NUMBERS = tuple(f for f in fields(Fabric) if f.name not in _LISTS)
_RARE = ("ports", "version", "cache", "link_keys", "open")
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
    Openness: "none, links, ends, all",
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
    bare = {field.name: field.default for field in fields(Node)[4:]}
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
