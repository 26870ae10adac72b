"""Nets from GML, as graph libraries and the Topology Zoo write it.

Himsolt, GML: a portable graph file format (1997): a list of pairs of a key and a value; a value
is a number, a text in quotes, or a list in brackets; ``#`` starts a comment line. Of nodes and
edges only what is no list is kept.
"""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

from fanfold.errors import ConfigError
from fanfold.topo.graph_net import Attrs, Edge, Graph, add_node, net_of, short
from fanfold.topo.net import Net
from fanfold.topo.sketch import Line
from fanfold.topo.text_lines import Word, text_of

MAX_DIGITS = 18
_TOKEN = re.compile(r'\s+|#[^\n]*|"[^"]*"|\[|\]|[^\s\[\]"#]+')
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
Pairs = list[tuple[Word, Any]]
"""Keys with numbers, texts, or pairs again."""


def load_gml(path: Path, line: Line) -> Net:
    """Net of a file; ``line`` for edges that leave rate or delay open.

    Raises:
        ConfigError: no such file, no GML, or no usable net; with its place.
    """
    graphs = [value for key, value in _pairs(path) if key.text == "graph"]
    if len(graphs) != 1 or not isinstance(graphs[0], list):
        raise ConfigError(str(path), f"{len(graphs)} graphs", "GML with one graph [ ... ]")
    nodes: dict[str, Attrs] = {}
    edges = []
    is_directed = False
    for key, value in graphs[0]:
        if key.text in ("node", "edge") and not isinstance(value, list):
            raise ConfigError(f"{key.where} {key.text}", short(value), "a list in brackets")
        if key.text == "node":
            attrs = _attrs(value)
            add_node(nodes, _id(attrs, "id", key), attrs, f"{key.where} node")
        elif key.text == "edge":
            attrs = _attrs(value)
            a, b = (_id(attrs, end, key) for end in ("source", "target"))
            edges.append(Edge(a, b, attrs, f"{key.where} edge"))
        elif key.text == "directed":
            is_directed = value == 1
    return net_of(Graph(nodes, edges, is_directed), line, str(path))


def _attrs(pairs: Pairs) -> Attrs:
    return {key.text: value for key, value in pairs if not isinstance(value, list)}


def _id(attrs: Attrs, name: str, key: Word) -> str:
    value = attrs.get(name, "")
    if value == "":
        raise ConfigError(f"{key.where} {key.text}.{name}", "nothing", "a number or a text")
    return str(value)


def _pairs(path: Path) -> Pairs:
    """All of a file; what is open at its end is refused by the line that opened it."""
    pairs: Pairs = []
    opened: list[tuple[Word, Pairs]] = []
    key: Word | None = None
    for token in _tokens(path):
        if key is None and token.text == "]" and opened:
            pairs = opened.pop()[1]
        elif key is None:
            if not _KEY.fullmatch(token.text):
                raise ConfigError(token.where, short(token.text), "a key of GML")
            key = token
        elif token.text == "[":
            inner: Pairs = []
            pairs.append((key, inner))
            opened.append((key, pairs))
            pairs, key = inner, None
        else:
            pairs.append((key, _value(token, key)))
            key = None
    if key is not None or opened:
        last = key or opened[-1][0]
        allowed = "a value" if key else "its ] before the file ends"
        raise ConfigError(last.where, short(last.text), allowed)
    return pairs


def _tokens(path: Path) -> Iterator[Word]:
    text = text_of(path)
    at, line = 0, 1
    while at < len(text):
        found = _TOKEN.match(text, at)
        where = f"{path}: line {line}"
        if found is None:
            raise ConfigError(
                where, short(text[at:].split("\n", 1)[0]), 'a text that ends in "'
            )
        token = found[0]
        if not token.isspace() and not token.startswith("#"):
            yield Word(token, where)
        at, line = found.end(), line + token.count("\n")


def _value(token: Word, key: Word) -> int | float | str:
    text = token.text
    if text.startswith('"'):
        return unescape(text[1:-1])
    if not _NUMBER.fullmatch(text) or len(text) > MAX_DIGITS + 8:
        allowed = "a number, a text in quotes, or a list in brackets"
        raise ConfigError(f"{token.where} {short(key.text)}", short(text), allowed)
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
