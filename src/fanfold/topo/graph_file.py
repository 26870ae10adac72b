"""Nets from graph files: node-link JSON and GraphML. ``graph_net.py`` says what is read."""

from pathlib import Path
from xml.etree import ElementTree

import msgspec

from fanfold.errors import ConfigError
from fanfold.input_file import read_input
from fanfold.topo.graph_net import Attrs, Edge, Graph, add_node, net_of, short
from fanfold.topo.net import Net
from fanfold.topo.sketch import Line

_NUMBERS = {"int": int, "long": int, "float": float, "double": float}


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
        add_node(
            nodes, _text(row.get("id"), f"{path}: nodes[{i}].id"), row, f"{path}: nodes[{i}]"
        )
    key = "links" if table.links else "edges"
    edges = []
    for i, row in enumerate(table.links or table.edges):
        where = f"{path}: {key}[{i}]"
        a, b = (_text(row.get(end), f"{where}.{end}") for end in ("source", "target"))
        edges.append(Edge(a, b, row, where))
    return net_of(Graph(nodes, edges, table.directed), line, str(path))


def load_graphml(path: Path, line: Line) -> Net:
    """Net of a GraphML file; ``line`` for edges that leave rate or delay open.

    Raises:
        ConfigError: no such file, no GraphML, or no usable net; with its place.
    """
    try:
        root = ElementTree.fromstring(read_input(path))  # noqa: S314 - expat bounds what entities grow to
    except (ElementTree.ParseError, ValueError, LookupError) as err:
        raise ConfigError(str(path), str(err), "GraphML") from err
    space = root.tag.removesuffix("graphml")
    graph = root.find(f"{space}graph")
    if not root.tag.endswith("graphml") or graph is None:
        raise ConfigError(str(path), root.tag, "GraphML with one <graph>")
    keys = {k.get("id", ""): k for k in root.iter(f"{space}key")}
    nodes: dict[str, Attrs] = {}
    for i, item in enumerate(graph.iter(f"{space}node")):
        where = f"{path}: node[{i}]"
        add_node(nodes, _text(item.get("id"), f"{where}.id"), _data(item, keys, where), where)
    edges = []
    for i, item in enumerate(graph.iter(f"{space}edge")):
        where = f"{path}: edge[{i}]"
        a, b = (_text(item.get(end), f"{where}.{end}") for end in ("source", "target"))
        edges.append(Edge(a, b, _data(item, keys, where), where))
    is_directed = graph.get("edgedefault") == "directed"
    return net_of(Graph(nodes, edges, is_directed), line, str(path))


def _text(value: object, field: str) -> str:
    if not isinstance(value, str | int) or value == "":
        raise ConfigError(field, value, "a name or a number")
    return str(value)


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
                raise ConfigError(f"{where}.{name}", short(data.text), "a number") from err
    return attrs
