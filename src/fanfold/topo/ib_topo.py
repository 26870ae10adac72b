"""Nets from what ``ibnetdiscover`` prints of an InfiniBand fabric, with ``-g`` and ``-f`` too.

    Switch 36 "S-0002c9..."            # "leaf 1" enhanced port 0 lid 1 lmc 0
    [1]    "H-0002c9..."[1](2c9...)    # "node01 HCA-1" lid 4 4xEDR
    Ca     1 "H-0002c9..."             # "node01 HCA-1"
    [1](2c9...)    "S-0002c9..."[1]    # lid 4 lmc 0 "leaf 1" lid 1 4xEDR

Each channel adapter is a host, each switch and router a router. A node is called by its
description where no other has the same (a host by its first word), else by its GUID in quotes.
A port's width and speed, ``4xEDR``, is its rate. Aggregation nodes of switches (SHARP) are not
hosts and are left out.
"""

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from fanfold.errors import ConfigError
from fanfold.topo.graph_net import Attrs, Edge, Graph, add_node, net_of, short
from fanfold.topo.net import Net
from fanfold.topo.sketch import Line
from fanfold.topo.text_lines import text_of

LANE_BPS = {
    "SDR": 2 * 10**9,
    "DDR": 4 * 10**9,
    "QDR": 8 * 10**9,
    "FDR10": 10**10,
    "FDR": 13_636_363_636,
    "EDR": 25 * 10**9,
    "HDR": 5 * 10**10,
    "NDR": 10**11,
    "XDR": 2 * 10**11,
}
"""Data of a lane after its coding, 8b/10b or 64b/66b (InfiniBand Architecture, volume 2)."""
UNKNOWN = "???"
"""What an older ibnetdiscover prints for a speed that it does not know."""
AGGREGATION = "Aggregation Node"
_NODE = re.compile(r'(Switch|Ca|Rt)\s+\d+\s+"([^"]+)"(?:\s*#\s*"([^"]*)")?', re.ASCII)
_PORT = re.compile(
    r'\[(\d{1,9})\](?:\[ext \d+\])?(?:\([^)]*\))?\s+"([^"]+)"\[(\d{1,9})\]', re.ASCII
)
_SPEED = re.compile(r"\b(1|2|4|8|12)x([A-Z]+[0-9]*|\?\?\?)(?!\S)", re.ASCII)
_STARTS = ("Switch", "Ca\t", "Ca ", "Rt\t", "Rt ", "[")
End = tuple[str, str]
"""GUID in quotes and number of a port."""


class _Port(NamedTuple):
    far: End
    attrs: Attrs
    where: str


class _Seen(NamedTuple):
    """Attributes by GUID, ports, GUIDs that are left out."""

    nodes: dict[str, Attrs]
    ports: dict[End, _Port]
    left_out: set[str]


def load_ib_topo(path: Path, line: Line) -> Net:
    """Net of a file; ``line`` for ports without a speed.

    Raises:
        ConfigError: no such file, a line that is not ibnetdiscover's, or no usable net.
    """
    seen = _Seen({}, {}, set())
    mine = ""
    for n, text in enumerate(text_of(path).split("\n"), 1):
        if text.startswith(_STARTS):
            mine = _take(seen, mine, text, f"{path}: line {n}")
    if not seen.nodes:
        raise ConfigError(str(path), "no Switch and no Ca", "what ibnetdiscover prints")
    notes = []
    if seen.left_out:
        notes.append(f"left out: {len(seen.left_out)} aggregation nodes of switches")
    n_open = sum("rate" not in port.attrs for port in seen.ports.values())
    if n_open:
        notes.append(f"{n_open} of {len(seen.ports)} ports have no speed that is known")
    return net_of(Graph(_called(seen.nodes), _edges(seen), notes=tuple(notes)), line, str(path))


def _take(seen: _Seen, mine: str, text: str, where: str) -> str:
    """Read a line; the node that the next ports belong to."""
    if (node := _NODE.match(text)) is not None:
        kind, guid, told = node[1], node[2], node[3] or ""
        if kind == "Ca" and AGGREGATION in told:
            seen.left_out.add(guid)
        else:
            role = "host" if kind == "Ca" else "switch"
            add_node(seen.nodes, guid, {"role": role, "told": told}, where)
        return guid
    port = _PORT.match(text)
    if port is None:
        allowed = 'Switch, Ca or Rt with its ports and "GUID", or [port] "GUID"[port]'
        raise ConfigError(where, short(text), allowed)
    if not mine:
        raise ConfigError(where, short(text), "a port below its Switch or Ca")
    here = mine, port[1]
    if here in seen.ports:
        raise ConfigError(where, f"[{port[1]}]", f"each port of {mine} once")
    seen.ports[here] = _Port((port[2], port[3]), _speed(text, where), where)
    return mine


def _edges(seen: _Seen) -> list[Edge]:
    edges = []
    for here, (there, attrs, where) in seen.ports.items():
        if {here[0], there[0]} & seen.left_out:
            continue
        back = seen.ports.get(there)
        if back is not None and back.far != here:
            allowed = f"{here[0]}[{here[1]}], as {where.rpartition(': ')[2]} says"
            raise ConfigError(back.where, f"{back.far[0]}[{back.far[1]}]", allowed)
        if back is None or here <= there:
            edges.append(Edge(here[0], there[0], attrs, where))
    return edges


def _called(nodes: dict[str, Attrs]) -> dict[str, Attrs]:
    """Nodes with a label where their description says one."""
    whole = Counter(attrs["told"] for attrs in nodes.values())
    first = Counter(
        attrs["told"].split()[0] for attrs in nodes.values() if attrs["told"].split()
    )
    for attrs in nodes.values():
        told = attrs.pop("told")
        word = told.split()[0] if told.split() else ""
        if attrs["role"] == "host" and first[word] == 1:
            attrs["label"] = word
        elif whole[told] == 1:
            attrs["label"] = told
    return nodes


def _speed(text: str, where: str) -> Attrs:
    found = _SPEED.findall(text)
    if not found or found[-1][1] == UNKNOWN:
        return {}
    lanes, speed = found[-1]
    if speed not in LANE_BPS:
        raise ConfigError(where, f"{lanes}x{speed}", f"a speed of {', '.join(LANE_BPS)}")
    return {"rate": int(lanes) * LANE_BPS[speed]}
