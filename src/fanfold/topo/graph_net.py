"""From a graph of named nodes, as files describe them, to a Net.

A node whose ``role`` (or ``type``, ``kind``) is host, server or gpu is a host; all others are
routers. Where no node says so, every node is a router with a host of its own, NAME.h. A node is
called by its ``label`` (or ``name``), else by its id; where two share it, the id stands behind.

An edge may have a ``rate`` (text such as "100Gbps", or bits per second; also ``bps``,
``bandwidth`` and the ``LinkSpeedRaw`` of the Topology Zoo) and a ``delay`` (text, or ps; also
``prop_ps`` and ``latency``). Without one, the delay between two nodes with ``Latitude`` and
``Longitude`` (degrees; also ``lat`` and ``lon``) is light's in fibre along the great circle. In
a directed graph the two directions of a pair are one cable. A self-loop is dropped, and told.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from math import asin, cos, isfinite, radians, sin, sqrt
from typing import Any, NamedTuple

import numpy as np

from fanfold.errors import ConfigError
from fanfold.topo.limits import MAX_CABLES, MAX_HOSTS
from fanfold.topo.net import Cables, Net, Stands, build_net
from fanfold.topo.net_rules import check_net, tiers_of
from fanfold.topo.sketch import PS_PER_KM, Line
from fanfold.units import NEVER, format_duration, parse_duration, parse_rate

Attrs = dict[str, Any]
HOST_ROLES = {"host", "server", "gpu"}
EARTH_M = 6_371_008.8
"""Mean radius of the earth, for the great circle."""
_ROLE_KEYS = ("role", "type", "kind")
_NAME_KEYS = ("label", "name")
_RATE_KEYS = ("rate", "bps", "bandwidth", "LinkSpeedRaw")
_DELAY_KEYS = ("delay", "prop_ps", "latency")
_PLACE_KEYS = (("Latitude", "lat", 90), ("Longitude", "lon", 180))
MAX_TEXT = 40
Place = tuple[float, float]
"""Latitude and longitude, degrees."""


class Edge(NamedTuple):
    """Ids of both ends, attributes, and where it stands in the file."""

    a: str
    b: str
    attrs: Attrs
    where: str


class Graph(NamedTuple):
    """Attributes by id of a node, in the order of the file; edges; whether each has one way.

    notes: to be told of the file.
    """

    nodes: dict[str, Attrs]
    edges: list[Edge]
    is_directed: bool = False
    notes: tuple[str, ...] = ()


def short(text: object) -> str:
    """What a refusal shows of a file's text."""
    whole = str(text)
    return whole if len(whole) <= MAX_TEXT else f"{whole[:MAX_TEXT]}..."


def add_node(nodes: dict[str, Attrs], name: str, attrs: Attrs, where: str) -> None:
    """Take a node of a file.

    Raises:
        ConfigError: there is one of this id.
    """
    if name in nodes:
        raise ConfigError(where, short(name), "a node that is named once")
    nodes[name] = attrs


def net_of(graph: Graph, line: Line, source: str) -> Net:
    """Hosts first, in the order of the file, then routers in the order of the file.

    Args:
        line: for edges that leave rate or delay open.
        source: the file, for refusals.

    Raises:
        ConfigError: no usable net, by its place.
    """
    is_host = {name: _is_host(attrs) for name, attrs in graph.nodes.items()}
    ids = sorted(graph.nodes, key=lambda name: not is_host[name])
    n_hosts = sum(is_host.values())
    called = _names(graph.nodes)
    names = [called[each] for each in ids]
    pairs = []
    first = 0
    if not n_hosts:
        n_hosts = first = len(ids)
        pairs = [(i, n_hosts + i, *line) for i in range(n_hosts)]
        names = [*(f"{name}.h" for name in names), *names]
    if not 1 <= n_hosts <= MAX_HOSTS or len(graph.edges) + len(pairs) > MAX_CABLES:
        size = f"{n_hosts} hosts and {len(graph.edges)} edges"
        raise ConfigError(source, size, f"1..{MAX_HOSTS} hosts, at most {MAX_CABLES} edges")
    index = {name: first + i for i, name in enumerate(ids)}
    rows, notes = _rows(graph, index, line, source)
    pairs += rows
    a, b, bps, prop_ps = np.array(pairs, np.int64).reshape(-1, 4).T
    cables = Cables(a, b, bps, prop_ps, np.zeros(a.size, np.int64))
    tier, rack = tiers_of(n_hosts, len(names), a, b)
    net = build_net(
        source, n_hosts, cables, Stands(tier, rack, np.zeros_like(rack)), names.__getitem__
    )
    check_net(net, source)
    return net._replace(notes=(*graph.notes, *notes))


def _rows(
    graph: Graph, index: dict[str, int], line: Line, source: str
) -> tuple[list[tuple[int, int, int, int]], tuple[str, ...]]:
    """Both ends, rate and delay of each cable, and what is to be told of them."""
    loops: list[str] = []
    rows = []
    places = _places(graph.nodes, source)
    n_placed = 0
    for edge in _cables(graph, loops):
        low, high = (_end(end, index, edge.where) for end in edge[:2])
        delay = _delay(edge.attrs, edge.where)
        if delay is None and edge.a in places and edge.b in places:
            delay = fibre_ps(places[edge.a], places[edge.b])
            n_placed += 1
        rate = _rate(edge.attrs, edge.where) or line.bps
        rows.append((low, high, rate, line.prop_ps if delay is None else delay))
    return rows, (*_loops_note(loops), *_places_note(n_placed, len(rows)))


def fibre_ps(a: Place, b: Place) -> int:
    """Light's way in fibre between two places, along the great circle, to whole metres."""
    (lat_a, lon_a), (lat_b, lon_b) = ((radians(x), radians(y)) for x, y in (a, b))
    up, along = sin((lat_b - lat_a) / 2) ** 2, sin((lon_b - lon_a) / 2) ** 2
    chord = min(1.0, sqrt(up + cos(lat_a) * cos(lat_b) * along))
    return max(1, round(2 * EARTH_M * asin(chord))) * PS_PER_KM // 1000


def _loops_note(loops: list[str]) -> tuple[str, ...]:
    if not loops:
        return ()
    more = f", and {len(loops) - 1} more" if len(loops) > 1 else ""
    return (f"left out, from a node to itself: {loops[0]}{more}",)


def _places_note(n_placed: int, n_edges: int) -> tuple[str, ...]:
    if not n_placed:
        return ()
    pace = f"{format_duration(PS_PER_KM)} a km of fibre"
    return (f"delays by distance: {n_placed} of {n_edges} cables, great circle at {pace}",)


def _names(nodes: Mapping[str, Attrs]) -> dict[str, str]:
    """What nodes are called, each once."""
    told = {each: _told(attrs) or each for each, attrs in nodes.items()}
    n_called = Counter(told.values())
    taken: set[str] = set()
    for each, name in told.items():
        only = f"{name} ({each})" if n_called[name] > 1 and name != each else name
        while only in taken:
            only += "'"
        taken.add(only)
        told[each] = only
    return told


def _told(attrs: Attrs) -> str:
    for key in _NAME_KEYS:
        if isinstance(attrs.get(key), str) and attrs[key].strip():
            return " ".join(attrs[key].split())
    return ""


def _is_host(attrs: Attrs) -> bool:
    return any(short(attrs.get(key, "")).lower() in HOST_ROLES for key in _ROLE_KEYS)


def _places(nodes: Mapping[str, Attrs], source: str) -> dict[str, Place]:
    """Where nodes stand that say both degrees."""
    found = {}
    for name, attrs in nodes.items():
        where = f"{source}: node {short(name)}"
        north, east = (_degrees(attrs, *keys, where) for keys in _PLACE_KEYS)
        if north is not None and east is not None:
            found[name] = (north, east)
    return found


def _degrees(attrs: Attrs, key: str, other: str, most: int, where: str) -> float | None:
    key = key if key in attrs else other
    value = attrs.get(key)
    if value is None or value == "":
        return None
    try:
        degrees = float(value) if isinstance(value, str | int | float) else most + 1.0
    except (ValueError, OverflowError):
        degrees = most + 1.0
    if not isfinite(degrees) or abs(degrees) > most:
        raise ConfigError(f"{where}.{key}", short(value), f"degrees, -{most}..{most}")
    return degrees


def _cables(graph: Graph, loops: list[str]) -> Iterator[Edge]:
    """Edges, without those that are the way back of one before; loops are put aside."""
    open_ways: Counter[tuple[str, str]] = Counter()
    for edge in graph.edges:
        if edge.a == edge.b and edge.a in graph.nodes:
            loops.append(edge.where)
            continue
        if graph.is_directed and open_ways[edge.b, edge.a]:
            open_ways[edge.b, edge.a] -= 1
            continue
        open_ways[edge.a, edge.b] += 1
        yield edge


def _end(name: str, index: dict[str, int], where: str) -> int:
    if name not in index:
        raise ConfigError(where, short(name), "the name of a node")
    return index[name]


def _rate(attrs: Attrs, where: str) -> int:
    """Bits per second, 0 where it is left open."""
    for key in _RATE_KEYS:
        if key in attrs:
            field, value = f"{where}.{key}", attrs[key]
            is_text = isinstance(value, str)
            rate = parse_rate(short(value), field) if is_text else _whole(value, field)
            if rate == 0:
                raise ConfigError(field, value, "more than zero")
            return rate
    return 0


def _delay(attrs: Attrs, where: str) -> int | None:
    """Picoseconds; None where it is left open."""
    for key in _DELAY_KEYS:
        if key in attrs:
            field, value = f"{where}.{key}", attrs[key]
            is_text = isinstance(value, str)
            return parse_duration(short(value), field) if is_text else _whole(value, field)
    return None


def _whole(value: object, field: str) -> int:
    """A number of a file that is a whole one."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 <= value < NEVER
        or int(value) != value
    ):
        raise ConfigError(
            field, _shown(value), "a whole number below 2**63, or text with a unit"
        )
    return int(value)


def _shown(value: object) -> object:
    """A value of a file for a refusal, not all of it where it is long."""
    return short(value) if isinstance(value, str | list | dict) else value
