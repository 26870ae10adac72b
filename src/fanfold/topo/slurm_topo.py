"""Nets from the ``topology.conf`` of Slurm, as its plugin topology/tree reads it.

    SwitchName=leaf0 Nodes=tux[0-31,40]
    SwitchName=spine Switches=leaf[0-1] LinkSpeed=100

Nodes are hosts, switches are routers; keys in any case. All cables are alike: the unit of
``LinkSpeed`` is arbitrary, and Slurm itself does not use it.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from fanfold.errors import ConfigError
from fanfold.nearest import one_of
from fanfold.topo.graph_net import Attrs, Edge, Graph, net_of, short
from fanfold.topo.limits import MAX_CABLES, MAX_HOSTS
from fanfold.topo.net import Net
from fanfold.topo.sketch import Line
from fanfold.topo.text_lines import lines_of
from fanfold.units import format_duration, format_rate

_KEYS = {key.lower(): key for key in ("SwitchName", "Nodes", "Switches", "LinkSpeed")}
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)
MAX_NAMES = MAX_HOSTS
MAX_BRACKETS = 4
LIST = "a host list, such as tux[0-31,40]"


def load_slurm_topo(path: Path, line: Line) -> Net:
    """Net of a file; all cables are ``line``.

    Raises:
        ConfigError: no such file, an unknown key, a switch told twice, or no usable net.
    """
    nodes: dict[str, Attrs] = {}
    edges: list[Edge] = []
    hosts: dict[str, str] = {}
    for where, words in lines_of(path):
        row = _row(words, where)
        names = expand(row.get("switchname", ""), where)
        if len(names) != 1 or names[0] in nodes:
            got = short(row.get("switchname", "nothing"))
            raise ConfigError(f"{where} SwitchName", got, "the name of a switch, each once")
        (name,) = names
        nodes[name] = {"role": "switch"}
        below = expand(row.get("nodes", ""), where)
        hosts |= dict.fromkeys(below, where)
        below += expand(row.get("switches", ""), where)
        edges += [Edge(each, name, {}, where) for each in below]
        if len(edges) > MAX_CABLES:
            raise ConfigError(where, f"{len(edges)} links", f"at most {MAX_CABLES}")
    for host, where in hosts.items():
        if host in nodes:
            raise ConfigError(f"{where} Nodes", short(host), "a node, not the name of a switch")
        nodes[host] = {"role": "host"}
    told = (
        f"topology.conf has no rates: {format_rate(line.bps)}, {format_duration(line.prop_ps)}"
    )
    return net_of(Graph(nodes, edges, notes=(told,)), line, str(path))


def _row(words: list[str], where: str) -> dict[str, str]:
    row: dict[str, str] = {}
    for word in words:
        key, is_pair, value = word.partition("=")
        name = key.lower()
        if name not in _KEYS:
            allowed = one_of(short(key), _KEYS.values())
            raise ConfigError(where, short(word), f"{allowed} of topology/tree")
        if not is_pair or not value or name in row:
            raise ConfigError(f"{where} {_KEYS[name]}", short(word), "KEY=VALUE, each key once")
        row[name] = value
    return row


def expand(text: str, where: str) -> list[str]:
    """Names of a host list: ``a,tux[0-2,07]b`` is a, tux0b, tux1b, tux2b, tux07b.

    Raises:
        ConfigError: no host list, or of too many names.
    """
    names: list[str] = []
    for part in _parts(text):
        if not part or part.count("[") > MAX_BRACKETS:
            raise ConfigError(where, short(text), LIST)
        names += _one(part, where)
        if len(names) > MAX_NAMES:
            raise ConfigError(where, short(part), f"at most {MAX_NAMES} names")
    return names


def _parts(text: str) -> Iterator[str]:
    """Parts between commas that stand outside of brackets."""
    start = depth = 0
    for at, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if char == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    if text:
        yield text[start:]


def _one(part: str, where: str) -> list[str]:
    head, has_range, rest = part.partition("[")
    if not has_range:
        if "]" in part:
            raise ConfigError(where, short(part), LIST)
        return [part]
    inner, is_closed, tail = rest.partition("]")
    if not is_closed or "[" in inner or "]" in head:
        raise ConfigError(where, short(part), LIST)
    numbers: list[str] = []
    for each in inner.split(","):
        found = _RANGE.fullmatch(each)
        if found is None:
            raise ConfigError(where, short(part), LIST)
        low, high = int(found[1]), int(found[2] or found[1])
        if high < low or high - low >= MAX_NAMES - len(numbers):
            raise ConfigError(
                where, short(part), f"ranges that rise, at most {MAX_NAMES} names"
            )
        numbers += [str(n).zfill(len(found[1])) for n in range(low, high + 1)]
    ends = _one(tail, where) if tail else [""]
    if len(numbers) * len(ends) > MAX_NAMES:
        raise ConfigError(where, short(part), f"at most {MAX_NAMES} names")
    return [f"{head}{n}{end}" for n in numbers for end in ends]
