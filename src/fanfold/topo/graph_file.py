"""Nets from graph files: node-link JSON and GraphML.

A node whose ``role`` (or ``type``, ``kind``) is host, server or gpu is a host; all others are
routers. Where no node says so, every node is a router with a host of its own, NAME.h. An edge
may have a ``rate`` (text such as "100Gbps", or bits per second; also ``bps``, ``bandwidth`` and
the ``LinkSpeedRaw`` of the Topology Zoo) and a ``delay`` (text, or ps; also ``prop_ps`` and
``latency``). In a directed graph the two directions of a pair are one cable.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import msgspec
import numpy as np

from fanfold.errors import ConfigError
from fanfold.input_file import read_input
from fanfold.topo.net import Cables, Net, Stands, build_net
from fanfold.topo.net_rules import check_net, tiers_of
from fanfold.topo.sketch import MAX_CABLES, MAX_HOSTS, Line
from fanfold.units import NEVER, parse_duration, parse_rate

Attrs = dict[str, Any]
HOST_ROLES = {"host", "server", "gpu"}
_ROLE_KEYS = ("role", "type", "kind")
_RATE_KEYS = ("rate", "bps", "bandwidth", "LinkSpeedRaw")
_DELAY_KEYS = ("delay", "prop_ps", "latency")
_NUMBERS = {"int": int, "long": int, "float": float, "double": float}


class Edge(NamedTuple):
    """Names of both ends, attributes, and where it stands in the file."""

    a: str
    b: str
    attrs: Attrs
    where: str


class _Graph(NamedTuple):
    """Attributes by node, in the order of the file; edges; whether each has one direction."""

    nodes: dict[str, Attrs]
    edges: list[Edge]
    is_directed: bool


class _NodeLink(msgspec.Struct, frozen=True):
    nodes: list[Attrs]
    links: list[Attrs] = []
    edges: list[Attrs] = []
    directed: bool = False


def load_node_link(path: Path, line: Line) -> Net:
    """Net of a node-link JSON file; ``line`` for edges that leave rate or delay open.

    Raises:
        ConfigError: no such file, no node-link JSON, or no usable net; with its place.
    """
    try:
        table = msgspec.json.decode(read_input(path), type=_NodeLink)
    except msgspec.DecodeError as err:
        raise ConfigError(str(path), str(err), "node-link JSON: nodes, links") from err
    nodes: dict[str, Attrs] = {}
    for i, row in enumerate(table.nodes):
        _add_node(
            nodes, _text(row.get("id"), f"{path}: nodes[{i}].id"), row, f"{path}: nodes[{i}]"
        )
    key = "links" if table.links else "edges"
    edges = []
    for i, row in enumerate(table.links or table.edges):
        where = f"{path}: {key}[{i}]"
        a, b = (_text(row.get(end), f"{where}.{end}") for end in ("source", "target"))
        edges.append(Edge(a, b, row, where))
    return _net_of(_Graph(nodes, edges, table.directed), line, str(path))


def load_graphml(path: Path, line: Line) -> Net:
    """Net of a GraphML file; ``line`` for edges that leave rate or delay open.

    Raises:
        ConfigError: no such file, no GraphML, or no usable net; with its place.
    """
    try:
        root = ElementTree.fromstring(read_input(path))  # noqa: S314 - expat bounds what entities grow to
    except ElementTree.ParseError as err:
        raise ConfigError(str(path), str(err), "GraphML") from err
    space = root.tag.removesuffix("graphml")
    graph = root.find(f"{space}graph")
    if not root.tag.endswith("graphml") or graph is None:
        raise ConfigError(str(path), root.tag, "GraphML with one <graph>")
    keys = {k.get("id", ""): k for k in root.iter(f"{space}key")}
    nodes: dict[str, Attrs] = {}
    for i, item in enumerate(graph.iter(f"{space}node")):
        where = f"{path}: node[{i}]"
        _add_node(nodes, _text(item.get("id"), f"{where}.id"), _data(item, keys, where), where)
    edges = []
    for i, item in enumerate(graph.iter(f"{space}edge")):
        where = f"{path}: edge[{i}]"
        a, b = (_text(item.get(end), f"{where}.{end}") for end in ("source", "target"))
        edges.append(Edge(a, b, _data(item, keys, where), where))
    is_directed = graph.get("edgedefault") == "directed"
    return _net_of(_Graph(nodes, edges, is_directed), line, str(path))


def _text(value: object, field: str) -> str:
    if not isinstance(value, str | int) or value == "":
        raise ConfigError(field, value, "a name or a number")
    return str(value)


def _add_node(nodes: dict[str, Attrs], name: str, attrs: Attrs, where: str) -> None:
    if name in nodes:
        raise ConfigError(where, name, "a node that is named once")
    nodes[name] = attrs


def _data(item: ElementTree.Element, keys: dict[str, ElementTree.Element], where: str) -> Attrs:
    """Attributes of a GraphML element, numbers as numbers."""
    attrs: Attrs = {}
    for data in item:
        key = keys.get(data.get("key", ""))
        if key is not None:
            name = key.get("attr.name", "")
            number = _NUMBERS.get(key.get("attr.type", ""), str)
            try:
                attrs[name] = number((data.text or "").strip())
            except ValueError as err:
                raise ConfigError(f"{where}.{name}", data.text, "a number") from err
    return attrs


def _net_of(graph: _Graph, line: Line, source: str) -> Net:
    """Hosts first, in the order of the file, then routers in the order of the file."""
    is_host = {name: _is_host(attrs) for name, attrs in graph.nodes.items()}
    names = sorted(graph.nodes, key=lambda name: not is_host[name])
    n_hosts = sum(is_host.values())
    pairs = []
    if not n_hosts:
        n_hosts = len(names)
        pairs = [(i, n_hosts + i, *line) for i in range(n_hosts)]
        names = [*(f"{name}.h" for name in names), *names]
    if not 1 <= n_hosts <= MAX_HOSTS or len(graph.edges) + len(pairs) > MAX_CABLES:
        size = f"{n_hosts} hosts and {len(graph.edges)} edges"
        raise ConfigError(source, size, f"1..{MAX_HOSTS} hosts, at most {MAX_CABLES} edges")
    index = {name: i for i, name in enumerate(names)}
    for edge in _cables(graph):
        low, high = (_end(end, index, edge.where) for end in edge[:2])
        rate = _rate(edge.attrs, edge.where) or line.bps
        pairs.append((low, high, rate, _delay(edge.attrs, edge.where, line.prop_ps)))
    a, b, bps, prop_ps = np.array(pairs, np.int64).reshape(-1, 4).T
    cables = Cables(a, b, bps, prop_ps, np.zeros(a.size, np.int64))
    tier, rack = tiers_of(n_hosts, len(names), a, b)
    net = build_net(
        source, n_hosts, cables, Stands(tier, rack, np.zeros_like(rack)), names.__getitem__
    )
    check_net(net, source)
    return net


def _is_host(attrs: Attrs) -> bool:
    return any(str(attrs.get(key, "")).lower() in HOST_ROLES for key in _ROLE_KEYS)


def _cables(graph: _Graph) -> Iterator[Edge]:
    """Edges, without those that are the way back of one before."""
    open_ways: Counter[tuple[str, str]] = Counter()
    for edge in graph.edges:
        if edge.a == edge.b:
            raise ConfigError(edge.where, edge.a, "two different nodes")
        if graph.is_directed and open_ways[edge.b, edge.a]:
            open_ways[edge.b, edge.a] -= 1
            continue
        open_ways[edge.a, edge.b] += 1
        yield edge


def _end(name: str, index: dict[str, int], where: str) -> int:
    if name not in index:
        raise ConfigError(where, name, "the name of a node")
    return index[name]


def _rate(attrs: Attrs, where: str) -> int:
    """Bits per second, 0 where it is left open."""
    for key in _RATE_KEYS:
        if key in attrs:
            field = f"{where}.{key}"
            value = attrs[key]
            rate = parse_rate(value, field) if isinstance(value, str) else _whole(value, field)
            if rate == 0:
                raise ConfigError(field, value, "more than zero")
            return rate
    return 0


def _delay(attrs: Attrs, where: str, default: int) -> int:
    for key in _DELAY_KEYS:
        if key in attrs:
            field = f"{where}.{key}"
            value = attrs[key]
            return (
                parse_duration(value, field) if isinstance(value, str) else _whole(value, field)
            )
    return default


def _whole(value: object, field: str) -> int:
    """A number of a file that is a whole one."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 <= value < NEVER
        or int(value) != value
    ):
        raise ConfigError(field, value, "a whole number below 2**63, or text with a unit")
    return int(value)
